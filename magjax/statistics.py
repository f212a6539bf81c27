"""How far numbers can be trusted: intervals of means, bootstraps over items, Holm's correction."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError, positive_integer, positive_number
from magjax.files import json_safe
from magjax.typing import Array, Float, Int

__all__ = [
    "Interval",
    "PairedDifference",
    "bootstrap_interval",
    "holm",
    "mean_interval",
    "paired_bootstrap",
]

_DRAWN = 2**22  # indices of resamples held at a time, 32 MiB


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean and the interval that holds the true mean with probability ``confidence``.

    Attributes:
        mean: infinite if a value was.
        low: lower end; ``None`` where no spread is known (one value, or an infinite one).
        high: upper end; ``None`` where ``low`` is.
        count: number of values.
        confidence: the level of the interval.

    >>> mean_interval([1.0, 3.0]).mean
    2.0
    """

    mean: float
    low: float | None
    high: float | None
    count: int
    confidence: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values: infinity as ``"infinite"``.

        >>> mean_interval([1.0, math.inf]).to_json()
        {'mean': 'infinite', 'low': None, 'high': None, 'count': 2, 'confidence': 0.95}
        """
        return json_safe(dataclasses.asdict(self))


def mean_interval(
    values: Float[Array, "batches"] | Sequence[float | int | None], *, confidence: float = 0.95
) -> Interval:
    r"""The mean of ``values`` with its Student-t interval.

    .. math:: \bar x \pm t_{n-1,\, (1 + c)/2} \; \frac{s}{\sqrt n}

    with :math:`s` the sample deviation (divisor :math:`n - 1`). The values must be independent:
    measures of batches that share examples give intervals that are too narrow.

    Args:
        values: one measure on each batch, of any unit.
        confidence: c, above 0 and below 1.

    Returns:
        The interval in the unit of ``values``. One value has no spread, and an infinite value
        makes the mean infinite: both leave ``low`` and ``high`` at ``None``.

    Raises:
        InputError: no value, an unknown one (``None`` or NaN), or a confidence out of range.

    >>> interval = mean_interval([1.0, 2.0, 3.0])
    >>> round(interval.low, 3), round(interval.high, 3)
    (-0.484, 4.484)
    """
    from scipy import stats

    level = _confidence(confidence)
    found = _known("values", values)
    count = len(found)
    if not np.isfinite(found).all():
        return Interval(float(found.sum()), None, None, count, level)
    mean = float(found.mean())
    if count == 1:
        return Interval(mean, None, None, 1, level)
    half = float(stats.t.ppf((1.0 + level) / 2.0, count - 1) * found.std(ddof=1) / count**0.5)
    return Interval(mean, mean - half, mean + half, count, level)


def bootstrap_interval(
    statistic: Callable[..., float],
    *samples: Float[Array, "..."] | Int[Array, "..."] | Sequence[float | int],
    paired: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    r"""A statistic with its percentile bootstrap interval.

    The interval holds the middle ``confidence`` of the statistic over resamples drawn with
    replacement (Efron 1979). Rows must be independent: where they share a query, give one row a
    query.

    Args:
        statistic: of as many arrays as there are samples, to one number.
        samples: arrays whose leading axis holds the independent rows.
        paired: whether the samples' rows belong together and are drawn together; otherwise each
            sample is drawn on its own.
        resamples: how often to draw.
        seed: of the draws; the same seed gives the same interval.
        confidence: above 0 and below 1.

    Returns:
        ``mean`` is the statistic of the samples themselves, ``count`` the rows of the smallest.
        The ends are ``None`` with fewer than two rows. Resamples for which the statistic does not
        exist (NaN, as a correlation of constants) are left out; with more than half of them the
        ends are ``None``.

    Raises:
        InputError: no sample, an empty one, paired samples of different lengths, or settings out
            of range.

    >>> values = np.arange(20.0)
    >>> interval = bootstrap_interval(np.median, values)
    >>> interval.mean, interval.low < 9.5 < interval.high
    (9.5, True)
    """
    level = _confidence(confidence)
    positive_integer("resamples", resamples)
    arrays = [np.asarray(sample) for sample in samples]
    sizes = [len(array) if array.ndim else 0 for array in arrays]
    if not arrays or not all(sizes):
        raise InputError(f"the samples have {sizes} rows; give at least one sample with rows.")
    if paired and len(set(sizes)) > 1:
        raise InputError(f"paired samples have {sizes} rows; give each the same number.")
    found, count = float(statistic(*arrays)), min(sizes)
    if count < 2 or not math.isfinite(found):
        return Interval(found, None, None, count, level)
    random = np.random.default_rng(seed)
    drawn = np.empty(resamples)
    for i in range(resamples):
        if paired:
            rows = random.integers(0, count, count)
            drawn[i] = statistic(*(array[rows] for array in arrays))
        else:
            drawn[i] = statistic(
                *(array[random.integers(0, len(array), len(array))] for array in arrays)
            )
    known = drawn[np.isfinite(drawn)]
    if 2 * len(known) < resamples:
        return Interval(found, None, None, count, level)
    low, high = np.quantile(known, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(found, float(low), float(high), count, level)


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two systems over the same items, and how sure its sign is.

    Attributes:
        mean: of first minus second.
        low: lower end of the bootstrap interval; ``None`` with fewer than two items.
        high: upper end; ``None`` where ``low`` is.
        p_value: two-sided, of no difference: twice the smaller share of resamples on one side of
            0, at least 1 / (resamples + 1). 1 where all differences are 0.
        count: number of items.
        confidence: the level of the interval.

    >>> paired_bootstrap([1.0, 0.5], [1.0, 0.5]).p_value
    1.0
    """

    mean: float
    low: float | None
    high: float | None
    p_value: float
    count: int
    confidence: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values.

        >>> paired_bootstrap([1.0], [0.5]).to_json()["mean"]
        0.5
        """
        return json_safe(dataclasses.asdict(self))


def paired_bootstrap(
    first: Float[Array, "items"] | Sequence[float | int],
    second: Float[Array, "items"] | Sequence[float | int],
    *,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> PairedDifference:
    """How much better ``first`` is than ``second`` on the same items, such as queries.

    Items are drawn with replacement, both systems' values together (the paired bootstrap of
    Sakai 2006 and Koehn 2004).

    Args:
        first: one system's value of each item, such as nDCG@10 of each query.
        second: the other's, in the same order.
        resamples: how often to draw.
        seed: of the draws; the same seed gives the same result.
        confidence: of the interval, above 0 and below 1.

    Raises:
        InputError: no item, different lengths, values that are not finite, or settings out of
            range.

    >>> random = np.random.default_rng(0)
    >>> base = random.uniform(size=200)
    >>> better = paired_bootstrap(base + random.normal(0.1, 0.1, 200), base)
    >>> better.low > 0.0, better.p_value < 0.001
    (True, True)
    """
    level = _confidence(confidence)
    positive_integer("resamples", resamples)
    values = [_known(name, sample) for name, sample in (("first", first), ("second", second))]
    if len(values[0]) != len(values[1]):
        raise InputError(
            f"first has {len(values[0])} items and second {len(values[1])}; give both systems' "
            "values of the same items in the same order."
        )
    if not all(np.isfinite(sample).all() for sample in values):
        raise InputError("a value is infinite; differences of infinite values do not exist.")
    differences = values[0] - values[1]
    count, mean = len(differences), float(differences.mean())
    if count == 1 or not differences.any():
        end = None if count == 1 else 0.0
        return PairedDifference(mean, end, end, 1.0, count, level)
    random = np.random.default_rng(seed)
    block = max(1, _DRAWN // count)
    means = np.concatenate(
        [
            differences[random.integers(0, count, (min(block, resamples - start), count))].mean(1)
            for start in range(0, resamples, block)
        ]
    )
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    tail = min(np.count_nonzero(means <= 0.0), np.count_nonzero(means >= 0.0))
    p_value = float(min(1.0, 2.0 * (tail + 1) / (resamples + 1)))
    return PairedDifference(mean, float(low), float(high), p_value, count, level)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down correction: p-values that may be compared with the error of the whole family.

    Rejecting every hypothesis whose corrected value is at most 0.05 rejects a true one with
    probability at most 0.05 over all of them, whatever their dependence (Holm 1979).

    Args:
        p_values: by hypothesis, each in [0, 1].

    Returns:
        The corrected values, in the order given.

    Raises:
        InputError: a value that is no probability.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    for name, value in p_values.items():
        if not 0.0 <= value <= 1.0:  # false for NaN too
            raise InputError(f"the p-value of {name!r} is {value}; it must lie between 0 and 1.")
    largest, corrected = 0.0, {}
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}


def _known(name: str, values: Any) -> np.ndarray:
    array = np.asarray([math.nan if value is None else value for value in values], np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} has shape {array.shape}; give one number for each batch.")
    unknown = np.flatnonzero(np.isnan(array) | np.isneginf(array))
    if unknown.size:
        raise InputError(
            f"{name}[{unknown[0]}]={array[unknown[0]]} is no measure; leave out what is not known "
            "for every batch."
        )
    return array


def _confidence(confidence: float) -> float:
    if positive_number("confidence", confidence) >= 1.0:
        raise InputError(f"confidence={confidence!r} must be below 1; try 0.95.")
    return float(confidence)
