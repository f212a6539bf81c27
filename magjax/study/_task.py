"""What a run trains and is tested by, whatever its data: texts or images with captions."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from magjax import hub
from magjax.evaluation import RetrievalResult

__all__ = ["Batches", "Task"]


@runtime_checkable
class Batches(Protocol):
    """Batches as a function of the step; :class:`magjax.data.TrainingBatches` is one.

    >>> from magjax.data import TrainingBatches
    >>> all(hasattr(TrainingBatches, name) for name in ("__len__", "fingerprint", "batch_at"))
    True
    """

    def __len__(self) -> int:
        """Steps of an epoch."""

    @property
    def fingerprint(self) -> str:
        """Names the sequence of batches."""

    def batch_at(self, step: int) -> dict[str, Any]:
        """The batch of a step, from 0."""


@dataclasses.dataclass(frozen=True)
class Task:
    """The parts of a run that its data decides; :func:`magjax.study.train_run` does the rest.

    Attributes:
        model: the start model, without a score.
        batches: what it is trained on.
        names: ids of a batch's rows, for messages.
        fingerprints: content of every part of the data; results carry it.
        develop: metrics of a model on the development test.
        test: results of the start model and of the best model on the tests.
        describe: one line on the data, for the log; called after a first batch was made.
        draw: writes pictures of the best model into the run folder; None for none.

    >>> [field.name for field in dataclasses.fields(Task)][:3]
    ['model', 'batches', 'names']
    """

    model: hub.Model
    batches: Batches
    names: Callable[[Mapping[str, Any]], list[str]]
    fingerprints: Mapping[str, str]
    develop: Callable[[hub.Model], Mapping[str, float]]
    test: Callable[[hub.Model, hub.Model], Sequence[RetrievalResult]]
    describe: Callable[[], str]
    draw: Callable[[hub.Model, Path], None] | None = None
