"""Projections around ``attention``, the same in every tower."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from magjax.encoders._attention import attention
from magjax.encoders._config import EncoderConfig
from magjax.encoders._layers import linear
from magjax.encoders._tower_config import TowerConfig
from magjax.typing import Bool, Float

__all__ = ["SelfAttention"]


class SelfAttention(nnx.Module):
    """Attention of a sequence over itself.

    Args:
        config: sizes and dropout.
        start: draws the kernels of queries, keys and values.
        output_start: draws the output's kernel; None: as the others.
        causal: each token sees itself and earlier ones only.
        dtype: compute dtype.
        rngs: source of the random start.
    """

    def __init__(
        self,
        config: EncoderConfig | TowerConfig,
        *,
        start: nnx.Initializer,
        output_start: nnx.Initializer | None = None,
        causal: bool = False,
        dtype: Any,
        rngs: nnx.Rngs,
    ) -> None:
        self.config = config
        self.causal = causal
        self.dtype = dtype
        width = config.hidden_size

        def square(start: nnx.Initializer) -> nnx.Linear:
            return linear(width, width, start=start, dtype=dtype, rngs=rngs)

        self.query = square(start)
        self.key = square(start)
        self.value = square(start)
        self.output = square(output_start or start)

    def __call__(
        self,
        hidden: Float[jax.Array, "batch length hidden"],
        where: Bool[jax.Array, "batch length"] | None,
        bias: Float[jax.Array, "heads length length"] | None,
        dropout_key: jax.Array | None,
    ) -> Float[jax.Array, "batch length hidden"]:
        batch, length, width = hidden.shape
        heads = self.config.num_attention_heads
        parts = (self.query, self.key, self.value)
        # One matmul and one transpose for all three: at 2,048 tokens the copy of the kernels costs
        # far less than two more passes over the activations.
        kernel = jnp.concatenate([part.kernel[...] for part in parts], axis=1).astype(self.dtype)
        offset = jnp.concatenate([_bias(part) for part in parts]).astype(self.dtype)
        stacked = jnp.matmul(hidden, kernel) + offset[None, None]
        stacked = stacked.reshape(batch, length, 3, heads, width // heads)
        mixed = attention(
            stacked.transpose(2, 0, 3, 1, 4),
            where,
            bias=bias,
            causal=self.causal,
            dropout_rate=self.config.attention_dropout,
            dropout_key=dropout_key,
        )
        return self.output(mixed)


def _bias(part: nnx.Linear) -> jax.Array:
    assert part.bias is not None
    return part.bias[...]
