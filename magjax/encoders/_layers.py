"""Parts that every tower is built of: dense layers, layer norms, rematerialization."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

__all__ = ["COMPUTE_DTYPES", "layer_norm", "linear", "rematerialized"]

COMPUTE_DTYPES: dict[str, Any] = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


def linear(
    inputs: int,
    outputs: int,
    *,
    start: nnx.Initializer,
    use_bias: bool = True,
    dtype: Any,
    rngs: nnx.Rngs,
) -> nnx.Linear:
    """A dense layer whose kernel starts as ``start`` draws it and whose bias starts at 0."""
    return nnx.Linear(inputs, outputs, use_bias=use_bias, dtype=dtype, kernel_init=start, rngs=rngs)


def layer_norm(width: int, epsilon: float, *, dtype: Any, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """Layer norm with the checkpoint's epsilon (the library's default 1e-6 is not BERT's 1e-12)."""
    return nnx.LayerNorm(
        width,
        epsilon=epsilon,
        dtype=dtype,
        use_fast_variance=False,  # E[x^2] - E[x]^2 cancels when the mean is large
        rngs=rngs,
    )


def rematerialized(layer: nnx.Module, *inputs: Any) -> jax.Array:
    """``layer(*inputs)``, computed again in the backward pass instead of kept."""
    graph, state = nnx.split(layer)
    # The state is an argument: closing over it would keep it out of the recomputation's gradient.
    return jax.checkpoint(lambda state, *inputs: nnx.merge(graph, state)(*inputs))(state, *inputs)
