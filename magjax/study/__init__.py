"""Whole runs from a config, and studies: grids of runs with their table, verdicts and report."""

from magjax.study._cells import CellResult, StoredCell, read_cells
from magjax.study._claims import Claim
from magjax.study._compute import Stopped, compute_cell
from magjax.study._environment import cache_programs, describe_machine
from magjax.study._evaluations import EVALUATIONS
from magjax.study._fisher import measure_fisher
from magjax.study._grid import Cell, StudyGrid
from magjax.study._image_text_data import IMAGE_TEXT_SOURCES, load_image_text_data
from magjax.study._image_text_model import start_image_text_model
from magjax.study._image_text_task import image_text_task
from magjax.study._measured import Measured
from magjax.study._report import write_report
from magjax.study._rerun import rerun_cell
from magjax.study._restore import restore_step
from magjax.study._run import train_run
from magjax.study._runner import run_study
from magjax.study._state import StudyState, study_state
from magjax.study._tables import Comparison, TableRow, study_csv, study_rows
from magjax.study._task import Task
from magjax.study._tasks import TASKS, Kind, kind_of, train
from magjax.study._text_data import TextData, load_text_data
from magjax.study._text_model import start_model
from magjax.study._text_task import text_task
from magjax.study._values import Series, Unit, series_of, study_units
from magjax.study._verdicts import Verdict, verdicts
from magjax.study._workdir import check_workdir, claim_workdir, default_workdir, hold_workdir

__all__ = [
    "EVALUATIONS",
    "IMAGE_TEXT_SOURCES",
    "TASKS",
    "Cell",
    "CellResult",
    "Claim",
    "Comparison",
    "Kind",
    "Measured",
    "Series",
    "Stopped",
    "StoredCell",
    "StudyGrid",
    "StudyState",
    "TableRow",
    "Task",
    "TextData",
    "Unit",
    "Verdict",
    "cache_programs",
    "check_workdir",
    "claim_workdir",
    "compute_cell",
    "default_workdir",
    "describe_machine",
    "hold_workdir",
    "image_text_task",
    "kind_of",
    "load_image_text_data",
    "load_text_data",
    "measure_fisher",
    "read_cells",
    "rerun_cell",
    "restore_step",
    "run_study",
    "series_of",
    "start_image_text_model",
    "start_model",
    "study_csv",
    "study_rows",
    "study_state",
    "study_units",
    "text_task",
    "train",
    "train_run",
    "verdicts",
    "write_report",
]
