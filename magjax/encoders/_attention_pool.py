"""SigLIP's pooling: attention of one learned query over all patches."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from magjax.encoders._attention import attend
from magjax.encoders._layers import layer_norm, linear
from magjax.encoders._pre_norm import FeedForward, Starts
from magjax.encoders._vision_config import VisionConfig
from magjax.typing import Float

__all__ = ["AttentionPool"]


class AttentionPool(nnx.Module):
    """One vector from all patches: a learned query attends, a feed-forward block refines.

    Source: Zhai et al., arXiv 2106.04560 (the MAP head), as SigLIP publishes it.

    >>> from magjax.encoders._pre_norm import starts_of
    >>> config = VisionConfig.of("siglip_vision_model", hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4)
    >>> pool = AttentionPool(config, starts_of(config), dtype=jnp.float32, rngs=nnx.Rngs(0))
    >>> pool(jnp.ones((3, 4, 16))).shape
    (3, 16)
    """

    def __init__(self, config: VisionConfig, starts: Starts, *, dtype: Any, rngs: nnx.Rngs) -> None:
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.dtype = dtype
        self.probe = nnx.Param(nnx.initializers.xavier_uniform()(rngs.params(), (1, 1, width)))
        # Query, key and value side by side, as the checkpoints hold them.
        self.inputs = linear(width, 3 * width, start=starts.attention, dtype=dtype, rngs=rngs)
        self.output = linear(width, width, start=starts.projection, dtype=dtype, rngs=rngs)
        self.norm = layer_norm(width, config.layer_norm_eps, dtype=dtype, rngs=rngs)
        self.feed_forward = FeedForward(config, starts, dtype=dtype, rngs=rngs)

    def __call__(
        self, hidden: Float[jax.Array, "batch length hidden"]
    ) -> Float[jax.Array, "batch hidden"]:
        batch, length, width = hidden.shape
        split = (3, self.heads, width // self.heads)
        kernel = self.inputs.kernel[...].astype(self.dtype)
        assert self.inputs.bias is not None
        bias = self.inputs.bias[...].astype(self.dtype)
        query = jnp.matmul(self.probe[...].astype(self.dtype), kernel[:, :width])
        query = query + bias[None, None, :width]
        query = jnp.broadcast_to(query, (batch, 1, width)).reshape(batch, 1, *split[1:])
        both = jnp.matmul(hidden, kernel[:, width:]) + bias[None, None, width:]
        keys, values = both.reshape(batch, length, 2, *split[1:]).transpose(2, 0, 3, 1, 4)
        mixed = self.output(attend(query.transpose(0, 2, 1, 3), keys, values, None)[:, 0])
        return mixed + self.feed_forward(self.norm(mixed))
