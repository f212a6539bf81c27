"""One run from a config: data, start model, training, evaluation, results."""

import dataclasses
import logging
import math
import os
from collections.abc import Mapping
from typing import Any

import jax

from magjax import hub
from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.config import check_keys, retrieval_config, to_json
from magjax.data import Benchmark, TextPreprocessor, TrainingBatches, batch_iterator
from magjax.evaluation import (
    RetrievalResult,
    check_depth,
    evaluate_bm25,
    evaluate_retrieval,
    format_results,
    write_results,
)
from magjax.mesh import data_mesh, replicate
from magjax.similarity import PRESETS, VARIANTS, SimilarityHead
from magjax.study._text_data import load_text_data
from magjax.study._text_model import start_model
from magjax.study._workdir import check_workdir, claim_workdir
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

__all__ = ["train_retrieval"]

_log = logging.getLogger("magjax")


def train_retrieval(
    config: Mapping[str, Any], workdir: str | os.PathLike[str], *, resume: bool = False
) -> FitResult:
    """Trains and evaluates a text retriever; everything lands in the run folder.

    The start model, BM25 and the best model are each tested in and out of domain. The best model
    is read back from ``model/`` first, so what is reported is what was saved.

    Args:
        config: as :func:`magjax.config.retrieval_config`, in JSON form.
        workdir: the run folder.
        resume: go on from its newest checkpoint.

    Returns:
        How training ended; after a signal the final evaluation is left out.

    Raises:
        InputError: settings or data that cannot be used.
        RunError: training diverged.

    >>> from magjax.config import retrieval_config, to_json
    >>> config = to_json(retrieval_config(variant="dnorm", seed=0))
    >>> train_retrieval(config, "runs/dnorm")  # doctest: +SKIP
    """
    check_keys(config, to_json(retrieval_config(variant="cosine", seed=0)))
    loss = LossSettings(**{k: v for k, v in config["loss"].items() if k != "negatives_per_query"})
    optimizer_settings = OptimizerSettings(**config["optimizer"])
    loop = LoopSettings(**config["loop"])
    variant = choose("variant", config["variant"], VARIANTS)
    mesh = data_mesh()
    _check_batch_size(config["batch_size"], mesh.size)

    choose("loop.metric", loop.metric, config["evaluation"]["metrics"])
    check_depth(config["evaluation"]["metrics"], config["evaluation"]["k"])
    folder = check_workdir(workdir, config, resume=resume)
    data = load_text_data(config["data"], seed=config["seed"])
    model = start_model(config, data.train)
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    accumulation = config["accumulation"]
    batches = TrainingBatches(
        data.train,
        preprocessor,
        batch_size=config["batch_size"],
        seed=config["seed"],
        negatives_per_query=config["loss"]["negatives_per_query"],
        accumulation=accumulation,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
    )
    first = batches.batch_at(0)
    head = _start_head(config, variant, model, first, loss)
    trainee = Trainee(model.encoder, head)
    _log.info(
        "%d pairs, %d steps an epoch; %s; temperature %.4g; %d devices. %s",
        len(data.train),
        len(batches),
        variant,
        float(head.temperature()),
        mesh.size,
        preprocessor.describe(),
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
    graph, state = initial_state(trainee, optimizer, seed=config["seed"])

    def model_of(current: Trainee) -> hub.Model:
        return dataclasses.replace(model, encoder=current.encoder, score=current.head.score())

    def evaluate_development(current: Trainee) -> dict[str, float]:
        return dict(
            _evaluate(config, model_of(current), preprocessor, data.development).evaluation.mean
        )

    if not resume:
        claim_workdir(folder, config)
    with batch_iterator(batches) as stream:
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
            evaluate=evaluate_development,
            save_model=lambda current: hub.save(model_of(current), folder / "model"),
            describe=lambda batch: [data.train.query_ids[i] for i in batch["row"].ravel()],
            settings=loop,
            workdir=folder,
        )
        outcome = fit.run(resume=resume)
    if outcome.stopped_by:
        return outcome
    best = hub.load(folder / "model")
    results = []
    for test in data.tests:
        if config["evaluation"]["bm25"]:
            results.append(evaluate_bm25(test, **_depth(config)))
        results.append(_evaluate(config, model_of(trainee), preprocessor, test, "untrained"))
        results.append(_evaluate(config, best, preprocessor, test))
    extra = {
        "data": data.fingerprints,
        "steps": outcome.step,
        "best_step": outcome.best_step,
        f"development_{loop.metric}": outcome.best_value,
    }
    write_results(folder, results, extra)
    print(format_results(results))
    return outcome


def _depth(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"k": config["evaluation"]["k"], "metrics": config["evaluation"]["metrics"]}


def _evaluate(
    config: Mapping[str, Any],
    model: hub.Model,
    preprocessor: TextPreprocessor,
    test: Benchmark,
    system: str = "model",
) -> RetrievalResult:
    _log.info("evaluating %s on %s", system, test.name)
    score = model.require_score()
    return evaluate_retrieval(
        model.encoder, preprocessor, test, score, system=system, **_depth(config)
    )


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
    calibrated = start_temperature(
        model.encoder, first, gamma_query=gamma_query, gamma_document=gamma_document
    )
    settings = config["temperature"]
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
