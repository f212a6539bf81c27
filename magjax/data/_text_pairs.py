"""Pairs of texts that people compared: semantic similarity and pair classification."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError
from magjax.data._lines import fail_at
from magjax.data._records import content_fingerprint

__all__ = ["TextPairs", "pair_text"]


@dataclasses.dataclass(frozen=True, eq=False)
class TextPairs:
    """Pairs of texts that are equals, with what people said of each pair.

    Args:
        name: what results call the set.
        first: one text a pair; some published sets hold empty ones, which :attr:`empty` counts.
        second: the other.
        grades: float64 ``[pairs]``: similarity on the set's own scale, or 1 for a pair that
            belongs together and 0 for one that does not.
        parts: per pair, the name of the part it comes from, as the files of one year of STS; empty
            for a set without parts.
        unjudged: pairs of the published files that have no grade and are left out.
        fingerprint: names this content; made from it when left out.

    Raises:
        InputError: lengths disagree, there is no pair, or a grade is not finite.

    >>> pairs = TextPairs("s", ["a man"], ["one man"], [4.5])
    >>> len(pairs), pairs.grades
    (1, array([4.5]))
    """

    name: str
    first: Sequence[str]
    second: Sequence[str]
    grades: np.ndarray | Sequence[float | int]
    parts: Sequence[str] = ()
    unjudged: int = 0
    fingerprint: str = ""

    def __post_init__(self) -> None:
        grades = np.asarray(self.grades, np.float64)
        object.__setattr__(self, "grades", grades)
        sizes = {len(self.first), len(self.second), len(grades), len(self.parts or self.first)}
        if len(sizes) > 1 or grades.ndim != 1:
            raise InputError(
                f"{self.name}: {len(self.first)} first texts, {len(self.second)} second, "
                f"{len(grades)} grades and {len(self.parts)} parts; give one of each a pair."
            )
        if not len(grades):
            raise InputError(f"{self.name} holds no pair; at least one is needed.")
        if not np.isfinite(grades).all():
            place = int(np.argmin(np.isfinite(grades)))
            raise InputError(f"{self.name}: the grade of pair {place} is {grades[place]}.")
        if not self.fingerprint:
            found = content_fingerprint(self.first, self.second, grades.tolist(), self.parts)
            object.__setattr__(self, "fingerprint", found)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def empty(self) -> int:
        """Pairs with an empty text, which is embedded like any other.

        >>> TextPairs("s", ["a man", ""], ["one man", "a"], [4.5, 0.0]).empty
        1
        """
        return sum(
            not a.strip() or not b.strip() for a, b in zip(self.first, self.second, strict=True)
        )


def pair_text(path: str | os.PathLike[str], line: int, value: Any, name: str) -> str:
    """One text of a pair.

    Raises:
        InputError: with file and line: no string.

    >>> pair_text("a.tsv", 2, "a man", "sentence1")
    'a man'
    """
    if not isinstance(value, str):
        fail_at(path, line, f"{name!r} is {value!r}, but must be a string.")
    return value
