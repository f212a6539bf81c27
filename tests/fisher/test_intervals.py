"""Student-t intervals of means, against tables and simulation."""

import json
import math
import statistics

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.fisher._intervals import mean_interval

# Two-sided 95 % points of Student's t, as printed in statistical tables.
T_95 = {2: 12.7062, 3: 4.3027, 5: 2.7764, 10: 2.2622}


@pytest.mark.parametrize("count", sorted(T_95))
def test_the_half_width_is_the_tabulated_one(count):
    values = list(np.random.default_rng(count).normal(10.0, 3.0, count))
    half = T_95[count] * statistics.stdev(values) / math.sqrt(count)
    interval = mean_interval(values)
    assert interval.mean == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert interval.high - interval.mean == pytest.approx(half, rel=1e-4)
    assert interval.mean - interval.low == pytest.approx(half, rel=1e-4)
    assert (interval.count, interval.confidence) == (count, 0.95)


def test_intervals_hold_the_true_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = [
        interval.low <= 2.0 <= interval.high
        for interval in (
            mean_interval(rng.normal(2.0, 5.0, 3), confidence=0.8) for _ in range(2000)
        )
    ]
    assert abs(np.mean(held) - 0.8) < 4 * math.sqrt(0.8 * 0.2 / 2000)


def test_one_value_has_no_spread():
    interval = mean_interval([7.0])
    assert (interval.mean, interval.low, interval.high, interval.count) == (7.0, None, None, 1)


def test_equal_values_have_an_interval_of_no_width():
    interval = mean_interval([7.0, 7.0, 7.0])
    assert (interval.mean, interval.low, interval.high) == (7.0, 7.0, 7.0)


def test_an_infinite_value_makes_the_mean_infinite():
    interval = mean_interval([1.0, math.inf, 3.0])
    assert (interval.mean, interval.low, interval.high) == (math.inf, None, None)
    assert json.loads(json.dumps(interval.to_json(), allow_nan=False))["mean"] == "infinite"


@pytest.mark.parametrize("values", [[], [1.0, None], [math.nan], [1.0, -math.inf]], ids=str)
def test_what_is_no_measure_is_refused(values):
    with pytest.raises(InputError, match=r"measure|one number for each batch"):
        mean_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, -0.5])
def test_a_confidence_outside_of_0_and_1_is_refused(confidence):
    with pytest.raises(InputError, match="confidence="):
        mean_interval([1.0, 2.0], confidence=confidence)
