r"""Maximum inner product as nearest neighbours, for databases that know no inner product.

One more coordinate gives all documents the same length M, the largest among them, and queries get
a zero there (Bachrach et al. 2014, "Speeding up the Xbox recommender system using a Euclidean
transformation for inner-product spaces"):

.. math::

    \hat d = (d, \sqrt{M^2 - \lVert d\rVert^2}), \qquad \hat q = (q, 0), \qquad
    \lVert \hat q - \hat d\rVert^2 = \lVert q\rVert^2 + M^2 - 2\langle q, d\rangle.

Divided by M the documents are unit vectors, and cosine ranks them the same way. M is part of the
index: a later document that is longer cannot be added without building the index anew.

Where an engine has the inner product, that is the better choice: queries with a zero there lie far
from all documents, and graphs find fewer of them. Recall@10 with HNSW on Cranfield, embedded by
all-MiniLM-L6-v2 and ranked as qnorm, by inner product and augmented: FAISS 0.99 and 0.87, pgvector
1.00 and 0.92, LanceDB 1.00 and 0.96 (``python launch/export.py table --checkpoint=MODEL
--score=qnorm --data=cranfield --queries=200``).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError, choose
from magjax.export._metric import AUGMENTATIONS
from magjax.typing import Float

__all__ = ["augment_documents", "augment_queries", "largest_norm"]

# Lengths that went through float32 arithmetic elsewhere may exceed M by a few units of 6e-8.
_TOLERANCE = 1e-6


def _wide(x: Any) -> Float[np.ndarray, "n dim"]:
    """float64 rows; half precision widens exactly."""
    rows = np.asarray(x)
    if rows.ndim != 2:
        raise InputError(f"vectors have shape {rows.shape}; give one row a vector.")
    return rows.astype(np.float64)


def largest_norm(documents: Any) -> float:
    """The largest Euclidean length among the rows, summed in float64; 0 without rows.

    Args:
        documents: ``[documents, dim]`` of any floating type.

    >>> largest_norm(np.array([[3.0, 4.0], [0.0, 1.0]], np.float32))
    5.0
    """
    squares = np.square(_wide(documents)).sum(axis=1)
    return math.sqrt(squares.max(initial=0.0))


def augment_documents(
    documents: Any, norm: float, kind: str = "euclidean", *, ids: Sequence[str] | None = None
) -> Float[np.ndarray, "n more"]:
    r"""Appends :math:`\sqrt{M^2 - \lVert d\rVert^2}`, so that all documents have length M.

    Args:
        documents: vectors as they would be stored for inner product, ``[documents, dim]``.
        norm: M, at least the length of the longest document that the index will ever hold. Scores
            lose digits in proportion to it: 1e-7 M times the query's length.
        kind: ``"euclidean"``, or ``"cosine"``, which also divides by M.
        ids: one name a document, for messages.

    Returns:
        float32 ``[documents, dim + 1]``, of length M (1 for cosine).

    Raises:
        InputError: a document is longer than M, or an unknown kind.

    >>> documents = np.array([[3.0, 4.0], [0.0, 3.0]], np.float32)
    >>> augment_documents(documents, 5.0)
    array([[3., 4., 0.],
           [0., 3., 4.]], dtype=float32)
    >>> augment_documents(documents, 5.0, "cosine")
    array([[0.6, 0.8, 0. ],
           [0. , 0.6, 0.8]], dtype=float32)
    >>> augment_documents(documents, 4.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: document 0 has length 5, but the index was built for lengths up to 4...
    """
    choose("kind", kind, AUGMENTATIONS[1:])
    wide = _wide(documents)
    squares = np.square(wide).sum(axis=1)
    longest = math.sqrt(squares.max(initial=0.0))
    # NaN fails the comparison too, and is refused rather than stored.
    if not longest <= norm * (1.0 + _TOLERANCE):
        place = int(squares.argmax())
        raise InputError(
            f"document {place if ids is None else repr(ids[place])} has length {longest:.6g}, but the index was built "
            f"for lengths up to {norm:.6g}; it cannot be added, so build the index anew with "
            f"largest_norm={longest:.6g} or more."
        )
    # norm**2 and the squares are rounded apart: the longest document may come out at -1e-16.
    rest = np.sqrt(np.maximum(norm**2 - squares, 0.0))
    whole = np.concatenate([wide, rest[:, None]], axis=1)
    if kind == "cosine":
        if norm > 0.0:
            whole /= norm
        else:  # only zero vectors: one common direction that no query has a part in
            whole[:, -1] = 1.0
    return whole.astype(np.float32)


def augment_queries(queries: Any, norm: float | None = None) -> Float[np.ndarray, "n more"]:
    """Appends a zero to each query, and brings it to length ``norm`` if one is given.

    A query's own length changes no ranking. For Euclidean distance length M is the best: the
    float32 distance is then as exact, relative to the scores, as an inner product.

    Args:
        queries: vectors as they would be asked for inner product, ``[queries, dim]``.
        norm: M; None keeps each length. A zero query stays zero.

    Returns:
        float32 ``[queries, dim + 1]``.

    >>> augment_queries(np.array([[0.6, 0.8]], np.float32), 5.0)
    array([[3., 4., 0.]], dtype=float32)
    """
    wide = _wide(queries)
    if norm:
        lengths = np.sqrt(np.square(wide).sum(axis=1, keepdims=True))
        wide = wide * (norm / np.where(lengths > 0.0, lengths, 1.0))
    return np.pad(wide, ((0, 0), (0, 1))).astype(np.float32)
