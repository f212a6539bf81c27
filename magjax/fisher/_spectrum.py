"""Eigenvalues of a Fisher matrix, with what is needed to judge them."""

import dataclasses
from typing import Any

import numpy as np
import scipy.linalg

from magjax.checks import InputError, fraction, positive_integer, positive_number
from magjax.files import json_safe
from magjax.typing import Array, Float

__all__ = ["Spectrum", "dense_spectrum", "gram_spectrum"]

# Eigenvalues of random matrices of 3 to 20 rows came out up to 19 epsilons of λ1 off.
_NOISE = 32

_LISTED = 512  # eigenvalues that to_json writes; a reader of JSON needs no 7,000 of them


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of one symmetric positive semi-definite matrix, and how far to trust them.

    Args:
        eigenvalues: float64, descending, in the unit of the matrix. Methods ``dense`` and
            ``gram``: every eigenvalue that can be nonzero, as solved for (noise below 0
            included). ``lanczos``: the Ritz values of the first probe.
        dimension: rows of the matrix.
        rank_bound: the largest rank that counting allows, for example
            min(dimension, examples · (candidates - 1)).
        method: ``dense``, ``gram`` or ``lanczos``.
        cutoff: eigenvalues at or below it count as zero; same unit.
        residuals: one per eigenvalue, ‖F v - λ v‖ (``gram``: of the Gram matrix); same unit.
        orthogonality_loss: max |VᵀV - I| of the computed vectors.
        float_width: 32 or 64, the width that the matrix or the products were computed in.
        nodes: ``lanczos``: the Ritz values of all probes, which are quadrature nodes.
        weights: their weights, which sum to ``dimension``.
        probes: number of start vectors.
        steps: Lanczos vectors kept for the first probe; 0 for the other methods.
        seed: of the start vectors; None for the other methods.
        trace_error: standard error of ``trace`` over the probes; None without at least two.

    >>> found = dense_spectrum(np.diag([4.0, 1.0, 0.0]))
    >>> found.rank, found.nullity, found.trace
    (2, 1, 5.0)
    """

    eigenvalues: np.ndarray
    dimension: int
    rank_bound: int
    method: str
    cutoff: float
    residuals: np.ndarray
    orthogonality_loss: float
    float_width: int
    nodes: np.ndarray | None = None
    weights: np.ndarray | None = None
    probes: int = 1
    steps: int = 0
    seed: int | None = None
    trace_error: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every eigenvalue that can be nonzero is there (``dense`` or ``gram``)."""
        return self.method in ("dense", "gram")

    @property
    def rank(self) -> int | None:
        """Numerical rank: how many eigenvalues exceed the cut-off; None for ``lanczos``."""
        return int(np.sum(self.eigenvalues > self.cutoff)) if self.is_complete else None

    @property
    def nullity(self) -> int | None:
        """``dimension`` minus the numerical rank; None for ``lanczos``."""
        return None if self.rank is None else self.dimension - self.rank

    @property
    def values(self) -> np.ndarray:
        """What sums run over: eigenvalues or, for ``lanczos``, the nodes of all probes."""
        return self.eigenvalues if self.nodes is None else self.nodes

    @property
    def multiplicities(self) -> np.ndarray:
        """How many eigenvalues each of ``values`` stands for: 1, or its quadrature weight."""
        return np.ones(len(self.eigenvalues)) if self.weights is None else self.weights

    @property
    def trace(self) -> float:
        """Sum of the eigenvalues; for ``lanczos`` an estimate by quadrature."""
        return float(np.sum(self.multiplicities * self.values))

    @property
    def trace_of_square(self) -> float:
        """Sum of the squared eigenvalues; for ``lanczos`` an estimate by quadrature."""
        return float(np.sum(self.multiplicities * self.values**2))

    @property
    def zeros(self) -> float:
        """How many eigenvalues are at or below the cut-off; for ``lanczos`` by quadrature."""
        if self.nullity is not None:
            return float(self.nullity)
        return float(np.sum(self.multiplicities[self.values <= self.cutoff]))

    def density(self, grid: np.ndarray, width: float) -> tuple[np.ndarray, float]:
        r"""Smoothed number of eigenvalues per decade, for pictures.

        .. math:: \rho(g) = \sum_{i:\, \lambda_i > \text{cut-off}} m_i \,
                  \mathcal{N}(g;\, \log_{10} \lambda_i,\, \text{width}^2)

        with :math:`m_i` 1 or the quadrature weight. The integral over ``g`` plus the second
        result is ``dimension``.

        Args:
            grid: values of log10(λ), any shape.
            width: standard deviation of the Gaussian kernel, in decades.

        Returns:
            the density at ``grid``, and the number of eigenvalues at or below the cut-off.

        Raises:
            InputError: if ``width`` is not above 0.

        >>> density, zeros = dense_spectrum(np.diag([1.0, 0.0])).density(np.array([0.0, 3.0]), 0.5)
        >>> density.round(3).tolist(), zeros
        ([0.798, 0.0], 1.0)
        """
        spread = positive_number("width", width)
        seen = self.values > self.cutoff
        away = (np.asarray(grid)[..., None] - np.log10(self.values[seen])) / spread
        kernel = np.exp(-0.5 * away**2) / (spread * np.sqrt(2.0 * np.pi))
        return np.sum(self.multiplicities[seen] * kernel, axis=-1), self.zeros

    def to_json(self) -> dict[str, Any]:
        """Fields and derived numbers as plain Python that ``json.dumps`` takes.

        ``eigenvalues`` and ``residuals`` are cut to the first 512, ``eigenvalue_count`` says of
        how many; ``nodes`` and ``weights`` are whole: cut weights would not sum to ``dimension``.

        >>> dense_spectrum(np.diag([2.0, 1.0])).to_json()["eigenvalues"]
        [2.0, 1.0]
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        derived = ("is_complete", "rank", "nullity", "trace", "trace_of_square", "zeros")
        return json_safe(
            fields
            | {name: getattr(self, name) for name in derived}
            | {"eigenvalue_count": len(self.eigenvalues)}
            | {name: getattr(self, name)[:_LISTED] for name in ("eigenvalues", "residuals")}
        )


def dense_spectrum(
    matrix: Float[Array, "rows columns"],
    *,
    rank_bound: int | None = None,
    relative_cutoff: float | None = None,
) -> Spectrum:
    r"""All eigenvalues of a symmetric positive semi-definite matrix, solved in float64.

    Args:
        matrix: symmetric up to roundoff, float32 or float64.
        rank_bound: the largest rank that counting allows (the rows if None or more than those).
        relative_cutoff: eigenvalues up to this share of :math:`\lambda_1` count as zero. By
            default rows times the machine epsilon of the matrix's own type: a matrix that was
            summed up in float32 carries float32 noise, whatever the solver's width.

    Returns:
        a :class:`Spectrum` of method ``dense``.

    Raises:
        InputError: if the matrix is not square, finite, symmetric, positive semi-definite and
            float32 or float64; or if its rank is above ``rank_bound``.

    >>> dense_spectrum(np.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues.round(6).tolist()
    [3.0, 1.0]
    """
    return _solve("dense", matrix, np.shape(matrix)[0], rank_bound, relative_cutoff)


def gram_spectrum(
    gram: Float[Array, "rows columns"],
    *,
    dimension: int,
    rank_bound: int | None = None,
    relative_cutoff: float | None = None,
) -> Spectrum:
    r"""The spectrum of :math:`A^\top A / n` from the m × m matrix :math:`A A^\top / n`.

    The two share their nonzero eigenvalues. With m below ``dimension`` the matrix is singular,
    and ``rank_bound`` says so; with m above it, the others are not listed.

    Args:
        gram: :math:`A A^\top / n`, float32 or float64.
        dimension: columns of :math:`A`, which is the number of rows of the matrix meant.
        rank_bound: the largest rank that counting allows (min(m, ``dimension``) if None or more).
        relative_cutoff: as for :func:`dense_spectrum`; by default max(m, 32)
            epsilons.

    Returns:
        a :class:`Spectrum` of method ``gram`` with min(m, ``dimension``) eigenvalues.

    Raises:
        InputError: as for :func:`dense_spectrum`, or if ``dimension`` is not at least 1.

    >>> rows = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    >>> found = gram_spectrum(rows @ rows.T, dimension=3)
    >>> found.eigenvalues.tolist(), found.nullity
    ([4.0, 1.0], 1)
    """
    columns = positive_integer("dimension", dimension)
    return _solve("gram", gram, columns, rank_bound, relative_cutoff)


def _solve(
    method: str, matrix: Any, dimension: int, rank_bound: int | None, relative_cutoff: float | None
) -> Spectrum:
    name = "the Gram matrix" if method == "gram" else "the matrix"
    host = np.asarray(matrix)
    wide, epsilon = _checked(name, host)
    size = len(wide)
    bound = min(size, dimension)
    if rank_bound is not None:
        bound = min(bound, positive_integer("rank_bound", rank_bound))
    share = max(size, _NOISE) * epsilon
    if relative_cutoff is not None:
        share = fraction("relative_cutoff", relative_cutoff)
    ascending, vectors = scipy.linalg.eigh(wide, driver="evd", check_finite=False)
    eigenvalues, vectors = ascending[::-1], vectors[:, ::-1]
    cutoff = share * max(float(eigenvalues[0]), 0.0)
    remedy = f"(cut-off {cutoff:.3g}); if that is noise of its computation, raise relative_cutoff."
    if eigenvalues[-1] < -cutoff:
        raise InputError(
            f"{name} is not positive semi-definite: its smallest eigenvalue is "
            f"{eigenvalues[-1]:.3g} {remedy}"
        )
    if bound < size and eigenvalues[bound] > cutoff:
        raise InputError(
            f"{name} has rank above {bound}, the most that counting allows: its eigenvalue "
            f"number {bound + 1} is {eigenvalues[bound]:.3g} {remedy}"
        )
    kept = min(size, dimension)
    overlap = vectors.T @ vectors
    overlap[np.diag_indices(size)] -= 1.0
    return Spectrum(
        eigenvalues=eigenvalues[:kept].copy(),
        dimension=dimension,
        rank_bound=bound,
        method=method,
        cutoff=cutoff,
        residuals=np.linalg.norm(wide @ vectors - vectors * eigenvalues, axis=0)[:kept],
        orthogonality_loss=float(np.abs(overlap).max()),
        float_width=host.dtype.itemsize * 8,
    )


def _checked(name: str, host: np.ndarray) -> tuple[np.ndarray, float]:
    """The matrix in float64, exactly symmetric, and the epsilon of the type it came in."""
    if host.dtype not in (np.float32, np.float64):
        raise InputError(f"{name} is {host.dtype}; compute it in float32 or float64.")
    if host.ndim != 2 or host.shape[0] != host.shape[1] or host.size == 0:
        raise InputError(f"{name} has shape {host.shape}; it must be square and not empty.")
    if not np.isfinite(host).all():
        count = int(np.sum(~np.isfinite(host)))
        raise InputError(f"{name} has {count} entries that are not finite; look at what made it.")
    wide, epsilon = host.astype(np.float64), float(np.finfo(host.dtype).eps)
    largest, asymmetry = float(np.abs(wide).max()), float(np.abs(wide - wide.T).max())
    # Two orders of summation differ by some epsilons, 100 of them in the smallest matrices.
    if asymmetry > max(len(wide), 100) * epsilon * largest:
        raise InputError(
            f"{name} is not symmetric: entries differ from their mirror image by up to "
            f"{asymmetry:.3g}, of at most {largest:.3g}; give (M + Mᵀ) / 2 if that is meant."
        )
    return 0.5 * (wide + wide.T), epsilon
