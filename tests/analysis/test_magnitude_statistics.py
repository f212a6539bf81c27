"""Statistics of norms against scipy, scikit-learn and loops."""

import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from magjax.analysis import (
    cohens_d,
    embedding_norms,
    hedges_g,
    k_occurrence,
    norm_auc,
    skewness,
    spearman,
    summarize_norms,
)
from magjax.checks import InputError
from magjax.evaluation import Ranking

VALUES = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=30)


def random(seed=0):
    return np.random.default_rng(seed)


def naive_d(first, second):
    n, m = len(first), len(second)
    pooled = ((n - 1) * np.var(first, ddof=1) + (m - 1) * np.var(second, ddof=1)) / (n + m - 2)
    return (np.mean(first) - np.mean(second)) / math.sqrt(pooled)


def test_cohens_d_and_hedges_g_are_their_formulae():
    first, second = random().normal(2.0, 1.0, 7), random(1).normal(1.0, 2.0, 5)
    expected = naive_d(first, second)
    assert cohens_d(first, second) == pytest.approx(expected, rel=1e-12)
    assert cohens_d(second, first) == pytest.approx(-expected, rel=1e-12)
    freedom = 10
    correction = math.gamma(freedom / 2) / (math.sqrt(freedom / 2) * math.gamma((freedom - 1) / 2))
    assert hedges_g(first, second) == pytest.approx(correction * expected, rel=1e-12)
    assert correction == pytest.approx(1 - 3 / (4 * freedom - 1), abs=1e-3)


def test_a_planted_effect_is_found():
    first, second = random().normal(1.8, 1.0, 20_000), random(1).normal(0.0, 1.0, 20_000)
    assert cohens_d(first, second) == pytest.approx(1.8, abs=0.04)
    # Two normal distributions of the same deviation: AUC = Phi(d / sqrt 2).
    assert norm_auc(first, second) == pytest.approx(stats.norm.cdf(1.8 / math.sqrt(2)), abs=0.005)


def test_effects_of_large_norms_with_a_small_spread_keep_their_digits():
    first, second = random().normal(1e8, 1.0, 500), random(1).normal(1e8 + 0.5, 1.0, 500)
    assert cohens_d(first, second) == pytest.approx(naive_d(first, second), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES)
def test_auc_is_that_of_scikit_learn_and_of_mann_and_whitney(first, second):
    labels = [1] * len(first) + [0] * len(second)
    found = norm_auc(np.array(first), np.array(second))
    assert found == pytest.approx(sklearn.metrics.roc_auc_score(labels, first + second), abs=1e-12)
    u = stats.mannwhitneyu(first, second).statistic
    assert found == pytest.approx(u / (len(first) * len(second)), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=3, max_size=40))
def test_spearman_is_that_of_scipy_with_ties(pairs):
    x, y = np.array(pairs).T
    found = spearman(x, y, resamples=1)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(found.mean)
        assert found.low is None
    else:
        assert found.mean == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_the_interval_of_spearman_ranks_each_resample_anew():
    x = random().integers(0, 6, 40)
    y = x + random(1).normal(0.0, 2.0, 40).round()
    found = spearman(x, y, resamples=50, seed=3, confidence=0.9)
    draws, values = np.random.default_rng(3), []
    for _ in range(50):
        rows = draws.integers(0, 40, 40)
        values.append(stats.spearmanr(x[rows], y[rows]).statistic)
    low, high = np.quantile(values, [0.05, 0.95])
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


def test_groups_that_do_not_vary_have_no_effect():
    same = np.ones(5)
    assert math.isnan(cohens_d(same, same))
    assert math.isnan(hedges_g(same, same))
    assert norm_auc(same, same) == 0.5
    assert cohens_d(same + 1.0, same) == math.inf
    assert math.isnan(cohens_d(same[:1], same[:1]))
    with pytest.raises(InputError, match="5 and 0 values"):
        cohens_d(same, np.empty(0))


def test_norms_are_summed_in_float64_and_summarized():
    embeddings = np.array([[1e-25, 0.0], [3e20, 4e20], [0.0, 0.0]], np.float32)
    np.testing.assert_allclose(embedding_norms(embeddings), [1e-25, 5e20, 0.0], rtol=1e-6)
    norms = random().uniform(1.0, 2.0, 100)
    found = summarize_norms(norms)
    assert found.cv == pytest.approx(stats.variation(norms), rel=1e-12)
    assert (found.count, found.minimum, found.maximum) == (100, norms.min(), norms.max())
    assert not found.negligible
    nearly = summarize_norms(1.0 + 1e-4 * norms)
    assert nearly.negligible
    assert not nearly.constant
    unit = random().normal(size=(50, 64)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    assert summarize_norms(embedding_norms(unit)).constant
    assert summarize_norms(np.zeros(3)).cv == 0.0
    with pytest.raises(InputError, match="no embedding"):
        summarize_norms(np.empty(0))


def test_in_degrees_and_their_skewness():
    lists = [[0, 1, 2], [0, 2, 1], [0, 3, 1]]
    ranking = Ranking(
        tuple("abc"),
        tuple(tuple(f"d{row}" for row in rows) for rows in lists),
        tuple(np.arange(3.0, 0.0, -1.0) for _ in lists),
        tuple(np.array(rows) for rows in lists),
    )
    assert k_occurrence(ranking, 5, 2).tolist() == [3, 1, 1, 1, 0]
    values = random().poisson(1.0, 200)
    assert skewness(values) == pytest.approx(stats.skew(values), rel=1e-12)
    assert math.isnan(skewness(np.ones(4)))
