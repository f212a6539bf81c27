"""Whole runs from a config: what ``launch/train.py`` calls, and the cell of a study."""

from magjax.study._fisher import measure_fisher
from magjax.study._restore import restore_step
from magjax.study._run import train_retrieval
from magjax.study._text_data import TextData, load_text_data
from magjax.study._text_model import start_model
from magjax.study._workdir import check_workdir, claim_workdir, default_workdir

__all__ = [
    "TextData",
    "check_workdir",
    "claim_workdir",
    "default_workdir",
    "load_text_data",
    "measure_fisher",
    "restore_step",
    "start_model",
    "train_retrieval",
]
