"""A gradient analysis of a model on a data set: what was measured, beside its closed form."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from magjax.analysis._gradients import GradientSweep
from magjax.analysis._gradients_closed_form import sweep_deviation
from magjax.analysis._gradients_sample import DIFFICULTIES, RULES, GradientSettings
from magjax.checks import InputError
from magjax.files import json_safe
from magjax.fisher import variant_name
from magjax.similarity import Score, calibrate_temperature
from magjax.typing import Array, Float

__all__ = [
    "FIELDS",
    "GradientReport",
    "ParameterGradients",
    "ScoreGradients",
    "comparable_scores",
    "nearest_scale",
]

FIELDS: dict[str, str] = {
    "loss": "loss",
    "query": "|∂L/∂q|",
    "log_length": "∂L/∂log|q|",
    "radial": "radial part of ∂L/∂q",
    "tangential": "tangential part of ∂L/∂q",
    "direction": "|q| times the tangential part",
    "documents": "|∂L/∂D|",
}
"""What reports summarize of a :class:`GradientSweep`, and what they call it."""


@dataclasses.dataclass(frozen=True, eq=False)
class ParameterGradients:
    """Lengths of parameter gradients in a batch of its own.

    Attributes:
        scales: ``[scales]``.
        norms: float64 ``[scales, queries]``.
        difficulty: int64 ``[queries]``, each query's class in the whole analysis.
        space: which parameters.
        dimension: how many numbers.

    >>> [field.name for field in dataclasses.fields(ParameterGradients)]
    ['scales', 'norms', 'difficulty', 'space', 'dimension']
    """

    scales: np.ndarray
    norms: np.ndarray
    difficulty: np.ndarray
    space: str
    dimension: int


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreGradients:
    """The gradients under one score.

    Attributes:
        score: powers and temperature.
        temperature_source: where the temperature comes from.
        measured: by ``jax.grad``.
        expected: the closed form.
        difficulty: int64 ``[queries]``, number in :data:`DIFFICULTIES`.
        parameters: of some of the queries; None where they were left out.

    >>> from magjax.analysis import closed_form_sweep, query_length_sweep
    >>> q, d = np.random.default_rng(0).normal(size=(2, 6, 4))
    >>> problem = dict(gammas=(0.0, 1.0), temperature=1.0, scales=[0.5, 1.0, 2.0])
    >>> arguments = (q, d, np.arange(6))
    >>> found = ScoreGradients(Score.of("dnorm", 1.0), "given", query_length_sweep(*arguments, **problem),
    ...     closed_form_sweep(*arguments, **problem), np.array([0, 0, 1, 1, 2, 2]), None)
    >>> found.name, max(found.deviations().values()) < 1e-10, found.quartiles("loss").shape
    ('dnorm', True, (3, 3, 3))
    """

    score: Score
    temperature_source: str
    measured: GradientSweep
    expected: GradientSweep
    difficulty: np.ndarray
    parameters: ParameterGradients | None

    @property
    def name(self) -> str:
        """The score's name in tables and pictures."""
        return variant_name(self.score)

    def deviations(self) -> dict[str, float]:
        """Largest relative difference of measurement and closed form, by field."""
        return sweep_deviation(self.measured, self.expected)

    def quartiles(self, field: str, *, expected: bool = False) -> np.ndarray:
        """First quartile, median and third of a field in each class: ``[classes, 3, scales]``.

        Args:
            field: a name in :data:`FIELDS`, or ``parameters``.
            expected: of the closed form instead of the measurement.
        """
        if field == "parameters":
            if self.parameters is None:
                raise InputError("the parameters' gradients were left out.")
            return _quartiles(self.parameters.norms, self.parameters.difficulty)
        return _quartiles(
            getattr(self.expected if expected else self.measured, field), self.difficulty
        )

    def steeper(self, field: str, factor: float | int = 4) -> dict[str, float]:
        """Share of each class whose ``field`` is larger at about ``factor`` times the length.

        A larger gradient at a larger length is no law: where the positive has won already, the
        softmax saturates.
        """
        scales = self.measured.scales
        one, far = nearest_scale(scales, 1.0), nearest_scale(scales, factor)
        values = getattr(self.measured, field)
        # Equal up to rounding (as at power 1) is no larger.
        larger = values[far] > values[one] * (1.0 + 1e-9)
        return {
            name: float(larger[self.difficulty == number].mean())
            for number, name in enumerate(DIFFICULTIES)
        }

    def to_json(self) -> dict[str, Any]:
        """Score, checks and quartiles by class, as JSON values."""
        fields = [*FIELDS, *(["parameters"] if self.parameters is not None else [])]
        content: dict[str, Any] = {
            "score": self.score.to_json(),
            "temperature_source": self.temperature_source,
            "largest_deviation_from_closed_form": self.deviations(),
            "euler_residuals": self.measured.euler_residuals(),
            "steeper_at_4": {name: self.steeper(name) for name in ("query", "direction")},
            "quartiles": {
                field: dict(zip(DIFFICULTIES, json_safe(self.quartiles(field)), strict=True))
                for field in fields
            },
        }
        if self.parameters is not None:
            content["parameters"] = {
                "space": self.parameters.space,
                "numbers": self.parameters.dimension,
                "scales": self.parameters.scales.tolist(),
                "queries": len(self.parameters.difficulty),
            }
        return content


@dataclasses.dataclass(frozen=True, eq=False)
class GradientReport:
    """What the length of queries does to the gradients of one model on one data set.

    Attributes:
        domain: the data set's name.
        fingerprint: its content.
        settings: what was drawn.
        query_ids: of the queries, in the order of every field's last axis.
        candidates: documents that every query's loss runs over.
        scores: one entry a score.
        notes: what a reader must know.

    >>> [field.name for field in dataclasses.fields(GradientReport)][:3]
    ['domain', 'fingerprint', 'settings']
    """

    domain: str
    fingerprint: str
    settings: GradientSettings
    query_ids: Sequence[str]
    candidates: int
    scores: tuple[ScoreGradients, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything but the single queries, as JSON values."""
        return {
            "domain": self.domain,
            "fingerprint": self.fingerprint,
            "settings": dataclasses.asdict(self.settings),
            "queries": len(self.query_ids),
            "candidates": self.candidates,
            "difficulty": RULES[self.settings.difficulty],
            "quartiles": "by class: first quartile, median, third quartile; each over the scales",
            "scales": self.scores[0].measured.scales.tolist(),
            "scores": {entry.name: entry.to_json() for entry in self.scores},
            "notes": list(self.notes),
        }


def comparable_scores(
    named: Sequence[Score],
    own: Score | None,
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
) -> list[tuple[Score, str]]:
    """Each score with a temperature under which logits deviate alike, and where it comes from.

    The model's own score keeps its temperature, and the others are calibrated to the deviation of
    its logits (:func:`magjax.similarity.calibrate_temperature`). Without a temperature of its own
    the measure is cosine at 0.05. A score that comes with a temperature keeps it.

    Args:
        named: the scores.
        own: what the model was trained under, or None.
        queries: raw embeddings.
        documents: raw embeddings of the candidates.

    Raises:
        InputError: a score named twice, or scores that do not vary.

    >>> made = comparable_scores([Score.of("dot")], Score.of("cosine", 0.1), 2 * np.eye(2), np.eye(2))
    >>> round(made[0][0].temperature, 6)
    0.2
    """
    names = [variant_name(score) for score in named]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the score {name!r} is named twice; name each once.")
    reference, told = 0.05, "calibrated to the deviation of cosine's logits at 0.05"
    if own is not None and own.temperature is not None:
        unit = calibrate_temperature(
            queries,
            documents,
            gamma_query=own.gamma_query,
            gamma_document=own.gamma_document,
            reference_temperature=1.0,
        )
        reference = own.temperature / unit
        told = f"calibrated to the deviation of the trained logits ({variant_name(own)})"
    made = []
    for score in named:
        if score.temperature is not None:
            made.append((score, "given"))
        elif own is not None and own.temperature is not None and own.agrees_with(score):
            made.append((own, "the model's"))
        else:
            temperature = calibrate_temperature(
                queries,
                documents,
                gamma_query=score.gamma_query,
                gamma_document=score.gamma_document,
                reference_temperature=reference,
            )
            made.append((dataclasses.replace(score, temperature=temperature), told))
    return made


def nearest_scale(scales: np.ndarray, wanted: float | int) -> int:
    """The place of the scale nearest to ``wanted``, on the same side of 1 if there is one.

    >>> nearest_scale(np.array([0.1, 1.0, 16.0]), 4.0)
    2
    """
    side = np.sign(np.round(np.log(scales), 12)) == np.sign(np.log(wanted))
    distance = np.abs(np.log(scales / wanted))
    return int(np.argmin(np.where(side | ~side.any(), distance, np.inf)))


def _quartiles(values: np.ndarray, difficulty: np.ndarray) -> np.ndarray:
    """``[classes, 3, scales]``; NaN for a class without queries."""
    found = np.full((len(DIFFICULTIES), 3, len(values)), np.nan)
    for number in range(len(DIFFICULTIES)):
        members = values[:, difficulty == number]
        if members.shape[1]:
            found[number] = np.quantile(members, [0.25, 0.5, 0.75], axis=1)
    return found
