"""How the norms of relevant documents differ from those of others."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from magjax.analysis._magnitude_negatives import Judgements, Negatives
from magjax.analysis._magnitude_settings import MagnitudeSettings
from magjax.analysis._norm_statistics import EFFECTS, norm_auc
from magjax.files import json_safe
from magjax.statistics import Interval

__all__ = ["Contrast", "contrast_documents", "contrast_pairs"]

EVER_RELEVANT = "ever_relevant"


@dataclasses.dataclass(frozen=True, eq=False)
class Contrast:
    """Norms of relevant documents against those of others.

    Attributes:
        kind: one of ``NEGATIVES``, or ``"ever_relevant"`` for distinct documents.
        description: what the others are.
        queries: queries that have both; 0 for distinct documents.
        relevant: (query, document) pairs on the relevant side, or distinct documents.
        others: the same of the others.
        mean_relevant: mean norm over ``relevant``.
        mean_other: mean norm over ``others``.
        pooled: Cohen's d, Hedges' g and AUC over all pairs, queries drawn anew for the intervals
            (over distinct documents: the documents).
        within: means over queries of what is compared inside each: the ``difference`` of mean
            norms, its ``cohens_d`` in units of the deviation inside queries, and ``norm_auc``;
            empty for distinct documents.

    >>> [field.name for field in dataclasses.fields(Contrast)][:2]
    ['kind', 'description']
    """

    kind: str
    description: str
    queries: int
    relevant: int
    others: int
    mean_relevant: float
    mean_other: float
    pooled: Mapping[str, Interval]
    within: Mapping[str, Interval]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("pooled", "within"):
            values[name] = {key: found.to_json() for key, found in values[name].items()}
        return json_safe(values)


def contrast_pairs(
    norms: np.ndarray, judgements: Judgements, negatives: Negatives, settings: MagnitudeSettings
) -> tuple[Contrast | None, np.ndarray]:
    """Compares over (query, document) pairs, each counted once.

    Args:
        norms: float64 ``[documents]``.
        judgements: what is relevant.
        negatives: what it is compared with.
        settings: how intervals are drawn.

    Returns:
        The contrast, None where no query has both kinds of documents; and per query the mean
        norm of its other documents, NaN where it has none.

    >>> judgements = Judgements.of({"q": {"b": 1}, "r": {"a": 1}}, ["q", "r"], ["a", "b", "c"])
    >>> others = Negatives("all", "the rest", (np.array([1]), np.array([0])), True, 3)
    >>> found, _ = contrast_pairs(np.array([1.0, 3.0, 2.0]), judgements, others,
    ...                           MagnitudeSettings(resamples=10))
    >>> found.within["difference"].mean, found.within["norm_auc"].mean
    (0.0, 0.5)
    """
    other_means = np.full(len(judgements.relevant), math.nan)
    shifted = norms - norms[0]  # equal norms are exactly 0, with a deviation of exactly 0
    used, inside, ranked = [], [], []
    number = others_in_all = 0
    for query, relevant in enumerate(judgements.relevant):
        rows = negatives.rows(query)
        if rows.size:
            other_means[query] = norms[rows].mean()
        if rows.size and relevant.size:
            one, other = shifted[relevant], shifted[rows]
            squares = one.size * one.var() + other.size * other.var()
            used.append(query)
            inside.append((one.mean() - other.mean(), squares, one.size + other.size - 2.0))
            ranked.append(norm_auc(one, other))
            number, others_in_all = number + one.size, others_in_all + other.size
    if not used:
        return None, other_means
    values, counts = _pair_counts(norms, judgements, negatives, used)
    everyone = np.arange(len(used), dtype=np.float64)
    totals = counts(everyone)
    table = np.array(inside)
    contrast = Contrast(
        kind=negatives.kind,
        description=negatives.description,
        queries=len(used),
        relevant=number,
        others=others_in_all,
        mean_relevant=float(totals[0] @ values / number),
        mean_other=float(totals[1] @ values / others_in_all),
        pooled={
            name: settings.interval(
                lambda drawn, effect=effect: effect(values, *counts(drawn)), everyone
            )
            for name, effect in EFFECTS.items()
        },
        within={
            "difference": settings.mean(table[:, 0]),
            "cohens_d": settings.interval(_within, table),
            "norm_auc": settings.interval(np.mean, np.array(ranked)),
        },
    )
    return contrast, other_means


def contrast_documents(
    norms: np.ndarray, judgements: Judgements, settings: MagnitudeSettings
) -> Contrast | None:
    """Compares distinct documents: relevant to some query against relevant to none.

    Here a document counts once, however many queries it answers.

    Args:
        norms: float64 ``[documents]``.
        judgements: what is relevant.
        settings: how intervals are drawn.

    Returns:
        None where every document is relevant to some query.

    >>> judgements = Judgements.of({"q": {"b": 1}}, ["q"], ["a", "b"])
    >>> contrast_documents(np.array([1.0, 3.0]), judgements, MagnitudeSettings()).mean_other
    1.0
    """
    ever = judgements.relevant_queries() > 0
    if ever.all():
        return None
    values, codes = np.unique(norms, return_inverse=True)
    groups = [codes[ever].astype(np.float64), codes[~ever].astype(np.float64)]

    def counted(effect: Callable[..., float]) -> Callable[..., float]:
        def statistic(*drawn: np.ndarray) -> float:
            return effect(
                values,
                *(np.bincount(d.astype(np.int64), minlength=values.size) * 1.0 for d in drawn),
            )

        return statistic

    return Contrast(
        kind=EVER_RELEVANT,
        description="distinct documents that are relevant to no query",
        queries=0,
        relevant=int(ever.sum()),
        others=int((~ever).sum()),
        mean_relevant=float(norms[ever].mean()),
        mean_other=float(norms[~ever].mean()),
        pooled={
            name: settings.interval(counted(effect), *groups) for name, effect in EFFECTS.items()
        },
        within={},
    )


def _within(table: np.ndarray) -> float:
    """Cohen's d inside queries: mean difference over the deviation pooled over all queries."""
    difference, squares, freedom = table[:, 0].mean(), table[:, 1].sum(), table[:, 2].sum()
    deviation = math.sqrt(squares / freedom) if freedom > 0.0 else 0.0
    return float(difference / deviation) if deviation > 0.0 else math.nan


def _pair_counts(
    norms: np.ndarray, judgements: Judgements, negatives: Negatives, used: list[int]
) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]:
    """Distinct norms ascending, and how often pairs of some queries have each.

    The function takes positions in ``used``, a query as often as it is drawn, and costs one pass
    over the pairs: no resample sorts or copies norms.
    """
    values, codes = np.unique(norms, return_inverse=True)
    corpus = np.bincount(codes, minlength=values.size)

    def flat(rows: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        chosen = [rows[query] for query in used]
        owners = np.repeat(np.arange(len(used)), [part.size for part in chosen])
        return owners, codes[np.concatenate(chosen)]

    relevant, listed = flat(judgements.relevant), flat(negatives.pairs)

    def counts(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = np.bincount(drawn.astype(np.int64), minlength=len(used)).astype(np.float64)
        one, other = (
            np.bincount(codes, weights[owners], minlength=values.size)
            for owners, codes in (relevant, listed)
        )
        return one, (weights.sum() * corpus - other if negatives.complement else other)

    return values, counts
