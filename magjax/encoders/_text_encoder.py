"""The BERT family as one post-norm transformer; families differ by a table, not by code."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx

from magjax.checks import InputError, choose
from magjax.encoders._activation import ACTIVATIONS
from magjax.encoders._attention import distance_buckets
from magjax.encoders._config import EncoderConfig
from magjax.encoders._dropout import dropout
from magjax.encoders._layers import COMPUTE_DTYPES, layer_norm, linear, rematerialized
from magjax.encoders._self_attention import SelfAttention
from magjax.typing import Array, Bool, Float, Int

__all__ = ["TextEncoder"]


class Embeddings(nnx.Module):
    """Word, position and token type tables, their sum normalized."""

    def __init__(self, config: EncoderConfig, *, dtype: Any, rngs: nnx.Rngs) -> None:
        self.config = config

        def table(rows: int) -> nnx.Embed:
            start = nnx.initializers.normal(config.initializer_range)
            return nnx.Embed(rows, config.hidden_size, embedding_init=start, rngs=rngs)

        self.word = table(config.vocab_size)
        self.position = table(config.max_position_embeddings)
        self.token_type = table(config.token_types) if config.token_types else None
        self.norm = layer_norm(config.hidden_size, config.layer_norm_eps, dtype=dtype, rngs=rngs)

    def __call__(
        self,
        input_ids: Int[jax.Array, "batch length"],
        token_type_ids: Int[jax.Array, "batch length"] | None,
        dropout_key: jax.Array | None,
    ) -> Float[jax.Array, "batch length hidden"]:
        hidden = self.word(input_ids)
        if self.config.family.offset_positions:
            # Pad tokens keep the pad position; the others count from pad_token_id + 1.
            real = (input_ids != self.config.padding_index).astype(jnp.int32)
            hidden = hidden + self.position(
                jnp.cumsum(real, axis=1) * real + self.config.padding_index
            )
        else:
            hidden = hidden + self.position.embedding[...][None, : input_ids.shape[1]]
        if self.token_type is not None:
            if token_type_ids is None:
                hidden = hidden + self.token_type.embedding[...][None, :1]
            else:
                hidden = hidden + self.token_type(token_type_ids)
        return dropout(self.norm(hidden), self.config.hidden_dropout, dropout_key)


class Layer(nnx.Module):
    """Attention and feed-forward, each followed by dropout, residual and layer norm."""

    def __init__(self, config: EncoderConfig, *, dtype: Any, rngs: nnx.Rngs) -> None:
        self.config = config
        width, inner = config.hidden_size, config.intermediate_size
        epsilon = config.layer_norm_eps
        start = nnx.initializers.normal(config.initializer_range)
        self.attention = SelfAttention(config, start=start, dtype=dtype, rngs=rngs)
        self.attention_norm = layer_norm(width, epsilon, dtype=dtype, rngs=rngs)
        self.up = linear(width, inner, start=start, dtype=dtype, rngs=rngs)
        self.down = linear(inner, width, start=start, dtype=dtype, rngs=rngs)
        self.output_norm = layer_norm(width, epsilon, dtype=dtype, rngs=rngs)

    def __call__(
        self,
        hidden: Float[jax.Array, "batch length hidden"],
        where: Bool[jax.Array, "batch length"],
        bias: Float[jax.Array, "heads length length"] | None,
        dropout_key: jax.Array | None,
    ) -> Float[jax.Array, "batch length hidden"]:
        rate = self.config.hidden_dropout
        keys = [None] * 3 if dropout_key is None else list(jax.random.split(dropout_key, 3))
        mixed = self.attention(hidden, where, bias, keys[0])
        hidden = self.attention_norm(dropout(mixed, rate, keys[1]) + hidden)
        inner = ACTIVATIONS[self.config.hidden_act](self.up(hidden))
        return self.output_norm(dropout(self.down(inner), rate, keys[2]) + hidden)


class TextEncoder(nnx.Module):
    """A transformer of the BERT family (Devlin et al., arXiv 1810.04805) from token ids to states.

    Parameters are float32; matrix products and activations run in ``dtype``, layer norm statistics
    and attention weights always in float32. No random state is stored: dropout happens only when
    a call passes ``dropout_key``.

    On accelerators whose default for float32 products is a narrower format (TF32), full precision
    is asked for around the call: ``with jax.default_matmul_precision("highest")``.

    Args:
        config: sizes and settings; ``config.model_type`` chooses the family.
        dtype: compute dtype, a name in ``COMPUTE_DTYPES``.
        remat: recompute each layer in the backward pass instead of keeping its activations.
        rngs: source of the random start.

    Raises:
        InputError: an unknown dtype.

    >>> config = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> encoder = TextEncoder(config, rngs=nnx.Rngs(0))
    >>> ids = jnp.array([[2, 7, 3, 0]])
    >>> encoder(ids, jnp.array([[1, 1, 1, 0]])).shape
    (1, 4, 16)
    """

    modality: Literal["text"] = "text"

    def __init__(
        self,
        config: EncoderConfig,
        *,
        dtype: str = "float32",
        remat: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        self.config = config
        self.dtype = choose("dtype", dtype, COMPUTE_DTYPES)
        self.remat = remat
        compute = COMPUTE_DTYPES[dtype]
        self.embeddings = Embeddings(config, dtype=compute, rngs=rngs)
        self.relative_bias = (
            nnx.Embed(
                32,
                config.num_attention_heads,
                embedding_init=nnx.initializers.normal(config.initializer_range),
                rngs=rngs,
            )
            if config.family.relative_bias
            else None
        )
        self.layers = nnx.List(
            [Layer(config, dtype=compute, rngs=rngs) for _ in range(config.num_hidden_layers)]
        )

    @property
    def dim(self) -> int:
        """Dimensions of a state, and of what pooling makes of the states."""
        return self.config.hidden_size

    def __call__(
        self,
        input_ids: Int[Array, "batch length"],
        attention_mask: Int[Array, "batch length"] | Bool[Array, "batch length"],
        *,
        token_type_ids: Int[Array, "batch length"] | None = None,
        dropout_key: jax.Array | None = None,
        output_layers: bool = False,
    ) -> (
        Float[jax.Array, "batch length hidden"]
        | tuple[Float[jax.Array, "batch length hidden"], ...]
    ):
        """Hidden states of the last layer, or of all.

        Args:
            input_ids: token ids; an id outside the vocabulary gives NaN.
            attention_mask: 1 at real tokens, 0 at padding.
            token_type_ids: segment of each token; None means segment 0.
            dropout_key: PRNG key of this call's dropout masks; None for none.
            output_layers: return the embeddings' output and every layer's instead of the last.

        Returns:
            ``[batch, length, hidden]`` in the compute dtype, or a tuple of
            ``num_hidden_layers + 1`` such arrays.

        Raises:
            InputError: more tokens than positions, or token types for a family without them.
        """
        length = input_ids.shape[1]
        if length > self.config.max_length:
            raise InputError(
                f"a batch of length {length} does not fit the {self.config.max_length} positions of "
                f"this {self.config.model_type} encoder; truncate to {self.config.max_length}."
            )
        if token_type_ids is not None and not self.config.token_types:
            raise InputError(
                f"token_type_ids were given, but {self.config.model_type} has no token types; "
                "leave them out."
            )
        where = jnp.asarray(attention_mask).astype(bool)
        types = None if token_type_ids is None else jnp.asarray(token_type_ids)
        keys: list[jax.Array | None] = [None] * (len(self.layers) + 1)
        if dropout_key is not None:
            keys = list(jax.random.split(dropout_key, len(self.layers) + 1))
        hidden = self.embeddings(jnp.asarray(input_ids), types, keys[0])
        bias = None if self.relative_bias is None else self._distance_bias(length)
        states = [hidden]
        for layer, key in zip(self.layers, keys[1:], strict=True):
            apply = rematerialized if self.remat else Layer.__call__
            hidden = apply(layer, hidden, where, bias, key)
            states.append(hidden)
        return tuple(states) if output_layers else hidden

    def _distance_bias(self, length: int) -> Float[jax.Array, "heads length length"]:
        assert self.relative_bias is not None
        position = jnp.arange(length)
        # Distances first, then pairs: the constant that XLA sees is 2 * length - 1 numbers.
        by_distance = self.relative_bias(jnp.asarray(distance_buckets(length)))
        pairs = position[None, :] - position[:, None] + (length - 1)
        return by_distance[pairs].transpose(2, 0, 1)
