"""How far a mean over independent batches can be trusted: Student-t intervals."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError, positive_number
from magjax.fisher._spectrum import json_safe
from magjax.typing import Array, Float

__all__ = ["Interval", "mean_interval"]


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
    level = _confidence(confidence)
    return _interval(_known("values", values), level)


def _interval(values: np.ndarray, confidence: float) -> Interval:
    """Student's t; ``values`` may be NaN here, where a difference does not exist."""
    from scipy import stats

    count = len(values)
    if not np.isfinite(values).all():
        with np.errstate(invalid="ignore"):
            return Interval(float(values.sum()), None, None, count, confidence)
    mean = float(values.mean())
    if count == 1:
        return Interval(mean, None, None, 1, confidence)
    half = float(stats.t.ppf((1.0 + confidence) / 2.0, count - 1) * values.std(ddof=1) / count**0.5)
    return Interval(mean, mean - half, mean + half, count, confidence)


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
