"""The text towers of CLIP and SigLIP: a pre-norm transformer, one position of it projected."""

from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from magjax.checks import InputError, choose
from magjax.encoders._clip_text_config import ClipTextConfig
from magjax.encoders._layers import COMPUTE_DTYPES, layer_norm, linear
from magjax.encoders._pooling import token_at
from magjax.encoders._pre_norm import PreNormLayer, Starts, apply_layers, starts_of
from magjax.typing import Array, Bool, Float, Int

__all__ = ["ClipTextEncoder"]


class ClipTextEmbeddings(nnx.Module):
    """Word and position tables, summed."""

    def __init__(self, config: ClipTextConfig, starts: Starts, *, rngs: nnx.Rngs) -> None:
        def table(rows: int) -> nnx.Embed:
            return nnx.Embed(rows, config.hidden_size, embedding_init=starts.table, rngs=rngs)

        self.word = table(config.vocab_size)
        self.position = table(config.max_position_embeddings)

    def __call__(
        self, input_ids: Int[jax.Array, "batch length"]
    ) -> Float[jax.Array, "batch length hidden"]:
        return self.word(input_ids) + self.position.embedding[...][None, : input_ids.shape[1]]


class ClipTextEncoder(nnx.Module):
    """A text tower of CLIP or SigLIP, from token ids to embeddings.

    CLIP (Radford et al., arXiv 2103.00020): causal attention; the state of the end-of-text token,
    normalized and projected, is the embedding. It is the first token with ``eos_token_id``, or the
    first with a row's largest id where the configuration asks for that older rule. SigLIP (Zhai
    et al., arXiv 2303.15343): every text is padded to all positions, padding takes part in
    attention, and the last position is the embedding; a batch's own padding therefore does not
    matter, and a short batch costs as much as a long one.

    Parameters are float32; layers run in ``dtype``, the last norm and the projection in float32.

    Args:
        config: sizes and settings; ``config.model_type`` chooses the family.
        dtype: compute dtype, a name in ``COMPUTE_DTYPES``.
        remat: recompute each layer in the backward pass instead of keeping its activations.
        rngs: source of the random start.

    Raises:
        InputError: an unknown dtype.

    >>> config = ClipTextConfig.of("clip_text_model", vocab_size=50, hidden_size=16,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
    ...     max_position_embeddings=8, projection_dim=4, eos_token_id=3)
    >>> encoder = ClipTextEncoder(config, rngs=nnx.Rngs(0))
    >>> ids = jnp.array([[1, 7, 3, 0]])
    >>> encoder.embed({"input_ids": ids, "attention_mask": jnp.array([[1, 1, 1, 0]])}).shape
    (1, 4)
    """

    modality: Literal["text"] = "text"

    def __init__(
        self,
        config: ClipTextConfig,
        *,
        dtype: str = "float32",
        remat: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        self.config = config
        self.dtype = choose("dtype", dtype, COMPUTE_DTYPES)
        self.remat = remat
        starts, compute = starts_of(config), COMPUTE_DTYPES[dtype]
        self.embeddings = ClipTextEmbeddings(config, starts, rngs=rngs)
        self.layers = nnx.List(
            [
                PreNormLayer(config, starts, causal=config.family.causal, dtype=compute, rngs=rngs)
                for _ in range(config.num_hidden_layers)
            ]
        )
        self.final_norm = layer_norm(
            config.hidden_size, config.layer_norm_eps, dtype=jnp.float32, rngs=rngs
        )
        self.projection = linear(
            config.hidden_size,
            config.dim,
            start=starts.projection,
            use_bias=config.family.projection_bias,
            dtype=jnp.float32,
            rngs=rngs,
        )

    @property
    def dim(self) -> int:
        """Dimensions of an embedding."""
        return self.config.dim

    @property
    def pooling(self) -> str:
        """Which position is the embedding: ``"end_of_text"`` or ``"last_position"``."""
        return "last_position" if self.config.family.fills_positions else "end_of_text"

    def __call__(
        self,
        input_ids: Int[Array, "batch length"],
        attention_mask: Int[Array, "batch length"] | Bool[Array, "batch length"],
        *,
        dropout_key: jax.Array | None = None,
        output_layers: bool = False,
    ) -> (
        Float[jax.Array, "batch positions hidden"]
        | tuple[Float[jax.Array, "batch positions hidden"], ...]
    ):
        """Hidden states of the last layer, or of all, before the last norm.

        Args:
            input_ids: token ids; an id outside the vocabulary gives NaN.
            attention_mask: 1 at real tokens, 0 at padding.
            dropout_key: PRNG key of this call's dropout masks; None for none.
            output_layers: return the embeddings' output and every layer's instead of the last.

        Returns:
            ``[batch, length, hidden]`` in the compute dtype (SigLIP: all positions), or a tuple of
            ``num_hidden_layers + 1`` such arrays.

        Raises:
            InputError: more tokens than positions.
        """
        ids, where = jnp.asarray(input_ids), jnp.asarray(attention_mask).astype(bool)
        length, positions = ids.shape[1], self.config.max_position_embeddings
        if length > positions:
            raise InputError(
                f"a batch of length {length} does not fit the {positions} positions of this "
                f"{self.config.model_type} encoder; truncate to {positions}."
            )
        seen: jax.Array | None = where
        if self.config.family.fills_positions:
            pad = self.config.pad_token_id
            assert pad is not None
            ids = jnp.where(where, ids, pad)
            ids = jnp.pad(ids, ((0, 0), (0, positions - length)), constant_values=pad)
            seen = None  # as trained: no mask, padding is attended to
        hidden = self.embeddings(ids).astype(COMPUTE_DTYPES[self.dtype])
        states = apply_layers(self.layers, hidden, seen, dropout_key, remat=self.remat)
        return states if output_layers else states[-1]

    def embed(
        self, batch: Mapping[str, Array], *, dropout_key: jax.Array | None = None
    ) -> Float[jax.Array, "batch dim"]:
        """Raw float32 embeddings of a padded batch.

        Args:
            batch: ``input_ids`` and ``attention_mask`` int ``[batch, length]``. A row whose mask
                is all 0 gives a finite vector. In CLIP a row with tokens but without the
                end-of-text token gives NaN: its tokenizer or truncation is broken.
            dropout_key: PRNG key of the dropout masks; None for none.
        """
        ids, mask = jnp.asarray(batch["input_ids"]), jnp.asarray(batch["attention_mask"])
        hidden = self(ids, mask, dropout_key=dropout_key)
        assert not isinstance(hidden, tuple)
        if self.config.family.fills_positions:
            return self._projected(hidden[:, -1])
        real = mask.astype(bool)
        if self.config.pools_at_largest_id:
            ranked = jnp.where(real, ids, -1)
            found = jnp.any(real, axis=1)
        else:
            ranked = jnp.logical_and(ids == self.config.eos_token_id, real).astype(jnp.int32)
            found = jnp.any(ranked > 0, axis=1)
        pooled = self._projected(token_at(hidden, jnp.argmax(ranked, axis=1)))
        absent = jnp.where(jnp.any(real, axis=1), jnp.nan, 0.0)
        return jnp.where(found[:, None], pooled, absent[:, None])

    def _projected(self, pooled: Float[jax.Array, "batch hidden"]) -> Float[jax.Array, "batch dim"]:
        return self.projection(self.final_norm(pooled.astype(jnp.float32)))
