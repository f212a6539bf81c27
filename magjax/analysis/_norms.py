"""How long embeddings are, and how much that varies."""

import dataclasses
from typing import Any

import numpy as np

from magjax.checks import InputError
from magjax.files import json_safe
from magjax.typing import Array, Float

__all__ = ["BLOCK", "NO_SPREAD", "NormSummary", "embedding_norms", "summarize_norms"]

NO_SPREAD = 1e-3
"""Below this ratio of deviation to mean the norms of a side say nothing."""

BLOCK = 65_536  # rows widened to float64 at a time
_ROUNDING = 1e-6  # float32 unit vectors have lengths that differ by some 1e-7


@dataclasses.dataclass(frozen=True)
class NormSummary:
    """How long the embeddings of one side are, and how much that varies.

    Attributes:
        count: number of embeddings.
        mean: mean length.
        std: standard deviation of the lengths (divisor n).
        cv: coefficient of variation, ``std / mean``; 0 where all lengths are 0.
        minimum: shortest.
        median: middle one.
        maximum: longest.

    >>> summarize_norms(np.array([1.0, 3.0])).cv
    0.5
    """

    count: int
    mean: float
    std: float
    cv: float
    minimum: float
    median: float
    maximum: float

    @property
    def constant(self) -> bool:
        """Whether the lengths differ by no more than float32 rounds unit vectors."""
        return self.cv < _ROUNDING

    @property
    def negligible(self) -> bool:
        """Whether the lengths are so alike (``cv`` below 1e-3) that nothing can rest on them."""
        return self.cv < NO_SPREAD

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return json_safe(dataclasses.asdict(self))


def embedding_norms(embeddings: Float[Array, "rows dim"]) -> Float[np.ndarray, " rows"]:
    """Euclidean length of each row, summed in float64 on the host.

    Args:
        embeddings: raw, of any floating type.

    Returns:
        float64, one length a row.

    >>> embedding_norms(np.array([[3.0, 4.0]], np.float32))
    array([5.])
    """
    found = np.empty(len(embeddings))
    for start in range(0, len(found), BLOCK):
        part = slice(start, start + BLOCK)
        found[part] = np.linalg.norm(np.asarray(embeddings[part]).astype(np.float64), axis=-1)
    return found


def summarize_norms(norms: Float[Array, " rows"]) -> NormSummary:
    """Mean, spread and extremes of lengths.

    Args:
        norms: lengths of one side's embeddings, at least one.

    Raises:
        InputError: there is none.

    >>> summarize_norms(np.ones(4)).negligible
    True
    """
    values = np.asarray(norms, np.float64)
    if not values.size:
        raise InputError("there is no embedding to measure; give at least one.")
    mean, std = float(values.mean()), float(values.std())
    return NormSummary(
        count=values.size,
        mean=mean,
        std=std,
        cv=std / mean if mean > 0.0 else 0.0,
        minimum=float(values.min()),
        median=float(np.median(values)),
        maximum=float(values.max()),
    )
