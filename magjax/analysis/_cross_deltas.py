"""Differences within a cross-evaluation, with intervals over queries and Holm's correction."""

import dataclasses
from typing import Any

from magjax.analysis._cross_table import CrossCell, CrossEvaluation
from magjax.checks import choose
from magjax.statistics import PairedDifference, holm, paired_bootstrap

__all__ = ["REFERENCES", "CrossDelta", "all_cross_deltas", "cross_deltas"]

REFERENCES: dict[str, str] = {
    "trained": "the same model under the score it was trained under",
    "best": "the best cell of the table",
}
"""What a cell is compared with."""


@dataclasses.dataclass(frozen=True)
class CrossDelta:
    """One ranking of a cross-evaluation minus a reference, over the same queries.

    Attributes:
        metric: its name.
        model: the model.
        scores: names of the scores that share this ranking.
        reference: model and score that it is compared with.
        difference: mean, interval and p-value.
        corrected: the p-value after Holm's correction over all comparisons with this reference of
            this metric and data set.

    >>> difference = PairedDifference(-0.1, -0.2, -0.05, 0.01, 100, 0.95)
    >>> CrossDelta("ndcg@10", "m", ("dot", "qnorm"), ("m", "cosine"), difference, 0.02).is_decided
    True
    """

    metric: str
    model: str
    scores: tuple[str, ...]
    reference: tuple[str, str]
    difference: PairedDifference
    corrected: float

    @property
    def is_decided(self) -> bool:
        """Whether the corrected p-value is at most 1 - confidence."""
        return self.corrected <= 1.0 - self.difference.confidence + 1e-12

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "metric": self.metric,
            "model": self.model,
            "scores": list(self.scores),
            "reference": {"model": self.reference[0], "score": self.reference[1]},
            **self.difference.to_json(),
            "corrected_p_value": self.corrected,
        }


def cross_deltas(
    evaluation: CrossEvaluation,
    metric: str,
    *,
    to: str = "trained",
    resamples: int = 10_000,
    seed: int = 0,
) -> list[CrossDelta]:
    """Every ranking of the table minus its reference, by paired bootstrap over queries.

    Scores that coincide are one ranking and one comparison, and the reference's own ranking is
    none. The best cell is chosen by the same queries, so that differences to it lean towards being
    too large.

    Args:
        evaluation: the table.
        metric: one of its metrics.
        to: a name in :data:`REFERENCES`. Models without a trained score have no reference in
            ``"trained"``.
        resamples: of the bootstrap.
        seed: of the bootstrap; all comparisons draw the same queries.

    Raises:
        InputError: an unknown metric or reference.

    >>> import numpy as np
    >>> from magjax.analysis import ModelEmbeddings, cross_evaluate
    >>> from magjax.data import Benchmark
    >>> from magjax.similarity import Score
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", Score.of("dot"), np.ones((1, 2), np.float32),
    ...                         np.array([[1, 1], [4, 0]], np.float32))
    >>> found = cross_evaluate([model], benchmark, metrics=["mrr@2"], k=2)
    >>> [(delta.scores, delta.difference.mean) for delta in cross_deltas(found, "mrr@2")]
    [(('cosine', 'dnorm'), -0.5)]
    """
    choose("metric", metric, evaluation.metrics)
    choose("reference", to, REFERENCES)
    best = evaluation.best(metric)
    pairs: list[tuple[list[CrossCell], CrossCell]] = []
    for row in evaluation.rows:
        reference = best if to == "best" else row.trained
        for group in evaluation.groups(row.model) if reference is not None else ():
            assert reference is not None
            if not any(cell is reference for cell in group):
                pairs.append((group, reference))
    differences = [
        paired_bootstrap(
            group[0].values[metric], reference.values[metric], resamples=resamples, seed=seed
        )
        for group, reference in pairs
    ]
    corrected = holm({str(i): found.p_value for i, found in enumerate(differences)})
    return [
        CrossDelta(
            metric,
            group[0].model,
            tuple(cell.name for cell in group),
            (reference.model, reference.name),
            found,
            corrected[str(i)],
        )
        for i, ((group, reference), found) in enumerate(zip(pairs, differences, strict=True))
    ]


def all_cross_deltas(
    evaluation: CrossEvaluation, *, resamples: int = 10_000, seed: int = 0
) -> list[CrossDelta]:
    """:func:`cross_deltas` of every metric to every reference.

    Args:
        evaluation: the table.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    >>> import numpy as np
    >>> from magjax.analysis import ModelEmbeddings, cross_evaluate
    >>> from magjax.data import Benchmark
    >>> from magjax.similarity import Score
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", None, np.ones((1, 2), np.float32), np.eye(2, dtype=np.float32))
    >>> found = cross_evaluate([model], benchmark, metrics=["mrr@2"], k=2)
    >>> [delta.reference for delta in all_cross_deltas(found)]
    [('m', 'cosine')]
    """
    return [
        delta
        for metric in evaluation.metrics
        for to in REFERENCES
        for delta in cross_deltas(evaluation, metric, to=to, resamples=resamples, seed=seed)
    ]
