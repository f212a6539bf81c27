"""Raw embeddings of one side, from an array or from texts, a block at a time."""

import collections
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError, positive_integer
from magjax.data import TextPreprocessor
from magjax.evaluation import encode
from magjax.hub import Model
from magjax.typing import Side

__all__ = ["Embeddings"]

_log = logging.getLogger(__name__)

_BLOCK = 16_384  # vectors at a time: 25 MiB at 384 dimensions
_FLOATS = ("float16", "bfloat16", "float32")


@dataclasses.dataclass(frozen=True, eq=False)
class Embeddings:
    """Raw embeddings of one side, in blocks, so that no more than one need be in memory.

    Attributes:
        side: ``"document"`` or ``"query"``.
        ids: one name a vector, unique.
        dim: dimensions.
        blocks: gives the embeddings ``[n, dim]`` in the order of ``ids``; called once.
        texts: what was embedded, to be stored too; None stores none.

    Raises:
        InputError: no id, an id that is empty or repeats, or another number of texts.

    >>> documents = Embeddings.from_array("document", ["d1", "d2"], np.eye(2, dtype=np.float32))
    >>> documents.dim, [block.shape for block in documents.blocks()]
    (2, [(2, 2)])
    """

    side: Side
    ids: Sequence[str]
    dim: int
    blocks: Callable[[], Iterator[np.ndarray]]
    texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not len(self.ids):
            raise InputError(f"there is no {self.side} to export; give at least one.")
        for name in self.ids:
            if not isinstance(name, str) or not name.strip():
                raise InputError(f"{self.side} id {name!r} must be a string that is not empty.")
            try:
                name.encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError(f"{self.side} id {name!r} is no valid Unicode.") from error
        if len(set(self.ids)) != len(self.ids):
            twice = collections.Counter(self.ids).most_common(1)[0][0]
            raise InputError(f"{self.side} id {twice!r} occurs twice; ids must be unique.")
        if self.texts is not None and len(self.texts) != len(self.ids):
            raise InputError(f"{len(self.texts)} texts for {len(self.ids)} ids; give one each.")

    @classmethod
    def from_array(
        cls,
        side: Side,
        ids: Sequence[str],
        embeddings: Any,
        *,
        texts: Sequence[str] | None = None,
        block_size: int = _BLOCK,
    ) -> "Embeddings":
        """Embeddings that are there already; a memory map is read block by block.

        Args:
            side: ``"document"`` or ``"query"``.
            ids: one name a row.
            embeddings: raw ``[n, dim]``, float32 (float16 and bfloat16 are widened).
            texts: to be stored too.
            block_size: rows a block.

        Raises:
            InputError: shapes disagree, or another dtype.
        """
        array = embeddings if isinstance(embeddings, np.ndarray) else np.asarray(embeddings)
        if array.ndim != 2 or len(array) != len(ids) or not array.shape[1]:
            raise InputError(
                f"{side} embeddings of shape {array.shape} for {len(ids)} ids; give one row of at "
                "least one dimension an id."
            )
        if array.dtype.name not in _FLOATS:
            raise InputError(
                f"{side} embeddings are {array.dtype.name}, but float32 is stored; cast with "
                ".astype('float32') first."
            )
        size = positive_integer("block_size", block_size)

        def blocks() -> Iterator[np.ndarray]:
            for start in range(0, len(array), size):
                yield array[start : start + size]

        return cls(side, ids, array.shape[1], blocks, texts)

    @classmethod
    def from_texts(
        cls,
        model: Model,
        side: Side,
        ids: Sequence[str],
        texts: Sequence[str],
        *,
        store_text: bool = False,
        block_size: int = _BLOCK,
        tokens_per_batch: int = 2048,
        progress: Callable[[int, int], None] | None = None,
    ) -> "Embeddings":
        """Embeddings that a model makes, a block of texts at a time.

        Args:
            model: embeds with the side's prompt and length.
            side: ``"document"`` or ``"query"``.
            ids: one name a text.
            texts: any number.
            store_text: store the texts beside the vectors.
            block_size: texts a block.
            tokens_per_batch: tokens of an encoder batch on each device.
            progress: called with (texts done, texts in all).
        """
        size = positive_integer("block_size", block_size)
        preprocessor = TextPreprocessor(model.tokenizer, model.text)

        def blocks() -> Iterator[np.ndarray]:
            for start in range(0, len(texts), size):
                part = slice(start, start + size)

                def advance(done: int, _: int, start: int = start) -> None:
                    if progress is not None:
                        progress(start + done, len(texts))

                yield encode(
                    model.encoder,
                    preprocessor,
                    texts[part],
                    side,
                    ids=ids[part],
                    tokens_per_batch=tokens_per_batch,
                    progress=advance,
                )
            _log.info(
                "%s: at most %d tokens, %.1f%% of texts cut",
                side,
                preprocessor.settings.max_length(side),
                100.0 * preprocessor.truncated_share(side),
            )

        if len(ids) != len(texts):
            raise InputError(f"{len(ids)} ids for {len(texts)} texts; give one each.")
        return cls(side, ids, model.encoder.dim, blocks, texts if store_text else None)
