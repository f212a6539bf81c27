"""The float32 bounds, the float64 sums and the two-stage selection that exact search rests on."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_cases import normal

from magjax.evaluation._candidates import score_bounds, top_rows
from magjax.evaluation._exact import (
    exact_scores,
    length_factors,
    squared_norms,
    upper_bound_terms,
)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.sampled_from([1, 2, 3, 31, 128, 384]),
    spread=st.sampled_from([0.0, 1.0, 8.0, 40.0]),
    gamma=st.sampled_from([0.0, 0.5, 1.0]),
    positive=st.booleans(),
)
def test_no_exact_score_exceeds_its_bound(seed, dim, spread, gamma, positive):
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(64, dim))
    if positive:  # errors of one sign add up
        documents = abs(documents)
    documents = (documents * 10.0 ** rng.uniform(-spread, spread, (64, 1))).clip(-3e38, 3e38)
    documents = documents.astype(np.float32)
    query = abs(rng.normal(size=dim)) if positive else rng.normal(size=dim)
    query = query.astype(np.float32).astype(np.float64)
    squares = squared_norms(documents)
    factors = length_factors(squares, gamma)
    unit = (query / math.sqrt(math.fsum(query * query)))[None]
    scale, slack = upper_bound_terms(squares, factors, dim)
    bounds = score_bounds(jnp.asarray(unit, jnp.float32), documents, scale, slack)[0]
    exact = exact_scores(unit[0], documents, np.arange(64)) * factors
    assert (bounds >= exact).all()
    usual = np.isfinite(slack)
    # And the bound is tight: within a few 1e-5 of the length at 384 dimensions.
    loose = (bounds - exact)[usual]
    assert (loose <= 2.1 * slack[usual]).all()


def test_bounds_use_full_float32_products():
    queries, documents = normal(28, 8, 384), normal(29, 1000, 384)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    found = score_bounds(queries, documents, np.ones(1000, np.float32), np.zeros(1000, np.float32))
    exact = queries.astype(np.float64) @ documents.astype(np.float64).T
    assert abs(found - exact).max() < 1e-6


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 9, 127, 128, 129, 384, 1000])
def test_exact_sums_do_not_depend_on_company(dim):
    documents, query = normal(30, 1100, dim), normal(31, dim).astype(np.float64)
    whole = exact_scores(query, documents, np.arange(1100))
    for chosen in ([0], [1099], [5, 3], list(range(511, 514)), list(range(1, 1100, 7))):
        rows = np.array(chosen)
        assert exact_scores(query, documents, rows).tobytes() == whole[rows].tobytes()
        assert squared_norms(documents[rows]).tobytes() == squared_norms(documents)[rows].tobytes()
    fortran = np.asfortranarray(documents)
    assert exact_scores(query, fortran, np.arange(1100)).tobytes() == whole.tobytes()


@pytest.mark.parametrize("n", [1, 31, 32, 64, 320, 1024, 1000])
@pytest.mark.parametrize("count", [1, 3, 16, 40])
def test_two_stage_selection(n, count):
    values = np.random.default_rng(n).integers(0, 50, (4, n)).astype(np.float32)
    best, columns = top_rows(jnp.asarray(values), count)
    assert best.shape == columns.shape == (4, count)
    real = min(n, count)
    np.testing.assert_array_equal(best[:, :real], -np.sort(-values, axis=1)[:, :real])
    np.testing.assert_array_equal(np.take_along_axis(values, columns[:, :real], 1), best[:, :real])
    assert all(len(set(row[:real].tolist())) == real for row in columns)
    assert np.isneginf(best[:, real:]).all()
