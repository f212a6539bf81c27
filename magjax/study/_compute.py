"""Computing one cell of a study: training and measuring, or measuring a reference."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from magjax import hub
from magjax.checks import InputError, RunError
from magjax.similarity import PRESETS, Score
from magjax.study._cells import CellResult
from magjax.study._evaluations import EVALUATIONS
from magjax.study._grid import Cell
from magjax.study._measured import Measured
from magjax.study._run import train_run
from magjax.study._task import Task
from magjax.study._tasks import kind_of
from magjax.training import Checkpoints, FitResult

__all__ = ["Check", "Compute", "Stopped", "compute_cell"]

Check = Callable[[Mapping[str, str]], None]
"""Raises ``InputError`` where data of these fingerprints is not what the study's cells are of."""

Compute = Callable[[Cell, Path, Check], CellResult]
"""Computes a cell in a run folder of its own."""

_CURVES = (
    "loss",
    "gradient_norm",
    "temperature",
    "gamma_query",
    "gamma_document",
    "query_norm",
    "document_norm",
)
_POINTS = 50  # of a curve that are kept


class Stopped(Exception):
    """A signal ended the training of a cell; its checkpoint is there to go on from.

    >>> Stopped(FitResult(5, "SIGTERM", 15, 0, 0.0)).outcome.stopped_by
    'SIGTERM'
    """

    def __init__(self, outcome: FitResult) -> None:
        super().__init__(f"stopped by {outcome.stopped_by} at step {outcome.step}")
        self.outcome = outcome


def compute_cell(cell: Cell, run: Path, check: Check) -> CellResult:
    """Trains and measures a cell, or goes on with its training; references are only measured.

    Args:
        cell: what to compute.
        run: the run folder of a trained cell; taken up where it holds a checkpoint.
        check: called with the data's fingerprints before anything long is done.

    Returns:
        The numbers; of a run that diverged, the reason.

    Raises:
        InputError: settings or data that cannot be used.
        Stopped: a signal asked for an end.

    >>> compute_cell(cell, Path("runs/study/0123"), lambda fingerprints: None)  # doctest: +SKIP
    """
    config, made = _expand(cell.config), []
    kind = kind_of(config)

    def make_task(config: Mapping[str, Any]) -> Task:
        made.append(kind.make_task(config))
        check(made[-1].fingerprints)
        return made[-1]

    if cell.role == "bm25":
        task = make_task(config)
        results = task.lexical()
        if not results:
            raise InputError(
                f"task {cell.task!r} has no lexical yardstick, or base.evaluation.bm25 is off; set "
                "lexical to False, or base.evaluation.bm25 to True."
            )
        found = [Measured.of_retrieval(result, cell.metrics) for result in results]
        return CellResult(task.fingerprints, found, {}, {})
    if cell.role == "untrained":
        task = make_task(config)
        scores = {f"untrained {name}": Score.of(name) for name in PRESETS}
        return CellResult(task.fingerprints, _measure(cell, task.model, task, scores), {}, {})

    resume = _can_resume(run)
    if run.exists() and not resume:
        shutil.rmtree(run)  # killed before its first checkpoint
    try:
        outcome = train_run(config, run, make_task, resume=resume, test=False)
    except RunError as error:
        # What follows names folders of this machine and examples of the batch.
        reason = str(error).partition(";")[0]
        return CellResult(made[-1].fingerprints, [], {}, {}, failure=reason)
    if outcome.stopped_by:
        raise Stopped(outcome)
    task = made[-1]
    development = {
        "metric": config["loop"]["metric"],
        "value": outcome.best_value,
        "best_step": outcome.best_step,
        "steps": outcome.step,
    }
    curve = _read_curve(run / "metrics.jsonl", config["loop"]["metric"])
    measured = []
    if cell.role == "trained":
        best = hub.load(run / "model")
        measured = _measure(cell, best, task, {"model": best.require_score()})
    return CellResult(task.fingerprints, measured, development, curve)


def _measure(
    cell: Cell, model: hub.Model, task: Task, scores: Mapping[str, Score]
) -> list[Measured]:
    found: list[Measured] = []
    for name in cell.evaluations:
        found += EVALUATIONS[name](model, task, scores, cell.metrics)
    return found


def _can_resume(run: Path) -> bool:
    if not (run / "config.json").is_file() or not (run / "checkpoints").is_dir():
        return False
    store = Checkpoints(run / "checkpoints")
    try:
        return bool(store.steps())
    finally:
        store.close()


def _read_curve(path: Path, metric: str) -> dict[str, list[list[float | int]]]:
    """Per quantity, step and value; thinned evenly, the last point kept."""
    curve: dict[str, list[list[float | int]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        names = (metric,) if row["kind"] == "evaluation" else _CURVES
        for name in names:
            if isinstance(row.get(name), int | float):  # what is not finite is text
                label = f"development {name}" if row["kind"] == "evaluation" else name
                curve.setdefault(label, []).append([row["step"], row[name]])
    return {name: _thin(points) for name, points in curve.items()}


def _thin(points: list[list[float | int]]) -> list[list[float | int]]:
    stride = -(-len(points) // _POINTS)
    return points[::-stride][::-1]


def _expand(value: Any) -> Any:
    """Replaces ``$NAME`` at the beginning of strings: cells do not say where data lies."""
    if isinstance(value, Mapping):
        return {key: _expand(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_expand(entry) for entry in value]
    if isinstance(value, str) and value.startswith("$"):
        name, slash, rest = value[1:].partition("/")
        if name not in os.environ:
            raise InputError(f"the config names {value!r}; set the environment variable {name}.")
        return os.environ[name] + slash + rest
    return value
