"""Metrics of a run: window sums, ``metrics.jsonl``, TensorBoard events, and the terminal."""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from magjax.files import write_text

__all__ = ["MetricsWriter", "Terminal", "window_means"]


def window_means(steps: list[Mapping[str, Any]]) -> dict[str, float]:
    """Reduces the sums of several steps to means: summed first, divided once.

    Keys ending in ``_sum`` are divided by the sum of the ``_count`` key of the same stem, or of
    ``count`` where the stem has none. A ``_variance_sum`` (squared deviations from each step's
    own mean) becomes a standard deviation within steps. Other keys report their last value.

    >>> window_means([{"loss_sum": 4.0, "count": 2}, {"loss_sum": 2.0, "count": 4, "rate": 0.1}])
    {'loss': 1.0, 'rate': 0.1}
    >>> window_means([{"logit_variance_sum": 8.0, "logit_variance_count": 2}])
    {'logit_std': 2.0}
    """
    totals: dict[str, float] = {}
    last: dict[str, float] = {}
    for step in steps:
        for key, value in step.items():
            number = float(np.asarray(value, np.float64))
            last[key] = number
            totals[key] = totals.get(key, 0.0) + number
    means: dict[str, float] = {}
    for key in last:
        if key == "count" or key.endswith("_count"):
            continue
        if not key.endswith("_sum"):
            means[key] = last[key]
            continue
        stem = key.removesuffix("_sum")
        count = totals.get(f"{stem}_count", totals.get("count", 0.0))
        mean = totals[key] / count if count else math.nan
        if stem.endswith("_variance"):
            means[f"{stem.removesuffix('_variance')}_std"] = math.sqrt(mean)
        else:
            means[stem] = mean
    return means


class MetricsWriter:
    r"""Appends metrics to ``metrics.jsonl`` and to TensorBoard event files.

    Args:
        workdir: the run folder.
        resume_step: lines of later steps are removed first, so that a resumed run leaves the
            same file as an uninterrupted one; None starts anew.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with MetricsWriter(folder) as writer:
    ...     writer.write(10, "train", {"loss": 1.5})
    >>> (folder / "metrics.jsonl").read_text()
    '{"step": 10, "kind": "train", "loss": 1.5}\n'
    """

    def __init__(self, workdir: str | Path, *, resume_step: int | None = None) -> None:
        from tensorboardX import SummaryWriter  # imports protobuf: only when a run starts

        self._path = Path(workdir) / "metrics.jsonl"
        kept = ""
        if resume_step is not None and self._path.is_file():
            lines = self._path.read_text(encoding="utf-8").splitlines()
            kept = "".join(f"{line}\n" for line in lines if _step_of(line) <= resume_step)
        write_text(self._path, kept)
        self._file = self._path.open("a", encoding="utf-8")
        self._events = SummaryWriter(
            str(Path(workdir) / "tensorboard"),
            purge_step=None if resume_step is None else resume_step + 1,
        )

    def write(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        """Appends one line and the same scalars as events under ``kind/name``."""
        line = {"step": step, "kind": kind} | {key: _plain(value) for key, value in values.items()}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()
        for key, value in values.items():
            if math.isfinite(value):
                # "@" is not allowed in the names of events.
                self._events.add_scalar(f"{kind}/{key.replace('@', '_at_')}", value, step)

    def close(self) -> None:
        """Flushes and closes both files."""
        self._file.close()
        self._events.close()

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _plain(value: float) -> float | str:
    # JSON has no NaN: written as text, so that the line still parses everywhere.
    return value if math.isfinite(value) else str(value)


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError):
        return math.inf  # a line cut short by a crash


class Terminal:
    """Progress bar with ETA on a terminal, plain lines elsewhere; both on standard error.

    >>> with Terminal(total=2, start=0, interactive=False) as terminal:
    ...     terminal.advance(1)
    """

    def __init__(self, total: int, start: int, *, interactive: bool | None = None) -> None:
        self._interactive = sys.stderr.isatty() if interactive is None else interactive
        self._total = total
        self._progress = None
        if self._interactive:
            from rich.console import Console

            self._progress = Progress(
                TextColumn("train"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
            )
            self._task = self._progress.add_task("", total=total, completed=start)

    def advance(self, step: int) -> None:
        """Moves the bar to ``step`` (nothing when not on a terminal)."""
        if self._progress is not None:
            self._progress.update(self._task, completed=step)

    def show(self, step: int, values: Mapping[str, float], *, left: float | None = None) -> None:
        """Shows the metrics of a window; ``left`` is the estimated rest in seconds."""
        text = " ".join(f"{key}={value:.4g}" for key, value in values.items())
        if self._progress is not None:
            self._progress.update(self._task, completed=step, description=text)
            return
        rest = "" if left is None else f" left={left:.0f}s"
        print(f"step {step}/{self._total}{rest} {text}", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        if self._progress is not None:
            self._progress.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def __enter__(self) -> "Terminal":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
