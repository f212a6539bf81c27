"""One cell of a study computed again, alone: are its numbers the stored ones?"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from magjax.checks import InputError, RunError, choose
from magjax.study._cells import StoredCell, check_alike, read_cells
from magjax.study._compute import Compute, Stopped, compute_cell
from magjax.study._environment import library_versions
from magjax.study._grid import StudyGrid
from magjax.study._state import cells_folder

__all__ = ["rerun_cell"]


def rerun_cell(
    grid: StudyGrid,
    out: str | os.PathLike[str],
    name: str,
    *,
    workdir: str | os.PathLike[str],
    compute: Compute = compute_cell,
) -> list[str]:
    """Computes one stored cell again from nothing and compares every number.

    Args:
        grid: the study.
        out: folder of all studies.
        name: the cell's id.
        workdir: holds a run folder of its own for this, removed afterwards.
        compute: computes one cell.

    Returns:
        What differs, one line each; empty where every number is the same to the bit.

    Raises:
        InputError: no stored cell of that name, or other data or versions than then.

    >>> rerun_cell(grid, "docs/studies", cell_id, workdir="runs/study_toy")  # doctest: +SKIP
    []
    """
    folder = cells_folder(grid, out)
    stored = {cell.id: cell for cell in read_cells(folder)} if folder.is_dir() else {}
    if not stored:
        raise InputError(f"{folder} holds no finished cell; run the study without --only first.")
    before = stored[choose("cell", name, sorted(stored))]
    cell, run = before.cell(), Path(workdir) / f"again-{name}"
    shutil.rmtree(run, ignore_errors=True)
    versions = library_versions()

    def check(fingerprints: Mapping[str, str]) -> None:
        check_alike(before, cell.task, cell.seed, fingerprints, versions, "(rerun)", folder)

    try:
        result = compute(cell, run, check)
    except Stopped as stop:
        raise RunError(f"{stop}: nothing was compared; run it again.") from stop
    finally:
        shutil.rmtree(run, ignore_errors=True)
    after = StoredCell.of(cell, result, versions=versions, machine="", seconds=0.0)
    return _different(before.numbers, after.numbers)


def _different(before: Any, after: Any, name: str = "") -> list[str]:
    """The leaves that differ, each as a line."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        pairs = [(f"{name}.{key}", before[key], after[key]) for key in before]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{name}[{i}]", *pair) for i, pair in enumerate(zip(before, after, strict=True))]
    else:
        return [] if before == after else [f"{name.lstrip('.')}: {before!r} then, {after!r} now"]
    return [line for entry, old, new in pairs for line in _different(old, new, entry)]
