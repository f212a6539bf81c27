"""What each epoch of a training set draws: an order, one positive a query, hard negatives."""

import logging
import threading
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from magjax.checks import InputError
from magjax.data._epoch_plan import EpochPlan, largest_batch_count, plan_epoch, random_order
from magjax.data._text_numbers import TextNumbers

__all__ = ["Epochs", "Rows"]

_log = logging.getLogger(__name__)

# Words that keep the random streams of one (seed, epoch) apart.
_ORDER, _POSITIVE, _NEGATIVE = 0, 1, 2
# Orders tried where texts repeat so often that one cannot be cut into full batches.
_ATTEMPTS = 8


@runtime_checkable
class Rows(Protocol):
    """Training rows, each with the numbers of what answers it.

    >>> from magjax.data import TrainingSet
    >>> isinstance(TrainingSet(["a"], ["x"], [(0,)], [()], ["a"], ["m"]), Rows)
    True
    """

    @property
    def source(self) -> str:
        """Where the rows come from, for messages."""

    @property
    def positives(self) -> Sequence[tuple[int, ...]]:
        """Per row, numbers of its answers."""

    def __len__(self) -> int:
        """How many rows."""


class Epochs:
    """Full batches without a text twice, for any epoch, as a function of (seed, epoch).

    Every epoch has the same number of ``batches``. Safe to use from several threads.

    Args:
        training_set: the records.
        numbers: its texts as numbers; rows with a number in common share no batch.
        batch_size: rows a batch.
        seed: of all draws.

    Raises:
        InputError: the batch is larger than the data or than its distinct texts.

    >>> from magjax.data import TrainingSet
    >>> data = TrainingSet(["a", "b"], ["x", "y"], [(0,), (1,)], [(), ()], ["a", "b"], ["m", "n"])
    >>> epochs = Epochs(data, TextNumbers.of(data), batch_size=2, seed=0)
    >>> rows, documents = epochs.plan(7)
    >>> sorted(rows[0].tolist()), documents.tolist()
    ([0, 1], [0, 1])
    """

    def __init__(self, training_set: Rows, numbers: TextNumbers, *, batch_size: int, seed: int):
        self._data = training_set
        self._numbers = numbers
        self._batch_size = batch_size
        self._seed = seed
        self._lock = threading.Lock()
        self._plans: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.batches = self._count_batches()
        drawn = self._draw_positives(0)
        plan = self._make_plan(drawn, 0)
        self._plans[0] = plan.rows, drawn
        if plan.repeated:
            _log.warning(
                "%s: texts repeat so often that %d of %d places of the first epoch show a row "
                "twice; a smaller batch_size avoids it.",
                training_set.source,
                plan.repeated,
                plan.rows.size,
            )

    def _count_batches(self) -> int:
        rows, source = len(self._data), self._data.source
        if self._batch_size > rows:
            raise InputError(
                f"batch_size={self._batch_size} is larger than the {rows} queries of {source}; "
                f"try batch_size={rows}."
            )
        documents = self._numbers.documents[self._draw_positives(0)]
        distinct = min(len(np.unique(self._numbers.queries)), len(np.unique(documents)))
        if self._batch_size > distinct:
            raise InputError(
                f"batch_size={self._batch_size}, but {source} has only {distinct} pairs of "
                f"distinct texts, and none may occur twice in a batch; try batch_size={distinct}."
            )
        return largest_batch_count(self._numbers.queries, documents, self._batch_size)

    def _draw_positives(self, epoch: int) -> np.ndarray:
        """One document index a query, drawn evenly from its positives."""
        words = np.random.SeedSequence((self._seed, epoch, _POSITIVE))
        draws = np.random.PCG64(words).random_raw(len(self._data)).tolist()
        return np.array(
            [row[d % len(row)] for row, d in zip(self._data.positives, draws, strict=True)]
        )

    def _make_plan(self, drawn: np.ndarray, epoch: int) -> EpochPlan:
        """The first order that repeats no row, or the best of a few where texts crowd."""
        found = []
        for attempt in range(_ATTEMPTS):
            order = random_order(len(drawn), self._seed, epoch, _ORDER, attempt)
            documents = self._numbers.documents[drawn]
            try:
                plan = plan_epoch(
                    self._numbers.queries, documents, order, self._batch_size, self.batches
                )
            except ValueError:  # this order leads into a dead end, another may not
                continue
            if not plan.repeated:
                return plan
            found.append(plan)
        if not found:
            raise InputError(
                f"texts of {self._data.source} repeat too often for batches of {self._batch_size} "
                f"without a text twice; try batch_size={max(self._batch_size // 2, 1)}."
            )
        return min(found, key=lambda plan: plan.repeated)

    def plan(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows by batch, ``int64[batches, batch_size]``, and each row's document index."""
        with self._lock:
            if epoch not in self._plans:
                drawn = self._draw_positives(epoch)
                # Prefetching looks across an epoch's edge: the two newest stay.
                newest = dict(list(self._plans.items())[-1:])
                self._plans = {**newest, epoch: (self._make_plan(drawn, epoch).rows, drawn)}
            return self._plans[epoch]

    def negatives(self, epoch: int, row: int, count: int) -> list[int]:
        """Up to ``count`` of the row's hard negatives, without replacement."""
        negatives = self._numbers.negatives[row]
        order = random_order(len(negatives), self._seed, epoch, _NEGATIVE, row)
        return [negatives[i] for i in order[:count]]
