"""Two towers, or one used for both sides, that turn batches into embeddings."""

import dataclasses
from collections.abc import Mapping
from typing import Literal, get_args

import jax
from flax import nnx

from magjax.checks import InputError, choose
from magjax.encoders._clip_text import ClipTextEncoder
from magjax.encoders._clip_text_config import ClipTextConfig
from magjax.encoders._config import EncoderConfig
from magjax.encoders._pooling import POOLINGS, pool
from magjax.encoders._projection import Projection
from magjax.encoders._text_encoder import TextEncoder
from magjax.encoders._vision import VisionEncoder
from magjax.encoders._vision_config import VisionConfig
from magjax.typing import Array, Float, Side

__all__ = ["DualEncoder", "Modality", "Tower"]

Modality = Literal["text", "image"]
Tower = TextEncoder | ClipTextEncoder | VisionEncoder


class DualEncoder(nnx.Module):
    """Embeds queries and documents: tower, pooling, optional projection; raw lengths are kept.

    Either side may be text or images. Normalization and temperature belong to the score, never
    to the encoder.

    Args:
        query_tower: encoder of queries, and of documents when ``document_tower`` is None.
        document_tower: a second encoder, or None to share the first.
        pooling: a name in ``POOLINGS``, how the states of a BERT-family tower become one vector;
            None means ``"mean"``. Towers of CLIP and SigLIP have a pooling of their own.
        projection: dense layer after pooling of the query side, and of the document side when
            ``document_projection`` is None and both sides are text; or None.
        document_projection: a second projection, or None to share the first. Text and images never
            share one: there None means none.

    Raises:
        InputError: an unknown pooling or one that no tower uses, sides of different width, or one
            object passed twice.

    >>> config = EncoderConfig(vocab_size=50, hidden_size=12, num_hidden_layers=1)
    >>> encoder = DualEncoder.create(config, projection_dim=4)
    >>> batch = {key: jax.numpy.ones((1, 3), int) for key in ("input_ids", "attention_mask")}
    >>> encoder.embed(batch, "query").shape, encoder.dim, encoder.is_shared
    ((1, 4), 4, True)
    """

    def __init__(
        self,
        query_tower: Tower,
        document_tower: Tower | None = None,
        *,
        pooling: str | None = None,
        projection: Projection | None = None,
        document_projection: Projection | None = None,
    ) -> None:
        if document_tower is query_tower or (
            projection is not None and document_projection is projection
        ):
            raise InputError(
                "the same object was passed for both sides; leave the document's out to share it."
            )
        self.query_tower = query_tower
        self.document_tower = document_tower
        self.projection = projection
        self.document_projection = document_projection
        if document_projection is not None and projection is None and not self.is_mixed:
            raise InputError("document_projection was given without projection; give both.")
        self.pooling = self._pooling(pooling)
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
        """A random start for texts; with ``shared=False`` each side has its own tower and projection.

        The same arguments give the same numbers on every run.

        >>> config = EncoderConfig(vocab_size=50, hidden_size=12, num_hidden_layers=1)
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

    @classmethod
    def create_image_text(
        cls,
        vision_config: VisionConfig,
        text_config: ClipTextConfig | EncoderConfig,
        *,
        dim: int | None = None,
        query_modality: str = "text",
        pooling: str | None = None,
        dtype: str = "float32",
        remat: bool = False,
        seed: int = 0,
    ) -> "DualEncoder":
        """A random start for images and texts: CLIP, SigLIP, or LiT with a BERT-family text tower.

        The same arguments give the same numbers on every run, whichever side is the query.

        Args:
            vision_config: the image tower.
            text_config: the text tower; one of the BERT family gets a projection without bias.
            dim: width of the embeddings. None: the vision tower's ``projection_dim`` or, where that
                is None, ``hidden_size``. SigLIP's vision tower admits only its ``hidden_size``.
            query_modality: which side is the query, ``"text"`` or ``"image"``.
            pooling: of a BERT-family tower.
            dtype: compute dtype of both towers.
            remat: recompute layers in the backward pass, to train with less memory.
            seed: of the random start.

        Raises:
            InputError: a ``dim`` that a tower cannot have, or an unknown modality.

        >>> vision = VisionConfig.preset("tiny", num_hidden_layers=1)
        >>> text = ClipTextConfig.preset("tiny", vocab_size=300, eos_token_id=3, num_hidden_layers=1)
        >>> encoder = DualEncoder.create_image_text(vision, text, dim=64, query_modality="image")
        >>> encoder.modality("query"), encoder.modality("document"), encoder.dim
        ('image', 'text', 64)
        """
        choose("query_modality", query_modality, get_args(Modality))
        rngs = nnx.Rngs(seed)
        width = vision_config.dim if dim is None else dim
        if width != vision_config.dim:
            vision_config = dataclasses.replace(vision_config, projection_dim=width)
        image = VisionEncoder(vision_config, dtype=dtype, remat=remat, rngs=rngs)
        projection = None
        if isinstance(text_config, EncoderConfig):
            text: Tower = TextEncoder(text_config, dtype=dtype, remat=remat, rngs=rngs)
            projection = Projection(text_config.hidden_size, width, use_bias=False, rngs=rngs)
        else:
            text_config = dataclasses.replace(text_config, projection_dim=width)
            text = ClipTextEncoder(text_config, dtype=dtype, remat=remat, rngs=rngs)
        if query_modality == "text":
            return cls(text, image, pooling=pooling, projection=projection)
        return cls(image, text, pooling=pooling, document_projection=projection)

    @property
    def is_shared(self) -> bool:
        """Whether one set of weights embeds both sides."""
        return self.document_tower is None and self.document_projection is None

    @property
    def is_mixed(self) -> bool:
        """Whether one side is text and the other images."""
        return self.modality("query") != self.modality("document")

    @property
    def dim(self) -> int:
        """Dimensions of an embedding."""
        return self._width("query")

    @property
    def max_length(self) -> int:
        """Tokens that the position tables of all text towers admit.

        Raises:
            InputError: no side is text.
        """
        towers = map(self.tower, get_args(Side))
        lengths = [t.config.max_length for t in towers if not isinstance(t, VisionEncoder)]
        if not lengths:
            raise InputError("this encoder embeds no texts, so it has no maximum length.")
        return min(lengths)

    def tower(self, side: Side) -> Tower:
        """The encoder of one side."""
        choose("side", side, get_args(Side))
        if side == "document" and self.document_tower is not None:
            return self.document_tower
        return self.query_tower

    def modality(self, side: Side) -> Modality:
        """What one side embeds: ``"text"`` or ``"image"``.

        >>> config = EncoderConfig(vocab_size=50, hidden_size=12, num_hidden_layers=1)
        >>> DualEncoder.create(config).modality("document")
        'text'
        """
        return self.tower(side).modality

    def side_pooling(self, side: Side) -> str:
        """How one side's states become one vector: a name in ``POOLINGS``, or the tower's own."""
        tower = self.tower(side)
        if isinstance(tower, TextEncoder):
            assert self.pooling is not None
            return self.pooling
        return tower.pooling

    def side_projection(self, side: Side) -> Projection | None:
        """The projection after the pooled vector of one side, or None."""
        choose("side", side, get_args(Side))
        if side == "document" and (self.is_mixed or self.document_projection is not None):
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
            batch: text: ``input_ids``, ``attention_mask`` int ``[batch, length]``, if wanted
                ``token_type_ids``; images: ``pixel_values`` float32 ``[batch, height, width, 3]``;
                all else is ignored. A row whose mask is 0 is finite and changes no other.
            side: ``"query"`` or ``"document"``.
            dropout_key: PRNG key of the dropout masks; None for none.

        Raises:
            InputError: an unknown side, or entries of another modality, length or image size.
        """
        tower = self.tower(side)
        for name in _ENTRIES[tower.modality]:
            if name not in batch:
                raise InputError(
                    f"the {side} side embeds {tower.modality}, which needs {name}; the batch has "
                    f"{', '.join(batch)}."
                )
        if isinstance(tower, TextEncoder):
            mask = batch["attention_mask"]
            hidden = tower(
                batch["input_ids"],
                mask,
                token_type_ids=batch.get("token_type_ids"),
                dropout_key=dropout_key,
            )
            assert not isinstance(hidden, tuple)
            pooled = pool(hidden, mask, self.side_pooling(side))
        else:
            pooled = tower.embed(batch, dropout_key=dropout_key)
        projection = self.side_projection(side)
        return pooled if projection is None else projection(pooled)

    def _pooling(self, stated: str | None) -> str | None:
        if any(isinstance(self.tower(side), TextEncoder) for side in get_args(Side)):
            return choose("pooling", stated or "mean", POOLINGS)
        if stated is not None:
            raise InputError(
                f"pooling={stated!r} does not apply to towers of CLIP and SigLIP, which pool in "
                "their own way; leave it out."
            )
        return None

    def _width(self, side: Side) -> int:
        projection = self.side_projection(side)
        return self.tower(side).dim if projection is None else projection.linear.out_features


_ENTRIES = {"text": ("input_ids", "attention_mask"), "image": ("pixel_values",)}
