"""Two towers, or one used for both sides, that turn batches into embeddings."""

from collections.abc import Mapping
from typing import get_args

import jax
import jax.numpy as jnp
from flax import nnx

from magjax.checks import InputError, choose, positive_integer
from magjax.encoders._config import EncoderConfig
from magjax.encoders._pooling import POOLINGS, pool
from magjax.encoders._text_encoder import TextEncoder
from magjax.typing import Array, Float, Side

__all__ = ["PROJECTION_ACTIVATIONS", "DualEncoder", "Projection"]

PROJECTION_ACTIVATIONS = {"identity": lambda x: x, "tanh": jnp.tanh}


class Projection(nnx.Module):
    """A dense layer after pooling, in float32: ``activation(x @ kernel + bias)``.

    Raises:
        InputError: an unknown activation, or sizes that are no positive whole numbers.

    >>> Projection(8, 4, rngs=nnx.Rngs(0))(jnp.ones((2, 8))).shape
    (2, 4)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        use_bias: bool = True,
        activation: str = "identity",
        rngs: nnx.Rngs,
    ) -> None:
        self.activation = choose("projection activation", activation, PROJECTION_ACTIVATIONS)
        self.linear = nnx.Linear(
            positive_integer("projection inputs", inputs),
            positive_integer("projection outputs", outputs),
            use_bias=use_bias,
            rngs=rngs,
        )

    def __call__(self, x: Float[jax.Array, "batch inputs"]) -> Float[jax.Array, "batch outputs"]:
        return PROJECTION_ACTIVATIONS[self.activation](self.linear(x))


class DualEncoder(nnx.Module):
    """Embeds queries and documents: tower, pooling, optional projection; raw lengths are kept.

    Normalization and temperature belong to the score, never to the encoder.

    Args:
        query_tower: encoder of queries, and of documents when ``document_tower`` is None.
        document_tower: a second encoder, or None to share the first.
        pooling: a name in ``POOLINGS``.
        projection: dense layer after pooling of the query side, and of the document side when
            ``document_projection`` is None; or None.
        document_projection: a second projection, or None to share the first.

    Raises:
        InputError: an unknown pooling, sides of different width, or one object passed twice.

    >>> config = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> encoder = DualEncoder.create(config, projection_dim=4)
    >>> batch = {"input_ids": jnp.array([[2, 7, 3]]), "attention_mask": jnp.array([[1, 1, 1]])}
    >>> encoder.embed(batch, "query").shape, encoder.dim, encoder.is_shared
    ((1, 4), 4, True)
    """

    def __init__(
        self,
        query_tower: TextEncoder,
        document_tower: TextEncoder | None = None,
        *,
        pooling: str = "mean",
        projection: Projection | None = None,
        document_projection: Projection | None = None,
    ) -> None:
        if document_tower is query_tower or (
            projection is not None and document_projection is projection
        ):
            raise InputError(
                "the same object was passed for both sides; leave the document's out to share it."
            )
        if document_projection is not None and projection is None:
            raise InputError("document_projection was given without projection; give both.")
        self.query_tower = query_tower
        self.document_tower = document_tower
        self.projection = projection
        self.document_projection = document_projection
        self.pooling = choose("pooling", pooling, POOLINGS)
        widths = {side: self._width(side) for side in get_args(Side)}
        if len(set(widths.values())) > 1:
            raise InputError(
                f"queries have {widths['query']} dimensions and documents {widths['document']}; "
                "give both sides a projection to the same number."
            )

    @classmethod
    def create(
        cls,
        config: EncoderConfig,
        *,
        pooling: str = "mean",
        shared: bool = True,
        projection_dim: int | None = None,
        projection_bias: bool = True,
        projection_activation: str = "identity",
        dtype: str = "float32",
        remat: bool = False,
        seed: int = 0,
    ) -> "DualEncoder":
        """A random start; with ``shared=False`` each side has its own tower and projection.

        The same arguments give the same numbers on every run.

        >>> config = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1,
        ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
        >>> DualEncoder.create(config, shared=False, pooling="cls").is_shared
        False
        """
        rngs = nnx.Rngs(seed)

        def tower() -> TextEncoder:
            return TextEncoder(config, dtype=dtype, remat=remat, rngs=rngs)

        def projection() -> Projection | None:
            if projection_dim is None:
                return None
            return Projection(
                config.hidden_size,
                projection_dim,
                use_bias=projection_bias,
                activation=projection_activation,
                rngs=rngs,
            )

        return cls(
            tower(),
            None if shared else tower(),
            pooling=pooling,
            projection=projection(),
            document_projection=None if shared else projection(),
        )

    @property
    def is_shared(self) -> bool:
        """Whether one set of weights embeds both sides."""
        return self.document_tower is None and self.document_projection is None

    @property
    def dim(self) -> int:
        """Dimensions of an embedding."""
        return self._width("query")

    @property
    def max_length(self) -> int:
        """Tokens that both sides' position tables admit."""
        return min(self.tower(side).config.max_length for side in get_args(Side))

    def tower(self, side: Side) -> TextEncoder:
        """The encoder of one side."""
        choose("side", side, get_args(Side))
        if side == "document" and self.document_tower is not None:
            return self.document_tower
        return self.query_tower

    def side_projection(self, side: Side) -> Projection | None:
        """The projection of one side, or None."""
        choose("side", side, get_args(Side))
        if side == "document" and self.document_projection is not None:
            return self.document_projection
        return self.projection

    def embed(
        self,
        batch: Mapping[str, Array],
        side: Side,
        *,
        dropout_key: jax.Array | None = None,
    ) -> Float[jax.Array, "batch dim"]:
        """Raw float32 embeddings of a padded batch.

        Args:
            batch: ``input_ids`` and ``attention_mask`` int ``[batch, length]``, and
                ``token_type_ids`` when wanted; other entries are ignored. A row whose mask is all
                0 gives a finite vector and changes no other row.
            side: ``"query"`` or ``"document"``.
            dropout_key: PRNG key of the dropout masks; None for none.

        Raises:
            InputError: an unknown side, or a batch longer than the position table.
        """
        mask = batch["attention_mask"]
        hidden = self.tower(side)(
            batch["input_ids"],
            mask,
            token_type_ids=batch.get("token_type_ids"),
            dropout_key=dropout_key,
        )
        assert not isinstance(hidden, tuple)
        pooled = pool(hidden, mask, self.pooling)
        projection = self.side_projection(side)
        return pooled if projection is None else projection(pooled)

    def _width(self, side: Side) -> int:
        projection = self.side_projection(side)
        if projection is not None:
            return projection.linear.out_features
        return self.tower(side).config.hidden_size
