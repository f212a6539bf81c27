"""A given step of a run as a model."""

import dataclasses
from pathlib import Path

from magjax import hub
from magjax.files import read_json
from magjax.similarity import SimilarityHead
from magjax.training import (
    Checkpoints,
    OptimizerSettings,
    Trainee,
    initial_state,
    make_optimizer,
    merge_state,
)

__all__ = ["restore_step"]


def restore_step(run: Path, step: int, model: hub.Model) -> hub.Model:
    """The model of ``checkpoints/STEP`` of a run: ``hub.load(run, step=STEP, restore=restore_step)``.

    Args:
        run: the run folder.
        step: a step that is still there.
        model: the run's best model, whose architecture, tokenizer and texts are taken over.

    Raises:
        InputError: no such step, or a checkpoint that does not fit the run's config.

    >>> hub.load("runs/code", step=100, restore=restore_step)  # doctest: +SKIP
    """
    config = read_json(run / "config.json")
    head = SimilarityHead(
        config["variant"],
        temperature=1.0,
        learn_temperature=config["temperature"]["learn"],
        temperature_range=(1.0, 1.0),  # the values come from the checkpoint
        bias=0.0 if config["loss"]["name"] == "sigmoid" else None,
    )
    settings = OptimizerSettings(**config["optimizer"])
    optimizer = make_optimizer(settings, config["loop"]["steps"])
    graph, state = initial_state(
        Trainee(model.encoder, head), optimizer, seed=0, freeze=settings.freeze
    )
    store = Checkpoints(run / "checkpoints", read_only=True)
    restored, _ = store.restore(state, step)
    store.close()
    trainee = merge_state(graph, restored)
    return dataclasses.replace(model, encoder=trainee.encoder, score=trainee.head.score())
