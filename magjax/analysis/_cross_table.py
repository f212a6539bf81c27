"""The table of a cross-evaluation: models x scores, and what must coincide in it."""

import dataclasses
from typing import Any

import numpy as np

from magjax.analysis._cross_identities import Identity
from magjax.checks import InputError, choose
from magjax.similarity import PRESETS, Score
from magjax.typing import Side

__all__ = ["DIRECTIONS", "CrossCell", "CrossEvaluation", "CrossRow", "score_name"]

DIRECTIONS: dict[str, Side] = {"query_to_document": "document", "document_to_query": "query"}
"""Directions of retrieval, and the side whose texts are ranked: its power decides the ranking."""


def score_name(score: Score) -> str:
    """What tables call a score: its preset, or its powers to four digits.

    >>> score_name(Score.of("dot", 0.1)), score_name(Score.power(0.123456, 1))
    ('dot', '0.1235,1')
    """
    if score.variant in PRESETS:
        return score.variant
    return f"{score.gamma_query:.4g},{score.gamma_document:.4g}"


@dataclasses.dataclass(frozen=True, eq=False)
class CrossCell:
    """One model under one score.

    Attributes:
        model: its name.
        score: what ranked.
        trained: whether the model was trained under this score.
        values: per metric, float64 ``[queries]``, in the order of the evaluation's ``query_ids``.

    >>> cell = CrossCell("m", Score.of("dot"), True, {"mrr@10": np.array([1.0, 0.5])})
    >>> cell.name, cell.mean("mrr@10")
    ('dot', 0.75)
    """

    model: str
    score: Score
    trained: bool
    values: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        """The score's name in tables."""
        return score_name(self.score)

    def mean(self, metric: str) -> float:
        """The mean of a metric over all judged queries."""
        return float(np.mean(self.values[choose("metric", metric, self.values)]))


@dataclasses.dataclass(frozen=True, eq=False)
class CrossRow:
    """One model under all scores.

    Attributes:
        model: its name.
        cells: one a score.
        identities: which scores had to rank alike, and whether they did.
        query_ids: the judged queries, in the order of the cells' values.
        unjudged: queries without a judgement, which no metric counts.
        variation: deviation over mean of the lengths of the ranked side's embeddings.

    >>> [field.name for field in dataclasses.fields(CrossRow)][:2]
    ['model', 'cells']
    """

    model: str
    cells: tuple[CrossCell, ...]
    identities: tuple[Identity, ...]
    query_ids: tuple[str, ...]
    unjudged: int
    variation: float

    @property
    def trained(self) -> CrossCell | None:
        """The cell of the trained score; None where nobody states one."""
        return next((cell for cell in self.cells if cell.trained), None)


@dataclasses.dataclass(frozen=True, eq=False)
class CrossEvaluation:
    """Models x scores on one benchmark in one direction.

    Attributes:
        domain: the benchmark's name.
        fingerprint: its content.
        direction: one of :data:`DIRECTIONS`.
        k: documents searched for.
        metrics: names of the cells' values.
        rows: one a model.

    Raises:
        InputError: no model, two of one name, or other queries in one row than in another.

    >>> CrossEvaluation("b", "f", "query_to_document", 10, ("mrr@10",), ())
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: there is no model to evaluate; give at least one.
    """

    domain: str
    fingerprint: str
    direction: str
    k: int
    metrics: tuple[str, ...]
    rows: tuple[CrossRow, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise InputError("there is no model to evaluate; give at least one.")
        names = [row.model for row in self.rows]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two models are called {name!r}; give each a name of its own.")
        for row in self.rows[1:]:
            if row.query_ids != self.rows[0].query_ids:
                raise InputError(
                    f"{self.domain}: {row.model!r} was measured on other queries than "
                    f"{names[0]!r}; evaluate all models on the same benchmark."
                )

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The judged queries."""
        return self.rows[0].query_ids

    @property
    def cells(self) -> list[CrossCell]:
        """All cells, row by row."""
        return [cell for row in self.rows for cell in row.cells]

    @property
    def score_names(self) -> list[str]:
        """Names of all scores; those that must rank alike stand side by side."""
        side = DIRECTIONS[self.direction]
        scores = {cell.name: cell.score for cell in self.cells}
        order = list(scores)
        first: dict[float, int] = {}
        for number, name in enumerate(order):
            first.setdefault(scores[name].gamma(side), number)
        return sorted(order, key=lambda n: (first[scores[n].gamma(side)], order.index(n)))

    @property
    def violations(self) -> list[Identity]:
        """Identities that do not hold: there should be none."""
        return [found for row in self.rows for found in row.identities if not found.holds]

    def row(self, model: str) -> CrossRow:
        """One model's row.

        Raises:
            InputError: no such model.
        """
        rows = {row.model: row for row in self.rows}
        return rows[choose("model", model, rows)]

    def cell(self, model: str, score: str) -> CrossCell | None:
        """One cell; None where the model was not ranked by this score."""
        return next((cell for cell in self.row(model).cells if cell.name == score), None)

    def best(self, metric: str) -> CrossCell:
        """The cell of the highest mean, the first of equals."""
        return max(self.cells, key=lambda cell: cell.mean(metric))

    def groups(self, model: str) -> list[list[CrossCell]]:
        """A model's cells by ranking: scores of one group must coincide."""
        side = DIRECTIONS[self.direction]
        found: dict[float, list[CrossCell]] = {}
        for cell in self.row(model).cells:
            found.setdefault(cell.score.gamma(side), []).append(cell)
        return list(found.values())

    def to_json(self) -> dict[str, Any]:
        """Means, identities and what they are over, as JSON values."""
        return {
            "domain": self.domain,
            "direction": self.direction,
            "fingerprint": self.fingerprint,
            "k": self.k,
            "queries": len(self.query_ids),
            "unjudged": self.rows[0].unjudged,
            "cells": [
                {
                    "model": cell.model,
                    "score": cell.score.to_json(),
                    "name": cell.name,
                    "trained": cell.trained,
                    "metrics": {metric: cell.mean(metric) for metric in self.metrics},
                }
                for cell in self.cells
            ],
            "identities": [found.to_json() for row in self.rows for found in row.identities],
            "ranked_length_variation": {row.model: row.variation for row in self.rows},
        }
