"""Activations by the names that checkpoints use."""

import functools
from collections.abc import Callable

import jax

__all__ = ["ACTIVATIONS"]

# "gelu" is the exact error-function form: jax.nn.gelu's default (tanh) is off by up to 4.7e-4
# per activation, 2e-3 after MiniLM's six layers.
_exact_gelu = functools.partial(jax.nn.gelu, approximate=False)
_tanh_gelu = functools.partial(jax.nn.gelu, approximate=True)


def _quick_gelu(x: jax.Array) -> jax.Array:
    # CLIP's own approximation: off the exact form by up to 0.02.
    return x * jax.nn.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": _exact_gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "quick_gelu": _quick_gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
}
