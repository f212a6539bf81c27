"""Whether rankings that must coincide do."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from magjax.evaluation import Ranking

__all__ = ["Identity", "check_identity"]

# Multiplying by a query's factor rounds once: 1e-16 of a score. Scores nearer than this may swap.
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Identity:
    """Scores that must rank alike for one model, and whether they do.

    Attributes:
        model: its name.
        scores: names of the scores.
        queries: rankings compared.
        swapped: those in which documents of equal scores, up to rounding, stand in another order.
        different: those that differ otherwise: there should be none.

    >>> Identity("m", ("dot", "qnorm"), 10, 0, 0).holds
    True
    """

    model: str
    scores: tuple[str, ...]
    queries: int
    swapped: int
    different: int

    @property
    def holds(self) -> bool:
        """Whether all rankings coincide up to rounding."""
        return self.different == 0

    def describe(self) -> str:
        """One sentence.

        >>> Identity("m", ("dot", "qnorm"), 10, 0, 0).describe()
        'm: dot = qnorm in all 10 rankings'
        """
        equal = f"{self.model}: {' = '.join(self.scores)}"
        if not self.holds:
            return (
                f"VIOLATED: {equal} must hold, but {self.different:,} of {self.queries:,} rankings "
                "differ"
            )
        ties = f" ({self.swapped:,} of them swap ties)" if self.swapped else ""
        return f"{equal} in all {self.queries:,} rankings{ties}"

    def to_json(self) -> dict[str, Any]:
        """The fields and whether it holds, as JSON values."""
        return {**dataclasses.asdict(self), "scores": list(self.scores), "holds": self.holds}


def check_identity(model: str, rankings: Mapping[str, Ranking]) -> Identity:
    """Compares the rankings of scores that must coincide, query by query, with the first.

    Args:
        model: its name.
        rankings: by score; at least two.

    >>> one = Ranking(("q",), (("d", "e"),), (np.array([2.0, 1.0]),), (np.array([0, 1]),))
    >>> two = Ranking(("q",), (("e", "d"),), (np.array([2.0, 1.0]),), (np.array([1, 0]),))
    >>> check_identity("m", {"dot": one, "qnorm": two}).describe()
    'VIOLATED: m: dot = qnorm must hold, but 1 of 1 rankings differ'
    """
    first, *others = rankings.values()
    swapped = different = 0
    for number in range(len(first)):
        kinds = {_compare(first, other, number) for other in others}
        different += "different" in kinds
        swapped += "swapped" in kinds and "different" not in kinds
    return Identity(model, tuple(rankings), len(first), swapped, different)


def _compare(one: Ranking, two: Ranking, number: int) -> str:
    ours, theirs = one.rows[number], two.rows[number]
    if np.array_equal(ours, theirs):
        return "equal"
    if len(ours) != len(theirs):
        return "different"
    ours_scores, theirs_scores = one.scores[number], two.scores[number]
    largest = float(np.max(np.abs(ours_scores), initial=0.0))
    # The scores differ by the factor of the asking side's length, place by place: otherwise a
    # document that only one ranking holds could stand in the last place unnoticed.
    factor = float(np.max(np.abs(theirs_scores), initial=0.0)) / largest if largest else 0.0
    off = np.max(np.abs(theirs_scores - factor * ours_scores), initial=0.0)
    value = dict(zip(ours.tolist(), ours_scores.tolist(), strict=True))
    moved = np.array([value.get(row, ours_scores[-1]) for row in theirs.tolist()])
    gap = np.max(np.abs(moved - ours_scores))
    equal = off <= _ROUNDING * factor * largest and gap <= _ROUNDING * largest
    return "swapped" if equal else "different"
