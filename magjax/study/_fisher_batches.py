"""Independent batches of candidate sets for a Fisher measurement."""

from collections.abc import Mapping
from typing import Any

import jax

from magjax.checks import InputError, positive_integer
from magjax.data import TextPreprocessor, TrainingBatches
from magjax.study._text_data import TextData

__all__ = ["fisher_batches"]


def fisher_batches(
    settings: Mapping[str, Any], data: TextData, preprocessor: TextPreprocessor, seed: int
) -> list[dict[str, Any]]:
    """Independent batches of candidate sets, leaves [sets, size, ...]."""
    size = positive_integer("fisher.candidates", settings["candidates"])
    examples = positive_integer("fisher.examples", settings["examples"])
    count = positive_integer("fisher.batches", settings["batches"])
    few = positive_integer("fisher.parameter_examples", settings["parameter_examples"])
    if size < 2:
        raise InputError(
            "fisher.candidates=1 leaves a query nothing to choose from; take 2 or more."
        )
    for name, number in (("examples", examples), ("parameter_examples", few)):
        if number % size:
            near = max(number // size, 1) * size
            raise InputError(
                f"fisher.{name}={number} is not a multiple of fisher.candidates={size}; try {near}."
            )
    if few > examples:
        raise InputError(
            f"fisher.parameter_examples={few} is more than fisher.examples={examples}; lower it."
        )
    if positive_integer("fisher.parameter_batches", settings["parameter_batches"]) > count:
        raise InputError(
            f"fisher.parameter_batches={settings['parameter_batches']} is more than "
            f"fisher.batches={count}; lower it."
        )
    have = len(data.train)
    if have < size:
        raise InputError(
            f"{data.train.source} has {have} training pairs, fewer than one candidate set of "
            f"fisher.candidates={size}; lower fisher.candidates, or data.dev_queries, which are "
            "held out."
        )
    if have < examples:
        raise InputError(
            f"{data.train.source} has {have} training pairs, fewer than fisher.examples={examples}; "
            f"try --config.fisher.examples={have // size * size}."
        )
    stream = TrainingBatches(
        data.train, preprocessor, batch_size=size, seed=seed, accumulation=examples // size
    )
    if len(stream) < count:
        raise InputError(
            f"{data.train.source} fills {len(stream)} independent batches of {examples}, fewer than "
            f"fisher.batches={count}; lower either."
        )
    found = [stream.batch_at(number) for number in range(count)]
    # One set has no axis of sets in a batch of its own.
    if examples == size:
        found = [jax.tree.map(lambda leaf: leaf[None], batch) for batch in found]
    return found
