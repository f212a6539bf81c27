"""Whole runs from a config: what ``launch/train.py`` calls, and the cell of a study."""

from magjax.study._fisher import measure_fisher
from magjax.study._restore import restore_step
from magjax.study._run import train_run
from magjax.study._task import Batches, Task
from magjax.study._text_data import TextData, load_text_data
from magjax.study._text_model import start_model
from magjax.study._text_task import text_task, train_retrieval
from magjax.study._workdir import check_workdir, claim_workdir, default_workdir

__all__ = [
    "Batches",
    "Task",
    "TextData",
    "check_workdir",
    "claim_workdir",
    "default_workdir",
    "load_text_data",
    "measure_fisher",
    "restore_step",
    "start_model",
    "text_task",
    "train_retrieval",
    "train_run",
]
