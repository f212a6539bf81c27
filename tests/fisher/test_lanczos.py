"""Lanczos against dense eigenvalues: extremes, breakdown, quadrature, compilation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.fisher._lanczos import _ritz, krylov_bytes, lanczos_spectrum
from magjax.fisher._measures import explain, measure
from magjax.fisher._spectrum import dense_spectrum


def apply(vector, matrix):
    return matrix @ vector


def rotated(eigenvalues, seed=0):
    values = np.asarray(eigenvalues, float)
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2


def run(matrix, dtype=jnp.float32, **options):
    rows = len(matrix)
    options = {"rank_bound": rows, "dtype": dtype} | options
    with jax.enable_x64(dtype == jnp.float64):
        arguments = (jnp.asarray(matrix, dtype),)
        return lanczos_spectrum(apply, rows, arguments=arguments, **options)


SEPARATED = np.concatenate([[40.0, 30.0, 22.0, 16.0, 12.0], np.linspace(1.0, 6.0, 294), [0.1]])


@pytest.mark.parametrize(("dtype", "relative"), [(jnp.float64, 1e-12), (jnp.float32, 2e-6)])
def test_as_many_steps_as_rows_give_every_eigenvalue(dtype, relative):
    matrix = rotated(np.linspace(1.0, 9.0, 12))
    found, dense = run(matrix, dtype, steps=99), dense_spectrum(matrix)
    np.testing.assert_allclose(found.eigenvalues, dense.eigenvalues, rtol=relative * 9)
    assert (found.steps, found.method, found.is_complete) == (12, "lanczos", False)
    assert found.float_width == 8 * np.dtype(dtype).itemsize
    assert found.orthogonality_loss < 10 * relative
    assert found.residuals.max() < 10 * relative
    ours, theirs = measure(found, orders=(10,)), measure(dense, orders=(10,))
    for name in ("kappa", "kappa_rank", "kappa_damped@0.01", "lambda1_over_lambda10"):
        assert ours[name] == pytest.approx(theirs[name], rel=20 * relative), name


def test_separated_extremes_of_300_rows_in_40_steps():
    matrix = rotated(SEPARATED)
    for dtype, relative in ((jnp.float64, 1e-6), (jnp.float32, 1e-5)):
        found = run(matrix, dtype, steps=40)
        np.testing.assert_allclose(found.eigenvalues[:5], SEPARATED[:5], rtol=relative)
        # The bound that residuals are: an eigenvalue lies that close to every Ritz value.
        away = np.abs(found.eigenvalues[:, None] - SEPARATED).min(axis=1)
        assert np.all(away <= found.residuals + found.cutoff)
        assert found.rank is found.nullity is None
        # Its bulk from 1 to 6 is far from resolved, and no number is made up for it.
        assert measure(found)["lambda1_over_lambda64"] is None
        assert "fewer than 64" in explain(found, "lambda1_over_lambda64")


def test_few_steps_give_no_condition_number():
    few = run(rotated(np.linspace(0.01, 1.0, 300)), steps=10)
    assert few.eigenvalues[-1] > 0.01  # from above
    assert measure(few)["kappa"] is None
    assert "not converged after 10 Lanczos steps" in explain(few, "kappa")


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(
    ("eigenvalues", "distinct"),
    [
        (np.repeat([4.0, 2.0, 1.0], 20), 3),
        (np.ones(60), 1),
        (np.concatenate([[8.0, 4.0, 1.0, 0.5], np.zeros(56)]), 5),
        (np.zeros(60), 1),
    ],
    ids=["repeated", "identity", "low rank", "zero"],
)
def test_an_exhausted_space_ends_the_decomposition(eigenvalues, distinct, dtype):
    found = run(rotated(eigenvalues), dtype, steps=30, probes=2)
    tolerance = 60 * np.finfo(dtype).eps * max(eigenvalues[0], 1.0)
    assert found.steps == len(found.eigenvalues) == distinct
    wanted = np.unique(eigenvalues)[::-1]
    np.testing.assert_allclose(found.eigenvalues, wanted, atol=tolerance)
    assert np.isfinite(found.residuals).all()
    assert found.residuals.max() <= tolerance
    assert found.orthogonality_loss < 1e-3
    assert found.weights.sum() == pytest.approx(60.0)
    if eigenvalues[-1] == 0.0:
        assert measure(found)["kappa"] == math.inf
    else:
        assert measure(found)["kappa"] == pytest.approx(eigenvalues[0], rel=1e-5)


def test_vectors_that_are_not_orthogonal_are_left_out():
    projected = np.diag([3.0, 2.0, 1.0]) + np.diag([0.5, 0.25], 1) + np.diag([0.5, 0.25], -1)
    overlap = np.eye(3)
    options = {"dimension": 60, "epsilon": 1e-7, "scale": 2.0}
    whole = _ritz(projected, np.array(0.1), overlap, **options)
    np.testing.assert_allclose(whole.values, 2 * np.linalg.eigvalsh(projected)[::-1])
    overlap[0, 2] = overlap[2, 0] = 0.5
    found = _ritz(projected, np.array(0.1), overlap, **options)
    values, vectors = np.linalg.eigh(projected[:2, :2])
    np.testing.assert_allclose(found.values, 2 * values[::-1])
    np.testing.assert_allclose(found.residuals, 2 * 0.25 * np.abs(vectors[1, ::-1]))
    assert found.orthogonality_loss == 0.0


def test_a_rank_bound_makes_kappa_infinite_whatever_the_ritz_values():
    root = np.random.default_rng(0).normal(size=(10, 60))
    found = run(root.T @ root / 10, steps=30, rank_bound=10)
    assert 11 <= found.steps < 15  # ten eigenvalues, zero, and float32's noise
    assert measure(found)["kappa"] == math.inf
    assert "at most 10 of 60" in explain(found, "kappa")
    wanted = np.linalg.svd(root, compute_uv=False) ** 2 / 10
    np.testing.assert_allclose(found.eigenvalues[:10], wanted, rtol=1e-5)
    assert found.zeros == pytest.approx(50.0, abs=8.0)  # one probe's estimate


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e24])
def test_the_scale_of_the_matrix_does_not_matter(scale):
    matrix = rotated(np.concatenate([np.logspace(2, 0, 20), np.full(40, 0.9)]))
    plain, scaled = run(matrix, steps=30), run(scale * matrix, steps=30)
    assert scaled.steps == plain.steps
    np.testing.assert_allclose(scaled.eigenvalues, scale * plain.eigenvalues, rtol=1e-4)
    ours, theirs = measure(scaled), measure(plain)
    for name in ("kappa", "lambda1_over_lambda10", "effective_rank", "participation_ratio"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-4), name


def test_quadrature_of_many_probes():
    values = np.logspace(0, -3, 60)
    found = run(rotated(values), steps=30, probes=100)
    dense = measure(dense_spectrum(np.diag(values)))
    assert found.weights.sum() == pytest.approx(60.0)
    assert (found.probes, len(found.nodes)) == (100, 3000)
    # Unit vectors: var tr = 2 (n tr F² - (tr F)²) / (n + 2) a probe.
    n, trace, square = 60, values.sum(), np.sum(values**2)
    error = math.sqrt(2 * (n * square - trace**2) / (n + 2) / 100)
    assert found.trace_error == pytest.approx(error, rel=0.35)
    assert abs(found.trace - trace) < 4 * error
    assert found.trace_of_square == pytest.approx(square, rel=0.15)
    assert measure(found)["effective_rank"] == pytest.approx(dense["effective_rank"], rel=0.06)
    ratio = dense["participation_ratio"]
    assert measure(found)["participation_ratio"] == pytest.approx(ratio, rel=0.15)
    grid = np.linspace(-6, 2, 801)
    density, zeros = found.density(grid, 0.2)
    assert np.trapezoid(density, grid) + zeros == pytest.approx(60.0, abs=1e-6)


def test_one_seed_gives_the_same_bits_and_another_does_not():
    matrix = rotated(np.linspace(1.0, 2.0, 60))
    first, again, other = (run(matrix, steps=30, seed=seed, probes=2) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.nodes, again.nodes)
    np.testing.assert_array_equal(first.weights, again.weights)
    assert np.abs(first.nodes - other.nodes).max() > 1e-6
    # More probes keep the first; one probe has no spread.
    alone = run(matrix, steps=30, seed=3)
    np.testing.assert_array_equal(alone.nodes, first.eigenvalues)
    assert alone.trace_error is None
    assert first.trace_error > 0.0
    assert (first.seed, other.seed) == (3, 4)


def test_other_arguments_do_not_compile_again():
    traces = []

    def counted(vector, weights):
        traces.append(vector.shape)
        return weights["diagonal"] * vector

    def spectrum(diagonal, **options):
        arguments = ({"diagonal": jnp.asarray(diagonal, jnp.float32)},)
        return lanczos_spectrum(counted, 3, arguments=arguments, rank_bound=3, **options)

    spectrum([1.0, 2.0, 3.0])
    before = len(traces)
    found = spectrum([4.0, 5.0, 7.0], probes=3, seed=9)
    tiny = spectrum([1e-20, 2e-20, 3e-20])  # rescaled: one more run of the same program
    assert len(traces) == before
    assert found.eigenvalues[0] == pytest.approx(7.0, rel=1e-6)
    assert tiny.eigenvalues[0] == pytest.approx(3e-20, rel=1e-6)


def test_noise_of_the_product_raises_the_cutoff():
    matrix = rotated(np.linspace(0.0, 1.0, 60))
    noise = np.random.default_rng(0).normal(size=(60, 60))
    clean, noisy = run(matrix, steps=30), run(matrix + 1e-4 * noise, steps=30)
    assert clean.cutoff < 1e-5
    assert 1e-4 < noisy.cutoff < 0.1
    with pytest.raises(InputError, match="not symmetric"):
        run(matrix + 0.1 * noise, steps=30)


def test_other_products_are_refused():
    with pytest.raises(InputError, match="not positive semi-definite"):
        run(rotated(np.linspace(-1.0, 1.0, 60)), steps=30)
    broken = np.eye(60)
    broken[3, 3] = np.nan
    with pytest.raises(InputError, match="product number 1 is not finite"):
        run(broken, steps=30)
    with pytest.raises(InputError, match=r"returned float32\[2\] for a vector float32\[3\]"):
        lanczos_spectrum(lambda vector: vector[:2], 3, rank_bound=3)
    with pytest.raises(InputError, match=r"returned float16\[3\]"):
        lanczos_spectrum(lambda vector: vector.astype(jnp.float16), 3, rank_bound=3)
    with pytest.raises(InputError, match="64-bit mode"):
        lanczos_spectrum(lambda vector: vector, 3, rank_bound=3, dtype=jnp.float64)
    with pytest.raises(InputError, match="float32 or float64"):
        lanczos_spectrum(lambda vector: vector, 3, rank_bound=3, dtype=jnp.float16)
    with pytest.raises(InputError, match="steps=0"):
        lanczos_spectrum(lambda vector: vector, 3, rank_bound=3, steps=0)


def test_one_row_and_memory():
    found = run(np.array([[5.0]]))
    assert found.eigenvalues == pytest.approx([5.0])
    assert measure(found)["kappa"] == 1.0
    assert krylov_bytes(1000, 10) == 40_000
    assert krylov_bytes(5, 10, jnp.float64) == 200
