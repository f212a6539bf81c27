"""Running a study: cell by cell, by any number of processes, taken up where it was left."""

import dataclasses
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from magjax.checks import InputError
from magjax.study._cells import StoredCell, check_alike, read_cells
from magjax.study._compute import Check, Compute, Stopped, compute_cell
from magjax.study._environment import describe_machine, library_versions
from magjax.study._grid import Cell, StudyGrid
from magjax.study._lock import try_lock
from magjax.study._state import Group, StudyState, cells_folder, choose_trials, study_state

__all__ = ["run_study"]

_log = logging.getLogger("magjax")
_POLL_SECONDS = 0.5  # between looks at cells that another process computes


def run_study(
    grid: StudyGrid,
    out: str | os.PathLike[str],
    *,
    workdir: str | os.PathLike[str],
    keep_runs: bool = False,
    compute: Compute = compute_cell,
) -> StudyState:
    """Computes the cells that are not stored yet; several processes share the work.

    References and trials come first, then the trained cells with the chosen trials. A cell is
    stored in one rename, under a lock that ends with its process, so that no cell is computed
    twice and a killed study goes on where it was, inside a cell from the last checkpoint.

    Args:
        grid: the study.
        out: folder of all studies.
        workdir: holds the run folders; removed cell by cell once their numbers are stored.
        keep_runs: leave the run folders of trained cells, of the chosen trials only.
        compute: computes one cell.

    Returns:
        The stored cells: all of them, unless a signal stopped the study.

    Raises:
        InputError: settings or data that cannot be used, or stored cells of other data or
            versions.

    >>> run_study(grid, "docs/studies", workdir="runs/study_toy").complete  # doctest: +SKIP
    True
    """
    runner = _Runner(grid, cells_folder(grid, out), Path(workdir), keep_runs, compute)
    try:
        runner.share([*grid.references(), *grid.trials()])
        choices = study_state(grid, out).choices
        runner.share(grid.trained(choices))
    except Stopped as stop:
        return dataclasses.replace(study_state(grid, out), stopped=stop.outcome)
    runner.sweep(choices)
    return study_state(grid, out)


class _Runner:
    def __init__(
        self, grid: StudyGrid, folder: Path, workdir: Path, keep_runs: bool, compute: Compute
    ) -> None:
        self.grid, self.folder, self.workdir = grid, folder, workdir
        self.keep_runs, self.compute = keep_runs, compute
        self.versions, self.machine = library_versions(), describe_machine()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.workdir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to --out or --workdir: {error}.") from error

    def share(self, cells: Sequence[Cell]) -> None:
        """Computes what no other process has or is at, then waits for what they are at."""
        while pending := [cell for cell in cells if not self.is_stored(cell)]:
            idle = True
            for cell in pending:
                with try_lock(self.folder / f".{cell.id}.lock") as mine:
                    if mine and not self.is_stored(cell):
                        idle = False
                        done = sum(map(self.is_stored, cells))
                        _log.info("cell %d of %d: %s", done + 1, len(cells), cell.id)
                        self.store(cell)
            if idle:
                time.sleep(_POLL_SECONDS)

    def is_stored(self, cell: Cell) -> bool:
        return (self.folder / f"{cell.id}.json").is_file()

    def store(self, cell: Cell) -> None:
        started = time.monotonic()
        result = self.compute(cell, self.workdir / cell.run_name, self.check_for(cell))
        seconds = round(time.monotonic() - started, 1)
        stored = StoredCell.of(
            cell, result, versions=self.versions, machine=self.machine, seconds=seconds
        )
        stored.write(self.folder)
        _log.info("%s", describe_cell(stored))
        self.clean_up(cell)

    def check_for(self, cell: Cell) -> Check:
        """What may stand beside the stored cells, looked at before training."""
        beside = read_cells(self.folder)

        def check(fingerprints: Mapping[str, str]) -> None:
            for other in beside:
                check_alike(
                    other, cell.task, cell.seed, fingerprints, self.versions, cell.id, self.folder
                )

        return check

    def clean_up(self, cell: Cell) -> None:
        """Removes run folders: of trials that are not the best so far, of cells that are stored."""
        if cell.role == "trained" and not self.keep_runs:
            shutil.rmtree(self.workdir / cell.run_name, ignore_errors=True)
        if cell.role == "trial":
            rivals = {
                rival.trial: rival
                for rival in self.grid.trials()
                if rival.group == cell.group and self.is_stored(rival)
            }
            stored = [
                StoredCell.read(self.folder / f"{rival.id}.json") for rival in rivals.values()
            ]
            best = choose_trials(stored)[cell.group]
            for trial, rival in rivals.items():
                if trial != best:
                    shutil.rmtree(self.workdir / rival.run_name, ignore_errors=True)

    def sweep(self, choices: Mapping[Group, int]) -> None:
        """Removes what a process left that was killed between storing a cell and clearing up."""
        trained = self.grid.trained(choices)
        kept = {cell.run_name for cell in trained} if self.keep_runs else set()
        for cell in [*self.grid.trials(), *trained]:
            if cell.run_name not in kept:
                shutil.rmtree(self.workdir / cell.run_name, ignore_errors=True)
        # Locks, and files half written; whoever holds a cell's lock is its only writer.
        left = [*self.folder.glob(".*.lock"), *self.folder.glob(".*.json.*")]
        for name in {path.name.removesuffix(".lock").partition(".json")[0] for path in left}:
            with try_lock(self.folder / f"{name}.lock") as mine:
                for path in self.folder.glob(f"{name}.json.*") if mine else ():
                    path.unlink()


def describe_cell(cell: StoredCell) -> str:
    """One line for the log.

    >>> describe_cell(cell)  # doctest: +SKIP
    'code-bm25-0123: code/in_domain bm25 ndcg@10 0.3530 (2.1 s)'
    """
    result, metric = cell.result, cell.metrics[0]
    if result.failure:
        return f"{cell.id}: failed, {result.failure} ({cell.seconds:.1f} s)"
    parts = []
    if result.development:
        parts.append(
            f"development {result.development['metric']} {result.development['value']:.4f}"
        )
    for found in result.measured:
        shown = {k: v for k, v in found.means.items() if k == metric} or found.means
        values = " ".join(f"{name} {value:.4f}" for name, value in shown.items())
        parts.append(f"{found.domain} {'' if found.system == 'model' else found.system} {values}")
    return (
        f"{cell.id}: {'; '.join(' '.join(part.split()) for part in parts)} ({cell.seconds:.1f} s)"
    )
