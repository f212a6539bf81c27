"""Extreme eigenvalues and spectral sums of a matrix known by its products only."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from matfree.decomp import hessenberg

from magjax.checks import InputError, fraction, positive_integer
from magjax.fisher._spectrum import Spectrum

__all__ = ["krylov_bytes", "lanczos_spectrum"]

# In float32 a beta that is 0 in exact arithmetic came out at 1 to 5 epsilons of λ1. Missing one
# does no harm while the vectors stay orthogonal; going on from a zero gives nonsense.
_EXHAUSTED = 10.0

_NOISE = 32  # least number of epsilons of λ1 that eigenvalues are uncertain by

# In float32 <u, F v> and <v, F u> differed by 1e-7 of λ1 through a network, by 1e-3 in TF32.
_ASYMMETRY = 0.01


def krylov_bytes(dimension: int, steps: int, dtype: Any = jnp.float32) -> int:
    """Memory of the Lanczos vectors: ``min(steps, dimension) · dimension`` numbers.

    XLA may hold them twice while they are made (measured on a CPU: 2.04 times), so plan for
    double; the product needs its own memory on top.

    Args:
        dimension: rows of the matrix.
        steps: Lanczos steps.
        dtype: type of the vectors.

    Returns:
        bytes of one copy.

    Raises:
        InputError: if ``dimension`` or ``steps`` is not a whole number of at least 1.

    >>> krylov_bytes(22_000_000, 48) / 1e9
    4.224
    """
    rows, count = positive_integer("dimension", dimension), positive_integer("steps", steps)
    return min(rows, count) * rows * np.dtype(dtype).itemsize


def lanczos_spectrum(
    product: Callable[..., jax.Array],
    dimension: int,
    *,
    arguments: tuple[Any, ...] = (),
    rank_bound: int,
    steps: int = 48,
    probes: int = 1,
    seed: int = 0,
    dtype: Any = jnp.float32,
    relative_cutoff: float | None = None,
) -> Spectrum:
    r"""Ritz values and quadrature of a matrix F that only ``product`` knows.

    Lanczos with full reorthogonalization from a random unit vector :math:`v` gives
    :math:`F Q = Q T + \beta r e_k^\top` with a tridiagonal :math:`T = S \Theta S^\top`. The
    residual of Ritz value :math:`\theta_j` is :math:`|\beta s_{kj}|`, and

    .. math:: \operatorname{tr} f(F) \approx \frac{\text{dimension}}{\text{probes}}
              \sum_{\text{probes}} \sum_j s_{1j}^2 f(\theta_j)

    (stochastic Lanczos quadrature). The relative error of the trace is about
    :math:`\sqrt{2 / (r \cdot \text{probes})}` with r the participation ratio. Where the Krylov
    space is exhausted before ``steps``, as for low rank or repeated eigenvalues, the
    decomposition ends there; a repeated eigenvalue appears once. Where it grows to the whole
    space, every eigenvalue is found and counts 1.

    Memory: :func:`krylov_bytes`, twice. Time: ``steps`` products a probe. One compilation serves
    every call with equal ``product``, ``steps``, ``dimension`` and shapes of ``arguments``.

    Args:
        product: ``product(vector, *arguments)``, symmetric positive semi-definite, from a
            vector ``[dimension]`` of ``dtype`` to another. Hashable; the same object, not a
            fresh lambda, on every call.
        dimension: rows of F.
        arguments: pytrees of all arrays that the product needs. Arrays that it closes over
            would be compiled in as constants.
        rank_bound: the largest rank that counting allows.
        steps: Lanczos steps, at most ``dimension`` of which are taken.
        probes: random start vectors.
        seed: of the start vectors.
        dtype: float32, or float64 under ``jax.enable_x64``.
        relative_cutoff: eigenvalues up to this share of :math:`\lambda_1` count as zero. By
            default max(number of vectors, 32) times the larger of epsilon and the measured
            asymmetry of the products, in units of :math:`\lambda_1`.

    Returns:
        a :class:`Spectrum` of method ``lanczos``; its ``eigenvalues``, ``residuals`` and
        ``steps`` are those of the first probe.

    Raises:
        InputError: if the product is not finite, not symmetric, not positive semi-definite, or
            of another shape or type than its vector; or if a number is out of range.

    >>> def product(vector, diagonal):
    ...     return diagonal * vector
    >>> found = lanczos_spectrum(product, 3, arguments=(jnp.array([4.0, 2.0, 1.0]),), rank_bound=3)
    >>> found.eigenvalues.round(4).tolist(), round(float(found.weights.sum()), 4)
    ([4.0, 2.0, 1.0], 3.0)
    """
    rows = positive_integer("dimension", dimension)
    bound = min(positive_integer("rank_bound", rank_bound), rows)
    count, starts = positive_integer("steps", steps), positive_integer("probes", probes)
    share = None if relative_cutoff is None else fraction("relative_cutoff", relative_cutoff)
    width = _width(dtype)
    epsilon = float(np.finfo(width).eps)

    key, scale, found = jax.random.key(seed), 1.0, []
    shapes = {"dimension": rows, "steps": min(count, rows), "dtype": width}
    for probe in range(starts):
        start = jax.random.fold_in(key, probe)
        factors = _decompose(start, scale, arguments, product=product, **shapes)
        mean = float(factors[0][0, 0])
        # Squared betas leave float32's range for entries of 1e-19; powers of 2 round nothing.
        if probe == 0 and 0.0 < mean < math.inf and not 1e-8 < mean < 1e8:
            scale = 2.0 ** round(math.log2(mean))
            factors = _decompose(start, scale, arguments, product=product, **shapes)
        projected, last, overlap = (np.asarray(factor, np.float64) for factor in factors)
        found.append(_ritz(projected, last, overlap, dimension=rows, epsilon=epsilon, scale=scale))

    first = found[0]
    nodes = np.concatenate([probe.values for probe in found])
    top, noise = float(np.abs(nodes).max()), max(probe.asymmetry for probe in found)
    if noise > _ASYMMETRY * top:
        raise InputError(
            f"the product is not symmetric: <u, F v> and <v, F u> differ by {noise:.3g} where the "
            f"largest eigenvalue is {top:.3g}; check it, and that it computes in {width}."
        )
    vectors = max(len(probe.values) for probe in found)
    cutoff = max(vectors, _NOISE) * max(epsilon * top, noise) if share is None else share * top
    if nodes.min() < -cutoff:
        raise InputError(
            f"the product is not positive semi-definite: a Ritz value is {nodes.min():.3g} "
            f"(cut-off {cutoff:.3g}); if that is noise of its computation, raise relative_cutoff."
        )
    traces = [rows * float(np.sum(probe.shares * probe.values)) for probe in found]
    return Spectrum(
        eigenvalues=first.values,
        dimension=rows,
        rank_bound=bound,
        method="lanczos",
        cutoff=cutoff,
        residuals=first.residuals,
        orthogonality_loss=max(probe.orthogonality_loss for probe in found),
        float_width=width.itemsize * 8,
        nodes=nodes,
        weights=np.concatenate([probe.shares for probe in found]) * (rows / starts),
        probes=starts,
        steps=len(first.values),
        seed=seed,
        trace_error=float(np.std(traces, ddof=1) / math.sqrt(starts)) if starts > 1 else None,
    )


@functools.partial(jax.jit, static_argnames=("product", "dimension", "steps", "dtype"))
def _decompose(
    key: jax.Array,
    scale: Any,
    arguments: tuple[Any, ...],
    *,
    product: Callable[..., jax.Array],
    dimension: int,
    steps: int,
    dtype: np.dtype,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """QᵀFQ / scale, the norm of what is left after the last step, and QᵀQ."""
    start = jax.random.normal(key, (dimension,), dtype)
    shape = jax.eval_shape(product, start, *arguments)
    if (shape.shape, shape.dtype) != ((dimension,), dtype):
        raise InputError(
            f"the product returned {shape.dtype}{list(shape.shape)} for a vector "
            f"{dtype}[{dimension}]; it must return the same shape and type."
        )

    def scaled(vector: jax.Array, divisor: jax.Array, *rest: Any) -> jax.Array:
        return product(vector, *rest) / divisor

    # tridiag_sym(reortho="full") is this function with the triangles averaged: here their
    # difference is the check of symmetry. TF32, a GPU's default, would lose 13 of 24 bits.
    with jax.default_matmul_precision("highest"):
        decompose = hessenberg(steps, reortho="full", custom_vjp=False)
        unit = start / jnp.linalg.norm(start)
        basis, projected, rest, _ = decompose(scaled, unit, jnp.asarray(scale, dtype), *arguments)
        return projected, jnp.linalg.norm(rest), basis @ basis.T


class _Probe(NamedTuple):
    values: np.ndarray  # Ritz values, descending
    residuals: np.ndarray
    shares: np.ndarray  # quadrature weights that sum to 1
    orthogonality_loss: float
    asymmetry: float


def _ritz(
    projected: np.ndarray,
    last: np.ndarray,
    overlap: np.ndarray,
    *,
    dimension: int,
    epsilon: float,
    scale: float,
) -> _Probe:
    """Ritz pairs of one probe, from the vectors before the Krylov space was exhausted."""
    diagonal, below = np.diag(projected), np.append(np.diag(projected, -1), last)
    error = np.abs(overlap - np.eye(len(overlap)))
    kept = 0
    for kept in range(1, len(diagonal) + 1):
        if not (np.isfinite(diagonal[kept - 1]) and np.isfinite(below[kept - 1])):
            raise InputError(
                f"the product number {kept} is not finite (NaN or infinity); check the model and "
                "its parameters."
            )
        values = scipy.linalg.eigvalsh_tridiagonal(diagonal[:kept], below[: kept - 1])
        if below[kept - 1] <= _EXHAUSTED * epsilon * np.abs(values).max():
            break
        if error[: kept + 1, : kept + 1].max() > math.sqrt(epsilon):
            break

    values, vectors = scipy.linalg.eigh_tridiagonal(diagonal[:kept], below[: kept - 1])
    band = np.diag(diagonal[:kept]) + np.diag(below[: kept - 1], 1)
    return _Probe(
        values=values[::-1] * scale,
        residuals=np.abs(below[kept - 1] * vectors[-1, ::-1]) * scale,
        # A space that is whole holds every eigenvalue once: counting is exact.
        shares=np.full(kept, 1.0 / kept) if kept == dimension else vectors[0, ::-1] ** 2,
        orthogonality_loss=float(error[:kept, :kept].max()),
        asymmetry=float(np.abs(np.triu(projected[:kept, :kept]) - band).max()) * scale,
    )


def _width(dtype: Any) -> np.dtype:
    width = np.dtype(dtype)
    if width not in (np.float32, np.float64):
        raise InputError(f"dtype={width} must be float32 or float64.")
    if width == np.float64 and jnp.result_type(float) != width:
        raise InputError("dtype=float64 needs JAX's 64-bit mode: with jax.enable_x64(True).")
    return width
