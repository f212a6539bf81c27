"""The pre-norm transformer that CLIP's and SigLIP's towers share, and its random starts."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
from flax import nnx

from magjax.encoders._activation import ACTIVATIONS
from magjax.encoders._layers import layer_norm, linear, rematerialized
from magjax.encoders._self_attention import SelfAttention
from magjax.encoders._tower_config import TowerConfig
from magjax.typing import Bool, Float

__all__ = ["FeedForward", "PreNormLayer", "Starts", "apply_layers", "starts_of"]


@dataclasses.dataclass(frozen=True)
class Starts:
    """What each kind of parameter is drawn from.

    >>> from magjax.encoders import VisionConfig
    >>> isinstance(starts_of(VisionConfig.preset("tiny")), Starts)
    True
    """

    table: nnx.Initializer
    patch: nnx.Initializer
    projection: nnx.Initializer
    attention: nnx.Initializer
    attention_output: nnx.Initializer
    up: nnx.Initializer
    down: nnx.Initializer


def starts_of(config: TowerConfig) -> Starts:
    r"""The random starts of a tower's family.

    CLIP: normal, with :math:`\sigma = w^{-1/2}(2L)^{-1/2}` for kernels that write into the residual
    stream of :math:`L` layers of width :math:`w` and for the attention's inputs. SigLIP: Xavier.

    Source: Radford et al., arXiv 2103.00020, section 2.5, and the published code of both.
    """
    normal, width = nnx.initializers.normal, config.hidden_size
    if config.families[config.model_type].depth_scaled_start:
        scaled = normal(width**-0.5 * (2 * config.num_hidden_layers) ** -0.5)
        return Starts(
            table=normal(0.02),
            patch=normal(0.02),
            projection=normal(width**-0.5),
            attention=scaled,
            attention_output=normal(width**-0.5),
            up=normal((2 * width) ** -0.5),
            down=scaled,
        )
    xavier, lecun = nnx.initializers.xavier_uniform(), nnx.initializers.lecun_normal()
    return Starts(
        table=normal(width**-0.5),
        patch=lecun,
        projection=lecun,
        attention=xavier,
        attention_output=xavier,
        up=xavier,
        down=xavier,
    )


class FeedForward(nnx.Module):
    """Two dense layers with the configuration's activation between them."""

    def __init__(self, config: TowerConfig, starts: Starts, *, dtype: Any, rngs: nnx.Rngs) -> None:
        self.activation = config.hidden_act
        width, inner = config.hidden_size, config.intermediate_size
        self.up = linear(width, inner, start=starts.up, dtype=dtype, rngs=rngs)
        self.down = linear(inner, width, start=starts.down, dtype=dtype, rngs=rngs)

    def __call__(
        self, hidden: Float[jax.Array, "*rows hidden"]
    ) -> Float[jax.Array, "*rows hidden"]:
        return self.down(ACTIVATIONS[self.activation](self.up(hidden)))


class PreNormLayer(nnx.Module):
    """Attention and feed-forward, each after a layer norm and added to its input."""

    def __init__(
        self,
        config: TowerConfig,
        starts: Starts,
        *,
        causal: bool = False,
        dtype: Any,
        rngs: nnx.Rngs,
    ) -> None:
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.attention_norm = layer_norm(width, epsilon, dtype=dtype, rngs=rngs)
        self.attention = SelfAttention(
            config,
            start=starts.attention,
            output_start=starts.attention_output,
            causal=causal,
            dtype=dtype,
            rngs=rngs,
        )
        self.feed_forward_norm = layer_norm(width, epsilon, dtype=dtype, rngs=rngs)
        self.feed_forward = FeedForward(config, starts, dtype=dtype, rngs=rngs)

    def __call__(
        self,
        hidden: Float[jax.Array, "batch length hidden"],
        where: Bool[jax.Array, "batch length"] | None,
        dropout_key: jax.Array | None,
    ) -> Float[jax.Array, "batch length hidden"]:
        hidden = hidden + self.attention(self.attention_norm(hidden), where, None, dropout_key)
        return hidden + self.feed_forward(self.feed_forward_norm(hidden))


def apply_layers(
    layers: Iterable[PreNormLayer],
    hidden: Float[jax.Array, "batch length hidden"],
    where: Bool[jax.Array, "batch length"] | None,
    dropout_key: jax.Array | None,
    *,
    remat: bool,
) -> tuple[Float[jax.Array, "batch length hidden"], ...]:
    """The input and the output of every layer in turn.

    Args:
        layers: one after the other.
        hidden: the first one's input.
        where: True at real tokens; None: all are.
        dropout_key: PRNG key of this call's dropout masks; None for none.
        remat: recompute each layer in the backward pass instead of keeping its activations.
    """
    states = [hidden]
    for number, layer in enumerate(layers):
        key = None if dropout_key is None else jax.random.fold_in(dropout_key, number)
        apply = rematerialized if remat else PreNormLayer.__call__
        states.append(apply(layer, states[-1], where, key))
    return tuple(states)
