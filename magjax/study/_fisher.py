"""A Fisher measurement from a config: data, start model, spaces, advice, files."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import jax
import numpy as np

from magjax import hub
from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.config import check_keys, fisher_config, to_json
from magjax.data import TextPreprocessor
from magjax.evaluation import encode_tokens
from magjax.fisher import (
    TASKS,
    CandidateSets,
    Embedded,
    FisherModel,
    FisherReport,
    Measurement,
    ParameterFisher,
    Selection,
    advise,
    dense_spectrum,
    dual_embedding,
    expand_spaces,
    find_measure,
    known_directions,
    measure,
    measure_embeddings,
    measure_norms,
    measure_parameters,
    select,
    variant_name,
)
from magjax.similarity import PRESETS, Score, calibrate_temperature
from magjax.statistics import mean_interval
from magjax.study._fisher_batches import fisher_batches
from magjax.study._fisher_files import write_fisher
from magjax.study._text_data import TextData, load_text_data
from magjax.study._text_model import start_model
from magjax.study._workdir import check_workdir, claim_workdir
from magjax.typing import Side

__all__ = ["measure_fisher"]

_log = logging.getLogger("magjax")


def measure_fisher(config: Mapping[str, Any], workdir: str | os.PathLike[str]) -> FisherReport:
    """Measures the Fisher matrices of a start model on a text task, and advises.

    Batches are independent: drawn without overlap from the training pairs in a seeded order, in
    the candidate sets that training would see. Each variant gets the temperature that
    :func:`magjax.similarity.calibrate_temperature` finds on the first batch.

    Args:
        config: as :func:`magjax.config.fisher_config`, in JSON form.
        workdir: receives ``config.json``, ``fisher.json``, ``fisher_spectra.png`` and
            ``fisher_measures.png``.

    Raises:
        InputError: settings or data that cannot be used.

    >>> from magjax.config import fisher_config, to_json
    >>> measure_fisher(to_json(fisher_config(init="random", seed=0)), "runs/f")  # doctest: +SKIP
    """
    check_keys(config, to_json(fisher_config(init="random", seed=0)))
    settings = config["fisher"]
    scores = _powers(settings["variants"])
    _check_settings(settings, scores)
    model = FisherModel(
        kind=settings["kind"], direction=settings["direction"], samples=settings["samples"]
    )
    if not settings["spaces"]:
        raise InputError("fisher.spaces is empty; name query, document or a parameter space.")
    folder = check_workdir(workdir, config, resume=False)
    data = load_text_data(config["data"], seed=config["seed"])
    start = start_model({**config, "model": {**config["model"], "dtype": "float32"}}, data.train)
    embed, parameters = dual_embedding(start.encoder)
    # A space named twice would count its batches twice, and halve the intervals.
    sides = [space for space in dict.fromkeys(settings["spaces"]) if space in get_args(Side)]
    wanted = [space for space in settings["spaces"] if space not in sides]
    # Every pattern is checked before the first text is embedded.
    selections = [_select(parameters, space) for space in expand_spaces(wanted, parameters)]
    decides = settings["measure"].rpartition("|")[0]
    if decides not in [*sides, *(selection.space for selection in selections)]:
        raise InputError(
            f"fisher.measure={settings['measure']!r} looks at space {decides!r}, which is not in "
            f"fisher.spaces={', '.join(settings['spaces'])}; change either."
        )

    preprocessor = TextPreprocessor(start.tokenizer, start.text)
    batches = fisher_batches(settings, data, preprocessor, config["seed"])
    claim_workdir(folder, config)
    measurements: list[Measurement] = []
    known = {side: known_directions(start.encoder, side) for side in get_args(Side)}
    common = {"dampings": settings["dampings"], "orders": settings["orders"]}
    embedded = _embed(start, preprocessor, batches)
    chosen = _calibrate(scores, embedded[0], settings["reference_temperature"])
    for number, (found, batch) in enumerate(zip(embedded, batches, strict=True)):
        measurements += measure_embeddings(
            found,
            CandidateSets.from_batch(batch),
            chosen,
            sides,
            model=model,
            batch=number,
            seed=config["seed"],
            known=known,
            **common,
        )
    for selection in selections:
        for number in range(settings["parameter_batches"]):
            sets = CandidateSets.from_batch(_first_sets(batches[number], settings))
            _log.info(
                "parameters %r: %d numbers, batch %d of %d",
                selection.space,
                selection.dimension,
                number + 1,
                settings["parameter_batches"],
            )
            fisher = ParameterFisher(
                embed,
                selection,
                sets,
                model,
                micro_batch=settings["micro_batch"],
                memory_gib=settings["memory_gib"],
            )
            measurements += measure_parameters(
                fisher,
                chosen,
                batch=number,
                seed=config["seed"],
                steps=settings["steps"],
                probes=settings["probes"],
                **common,
            )
    norms = measure_norms(embedded)
    advice = advise(
        measurements,
        norms,
        task=settings["task"],
        measure=settings["measure"],
        confidence=settings["confidence"],
    )
    about = {
        "model": config["model"]["init"],
        "data": data.fingerprints,
        "task": settings["task"],
        "direction": settings["direction"],
        "settings": dict(settings),
    }
    notes = [preprocessor.describe(), _describe_sides(data, settings["task"])]
    if config["model"]["dtype"] != "float32":
        notes.append(f"computed in float32, not in model.dtype={config['model']['dtype']}")
    report = FisherReport(measurements, norms, advice, about, tuple(filter(None, notes)))
    write_fisher(folder, report)
    return report


def _powers(variants: Sequence[str]) -> list[Score]:
    if not variants:
        raise InputError(f"fisher.variants is empty; name some of {', '.join(PRESETS)}.")
    scores = [Score.parse(variant) for variant in variants]
    names = [variant_name(score) for score in scores]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"fisher.variants names {name!r} twice; name each once.")
    return scores


def _check_settings(settings: Mapping[str, Any], scores: Sequence[Score]) -> None:
    """Refuses at once what would stop the run after its batches are measured."""
    task = choose("fisher.task", settings["task"], TASKS)
    if task == "symmetric" and not any(score.is_symmetric for score in scores):
        raise InputError(
            "fisher.task is symmetric, but every one of fisher.variants is one-sided; add cosine "
            "or dot."
        )
    name = settings["measure"].rpartition("|")[2]
    find_measure(name)
    common = {"dampings": settings["dampings"], "orders": settings["orders"]}
    if name not in measure(dense_spectrum(np.eye(1)), **common):
        raise InputError(
            f"fisher.measure={settings['measure']!r} is not computed; add its number to "
            "fisher.dampings or fisher.orders."
        )
    mean_interval([0.0], confidence=settings["confidence"])
    positive_number("fisher.reference_temperature", settings["reference_temperature"])
    for key in ("steps", "probes", "micro_batch"):
        positive_integer(f"fisher.{key}", settings[key])
    memory = settings["memory_gib"]
    if isinstance(memory, bool) or not isinstance(memory, int | float) or not memory >= 0.0:
        raise InputError(f"fisher.memory_gib={memory!r} must be a number of at least 0.")


def _select(parameters: Any, space: str) -> Selection:
    try:
        return select(parameters, space)
    except InputError as error:
        raise InputError(f"fisher.spaces: {error} Of embeddings: query, document.") from error


def _first_sets(batch: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """The first sets of a batch: products over parameters cost more than embeddings."""
    sets = settings["parameter_examples"] // settings["candidates"]
    return jax.tree.map(lambda leaf: leaf[:sets], dict(batch))


def _embed(
    model: hub.Model, preprocessor: TextPreprocessor, batches: Sequence[Mapping[str, Any]]
) -> list[Embedded]:
    """Both sides of all batches, sorted by length together: padding would be most of the work."""
    sides = {}
    for side in get_args(Side):
        tokens = [
            row[: int(real.sum())]
            for batch in batches
            for rows, masks in zip(
                batch[side]["input_ids"], batch[side]["attention_mask"], strict=True
            )
            for row, real in zip(rows, masks, strict=True)
        ]
        _log.info("embedding %d texts of the %s side", len(tokens), side)
        found = encode_tokens(model.encoder, preprocessor, [tokens], side, count=len(tokens))
        sides[side] = np.split(found, len(batches))
    return [Embedded(*pair) for pair in zip(sides["query"], sides["document"], strict=True)]


def _calibrate(scores: Sequence[Score], embedded: Embedded, reference: float) -> list[Score]:
    return [
        Score.power(
            *score.gammas,
            calibrate_temperature(
                embedded.queries,
                embedded.documents,
                gamma_query=score.gamma_query,
                gamma_document=score.gamma_document,
                reference_temperature=reference,
            ),
        )
        for score in scores
    ]


def _describe_sides(data: TextData, task: str) -> str:
    """What the texts say of the task's symmetry, which only its user can state."""
    queries, documents = set(data.train.queries), set(data.train.documents)
    shared = len(queries & documents) / max(len(queries), 1)
    words = [
        float(np.median([len(text.split()) for text in texts]))
        for texts in (data.train.queries, data.train.documents)
    ]
    text = (
        f"task: {task} ({TASKS[task]}), as stated; median words {words[0]:g} of a query and "
        f"{words[1]:g} of a document, {shared:.1%} of the queries are also documents"
    )
    alike = shared > 0.1 or 2 / 3 < words[0] / max(words[1], 1.0) < 3 / 2
    if task == "asymmetric" and alike:
        return f"{text}. If both sides are equals, set fisher.task=symmetric"
    return text
