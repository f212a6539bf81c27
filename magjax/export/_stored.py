"""One side as it is stored: normalized by the score, checked, augmented where asked."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from magjax.checks import InputError
from magjax.export._augmentation import augment_documents, augment_queries, largest_norm
from magjax.export._engine import Block
from magjax.export._metric import UNIT_NORM
from magjax.export._vectors import Embeddings
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["StoredSide", "spooled", "stored_blocks"]

_ROWS = 16_384


@dataclasses.dataclass(frozen=True, eq=False)
class StoredSide:
    """What is stored of one side; all vectors lie in a file where they are needed twice.

    Attributes:
        embeddings: raw.
        augment: the metric that a coordinate is appended for, or ``none``.
        norm: M of that coordinate; None where nothing says it.
        plain: vectors without that coordinate.
        spool: the same as an array, where they are needed twice.
    """

    embeddings: Embeddings
    augment: str
    norm: float | None
    plain: Iterator[Block]
    spool: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        embeddings: Embeddings,
        score: Score,
        *,
        metric: str,
        augment: str,
        norm: float | None,
        twice: bool,
        stack: contextlib.ExitStack,
    ) -> "StoredSide":
        """Decides what must be known before the first vector is stored, and finds it out.

        Args:
            embeddings: raw.
            score: whose inner product of stored vectors it is to be.
            metric: what the engine compares by.
            augment: the metric that a coordinate is appended for, or ``none``.
            norm: M, if the caller knows it.
            twice: whether the index is trained on a sample of the vectors.
            stack: holds the temporary file.
        """
        one_length = metric != "inner_product" and augment == "none"
        plain = stored_blocks(embeddings, score, one_length=one_length)
        if augment != "none" and norm is None and score.gamma_document == 1.0:
            norm = UNIT_NORM
        unknown = augment != "none" and norm is None
        if embeddings.side == "query" or not (twice or unknown):
            return cls(embeddings, augment, norm, plain)
        spool = stack.enter_context(spooled(embeddings, plain))
        if unknown:
            norm = max(largest_norm(spool[part]) for part in _parts(len(spool)))
        return cls(embeddings, augment, norm, plain, spool)

    def blocks(self) -> Iterator[Block]:
        """The vectors to store; read once."""
        return (
            dataclasses.replace(block, vectors=self._turned(block.vectors, block.ids))
            for block in (self.plain if self.spool is None else self._read())
        )

    @property
    def training(self) -> Callable[[int], np.ndarray] | None:
        """Draws so many of the vectors at most, the same ones each time."""
        return None if self.spool is None else self._sample

    def _sample(self, most: int) -> np.ndarray:
        assert self.spool is not None
        count = len(self.spool)
        rows = np.random.default_rng(0).choice(count, min(most, count), replace=False)
        return self._turned(self.spool[np.sort(rows)], None)

    def _read(self) -> Iterator[Block]:
        assert self.spool is not None
        texts = self.embeddings.texts
        for part in _parts(len(self.spool)):
            yield Block(
                part.start,
                self.embeddings.ids[part],
                np.array(self.spool[part]),
                None if texts is None else texts[part],
            )

    def _turned(self, vectors: np.ndarray, ids: Sequence[str] | None) -> np.ndarray:
        if self.augment == "none":
            return vectors
        if self.embeddings.side == "query":
            return augment_queries(vectors)
        assert self.norm is not None
        return augment_documents(vectors, self.norm, self.augment, ids=ids)


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, min(start + _ROWS, count)) for start in range(0, count, _ROWS))


def stored_blocks(
    embeddings: Embeddings, score: Score, *, one_length: bool = False
) -> Iterator[Block]:
    """The vectors to store, ``x / norm(x) ** gamma`` of the side, block by block.

    Args:
        embeddings: raw.
        score: whose inner product of stored vectors it is to be.
        one_length: refuse zero vectors, which a metric that relies on one length mistakes.

    Raises:
        InputError: a block of another width, too few or too many rows, a vector that is not
            finite or may not be zero, or a text that is no valid Unicode.
    """
    start = 0
    for raw in embeddings.blocks():
        if raw.ndim != 2 or raw.shape[1] != embeddings.dim:
            raise InputError(
                f"a block of {embeddings.side} embeddings has shape {raw.shape}, not "
                f"[n, {embeddings.dim}]; embed all with the same model."
            )
        part = slice(start, start + len(raw))
        ids = embeddings.ids[part]
        if len(ids) != len(raw):
            raise InputError(
                f"there are more {embeddings.side} embeddings than the {len(embeddings.ids)} ids."
            )
        vectors = np.array(score.normalize(np.asarray(raw, np.float32), embeddings.side))
        _check(vectors, ids, embeddings.side, one_length)
        texts = None if embeddings.texts is None else embeddings.texts[part]
        for name, text in zip(ids, texts or (), strict=False):
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError(
                    f"the text of {embeddings.side} {name!r} is no valid Unicode "
                    f"({error.reason}); mend it, or leave texts out."
                ) from error
        yield Block(start, ids, np.ascontiguousarray(vectors, np.float32), texts)
        start += len(raw)
    if start != len(embeddings.ids):
        raise InputError(f"{len(embeddings.ids)} ids, but {start} {embeddings.side} embeddings.")


def _check(vectors: np.ndarray, ids: Sequence[str], side: Side, one_length: bool) -> None:
    broken = ~np.isfinite(vectors).all(axis=1)
    if broken.any():
        raise InputError(
            f"the embedding of {side} {ids[int(broken.argmax())]!r} is not finite (NaN or "
            "infinity); check the model, or embed in float32."
        )
    zero = ~vectors.any(axis=1)
    if one_length and side == "document" and zero.any():
        raise InputError(
            f"the embedding of document {ids[int(zero.argmax())]!r} is zero, which has no "
            "direction: engines return NaN or leave it out; leave the metric out (inner_product), "
            "or leave the document out."
        )


@contextlib.contextmanager
def spooled(embeddings: Embeddings, blocks: Iterator[Block]) -> Iterator[np.ndarray]:
    """All vectors as a memory map of a temporary file, for what must see them twice.

    >>> documents = Embeddings.from_array("document", ["d"], np.ones((1, 2), np.float32))
    >>> with spooled(documents, stored_blocks(documents, Score.of("dnorm"))) as vectors:
    ...     vectors.tolist()
    [[0.7071067690849304, 0.7071067690849304]]
    """
    with tempfile.TemporaryDirectory(prefix="magjax-export-") as folder:
        file = Path(folder, "vectors.npy")
        shape = (len(embeddings.ids), embeddings.dim)
        whole = open_memmap(file, "w+", np.dtype("<f4"), shape)
        for block in blocks:
            whole[block.start : block.start + len(block.ids)] = block.vectors
        whole.flush()
        yield whole
