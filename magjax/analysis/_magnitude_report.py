"""A magnitude analysis as values, JSON and per-query records."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from magjax.analysis._ablation import Ablation
from magjax.analysis._hubness import Hubness
from magjax.analysis._magnitude_contrast import Contrast
from magjax.analysis._magnitude_settings import MagnitudeSettings
from magjax.analysis._norms import NormSummary
from magjax.files import json_safe
from magjax.similarity import Score
from magjax.statistics import Interval

__all__ = ["MagnitudeReport", "MagnitudeValues"]


@dataclasses.dataclass(frozen=True, eq=False)
class MagnitudeValues:
    """The values behind a report, which pictures draw.

    Attributes:
        query_ids: one name a query.
        norms: per side, float64.
        lengths: text lengths of the documents by name.
        in_degree: per document, under the report's score.
        relevant_queries: per document, the queries that it is relevant to.
        pairs: per kind of negatives and document, the queries that it is compared in.
        relevant_norms: per query, mean norm of its relevant documents; NaN without one.
        other_norms: per kind and query, mean norm of those compared with; NaN without one.
        losses: per query; NaN without a relevant document.
        gradients: per query, norm of the loss's gradient; NaN likewise.
        metrics: per metric and query; NaN without a judgement.

    >>> [field.name for field in dataclasses.fields(MagnitudeValues)][:2]
    ['query_ids', 'norms']
    """

    query_ids: tuple[str, ...]
    norms: Mapping[str, np.ndarray]
    lengths: Mapping[str, np.ndarray]
    in_degree: np.ndarray
    relevant_queries: np.ndarray
    pairs: Mapping[str, np.ndarray]
    relevant_norms: np.ndarray
    other_norms: Mapping[str, np.ndarray]
    losses: np.ndarray
    gradients: np.ndarray
    metrics: Mapping[str, np.ndarray]

    def query_columns(self) -> dict[str, np.ndarray]:
        """What a query's norm is correlated with, by name."""
        return {
            "loss": self.losses,
            "gradient": self.gradients,
            "norm x gradient": self.norms["query"] * self.gradients,
            **self.metrics,
        }


@dataclasses.dataclass(frozen=True, eq=False)
class MagnitudeReport:
    """What the norms of embeddings carry on one retrieval test.

    Attributes:
        domain: name of the data.
        fingerprint: of the data.
        score: what ranked.
        temperature: of the losses.
        temperature_source: where it comes from.
        candidates: documents that each loss runs over.
        norms: per side, how long embeddings are.
        contrasts: relevant documents against others: by kind of negatives over pairs, then over
            distinct documents (where some are relevant to no query).
        correlations: per side, Spearman's correlation of norms with what is named.
        hubness: under the score first, then under the presets that rank otherwise.
        ablation: rankings with other document norms.
        settings: what was asked for.
        judged: queries with a relevant document.
        values: what was measured of each query and document.
        notes: what to know before believing a number.

    >>> [field.name for field in dataclasses.fields(MagnitudeReport)][:3]
    ['domain', 'fingerprint', 'score']
    """

    domain: str
    fingerprint: str
    score: Score
    temperature: float
    temperature_source: str
    candidates: int
    norms: Mapping[str, NormSummary]
    contrasts: tuple[Contrast, ...]
    correlations: Mapping[str, Mapping[str, Interval]]
    hubness: tuple[Hubness, ...]
    ablation: Ablation
    settings: MagnitudeSettings
    judged: int
    values: MagnitudeValues
    notes: tuple[str, ...]

    def with_notes(self, *notes: str) -> "MagnitudeReport":
        """The same report with further notes at the end."""
        return dataclasses.replace(self, notes=(*self.notes, *notes))

    def to_json(self) -> dict[str, Any]:
        """Everything but the values of single queries and documents, as JSON values."""
        return json_safe(
            {
                "domain": self.domain,
                "fingerprint": self.fingerprint,
                "score": self.score.to_json(),
                "temperature": self.temperature,
                "temperature_source": self.temperature_source,
                "candidates": self.candidates,
                "queries": len(self.values.query_ids),
                "judged": self.judged,
                "documents": self.values.in_degree.size,
                "norms": {side: found.to_json() for side, found in self.norms.items()},
                "contrasts": [found.to_json() for found in self.contrasts],
                "correlations": {
                    side: {name: found.to_json() for name, found in rows.items()}
                    for side, rows in self.correlations.items()
                },
                "hubness": [found.to_json() for found in self.hubness],
                "ablation": self.ablation.to_json(),
                "settings": self.settings.to_json(),
                "notes": list(self.notes),
            }
        )

    def per_query(self) -> list[dict[str, Any]]:
        """One record a query: its norm, loss and gradient, its documents' norms, its metrics.

        What does not exist (a loss without a relevant document) is ``None``.
        """
        values = self.values
        columns: dict[str, np.ndarray] = {
            "norm": values.norms["query"],
            "loss": values.losses,
            "gradient_norm": values.gradients,
            "relevant_norm": values.relevant_norms,
            **{f"{kind}_norm": means for kind, means in values.other_norms.items()},
            **values.metrics,
        }
        return [
            {
                "query_id": query,
                **{
                    name: None if math.isnan(column[row]) else float(column[row])
                    for name, column in columns.items()
                },
            }
            for row, query in enumerate(values.query_ids)
        ]
