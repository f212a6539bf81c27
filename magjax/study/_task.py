"""What a run trains and is tested by, whatever its data: texts or images with captions."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from magjax import hub
from magjax.data import Batches
from magjax.evaluation import RetrievalResult
from magjax.similarity import Score

__all__ = ["Task"]


@dataclasses.dataclass(frozen=True)
class Task:
    """The parts of a run that its data decides; :func:`magjax.study.train_run` does the rest.

    Attributes:
        model: the start model, without a score.
        batches: what it is trained on.
        names: ids of a batch's rows, for messages.
        fingerprints: content of every part of the data; results carry it.
        develop: metrics of a model on the development test.
        measure: results of a model on every test, embedded once for all scores, which are given
            by the system's name that results carry.
        lexical: results of the yardsticks that know no model, such as BM25; may be empty.
        describe: one line on the data, for the log; called after a first batch was made.
        draw: writes pictures of the results into the run folder; None for none.

    >>> [field.name for field in dataclasses.fields(Task)][:3]
    ['model', 'batches', 'names']
    """

    model: hub.Model
    batches: Batches
    names: Callable[[Mapping[str, Any]], list[str]]
    fingerprints: Mapping[str, str]
    develop: Callable[[hub.Model], Mapping[str, float]]
    measure: Callable[[hub.Model, Mapping[str, Score]], Sequence[RetrievalResult]]
    lexical: Callable[[], Sequence[RetrievalResult]]
    describe: Callable[[], str]
    draw: Callable[[Sequence[RetrievalResult], Path], None] | None = None
