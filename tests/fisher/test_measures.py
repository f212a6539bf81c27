"""Condition numbers against formulas by hand, and when there is no number to give."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.fisher._measures import MEASURES, explain, find_measure, measure
from magjax.fisher._spectrum import Spectrum, dense_spectrum, gram_spectrum


def rotated(eigenvalues, seed=0):
    values = np.asarray(eigenvalues, float)
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2


def lanczos(values, residuals, *, dimension=100, rank_bound=100, nodes=None, cutoff=1e-6):
    nodes = np.asarray(values if nodes is None else nodes, float)
    return Spectrum(
        eigenvalues=np.asarray(values, float),
        dimension=dimension,
        rank_bound=rank_bound,
        method="lanczos",
        cutoff=cutoff,
        residuals=np.asarray(residuals, float),
        orthogonality_loss=0.0,
        float_width=32,
        nodes=nodes,
        weights=np.full(len(nodes), dimension / len(nodes)),
        steps=len(values),
        seed=0,
    )


def test_condition_number_of_a_regular_matrix():
    found = measure(dense_spectrum(rotated([1.0, 2.0, 4.0, 100.0])))
    assert found["kappa"] == pytest.approx(100.0, rel=1e-10)
    assert found["kappa_rank"] == found["kappa"]
    assert found["lambda1_over_mean"] == pytest.approx(400.0 / 107.0)
    assert list(found) == list(MEASURES)


def test_condition_number_over_twelve_decades():
    found = measure(dense_spectrum(rotated(np.logspace(0, -12, 13))))
    # The solver is off by about 1e-16 of λ1, which is 1e-4 of the smallest.
    assert found["kappa"] == pytest.approx(1e12, rel=1e-3)
    assert found["lambda1_over_lambda10"] == pytest.approx(1e9, rel=1e-6)


def test_a_singular_matrix_stays_infinite():
    spectrum = dense_spectrum(rotated([8.0, 4.0, 1e-5, 0.0, 0.0]))
    found = measure(spectrum)
    assert found["kappa"] == math.inf
    assert "2 of 5 eigenvalues" in explain(spectrum, "kappa")
    assert found["kappa_rank"] == pytest.approx(8e5, rel=1e-9)
    assert explain(spectrum, "kappa_rank") is None
    delta = 0.1 * 12.00001 / 5
    assert found["kappa_damped@0.1"] == pytest.approx((8.0 + delta) / delta)


def test_damping_by_hand():
    spectrum = dense_spectrum(rotated([6.0, 2.0, 1.0]))  # mean 3
    found = measure(spectrum, dampings=(0.1, 1.0, 1e-5, 0.12345678901), orders=())
    assert found["kappa_damped@0.1"] == pytest.approx(6.3 / 1.3)
    assert found["kappa_damped@1"] == pytest.approx(9.0 / 4.0)
    assert found["kappa_damped@1e-05"] == pytest.approx(6.00003 / 1.00003)
    share = 3 * 0.12345678901
    assert found["kappa_damped@0.12345678901"] == pytest.approx(
        (6 + share) / (1 + share), rel=1e-12
    )
    assert not any(name.startswith("lambda1_over_lambda") for name in found)


@pytest.mark.parametrize("equal", [1, 3, 12])
def test_ranks_of_equal_eigenvalues_are_their_number(equal):
    found = measure(dense_spectrum(rotated([0.3] * equal + [0.0] * 4)))
    assert found["effective_rank"] == pytest.approx(equal, rel=1e-10)
    assert found["participation_ratio"] == pytest.approx(equal, rel=1e-10)


def test_effective_rank_and_participation_by_hand():
    values = np.array([5.0, 1.0, 0.5, 0.0])
    found = measure(dense_spectrum(rotated(values)))
    p = values[:3] / values.sum()
    assert found["effective_rank"] == pytest.approx(np.prod(p**-p), rel=1e-10)
    assert found["participation_ratio"] == pytest.approx(1 / np.sum(p**2), rel=1e-10)


def test_orders_beyond_the_matrix_and_beyond_its_rank():
    root = np.random.default_rng(0).normal(size=(12, 80))
    spectrum = gram_spectrum(root @ root.T, dimension=80)
    found = measure(spectrum, orders=(10, 64, 81))
    singular = np.linalg.svd(root, compute_uv=False) ** 2
    assert found["lambda1_over_lambda10"] == pytest.approx(singular[0] / singular[9])
    assert found["lambda1_over_lambda64"] == found["kappa"] == math.inf
    assert "by counting" in explain(spectrum, "kappa")
    assert "rank is at most 12" in explain(spectrum, "lambda1_over_lambda64")
    assert found["lambda1_over_lambda81"] is None
    assert "has 80 eigenvalues, not 81" in explain(spectrum, "lambda1_over_lambda81")


def test_gram_and_dense_give_the_same_measures():
    root = np.random.default_rng(1).normal(size=(9, 6))
    dense = measure(dense_spectrum(root.T @ root), orders=(3,))
    gram = measure(gram_spectrum(root @ root.T, dimension=6), orders=(3,))
    assert gram == pytest.approx(dense, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=8),
    st.integers(0, 3),
    st.sampled_from([1e-150, 1e-20, 3.7e-4, 9e5, 1e30, 1e150]),
)
def test_no_measure_depends_on_the_scale(values, zeros, scale):
    matrix = rotated([*values, *[0.0] * zeros])
    plain, scaled = (measure(dense_spectrum(m), orders=(2,)) for m in (matrix, scale * matrix))
    for name, value in plain.items():
        assert scaled[name] == pytest.approx(value, rel=1e-7), name


def test_the_zero_matrix_says_so():
    spectrum = dense_spectrum(np.zeros((3, 3)))
    found = measure(spectrum)
    assert found.pop("kappa") == math.inf
    assert set(found.values()) == {None}
    assert {explain(spectrum, name) for name in MEASURES} == {"the matrix is zero"}


def test_a_ritz_value_counts_only_if_converged():
    spectrum = lanczos([10.0, 4.0, 2.0, 1.0], [1e-9, 0.03, 0.5, 0.4])
    found = measure(spectrum, orders=(2, 3, 5))
    assert found["lambda1_over_lambda2"] == 2.5
    for name in ("kappa", "kappa_rank", "kappa_damped@0.1"):
        assert found[name] is None
        assert explain(spectrum, name) is not None
    assert found["lambda1_over_lambda3"] is None
    assert "Ritz value 2, residual 0.5" in explain(spectrum, "lambda1_over_lambda3")
    assert "found 4 eigenvalues, fewer than 5" in explain(spectrum, "lambda1_over_lambda5")
    assert found["lambda1_over_mean"] == pytest.approx(10.0 / 4.25)
    assert found["effective_rank"] > 50  # quadrature needs no convergence


def test_the_smallest_ritz_value_is_a_bound_only():
    # Converged and the lowest of all probes: a number.
    known = lanczos([10.0, 1.0], [0.0, 1e-4])
    assert measure(known)["kappa"] == measure(known)["kappa_rank"] == 10.0
    # A second probe that reaches lower: not the smallest.
    lower = lanczos([10.0, 1.0], [0.0, 1e-4], nodes=[10.0, 1.0, 10.0, 0.5])
    assert measure(lower)["kappa"] is None
    assert "another probe" in explain(lower, "kappa")
    # At or below the cut-off: singular, converged or not.
    null = lanczos([10.0, 1e-7], [0.0, 0.5])
    assert measure(null)["kappa"] == math.inf
    assert measure(null)["kappa_rank"] is None
    assert measure(null)["kappa_damped@0.1"] == pytest.approx((10 + 0.5) / 0.5, rel=1e-6)
    # By counting: singular, whatever the Ritz values.
    counted = lanczos([10.0, 1.0], [0.0, 1e-4], rank_bound=99)
    assert measure(counted)["kappa"] == math.inf
    assert measure(counted, orders=(100,))["lambda1_over_lambda100"] == math.inf
    # A largest value that has not converged: no ratio at all, but kappa is still infinite.
    early = lanczos([10.0, 1.0], [2.0, 1e-4], rank_bound=99)
    found = measure(early)
    assert found["kappa"] == math.inf
    assert found["lambda1_over_mean"] is found["kappa_damped@0.1"] is None
    assert "eigenvalue 1 has not converged" in explain(early, "kappa_damped@0.1")


def test_names_are_checked():
    assert {entry.prefer for entry in MEASURES.values()} == {"low", "high"}
    assert "0.03" in find_measure("kappa_damped@0.03").description
    with pytest.raises(InputError, match="Did you mean 'kappa'"):
        find_measure("kapa")
    bad = ("kappa_damped@x", "kappa_damped@-1", "lambda1_over_lambda0", "lambda1_over_lambda1.5")
    for name in bad:
        with pytest.raises(InputError, match=name.partition("@")[0]):
            explain(dense_spectrum(np.eye(2)), name)
    with pytest.raises(InputError, match="damping=0"):
        measure(dense_spectrum(np.eye(2)), dampings=[0.0])
    with pytest.raises(InputError, match="order=0"):
        measure(dense_spectrum(np.eye(2)), orders=[0])
