"""Statistics of embedding norms: differences between groups, rank correlation."""

import math
from typing import Any

import numpy as np

from magjax.checks import InputError
from magjax.statistics import Interval, bootstrap_interval
from magjax.typing import Array, Float, Int

__all__ = ["EFFECTS", "cohens_d", "hedges_g", "norm_auc", "spearman"]


def cohens_d(first: Float[Array, " first"], second: Float[Array, " second"]) -> float:
    r"""The difference of two means in units of their pooled deviation.

    .. math:: d = \frac{\bar x_1 - \bar x_2}{s_p}, \qquad
              s_p^2 = \frac{(n_1 - 1) s_1^2 + (n_2 - 1) s_2^2}{n_1 + n_2 - 2}

    with the variances' divisors :math:`n - 1` (Cohen 1988, Statistical Power Analysis). The paper
    reports up to 1.80 for the norms of relevant against other documents.

    Args:
        first: such as norms of relevant documents.
        second: such as norms of others.

    Returns:
        Positive where ``first`` is larger; infinite where neither group varies and the means
        differ, NaN where they do not or where there are fewer than three values.

    Raises:
        InputError: an empty group.

    >>> round(cohens_d(np.array([2.0, 4.0]), np.array([1.0, 3.0])), 4)  # 1 / sqrt(2)
    0.7071
    """
    return _d(*_histograms(first, second))


def hedges_g(first: Float[Array, " first"], second: Float[Array, " second"]) -> float:
    r"""Cohen's d without its bias in small groups.

    .. math:: g = J(m)\, d, \quad m = n_1 + n_2 - 2, \qquad
              J(m) = \frac{\Gamma(m / 2)}{\sqrt{m / 2}\; \Gamma((m - 1) / 2)}

    (Hedges 1981; J(m) is about 1 - 3 / (4 m - 1).)

    Args:
        first: as for :func:`cohens_d`.
        second: as for :func:`cohens_d`.

    Returns:
        As :func:`cohens_d`; NaN also with three values, for which J is 0.

    Raises:
        InputError: an empty group.

    >>> first, second = np.array([2.0, 4.0, 6.0]), np.array([1.0, 3.0, 5.0])
    >>> round(hedges_g(first, second) / cohens_d(first, second), 4)  # m = 4
    0.7979
    """
    return _g(*_histograms(first, second))


def norm_auc(first: Float[Array, " first"], second: Float[Array, " second"]) -> float:
    r"""The chance that a value of ``first`` exceeds one of ``second``, ties counting one half.

    .. math:: \text{AUC} = P(x_1 > x_2) + \tfrac12 P(x_1 = x_2)

    The area under the ROC curve of the norm alone as a score of relevance, and the Mann-Whitney
    statistic over :math:`n_1 n_2`.

    Args:
        first: such as norms of relevant documents.
        second: such as norms of others.

    Returns:
        In [0, 1]; 0.5 where norms say nothing.

    Raises:
        InputError: an empty group.

    >>> norm_auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    return _auc(*_histograms(first, second))


def spearman(
    x: Float[Array, " rows"] | Int[Array, " rows"],
    y: Float[Array, " rows"] | Int[Array, " rows"],
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    r"""Spearman's rank correlation with its bootstrap interval over rows.

    Pearson's correlation of the ranks, equal values sharing the mean of theirs (as
    ``scipy.stats.spearmanr``). Ranks are counted anew in each resample, in time linear in the
    number of rows.

    Args:
        x: one value a row, such as a length.
        y: the other value of the same rows.
        resamples: of the bootstrap.
        seed: of the resamples.
        confidence: of the interval.

    Returns:
        ``mean`` is the correlation: NaN, without ends, where ``x`` or ``y`` is constant.

    Raises:
        InputError: no row, or different numbers of them.

    >>> found = spearman(np.arange(30.0), np.arange(30.0) ** 3)
    >>> found.mean, found.low
    (1.0, 1.0)
    """
    # Dense codes in rank order: a resample's ranks then follow from counting, without a sort.
    codes = [np.unique(np.asarray(a), return_inverse=True)[1].astype(np.float64) for a in (x, y)]
    return bootstrap_interval(
        _rank_correlation,
        *codes,
        paired=True,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
    )


def _rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    a, b = _centred_ranks(x), _centred_ranks(y)
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(np.clip(float(a @ b) / scale, -1.0, 1.0)) if scale > 0.0 else math.nan


def _centred_ranks(codes: np.ndarray) -> np.ndarray:
    places = codes.astype(np.int64)
    counts = np.bincount(places)
    last = np.cumsum(counts)
    return (last - 0.5 * (counts - 1) - 0.5 * (len(codes) + 1))[places]


def _histograms(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct values ascending, and how often each group has them."""
    groups = [np.asarray(group, np.float64) for group in (first, second)]
    if not all(group.size for group in groups):
        sizes = " and ".join(str(group.size) for group in groups)
        raise InputError(f"the groups have {sizes} values; give at least one each.")
    values, codes = np.unique(np.concatenate(groups), return_inverse=True)
    split = np.split(codes, [groups[0].size])
    one, other = (np.bincount(part, minlength=values.size).astype(np.float64) for part in split)
    return values, one, other


def _moments(values: np.ndarray, counts: np.ndarray) -> tuple[float, float, float]:
    number = float(counts.sum())
    if not number:
        return 0.0, math.nan, math.nan
    mean = float(counts @ values) / number
    return number, mean, float(counts @ (values - mean) ** 2)


def _d(values: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    shifted = values - values[0]  # exactly 0 where there is but one value: no rounding to divide by
    (n, mean, squares), (m, other_mean, other_squares) = (
        _moments(shifted, counts) for counts in (one, other)
    )
    freedom = n + m - 2.0
    if not n or not m or freedom <= 0.0:
        return math.nan
    difference, pooled = mean - other_mean, math.sqrt((squares + other_squares) / freedom)
    if pooled > 0.0:
        return difference / pooled
    return math.copysign(math.inf, difference) if difference else math.nan


def _g(values: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    freedom = float(one.sum() + other.sum()) - 2.0
    if freedom <= 1.0:
        return math.nan
    log_ratio = math.lgamma(freedom / 2.0) - math.lgamma((freedom - 1.0) / 2.0)
    return math.exp(log_ratio) / math.sqrt(freedom / 2.0) * _d(values, one, other)


def _auc(values: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """``values`` ascending; only their order counts."""
    pairs = float(one.sum()) * float(other.sum())
    below = np.cumsum(other) - 0.5 * other
    return float(one @ below) / pairs if pairs else math.nan


EFFECTS = {"cohens_d": _d, "hedges_g": _g, "norm_auc": _auc}
"""What is said of two groups: functions of distinct values ascending and each group's counts."""
