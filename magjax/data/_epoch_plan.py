"""Which rows share a batch: a permutation in which no batch holds the same text twice."""

import dataclasses

import numpy as np

from magjax.typing import Array, Int

__all__ = ["EpochPlan", "largest_batch_count", "plan_epoch", "random_order"]


@dataclasses.dataclass(frozen=True)
class EpochPlan:
    """The batches of one epoch.

    ``rows`` is ``int64[batches, batch_size]``; ``left_out`` rows of the data appear in none of
    them, ``repeated`` places hold a row that the epoch shows elsewhere too.

    >>> plan_epoch(np.arange(4), np.arange(4), np.arange(4), 2, 2).left_out
    0
    """

    rows: np.ndarray
    left_out: int
    repeated: int


def random_order(count: int, *seed: int) -> np.ndarray:
    """A permutation of ``count`` numbers, the same in every NumPy version.

    >>> random_order(4, 0).tolist() == random_order(4, 0).tolist()
    True
    """
    # The bit generators' streams are guaranteed; those of Generator.permutation are not.
    bits = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(count)
    return np.argsort(np.atleast_1d(bits), kind="stable")


def largest_batch_count(
    queries: Int[Array, " rows"], documents: Int[Array, " rows"], batch_size: int
) -> int:
    """The most full batches that texts of these numbers can fill, each text once a batch.

    A text of more rows than there are batches cannot place them all: with b batches, rows of one
    text count at most b times.

    >>> largest_batch_count(np.arange(6), np.array([0, 0, 0, 0, 1, 2]), 2)
    2
    """
    counts = [np.unique(texts, return_counts=True)[1] for texts in (queries, documents)]
    batches = len(queries) // batch_size
    while batches and any(np.minimum(c, batches).sum() < batches * batch_size for c in counts):
        batches -= 1
    return batches


def plan_epoch(
    queries: Int[Array, " rows"],
    documents: Int[Array, " rows"],
    order: Int[Array, " rows"],
    batch_size: int,
    batches: int,
) -> EpochPlan:
    """Fills ``batches`` batches in ``order``; a row that clashes waits for a later batch.

    Each row goes to the first batch with room that holds neither its query's nor its document's
    text. Places still empty at the end are filled by exchanging a left-over row with one placed
    earlier, then by repeating rows of other batches.

    Args:
        queries: a number per row, equal for equal query texts.
        documents: the same for the row's document.
        order: a permutation of the rows.
        batch_size: rows a batch.
        batches: how many to fill, at most ``largest_batch_count``.

    Raises:
        ValueError: a place can be filled by no row at all.

    >>> plan_epoch(np.arange(4), np.array([7, 7, 8, 9]), np.arange(4), 2, 2).rows.tolist()
    [[0, 2], [1, 3]]
    """
    state = _Batches(queries, documents, batch_size, batches)
    waiting = []
    first = 0
    for row in order.tolist():
        while first < batches and len(state.rows[first]) == batch_size:
            first += 1
        for batch in range(first, batches):
            if len(state.rows[batch]) < batch_size and not state.clashes(row, batch):
                state.add(row, batch)
                break
        else:
            waiting.append(row)
    repeated = 0
    for batch in range(first, batches):
        while len(state.rows[batch]) < batch_size:
            if state.exchange(waiting, batch):
                continue
            state.repeat(order, batch)
            repeated += 1
    rows = np.array(state.rows, np.int64).reshape(batches, batch_size)
    return EpochPlan(rows, len(waiting), repeated)


class _Batches:
    """Rows placed so far, and per batch which texts it holds."""

    def __init__(self, queries, documents, batch_size: int, batches: int):
        self.texts = list(zip(queries.tolist(), documents.tolist(), strict=True))
        self.batch_size = batch_size
        self.rows: list[list[int]] = [[] for _ in range(batches)]
        self.by_query: list[dict[int, int]] = [{} for _ in range(batches)]
        self.by_document: list[dict[int, int]] = [{} for _ in range(batches)]

    def clashes(self, row: int, batch: int) -> set[int]:
        query, document = self.texts[row]
        found = (self.by_query[batch].get(query), self.by_document[batch].get(document))
        return {other for other in found if other is not None}

    def add(self, row: int, batch: int) -> None:
        query, document = self.texts[row]
        self.rows[batch].append(row)
        self.by_query[batch][query] = row
        self.by_document[batch][document] = row

    def remove(self, row: int, batch: int) -> None:
        query, document = self.texts[row]
        self.rows[batch].remove(row)
        del self.by_query[batch][query], self.by_document[batch][document]

    def exchange(self, waiting: list[int], target: int) -> bool:
        """Puts a waiting row into another batch and the row it displaces into ``target``."""
        for row in waiting:
            for batch in range(len(self.rows)):
                clashes = self.clashes(row, batch)
                if batch == target or len(clashes) > 1:
                    continue
                for other in clashes or list(self.rows[batch]):
                    if not self.clashes(other, target):
                        self.remove(other, batch)
                        self.add(row, batch)
                        self.add(other, target)
                        waiting.remove(row)
                        return True
        return False

    def repeat(self, order: Array, target: int) -> None:
        for row in order.tolist():
            if not self.clashes(row, target):
                self.add(row, target)
                return
        raise ValueError("no row fits")
