"""Training: optimizer, state, the jitted step, checkpoints, metrics and the loop.

Nothing here knows of files of data or of benchmarks: batches come from a stream and evaluation
is a function that the caller passes.
"""

from magjax.training._checkpoint import Checkpoints, leaf_names
from magjax.training._diagnosis import diagnose, start_temperature
from magjax.training._freeze import freeze_parameters
from magjax.training._loop import BatchStream, Fit, FitResult
from magjax.training._loop_settings import LoopSettings
from magjax.training._loss import (
    Embeddings,
    LossSettings,
    batch_loss,
    embed_batch,
    embedding_loss,
)
from magjax.training._optimizer import (
    SCHEDULES,
    OptimizerSettings,
    decay_mask,
    make_optimizer,
    make_schedule,
)
from magjax.training._report import MetricsWriter, Terminal, window_means
from magjax.training._signals import StopRequest
from magjax.training._state import (
    Trainee,
    TrainState,
    initial_state,
    merge_state,
    tiny_trainee,
)
from magjax.training._step import make_train_step, place_batch

__all__ = [
    "SCHEDULES",
    "BatchStream",
    "Checkpoints",
    "Embeddings",
    "Fit",
    "FitResult",
    "LoopSettings",
    "LossSettings",
    "MetricsWriter",
    "OptimizerSettings",
    "StopRequest",
    "Terminal",
    "TrainState",
    "Trainee",
    "batch_loss",
    "decay_mask",
    "diagnose",
    "embed_batch",
    "embedding_loss",
    "freeze_parameters",
    "initial_state",
    "leaf_names",
    "make_optimizer",
    "make_schedule",
    "make_train_step",
    "merge_state",
    "place_batch",
    "start_temperature",
    "tiny_trainee",
    "window_means",
]
