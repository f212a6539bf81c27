"""What is there of a study: stored cells, chosen trials, and what is missing."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from magjax.study._cells import StoredCell, read_cells
from magjax.study._grid import StudyGrid
from magjax.training import FitResult

__all__ = ["Group", "StudyState", "cells_folder", "choose_trials", "study_state"]

Group = tuple[str, str, str]
"""Task, start and variant."""


@dataclasses.dataclass(frozen=True)
class StudyState:
    """What is there of a study.

    Attributes:
        cells: the stored cells of the grid, in its order.
        missing: names of the cells that are not there yet, without their hash where trials that
            choose their settings are still to come.
        choices: per task, start and variant, the chosen trial.
        others: how many stored cells are of other settings and left out.
        stopped: how training ended where a signal stopped the study.

    >>> StudyState([], ["code-bm25-0123"], {}, 0).complete
    False
    """

    cells: Sequence[StoredCell]
    missing: Sequence[str]
    choices: Mapping[Group, int]
    others: int
    stopped: FitResult | None = None

    @property
    def complete(self) -> bool:
        """Whether every cell is there."""
        return not self.missing


def study_state(grid: StudyGrid, out: str | os.PathLike[str]) -> StudyState:
    """Reads what is stored of a study; computes nothing.

    Args:
        grid: the study.
        out: folder of all studies; this one's cells are in ``NAME/cells``.

    Raises:
        InputError: damaged files, or cells of different data or versions.

    >>> from magjax.config import retrieval_config, study_config, to_json
    >>> config = study_config(retrieval_config(variant="cosine", seed=0), name="toy")
    >>> state = study_state(StudyGrid.of(to_json(config)), "/nowhere")
    >>> len(state.cells), len(state.missing)
    (0, 17)
    """
    folder = cells_folder(grid, out)
    stored = {cell.id: cell for cell in read_cells(folder)} if folder.is_dir() else {}
    trials = grid.trials()
    open_groups = {cell.group for cell in trials if cell.id not in stored}
    found = [stored[c.id] for c in trials if c.id in stored and c.group not in open_groups]
    choices = choose_trials(found)
    trained = grid.trained(choices)
    wanted = [*grid.references(), *trials, *(c for c in trained if c.group not in open_groups)]
    missing = [cell.id for cell in wanted if cell.id not in stored]
    missing += [cell.id.rpartition("-")[0] for cell in trained if cell.group in open_groups]
    known = {cell.id for cell in wanted}
    others = [cell for name, cell in stored.items() if name not in known]
    return StudyState(
        cells=[stored[cell.id] for cell in wanted if cell.id in stored],
        missing=missing,
        choices=choices,
        # Where trials are still to come, a trained cell may turn out to be wanted.
        others=sum(c.role != "trained" or c.cell().group not in open_groups for c in others),
    )


def cells_folder(grid: StudyGrid, out: str | os.PathLike[str]) -> Path:
    """Where the cells of a study are stored: ``OUT/NAME/cells``.

    >>> cells_folder(grid, "docs/studies")  # doctest: +SKIP
    PosixPath('docs/studies/toy/cells')
    """
    return Path(out) / grid.config["name"] / "cells"


def choose_trials(trials: Iterable[StoredCell]) -> dict[Group, int]:
    """The trial with the best development value; the first of equals, the first if all failed.

    >>> choose_trials([])
    {}
    """
    best: dict[Group, tuple[float, int]] = {}
    for cell in trials:
        group = cell.cell().group
        value = -float("inf") if cell.result.failure else cell.result.development["value"]
        assert cell.trial is not None
        if group not in best or value > best[group][0]:
            best[group] = (value, cell.trial)
    return {group: trial for group, (_, trial) in best.items()}
