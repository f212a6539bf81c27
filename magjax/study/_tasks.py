"""The one way from a config to a trained model, whatever the data: a table of tasks."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from magjax.checks import InputError, choose
from magjax.config import check_keys, image_text_config, retrieval_config, to_json
from magjax.study._image_text_task import image_text_task
from magjax.study._run import train_run
from magjax.study._task import Task
from magjax.study._text_task import text_task
from magjax.training import FitResult

__all__ = ["TASKS", "Kind", "kind_of", "train"]


class Kind(NamedTuple):
    """What is trained.

    Attributes:
        make_task: data and start model of a config, in JSON form.
        default: a config of this kind; other configs have the same keys.

    >>> sorted(TASKS)
    ['image_text', 'text']
    """

    make_task: Callable[[Mapping[str, Any]], Task]
    default: Callable[[], ConfigDict]


TASKS: dict[str, Kind] = {
    "text": Kind(text_task, lambda: retrieval_config(variant="cosine", seed=0)),
    "image_text": Kind(image_text_task, lambda: image_text_config(variant="cosine", seed=0)),
}
"""By what a config's ``task`` says."""


def kind_of(config: Mapping[str, Any]) -> Kind:
    """What a config trains.

    Raises:
        InputError: the config does not say, or says what is unknown.

    >>> kind_of({"task": "txt"})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown task 'txt'; known: text, image_text. Did you mean 'text'?
    """
    if "task" not in config:
        raise InputError("the config lacks task; start from a config that magjax.config builds.")
    return TASKS[choose("task", config["task"], TASKS)]


def train(
    config: Mapping[str, Any], workdir: str | os.PathLike[str], *, resume: bool = False
) -> FitResult:
    """Trains and evaluates what a config describes; everything lands in the run folder.

    The start model and the best model are each tested in and out of domain; texts also by BM25.

    Args:
        config: as :func:`magjax.config.retrieval_config` or
            :func:`magjax.config.image_text_config`, in JSON form.
        workdir: the run folder.
        resume: go on from its newest checkpoint.

    Returns:
        How training ended; after a signal the final evaluation is left out.

    Raises:
        InputError: settings or data that cannot be used.
        RunError: training diverged.

    >>> config = to_json(image_text_config(variant="qnorm", seed=0))
    >>> train(config, "runs/clip")  # doctest: +SKIP
    """
    kind = kind_of(config)
    check_keys(config, to_json(kind.default()))
    return train_run(config, workdir, kind.make_task, resume=resume)
