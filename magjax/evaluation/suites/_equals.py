"""What the suites of symmetric tasks share: the refusal, names of systems, intervals, notes."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from magjax import hub
from magjax.data import LabelledTexts, TextPairs
from magjax.evaluation._symmetric import EqualTexts, check_equals, encoder_asymmetries
from magjax.evaluation.suites._suite import SuiteSettings
from magjax.similarity import Score
from magjax.statistics import Interval

__all__ = ["ends_of", "notes_of", "records_of", "score_of_equals", "system_of", "values_of"]


ORDERS_NOTE = (
    "In score(a,b) a is the query and b the document; symmetrized is the mean of both orders."
)


def score_of_equals(
    suite: str, model: hub.Model, settings: SuiteSettings, note: str = ORDERS_NOTE
) -> tuple[Score, list[str]]:
    """The model's score, if the suite may compare equals by it, and what to say of its sides.

    Args:
        suite: its name, for the message.
        model: compares the texts.
        settings: of the suite.
        note: what the rows of a model with sides are.

    Raises:
        InputError: the model has no score, or tells queries from documents and
            ``allow_asymmetric`` is not set.
    """
    score = model.require_score()
    reasons = check_equals(
        f"suite {suite!r}",
        score,
        encoder_asymmetries(model),
        allow_asymmetric=settings.allow_asymmetric,
    )
    said = f"The model tells queries from documents: {' and '.join(reasons)}. {note}"
    return score, [said] if reasons else []


def system_of(order: str) -> str:
    """What a row calls an order of the pair, or a form of the embeddings.

    >>> system_of("score"), system_of("score(a,b)"), system_of("query")
    ('model', 'model score(a,b)', 'model query')
    """
    return "model" if order in ("score", "both") else f"model {order}"


def values_of(**figures: Interval | float) -> dict[str, float]:
    """The figures by name; those that do not exist, as a constant's correlation, are left out.

    >>> values_of(spearman=float("nan"), pearson=0.5)
    {'pearson': 0.5}
    """
    means = {
        name: found.mean if isinstance(found, Interval) else found
        for name, found in figures.items()
    }
    return {name: value for name, value in means.items() if not math.isnan(value)}


def ends_of(**figures: Interval) -> dict[str, tuple[float, float]]:
    """The ends of the intervals that are known.

    >>> from magjax.statistics import mean_interval
    >>> ends_of(v_measure=mean_interval([0.5]))
    {}
    """
    return {
        name: (found.low, found.high)
        for name, found in figures.items()
        if found.low is not None and found.high is not None
    }


def notes_of(data: TextPairs | LabelledTexts, texts: EqualTexts) -> list[str]:
    """What a reader must know of a set: what was left out, is empty or was cut."""
    notes = []
    if isinstance(data, TextPairs) and data.unjudged:
        notes.append(f"{data.name}: {data.unjudged} pairs without a gold score are left out.")
    if data.empty:
        kind = "pairs with an empty text" if isinstance(data, TextPairs) else "empty texts"
        notes.append(f"{data.name}: {data.empty} {kind}, kept as published.")
    if texts.truncated:
        notes.append(
            f"{data.name}: {texts.truncated:.1%} of the texts were cut to the length limit."
        )
    return notes


def records_of(scores: Mapping[str, np.ndarray], grades: np.ndarray) -> list[dict[str, Any]]:
    """One record a pair: its place in the set, its grade and its score in every order.

    >>> records_of({"score": np.array([0.25])}, np.array([5.0]))
    [{'pair': 0, 'grade': 5.0, 'score': 0.25}]
    """
    columns = {order: values.tolist() for order, values in scores.items()}
    return [
        {"pair": i, "grade": grade, **{order: column[i] for order, column in columns.items()}}
        for i, grade in enumerate(grades.tolist())
    ]
