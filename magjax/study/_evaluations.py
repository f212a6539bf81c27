"""By what a study measures trained models: a table."""

from collections.abc import Callable, Mapping, Sequence

from magjax import hub
from magjax.similarity import Score
from magjax.study._measured import Measured
from magjax.study._task import Task

__all__ = ["EVALUATIONS"]


def _retrieval(
    model: hub.Model, task: Task, scores: Mapping[str, Score], metrics: Sequence[str]
) -> list[Measured]:
    return [Measured.of_retrieval(result, metrics) for result in task.measure(model, scores)]


Evaluate = Callable[[hub.Model, Task, Mapping[str, Score], Sequence[str]], Sequence[Measured]]

EVALUATIONS: dict[str, Evaluate] = {"retrieval": _retrieval}
"""By the name that a study's ``evaluations`` takes: each maps a model, the task it was trained
on, the scores to rank by (by the system's name) and the metrics to keep to what was measured."""
