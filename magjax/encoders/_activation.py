"""Activations by the names that checkpoints use."""

import functools
from collections.abc import Callable

import jax

__all__ = ["ACTIVATIONS"]

# "gelu" is the exact error-function form: jax.nn.gelu's default (tanh) is off by up to 4.7e-4
# per activation, 2e-3 after MiniLM's six layers.
_exact_gelu = functools.partial(jax.nn.gelu, approximate=False)
_tanh_gelu = functools.partial(jax.nn.gelu, approximate=True)

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": _exact_gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
}
