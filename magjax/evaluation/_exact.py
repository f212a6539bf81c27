r"""Scores as float64 sums in a fixed order, and float32 bounds that certify what to leave out.

The rule of :func:`magjax.evaluation.search` rests on two facts about float32 embeddings.

*The exact score.* Products of two float32 numbers are exact in float64, so
:math:`\langle q, d\rangle` depends only on the order of the sum, and that order is a function of
the dimension alone. Lengths enter as factors: :math:`x = \langle q, d\rangle \lVert d
\rVert^{-\gamma_d}` and then :math:`\lVert q\rVert^{-\gamma_q}`.

*The bound.* A float32 dot product of dimension D, summed in whatever order, with or without fused
multiply-add, is off by at most :math:`D u / (1 - D u) \cdot \lVert q\rVert\lVert d\rVert`,
:math:`u = 2^{-24}` (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Rounding
the unit query, the factor and the sum add a few u more.
"""

import math

import numpy as np

__all__ = [
    "exact_pair_scores",
    "exact_scores",
    "length_factors",
    "squared_norms",
    "upper_bound_terms",
]

_ROWS = 512  # rows widened at a time: 1.5 MiB at 384 dimensions, inside the second-level cache
_UNIT = 2.0**-24
_TINY = 2.0**-126  # the least normal float32; smaller results may be flushed to zero
_LARGEST = 1e30  # lengths and factors beyond may overflow float32


def squared_norms(x: np.ndarray) -> np.ndarray:
    """Squared lengths of the rows, float64 ``[n]``; not finite exactly where a row is not.

    >>> squared_norms(np.array([[3.0, 4.0]], np.float32))
    array([25.])
    """
    result = np.empty(len(x))
    for start in range(0, len(x), _ROWS):
        wide = x[start : start + _ROWS].astype(np.float64, order="C")
        wide *= wide
        np.add.reduce(wide, axis=-1, out=result[start : start + _ROWS])
    return result


def length_factors(squares: np.ndarray, gamma: float) -> np.ndarray:
    """``norm ** -gamma`` from squared lengths, float64 ``[n]``; 0 for a zero row if gamma > 0.

    >>> length_factors(np.array([25.0, 0.0]), 1.0)
    array([0.2, 0. ])
    """
    if gamma == 0.0:
        return np.ones(len(squares))
    if gamma == 1.0:  # square root and division are rounded correctly wherever they run
        with np.errstate(divide="ignore"):
            return np.where(squares > 0.0, 1.0 / np.sqrt(squares), 0.0)
    # One by one: a vectorized power may round differently at the end of an array.
    return np.array([math.pow(s, -0.5 * gamma) if s > 0.0 else 0.0 for s in squares.tolist()])


def exact_scores(query: np.ndarray, documents: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Dot products of one query with ``documents[rows]``: float64 sums in a fixed order.

    The sum of a row is NumPy's pairwise sum of one contiguous line, whose order follows from its
    length only: the value does not depend on the other rows or on their number.

    Args:
        query: float64 ``[dim]`` holding float32 numbers.
        documents: float32 ``[n, dim]``.
        rows: int ``[m]``.

    Returns:
        float64 ``[m]``.

    >>> exact_scores(np.array([1.0, 2.0]), np.array([[3, 4], [5, 6]], np.float32), np.array([1]))
    array([17.])
    """
    result = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS):
        wide = documents[rows[start : start + _ROWS]].astype(np.float64, order="C")
        wide *= query
        np.add.reduce(wide, axis=-1, out=result[start : start + _ROWS])
    return result


def exact_pair_scores(
    first: np.ndarray, first_rows: np.ndarray, second: np.ndarray, second_rows: np.ndarray
) -> np.ndarray:
    """Dot products of ``first[first_rows]`` with ``second[second_rows]``, summed alike.

    Args:
        first: float32 ``[n, dim]``.
        first_rows: int ``[pairs]``.
        second: float32 ``[m, dim]``.
        second_rows: int ``[pairs]``.

    Returns:
        float64 ``[pairs]``.

    >>> x = np.array([[1, 2], [3, 4]], np.float32)
    >>> exact_pair_scores(x, np.array([0, 1]), x, np.array([1, 1]))
    array([11., 25.])
    """
    result = np.empty(len(first_rows))
    for start in range(0, len(first_rows), _ROWS):
        block = slice(start, start + _ROWS)
        wide = first[first_rows[block]].astype(np.float64, order="C")
        wide *= second[second_rows[block]]
        np.add.reduce(wide, axis=-1, out=result[block])
    return result


def upper_bound_terms(
    squares: np.ndarray, factors: np.ndarray, dim: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""The terms ``scale`` and ``slack`` of a float32 bound that no exact score exceeds.

    For a unit query :math:`\hat q` rounded to float32 and a document d with factor b, the float32
    value ``dot(q, d) * scale + slack`` is at least :math:`b \langle \hat q, d\rangle`. Twice the
    analytic error is allowed for, so that accelerators which build float32 products from several
    narrower ones stay inside, and so is what vanishes below the smallest float32. Documents whose
    length or factor is too large get ``scale`` 0 and an infinite slack: always candidates.

    Args:
        squares: squared lengths of the documents, float64 ``[n]``.
        factors: what multiplies each document, float64 ``[n]``.
        dim: dimensions of an embedding.

    Returns:
        ``scale`` and ``slack``, float32 ``[n]`` each.

    >>> scale, slack = upper_bound_terms(np.array([4.0]), np.array([0.5]), 384)
    >>> scale.item(), 2 * 392 * 2**-24 < slack.item() < 5e-5
    (0.5, True)
    """
    norms = np.sqrt(squares)
    relative = 2.0 * (dim + 8) * _UNIT / (1.0 - 2.0 * dim * _UNIT)
    vanishing = 2.0 * (dim + 1) * _TINY
    with np.errstate(over="ignore"):
        slack = relative * norms * factors + vanishing * (1.0 + factors)
        failing = (norms > _LARGEST) | (factors > _LARGEST)
        slack = np.nextafter(slack.astype(np.float32), np.float32(np.inf))
        scale = factors.astype(np.float32)
    return np.where(failing, np.float32(0), scale), np.where(failing, np.float32(np.inf), slack)
