"""Which checkpoints of a run stay."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from magjax.checks import InputError, positive_integer

__all__ = ["Retention", "RetentionPolicy"]


@dataclasses.dataclass(frozen=True)
class Retention:
    """The newest, the best and every n-th step; a step stays if one of the three asks for it.

    Attributes:
        keep: how many of the newest.
        keep_best: how many of the best; of equal ones the earlier is the better, as the best
            model is.
        keep_every: steps divisible by this stay for good; 0 for none.

    Raises:
        InputError: a count out of its range.

    >>> rule = Retention(keep=1, keep_best=1, keep_every=100)
    >>> sorted(rule.kept({50: 0.2, 100: 0.1, 150: 0.5, 200: 0.4, 250: None}))
    [100, 150, 200, 250]
    """

    keep: int = 2
    keep_best: int = 0
    keep_every: int = 0

    def __post_init__(self) -> None:
        """Refuses counts out of range."""
        positive_integer("keep", self.keep)
        for name in ("keep_best", "keep_every"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}={getattr(self, name)} must be 0 (none) or more.")

    def kept(self, values: Mapping[int, float | None]) -> set[int]:
        """The steps that stay.

        Args:
            values: per step its metric, higher is better; None where it was not evaluated.
        """
        newest = sorted(values)[-self.keep :]
        measured = {s: v for s, v in values.items() if v is not None and math.isfinite(v)}
        best = sorted(measured, key=lambda step: (-measured[step], step))[: self.keep_best]
        regular = [step for step in values if self.keep_every and step % self.keep_every == 0]
        return {*newest, *best, *regular}


class RetentionPolicy:
    """A :class:`Retention` in the form that Orbax asks for (its ``PreservationPolicy``).

    Args:
        retention: the rule.
        value: a step's metric, or None; raises ``KeyError`` for a step that cannot be read: it
            goes, as it would take the place of one that can.
    """

    def __init__(self, retention: Retention, value: Callable[[int], float | None]) -> None:
        self._retention = retention
        self._value = value

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Per checkpoint of Orbax's list, whether it stays."""
        del context
        values: dict[int, float | None] = {}
        for checkpoint in checkpoints:
            try:
                values[checkpoint.step] = self._value(checkpoint.step)
            except KeyError:
                continue
        kept = self._retention.kept(values)
        return [checkpoint.step in kept for checkpoint in checkpoints]
