"""Eigenvalues by the dense and the Gram route, what is refused, and what is written down."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.files import json_safe
from magjax.fisher._spectrum import dense_spectrum, gram_spectrum


def rotated(eigenvalues, seed=0):
    """A symmetric matrix with these eigenvalues and random orthogonal eigenvectors."""
    values = np.asarray(eigenvalues, float)
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2


WIDE = np.logspace(0, -12, 13)
PRESCRIBED = {
    "plain": [100.0, 4.0, 2.0, 1.0],
    "clustered": [2.0, 1.0 + 1e-7, 1.0 + 1e-9, 1.0, 1e-3],
    "repeated": [3.0, 3.0, 3.0, 1.0, 1.0],
    "low rank": [5.0, 0.5, 0.0, 0.0, 0.0, 0.0],
    "wide": WIDE,
    "one": [7.0],
}


@pytest.mark.parametrize("name", PRESCRIBED)
def test_dense_finds_the_prescribed_eigenvalues(name):
    wanted = np.asarray(PRESCRIBED[name], float)
    found = dense_spectrum(rotated(wanted))
    largest = wanted[0]
    np.testing.assert_allclose(found.eigenvalues, wanted, rtol=0, atol=1e-14 * largest)
    assert found.rank == np.sum(wanted > 0)
    assert found.nullity == np.sum(wanted == 0)
    assert found.trace == pytest.approx(wanted.sum(), rel=1e-12)
    assert found.trace_of_square == pytest.approx(np.sum(wanted**2), rel=1e-12)
    assert found.residuals.shape == wanted.shape
    assert found.residuals.max() < 1e-14 * len(wanted) * largest
    assert found.orthogonality_loss < 1e-14 * len(wanted)
    assert (found.method, found.float_width, found.is_complete) == ("dense", 64, True)


def test_cutoff_follows_the_type_of_the_input():
    values = [1.0, 1e-3, 1e-9, 0.0]
    wide, narrow = rotated(values), rotated(values).astype(np.float32)
    assert dense_spectrum(wide).rank == 3
    for matrix in (narrow, jnp.asarray(narrow)):
        found = dense_spectrum(matrix)  # 1e-9 drowns in float32's noise
        assert (found.rank, found.float_width) == (2, 32)
        assert found.cutoff == pytest.approx(32 * 2.0**-23, rel=1e-6)
    assert dense_spectrum(wide, relative_cutoff=1e-2).rank == 1
    assert dense_spectrum(np.zeros((3, 3))).rank == 0


@pytest.mark.parametrize(("rows", "columns"), [(5, 9), (9, 5), (6, 6)])
def test_gram_route_agrees_with_the_dense_one(rows, columns):
    root = np.random.default_rng(rows).normal(size=(rows, columns))
    dense = dense_spectrum(root.T @ root / rows, rank_bound=rows)
    gram = gram_spectrum(root @ root.T / rows, dimension=columns)
    kept = min(rows, columns)
    np.testing.assert_allclose(gram.eigenvalues, dense.eigenvalues[:kept], rtol=1e-11)
    assert gram.rank_bound == dense.rank_bound == kept
    assert gram.nullity == dense.nullity == columns - kept
    assert gram.zeros == dense.zeros
    assert gram.trace == pytest.approx(dense.trace)
    assert gram.dimension == columns


def test_counting_bounds_the_rank():
    matrix = rotated([3.0, 2.0, 1.0, 0.0])
    assert dense_spectrum(matrix, rank_bound=3).rank_bound == 3
    assert dense_spectrum(matrix, rank_bound=99).rank_bound == 4
    with pytest.raises(InputError, match=r"rank above 2, .* eigenvalue number 3 is 1 "):
        dense_spectrum(matrix, rank_bound=2)
    with pytest.raises(InputError, match="the Gram matrix has rank above 2"):
        gram_spectrum(matrix, dimension=2)


def test_roundoff_below_zero_is_kept_and_more_is_refused():
    found = dense_spectrum(np.diag([1.0, 1e-3, -5e-16]))
    assert found.eigenvalues[-1] == -5e-16
    assert found.rank == 2
    with pytest.raises(InputError, match=r"not positive semi-definite.* -0\.001"):
        dense_spectrum(np.diag([1.0, -1e-3]))
    with pytest.raises(InputError, match="not positive semi-definite"):
        dense_spectrum(-np.eye(2))
    assert dense_spectrum(np.diag([1.0, -1e-3]), relative_cutoff=0.01).rank == 1


def test_other_matrices_are_refused():
    skewed = rotated([3.0, 2.0, 1.0])
    skewed[0, 1] += 1e-6
    with pytest.raises(InputError, match=r"not symmetric: .* 1e-06"):
        dense_spectrum(skewed)
    dense_spectrum(skewed.astype(np.float32))  # within float32's roundoff
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, match="1 entries that are not finite"):
            dense_spectrum(np.diag([1.0, bad]))
    for shape in ((2, 3), (0, 0)):
        with pytest.raises(InputError, match="must be square and not empty"):
            dense_spectrum(np.zeros(shape))
    with pytest.raises(InputError, match="float16"):
        dense_spectrum(np.eye(2, dtype=np.float16))
    with pytest.raises(InputError, match="relative_cutoff=2"):
        dense_spectrum(np.eye(2), relative_cutoff=2.0)
    with pytest.raises(InputError, match="dimension=0"):
        gram_spectrum(np.eye(2), dimension=0)


def test_density_integrates_to_the_dimension():
    found = dense_spectrum(rotated([100.0, 1.0, 0.9, 0.01, 0.0, 0.0]))
    grid = np.linspace(-4, 4, 2001)
    density, zeros = found.density(grid, 0.2)
    assert zeros == 2.0
    assert np.trapezoid(density, grid) + zeros == pytest.approx(6.0, abs=1e-6)
    peak = 1.0 / (0.2 * np.sqrt(2 * np.pi))
    assert density[np.argmin(np.abs(grid - 2.0))] == pytest.approx(peak, rel=1e-3)
    with pytest.raises(InputError, match="width"):
        found.density(grid, 0.0)


def test_json_is_plain_and_cut_to_512():
    found = dense_spectrum(np.diag(np.linspace(1.0, 2.0, 520)))
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert len(written["eigenvalues"]) == len(written["residuals"]) == 512
    assert written["eigenvalue_count"] == written["rank"] == 520
    assert written["eigenvalues"][0] == 2.0
    assert written["nodes"] is None
    safe = json_safe(
        {"a": [np.inf, -np.inf, np.nan], 2: (np.float32(0.5), np.arange(2)), "c": None}
    )
    assert safe == {"a": ["infinite", "-infinite", None], "2": [0.5, [0, 1]], "c": None}
