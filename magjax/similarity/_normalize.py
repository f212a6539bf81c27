"""Division of embeddings by a power of their length, safe at zero and at the ends of float32."""

import jax
import jax.numpy as jnp
from jax import lax

from magjax.checks import fraction
from magjax.typing import Array, Float, Scalar

__all__ = ["norm", "normalize", "widen"]


def widen(*arrays: Float[Array, "..."]) -> tuple[Float[jax.Array, "..."], ...]:
    """Casts all ``arrays`` to the type that sums are made in: float32, or float64 if any is.

    Scores, losses and statistics start from here, whatever type the encoder computes in.

    Args:
      arrays: of any floating types.

    Returns:
      the arrays in one type, in order.

    >>> [a.dtype.name for a in widen(jnp.ones(2, jnp.bfloat16), jnp.ones(2, jnp.float16))]
    ['float32', 'float32']
    """
    # bfloat16 has 8 bits: a sum of 257 ones is 256 there, and 958 of 2,000 scores become ties.
    made = [jnp.asarray(array) for array in arrays]
    dtype = jnp.float64 if any(array.dtype == jnp.float64 for array in made) else jnp.float32
    return tuple(array.astype(dtype) for array in made)


def _factors(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Splits ``x`` into scale * direction, the length of direction, and where x is zero."""
    # The squares of 1e-25 and 1e25 leave float32; those of x / max|x| are at most 1. No result
    # depends on the scale, so its derivative (which jumps where the maximum changes) is dropped.
    largest = lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True, initial=0.0))
    zero = largest == 0.0
    scale = jnp.where(zero, 1.0, largest)
    direction = x / scale
    squares = jnp.sum(direction * direction, axis=-1, keepdims=True)
    # A second `where` around the root: its derivative at 0 is infinite, and 0 * inf is NaN.
    length = jnp.sqrt(jnp.where(zero, 1.0, squares))
    return scale, direction, length, zero


def norm(x: Float[Array, "*batch dim"]) -> Float[jax.Array, "*batch"]:
    r"""Euclidean length along the last axis, accumulated in float32 (float64 for float64).

    .. math:: \lVert x \rVert = m \, \lVert x / m \rVert, \quad m = \max_i |x_i|

    Lengths from 1e-25 to 1e25 come out right in float32. At a zero vector the value is 0 and
    so is the gradient.

    Args:
      x: embeddings of any floating type.

    Returns:
      float32 (float64 if ``x`` is float64), one value per embedding.

    >>> norm(jnp.array([[3.0, 4.0], [0.0, 1e25], [0.0, 0.0]]))
    Array([5.e+00, 1.e+25, 0.e+00], dtype=float32)
    """
    (wide,) = widen(x)
    scale, _, length, zero = _factors(wide)
    return jnp.where(zero, 0.0, scale * length)[..., 0]


def normalize(x: Float[Array, "*batch dim"], gamma: Scalar) -> Float[jax.Array, "*batch dim"]:
    r"""Divides each embedding by its length to the power ``gamma``.

    .. math:: z = x \, \lVert x \rVert^{-\gamma}

    ``gamma`` = 0 leaves ``x`` as it is (the number ``0.0`` returns the array itself) and 1
    puts it on the unit sphere; between them lies the power form of arXiv 2602.09229, which is
    not the linear interpolation of the two. For ``gamma`` > 0 a zero vector has zero output
    and zero gradient; for 0 the function is the identity there too. Lengths from 1e-25 to 1e25
    work in float32, and the gradients with respect to ``x`` and ``gamma`` stay finite.

    Args:
      x: embeddings of any floating type; lengths are computed in float32 at least.
      gamma: a number in [0, 1], or an array that the caller keeps there (a traced value
        cannot be checked).

    Returns:
      an array of the type of ``x``.

    Raises:
      InputError: if ``gamma`` is a number outside [0, 1].

    >>> normalize(jnp.array([[3.0, 4.0]]), 1.0)
    Array([[0.6, 0.8]], dtype=float32)
    >>> normalize(jnp.array([[0.0, 16.0]]), 0.5)
    Array([[0., 4.]], dtype=float32)
    """
    x = jnp.asarray(x)
    fixed = fraction("gamma", gamma) if isinstance(gamma, int | float) else None
    if fixed == 0.0:
        return x
    (wide,) = widen(x)
    scale, direction, length, zero = _factors(wide)
    if fixed == 1.0:  # without a power, which costs more and rounds less well
        return jnp.where(zero, 0.0, direction / length).astype(x.dtype)
    power = jnp.asarray(gamma, wide.dtype)
    # scale^(1 - gamma) first: both factors stay in range where norm^-gamma and its derivative
    # norm^(-gamma - 1) would be as large as 1e50.
    result = direction * scale ** (1.0 - power) * length ** (-power)
    return jnp.where(zero & (power > 0.0), 0.0, result).astype(x.dtype)
