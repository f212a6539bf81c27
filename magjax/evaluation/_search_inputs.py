"""Checks of what :func:`magjax.evaluation.search` is given."""

import collections
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError
from magjax.evaluation._exact import squared_norms

__all__ = ["checked_embeddings", "excluded_rows", "finite_squares"]

_FLOATS = ("float16", "bfloat16", "float32")


def checked_embeddings(kind: str, embeddings: Any, ids: Sequence[str]) -> np.ndarray:
    """One row an id, of a float type that widens exactly to float32; a memory map stays one."""
    array = embeddings if isinstance(embeddings, np.ndarray) else np.asarray(embeddings)
    if array.ndim != 2 or not array.shape[1] or len(array) != len(ids) or not len(array):
        raise InputError(
            f"{kind} embeddings of shape {array.shape} for {len(ids)} ids; give one row of at "
            f"least one dimension a {kind}, and at least one {kind}."
        )
    if array.dtype.name not in _FLOATS:
        raise InputError(
            f"{kind} embeddings are {array.dtype.name}; search ranks float32 numbers exactly, so "
            "cast with .astype('float32') first."
        )
    if len(set(ids)) != len(ids):
        twice = collections.Counter(ids).most_common(1)[0][0]
        raise InputError(f"{kind} id {twice!r} occurs twice; ids must be unique.")
    return array


def finite_squares(kind: str, array: np.ndarray, ids: Sequence[str]) -> np.ndarray:
    """Squared lengths of the rows; an embedding that is not finite stops with its id."""
    squares = squared_norms(array)
    broken = np.flatnonzero(~np.isfinite(squares))
    if broken.size:
        raise InputError(
            f"the embedding of {kind} {ids[broken[0]]!r} is not finite (NaN or infinity), as are "
            f"{broken.size} of {len(ids)}; check the model, or embed in float32."
        )
    return squares


def excluded_rows(
    exclude: Mapping[str, Collection[str]] | None,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
) -> list[np.ndarray]:
    """Per query the rows, ascending, of the documents never to return."""
    if not exclude:
        return [np.empty(0, np.int64)] * len(query_ids)
    index = {name: row for row, name in enumerate(document_ids)}
    return [
        np.array(sorted({index[d] for d in exclude.get(q, ()) if d in index}), np.int64)
        for q in query_ids
    ]
