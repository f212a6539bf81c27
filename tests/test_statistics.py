"""Intervals, bootstraps and corrections, against tables, scipy and simulation."""

import json
import math
import statistics

import numpy as np
import pytest
from scipy import stats

from magjax.checks import InputError
from magjax.statistics import bootstrap_interval, holm, mean_interval, paired_bootstrap

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


def test_the_bootstrap_is_scipys():
    random = np.random.default_rng(0)
    first, second = random.exponential(size=60), random.exponential(2.0, size=60)

    def correlation(a, b):
        return float(stats.spearmanr(a, b).statistic)

    ours = bootstrap_interval(correlation, first, second, paired=True, resamples=4000)
    theirs = stats.bootstrap(
        (first, second),
        correlation,
        paired=True,
        vectorized=False,
        n_resamples=4000,
        method="percentile",
        rng=1,
    ).confidence_interval
    assert ours.mean == correlation(first, second)
    # The ends of 4,000 resamples scatter by about 1/50 of the width.
    assert abs(ours.low - theirs.low) < 0.05 * (theirs.high - theirs.low)
    assert abs(ours.high - theirs.high) < 0.05 * (theirs.high - theirs.low)


def test_samples_are_drawn_on_their_own_or_together():
    values = np.arange(50.0)

    def distance(a, b):
        return float(np.mean(a) - np.mean(b))

    together = bootstrap_interval(distance, values, values, paired=True)
    alone = bootstrap_interval(distance, values, values)
    assert (together.low, together.high) == (0.0, 0.0)
    assert alone.low < -1.0 < 1.0 < alone.high


def test_what_the_bootstrap_cannot_say_is_none():
    constant = np.ones(9)
    with np.errstate(invalid="ignore"):
        unknown = bootstrap_interval(lambda x: float(np.std(x) / np.std(x)), constant)
    assert math.isnan(unknown.mean)
    assert (unknown.low, unknown.high) == (None, None)
    assert bootstrap_interval(np.mean, [3.0]).low is None
    with pytest.raises(InputError, match="give each the same number"):
        bootstrap_interval(np.mean, [1.0, 2.0], [1.0], paired=True)
    with pytest.raises(InputError, match="at least one sample with rows"):
        bootstrap_interval(np.mean, [])


def test_the_paired_bootstrap_errs_as_often_as_it_says():
    random = np.random.default_rng(1)
    results = [
        paired_bootstrap(base + random.normal(0, 0.1, 50), base, resamples=400)
        for base in random.normal(size=(400, 50))
    ]
    false_alarms = np.mean([result.p_value <= 0.1 for result in results])
    outside = np.mean([not result.low <= 0.0 <= result.high for result in results])
    assert false_alarms < 0.1 + 4 * math.sqrt(0.09 / 400)
    assert outside < 0.05 + 4 * math.sqrt(0.0475 / 400)


def test_the_paired_bootstrap_sees_what_unpaired_spread_hides():
    random = np.random.default_rng(2)
    base = random.normal(0.0, 10.0, 300)
    better = paired_bootstrap(base + random.normal(0.1, 0.2, 300), base)
    assert better.low > 0.0
    assert better.p_value < 0.001
    worse = paired_bootstrap(base, base + 0.1 + random.normal(0, 0.2, 300))
    assert worse.high < 0.0
    assert better.mean == pytest.approx(0.1, abs=0.05)
    same = paired_bootstrap(base, base)
    assert (same.low, same.high, same.p_value) == (0.0, 0.0, 1.0)


def test_many_items_are_drawn_in_blocks_with_the_same_spread():
    random = np.random.default_rng(3)
    base = random.normal(size=20_000)
    found = paired_bootstrap(base, np.zeros(20_000), resamples=1000)
    assert found.high - found.low == pytest.approx(2 * 1.96 / math.sqrt(20_000), rel=0.15)


@pytest.mark.parametrize(
    ("first", "second", "match"),
    [
        ([1.0], [1.0, 2.0], "first has 1 items and second 2"),
        ([], [], "one number"),
        ([1.0, math.inf], [1.0, 2.0], "infinite"),
        ([1.0, math.nan], [1.0, 2.0], "no measure"),
    ],
)
def test_differences_that_do_not_exist_are_refused(first, second, match):
    with pytest.raises(InputError, match=match):
        paired_bootstrap(first, second)


def test_holm_multiplies_step_by_step_and_never_falls():
    # Holm's own rule: sorted p times the number of hypotheses left, cumulative maximum, at most 1.
    assert holm({"a": 0.01, "b": 0.02, "c": 0.022, "d": 0.9}) == {
        "a": 0.04,
        "b": 0.06,
        "c": 0.06,
        "d": 0.9,
    }
    assert holm({"only": 0.5}) == {"only": 0.5}
    assert holm({"a": 0.7, "b": 0.6}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}
    with pytest.raises(InputError, match="'a' is nan"):
        holm({"a": math.nan})
