"""Hubness: how unevenly a score spreads its answers over the documents."""

import dataclasses
import math
from typing import Any

import numpy as np

from magjax.analysis._magnitude_settings import MagnitudeSettings
from magjax.checks import positive_integer
from magjax.evaluation import Ranking
from magjax.files import json_safe
from magjax.statistics import Interval
from magjax.typing import Array, Float, Int

__all__ = ["Hubness", "k_occurrence", "measure_hubness", "skewness"]


@dataclasses.dataclass(frozen=True)
class Hubness:
    """The in-degrees of the documents under one score.

    Attributes:
        score: the scores that rank so; a query's own norm changes no ranking.
        k: a document's in-degree is the number of queries among whose k best it stands.
        skewness: of the in-degrees, documents drawn anew for the interval.
        chance: skewness if each query named k documents at random.
        never: share of documents that no query names.
        largest: largest in-degree.
        with_norm: Spearman's correlation of in-degree and document norm.

    >>> Hubness("dot, qnorm", 10, Interval(2.0, 1.0, 3.0, 9, 0.95), 1.0, 0.5, 7,
    ...         Interval(0.1, 0.0, 0.2, 9, 0.95)).to_json()["never"]
    0.5
    """

    score: str
    k: int
    skewness: Interval
    chance: float
    never: float
    largest: int
    with_norm: Interval

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return json_safe(dataclasses.asdict(self))


def k_occurrence(ranking: Ranking, documents: int, k: int) -> Int[np.ndarray, " documents"]:
    """In how many queries' k best each document stands.

    Args:
        ranking: documents retrieved, k or more a query where there are as many.
        documents: number of documents in all.
        k: depth.

    Returns:
        int64, one count a document.

    >>> ranking = Ranking(("q",), (("b", "a"),), (np.array([2.0, 1.0]),), (np.array([1, 0]),))
    >>> k_occurrence(ranking, 3, 1)
    array([0, 1, 0])
    """
    k = positive_integer("k", k)
    return np.bincount(np.concatenate([rows[:k] for rows in ranking.rows]), minlength=documents)


def skewness(values: Float[Array, " rows"] | Int[Array, " rows"]) -> float:
    r"""Third standardized moment: above 0 where few values are much larger than the rest.

    .. math:: S = \frac{\operatorname{mean}((x - \bar x)^3)}{\operatorname{mean}((x - \bar x)^2)^{3/2}}

    Of k-occurrences it is the usual measure of hubness (Radovanović, Nanopoulos and Ivanović 2010).

    Args:
        values: such as :func:`k_occurrence`.

    Returns:
        NaN where the values do not vary.

    >>> round(skewness(np.array([0, 0, 0, 4])), 4)
    1.1547
    """
    centred = np.asarray(values, np.float64)
    centred = centred - centred.mean()
    squares = centred * centred
    spread = float(squares.mean())
    return float((squares * centred).mean()) / spread**1.5 if spread > 0.0 else math.nan


def measure_hubness(
    score: str, ranking: Ranking, norms: np.ndarray, settings: MagnitudeSettings
) -> tuple[Hubness, np.ndarray]:
    """Hubness of a ranking, and the in-degree of each document.

    Args:
        score: what to call the score.
        ranking: documents retrieved under it.
        norms: of the documents.
        settings: k, and how intervals are drawn.

    >>> ranking = Ranking(("q",), (("b", "a"),), (np.array([2.0, 1.0]),), (np.array([1, 0]),))
    >>> found, _ = measure_hubness("dot", ranking, np.array([1.0, 2.0, 0.5]),
    ...                            MagnitudeSettings(occurrences=1, resamples=10))
    >>> found.largest, round(found.with_norm.mean, 3)
    (1, 0.866)
    """
    found = k_occurrence(ranking, len(norms), settings.occurrences)
    share = min(settings.occurrences / len(norms), 1.0)
    variance = len(ranking) * share * (1.0 - share)  # of a binomial count
    return Hubness(
        score=score,
        k=settings.occurrences,
        skewness=settings.interval(skewness, found.astype(np.float64)),
        chance=(1.0 - 2.0 * share) / math.sqrt(variance) if variance > 0.0 else math.nan,
        never=float(np.mean(found == 0)),
        largest=int(found.max()),
        with_norm=settings.correlation(norms, found),
    ), found
