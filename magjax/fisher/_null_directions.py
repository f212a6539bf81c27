"""Why an embedding-space Fisher matrix is singular: the null directions found and named."""

import dataclasses
from collections.abc import Mapping
from typing import get_args

import numpy as np
import scipy.linalg

from magjax.encoders import DualEncoder, TextEncoder
from magjax.typing import Array, Float, Side

__all__ = ["NullDirections", "find_null_directions", "known_directions"]

_ZERO_SUM = "the sum over dimensions, constant after a layer norm"
_INSIDE = 1e-6  # how far from 1 the squared length within the null space may be


@dataclasses.dataclass(frozen=True)
class NullDirections:
    """What is known of the null space of one matrix.

    Attributes:
        count: its dimension.
        dead: coordinates that are null by themselves: embeddings are constant there.
        named: names of other known directions that lie in it.
        by_counting: how many directions are null because there are too few examples.
        unexplained: how many remain.

    >>> NullDirections(2, (5,), ("zero sum",), 0, 0).sentences()
    ['1 dead dimension (5): no embedding varies there', 'zero sum']
    """

    count: int
    dead: tuple[int, ...]
    named: tuple[str, ...]
    by_counting: int
    unexplained: int

    def sentences(self) -> list[str]:
        """One line for each reason; none if the matrix is regular."""
        lines = []
        if self.dead:
            shown = ", ".join(map(str, self.dead[:8])) + (", ..." if len(self.dead) > 8 else "")
            plural = "" if len(self.dead) == 1 else "s"
            lines.append(
                f"{len(self.dead)} dead dimension{plural} ({shown}): no embedding varies there"
            )
        lines += self.named
        if self.by_counting:
            lines.append(f"{self.by_counting} by counting: fewer outcomes than dimensions")
        if self.unexplained:
            lines.append(f"{self.unexplained} without an explanation here")
        return lines


def find_null_directions(
    matrix: Float[Array, "dim dim"],
    *,
    cutoff: float,
    rank_bound: int,
    known: Mapping[str, Float[Array, " dim"]] | None = None,
) -> NullDirections:
    """Names the null directions of ``matrix``.

    Args:
        matrix: symmetric, positive semi-definite.
        cutoff: eigenvalues at or below it count as zero.
        rank_bound: the largest rank that counting allows.
        known: directions to try, by the sentence that names them.

    >>> x = np.diag([1.0, 2.0, 0.0])
    >>> find_null_directions(x, cutoff=1e-9, rank_bound=3).dead
    (2,)
    >>> centred = np.eye(3) - 1 / 3
    >>> find_null_directions(centred, cutoff=1e-9, rank_bound=3,
    ...                      known={"all entries sum to a constant": np.ones(3)}).named
    ('all entries sum to a constant',)
    """
    host = np.asarray(matrix, np.float64)
    values, vectors = scipy.linalg.eigh(host)
    null = vectors[:, values <= cutoff]
    count = null.shape[1]
    dead = np.flatnonzero(np.sum(null**2, axis=1) >= 1.0 - _INSIDE)
    explained = [np.eye(len(host))[place] for place in dead]
    named = []
    for name, direction in (known or {}).items():
        unit = np.array(direction, np.float64)
        unit[dead] = 0.0
        length = float(np.linalg.norm(unit))
        if length == 0.0:
            continue
        unit /= length
        if np.sum((null.T @ unit) ** 2) >= 1.0 - _INSIDE:
            named.append(name)
            explained.append(unit)
    spanned = int(np.linalg.matrix_rank(np.stack(explained))) if explained else 0
    missing = max(len(host) - rank_bound, 0)
    by_counting = min(max(missing - spanned, 0), max(count - spanned, 0))
    rest = max(count - spanned - by_counting, 0)
    return NullDirections(count, tuple(dead.tolist()), tuple(named), by_counting, rest)


def known_directions(encoder: DualEncoder, side: Side) -> dict[str, np.ndarray]:
    """Directions in which the embeddings of an encoder cannot vary, by its construction.

    A layer norm's output, before its weights, sums to zero: weighted by their inverses, mean and
    first-token pooling keep that sum constant. A projection hides it.

    >>> from magjax.encoders import EncoderConfig
    >>> config = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> found = known_directions(DualEncoder.create(config), "query")
    >>> [(name, direction.shape) for name, direction in found.items()]
    [('the sum over dimensions, constant after a layer norm', (16,))]
    """
    assert side in get_args(Side)
    tower = encoder.tower(side)
    if encoder.side_projection(side) is not None or encoder.pooling not in ("mean", "cls"):
        return {}
    if not isinstance(tower, TextEncoder):
        return {}
    norm = tower.layers[-1].output_norm
    if norm.scale is None:
        return {_ZERO_SUM: np.ones(norm.num_features)}
    scale = np.asarray(norm.scale[...], np.float64)
    alive = np.abs(scale) > 1e-6 * np.abs(scale).max()
    inverse = np.where(alive, 1.0 / np.where(alive, scale, 1.0), 0.0)
    return {_ZERO_SUM: inverse}
