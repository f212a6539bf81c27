"""The training loop: steps, logging, evaluation, the best model, checkpoints, and stopping well."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from flax import nnx

from magjax.checks import InputError, RunError
from magjax.training._checkpoint import Checkpoints
from magjax.training._loop_settings import LoopSettings
from magjax.training._report import MetricsWriter, Terminal, window_means
from magjax.training._room import check_room, explain_full_disk
from magjax.training._signals import StopRequest
from magjax.training._state import Trainee, TrainState, merge_state

__all__ = ["BatchStream", "Fit", "FitResult"]

Batch = Mapping[str, Any]
_log = logging.getLogger("magjax")


@runtime_checkable
class BatchStream(Protocol):
    """An endless iterator of batches whose position can be saved.

    >>> from magjax.data import BatchIterator
    >>> issubclass(BatchIterator, BatchStream)
    True
    """

    def __next__(self) -> Batch: ...

    def get_state(self) -> dict[str, Any]:
        """The position, as JSON."""
        ...

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes to a position that :meth:`get_state` gave."""
        ...


@dataclasses.dataclass(frozen=True)
class FitResult:
    """How a run ended.

    Attributes:
        step: optimizer steps done.
        stopped_by: name of the signal that ended it, or None.
        signal_number: number of that signal, or 0.
        best_step: step of the best model.
        best_value: its value of the chosen metric.

    >>> FitResult(step=10, stopped_by=None, signal_number=0, best_step=5, best_value=0.5).step
    10
    """

    step: int
    stopped_by: str | None
    signal_number: int
    best_step: int
    best_value: float


@dataclasses.dataclass
class Fit:
    """One run over its parts; :meth:`run` does it.

    Attributes:
        graph: static part of the model.
        state: state to start from (its structure is the target of a resume).
        step: maps (state, batch on devices) to (state, metrics); may donate the state.
        place: puts a batch of NumPy arrays on the devices.
        stream: gives the batches, in order.
        evaluate: gives the metrics of a model, among them ``settings.metric``.
        save_model: writes a model as the run's best.
        describe: names the examples of a batch, for messages.
        settings: lengths and intervals.
        workdir: the run folder.

    >>> [field.name for field in dataclasses.fields(Fit)][:3]
    ['graph', 'state', 'step']
    """

    graph: nnx.GraphDef[Trainee]
    state: TrainState
    step: Callable[[TrainState, Any], tuple[TrainState, Mapping[str, Any]]]
    place: Callable[[Batch], Any]
    stream: BatchStream
    evaluate: Callable[[Trainee], Mapping[str, float]]
    save_model: Callable[[Trainee], None]
    describe: Callable[[Batch], list[str]]
    settings: LoopSettings
    workdir: Path

    def run(self, *, resume: bool = False) -> FitResult:
        """Trains to the last step, to the end of patience, or to a signal.

        With ``resume`` the newest complete checkpoint is taken up: state, input position, metric
        window and best value, so that the run goes on as if it had never stopped.

        Raises:
            RunError: the loss or the gradient is NaN or infinite.
            RunError: a checkpoint or a line of metrics cannot be written.
            InputError: nothing to resume, a checkpoint of another model, or no room for one.
        """
        settings = self.settings
        self._store = Checkpoints(
            self.workdir / "checkpoints",
            keep=settings.keep,
            keep_best=settings.keep_best,
            keep_every=settings.keep_every,
        )
        self._record: dict[str, Any] = {
            "value": None,
            "best_value": None,
            "best_step": 0,
            "stale": 0,
            "evaluated": -1,
            "window": [],
        }
        if resume:
            self.state, self._record = self._store.restore(self.state)
            self.stream.set_state(self._record.pop("input"))
        self._window: list[Mapping[str, Any]] = list(self._record["window"])
        self._unchecked: list[tuple[int, Batch, Mapping[str, Any]]] = []
        step = int(self.state.step)
        try:
            check_room(self._store.folder, self.state)
            with (
                explain_full_disk(self.workdir),
                MetricsWriter(self.workdir, resume_step=step if resume else None) as self._writer,
                Terminal(self.settings.steps, step) as self._terminal,
                StopRequest() as stop,
            ):
                return self._loop(step, stop)
        finally:
            self._store.close()

    def _loop(self, step: int, stop: StopRequest) -> FitResult:
        settings = self.settings
        self._clock, self._examples, self._steps_timed = time.perf_counter(), 0, 0
        while True:
            last = step >= settings.steps
            if step % settings.evaluate_every == 0 or last:
                self._evaluate(step)
            ended = last or 0 < settings.patience <= self._record["stale"]
            if ended or stop.name or (step and step % settings.save_every == 0):
                self._save(step)
            if ended or stop.name:
                self._store.wait()
                if ended and not last:
                    self._terminal.say(
                        f"step {step}: no better value in {settings.patience} evaluations."
                    )
                return FitResult(
                    step=step,
                    stopped_by=None if ended else stop.name,
                    signal_number=0 if ended else stop.number,
                    best_step=self._record["best_step"],
                    best_value=self._record["best_value"],
                )
            batch = next(self.stream)
            self.state, metrics = self.step(self.state, self.place(batch))
            step += 1
            self._unchecked.append((step, batch, metrics))
            self._terminal.advance(step)
            if step % settings.log_every == 0 or step == settings.steps:
                self._log_window(step)

    def _check(self) -> None:
        """Waits for the steps in flight and moves their metrics into the window, if finite."""
        for step, batch, metrics in self._unchecked:
            values = {
                key: np.asarray(value).item() for key, value in jax.device_get(metrics).items()
            }
            bad = [k for k in ("loss_sum", "gradient_norm") if not math.isfinite(values[k])]
            if bad:
                good = self._store.steps()
                back = f"step {good[-1]} (go on from it with --resume)" if good else "none yet"
                raise RunError(
                    f"{bad[0].removesuffix('_sum')} is {values[bad[0]]} at step {step}; the last "
                    f"good checkpoint in {self._store.folder} is {back}. The batch was: "
                    f"{', '.join(self.describe(batch))}. Try a lower learning rate, a higher "
                    "temperature, or look at these examples."
                )
            self._window.append(values)
            self._examples += int(values["count"])
            self._steps_timed += 1
        self._unchecked.clear()

    def _log_window(self, step: int) -> None:
        self._check()
        self._store.check()
        means = window_means(self._window)
        self._window.clear()
        seconds = time.perf_counter() - self._clock
        means["examples_per_second"] = self._examples / seconds if seconds > 0 else math.nan
        left = seconds / max(self._steps_timed, 1) * (self.settings.steps - step)
        self._restart_clock()
        self._writer.write(step, "train", means)
        self._terminal.show(step, means, left=left)

    def _restart_clock(self) -> None:
        self._clock, self._examples, self._steps_timed = time.perf_counter(), 0, 0

    def _evaluate(self, step: int) -> None:
        if self._record["evaluated"] >= step:
            return  # a resumed run whose checkpoint already holds this evaluation
        self._check()
        pause = time.perf_counter()
        model = merge_state(self.graph, self.state)
        metrics = dict(self.evaluate(model))
        value = metrics.get(self.settings.metric)
        if value is None:
            raise InputError(
                f"the evaluation has no metric {self.settings.metric!r}; it has: {', '.join(metrics)}."
            )
        best = self._record["best_value"]
        better = best is None or value > best
        if better:
            self.save_model(model)
        self._record |= {
            "evaluated": step,
            "value": value,
            "best_value": value if better else best,
            "best_step": step if better else self._record["best_step"],
            "stale": 0 if better else self._record["stale"] + 1,
        }
        self._writer.write(step, "evaluation", metrics)
        shown = " ".join(f"{key}={number:.4f}" for key, number in metrics.items())
        self._terminal.say(f"step {step} evaluation {shown}{' (best)' if better else ''}")
        self._clock += time.perf_counter() - pause

    def _save(self, step: int) -> None:
        self._check()
        pause = time.perf_counter()
        record = self._record | {"window": self._window, "input": self.stream.get_state()}
        if self._record["evaluated"] != step:
            record["value"] = None  # the metric of an earlier step says nothing of this one
        self._store.save(step, self.state, record, wait=False)
        self._clock += time.perf_counter() - pause
