"""One run from a config: data, start model, training, evaluation, results."""

import dataclasses
import logging
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from magjax import hub
from magjax.analysis import draw_training_curves, read_metrics
from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.data import batch_iterator
from magjax.evaluation import check_depth, format_results, write_results
from magjax.mesh import data_mesh, replicate
from magjax.similarity import PRESETS, VARIANTS, SimilarityHead
from magjax.study._task import Task
from magjax.study._workdir import check_workdir, claim_workdir, hold_workdir
from magjax.training import (
    Fit,
    FitResult,
    LoopSettings,
    LossSettings,
    OptimizerSettings,
    Trainee,
    diagnose,
    initial_state,
    make_optimizer,
    make_schedule,
    make_train_step,
    place_batch,
    start_temperature,
)

__all__ = ["train_run"]

_log = logging.getLogger("magjax")


def train_run(
    config: Mapping[str, Any],
    workdir: str | os.PathLike[str],
    make_task: Callable[[Mapping[str, Any]], Task],
    *,
    resume: bool = False,
    test: bool = True,
) -> FitResult:
    """Trains and evaluates what ``make_task`` makes of a config; all lands in the run folder.

    The start model and the best model are each tested in and out of domain. The best model is
    read back from ``model/`` first, so what is reported is what was saved.

    Args:
        config: the whole config, in JSON form, its keys checked by the caller.
        workdir: the run folder.
        make_task: loads data and start model; called after cheap mistakes were looked for.
        resume: go on from the folder's newest checkpoint.
        test: whether the final evaluation is wanted; a study measures models by itself.

    Returns:
        How training ended; after a signal the final evaluation is left out.

    Raises:
        InputError: settings or data that cannot be used.
        RunError: training diverged.

    >>> from magjax.study import text_task
    >>> train_run(config, "runs/dnorm", text_task)  # doctest: +SKIP
    """
    with hold_workdir(check_workdir(workdir, config, resume=resume)):
        return _train_run(config, workdir, make_task, resume=resume, test=test)


def _train_run(
    config: Mapping[str, Any],
    workdir: str | os.PathLike[str],
    make_task: Callable[[Mapping[str, Any]], Task],
    *,
    resume: bool,
    test: bool,
) -> FitResult:
    loss = LossSettings(**{k: v for k, v in config["loss"].items() if k != "negatives_per_query"})
    optimizer_settings = OptimizerSettings(**config["optimizer"])
    loop = LoopSettings(**config["loop"])
    variant = choose("variant", config["variant"], VARIANTS)
    mesh = data_mesh()
    _check_batch_size(config["batch_size"], mesh.size)

    choose("loop.metric", loop.metric, config["evaluation"]["metrics"])
    check_depth(config["evaluation"]["metrics"], config["evaluation"]["k"])
    # Once more, now that no other process can begin a run there.
    folder = check_workdir(workdir, config, resume=resume)
    task = make_task(config)
    accumulation = config["accumulation"]
    first = task.batches.batch_at(0)
    head = _start_head(config, variant, task.model, first, loss)
    trainee = Trainee(task.model.encoder, head)
    _log.info(
        "%s; %d steps an epoch; %s; temperature %.4g; %d devices.",
        task.describe(),
        len(task.batches),
        variant,
        float(head.temperature()),
        mesh.size,
    )
    if accumulation > 1:
        _log.warning(
            "accumulation=%d adds no negatives: each of %d micro-batches of %d is contrasted only "
            "with itself.",
            accumulation,
            accumulation,
            config["batch_size"],
        )

    optimizer = make_optimizer(optimizer_settings, loop.steps)
    graph, state = initial_state(
        trainee, optimizer, seed=config["seed"], freeze=optimizer_settings.freeze
    )

    def model_of(current: Trainee) -> hub.Model:
        return dataclasses.replace(task.model, encoder=current.encoder, score=current.head.score())

    if not resume:
        claim_workdir(folder, config)
    with batch_iterator(task.batches) as stream:
        fit = Fit(
            graph=graph,
            state=replicate(state, mesh),
            step=make_train_step(
                graph,
                optimizer,
                loss,
                learning_rate=make_schedule(optimizer_settings, loop.steps),
                accumulation=accumulation,
            ),
            place=lambda batch: place_batch(batch, mesh, accumulation=accumulation),
            stream=stream,
            evaluate=lambda current: dict(task.develop(model_of(current))),
            save_model=lambda current: hub.save(model_of(current), folder / "model"),
            describe=task.names,
            settings=loop,
            workdir=folder,
        )
        outcome = fit.run(resume=resume)
    if outcome.stopped_by or not test:
        return outcome
    best = hub.load(folder / "model")
    results = [
        *task.lexical(),
        *task.measure(model_of(trainee), {"untrained": head.score()}),
        *task.measure(best, {"model": best.require_score()}),
    ]
    domains = list(dict.fromkeys(result.domain for result in results))
    results.sort(key=lambda result: domains.index(result.domain))
    extra = {
        "data": dict(task.fingerprints),
        "steps": outcome.step,
        "best_step": outcome.best_step,
        f"development_{loop.metric}": outcome.best_value,
    }
    write_results(folder, results, extra)
    print(format_results(results))
    draw_training_curves(
        folder / "results" / "training_curves.png",
        read_metrics(folder / "metrics.jsonl"),
        metric=loop.metric,
        best_step=outcome.best_step,
        title=f"{folder.name}: {variant}, seed {config['seed']}",
    )
    if task.draw is not None:
        task.draw(results, folder)
    return outcome


def _start_head(
    config: Mapping[str, Any],
    variant: str,
    model: hub.Model,
    first: Mapping[str, Any],
    loss: LossSettings,
) -> SimilarityHead:
    """The head at its first temperature; warns when the first batch's logits cannot teach."""
    initial = config["gamma_initial"]
    gamma_query, gamma_document = PRESETS.get(variant, (initial, initial))
    settings = config["temperature"]
    calibrated = start_temperature(
        model.encoder,
        first,
        gamma_query=gamma_query,
        gamma_document=gamma_document,
        reference_temperature=positive_number("temperature.reference", settings["reference"]),
    )
    temperature = settings["initial"] or calibrated
    head = SimilarityHead(
        variant,
        temperature=positive_number("temperature.initial", temperature),
        learn_temperature=settings["learn"],
        temperature_range=(
            temperature * positive_number("temperature.lowest_ratio", settings["lowest_ratio"]),
            temperature * positive_number("temperature.highest_ratio", settings["highest_ratio"]),
        ),
        gamma_init=initial,
        # Almost all pairs are negatives: a bias at their log odds starts the sigmoid loss level.
        bias=-math.log(config["batch_size"] - 1) if loss.name == "sigmoid" else None,
    )
    warning = diagnose(Trainee(model.encoder, head), first, loss, suggestion=calibrated)
    if warning:
        _log.warning("%s", warning)
    return head


def _check_batch_size(batch_size: int, devices: int) -> None:
    if positive_integer("batch_size", batch_size) % devices:
        near = max(batch_size // devices, 1) * devices
        raise InputError(
            f"batch_size={batch_size} is not a multiple of device_count={devices}; try "
            f"--config.batch_size={near}."
        )
