"""Which side to normalize, from measurements: a recommendation with its reason, or undecided."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from magjax.checks import InputError, choose
from magjax.files import json_safe
from magjax.fisher._measurement import Measurement, Norms
from magjax.fisher._measures import find_measure
from magjax.statistics import Interval, mean_interval

__all__ = ["TASKS", "Advice", "advise", "intervals_by_variant"]

TASKS: dict[str, str] = {
    "asymmetric": "queries and documents play different parts (retrieval, RAG)",
    "symmetric": "both sides are equals (STS, clustering): only symmetric scores are advised",
}
"""What a task is, which its user states: no data set says it of itself."""

# Lengths that vary by less than this share hold nothing that a score could use.
_CONSTANT = 1e-3


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to train with, as far as the measurements say.

    Attributes:
        recommended: the variant, or None: undecided.
        contenders: variants that cannot be told from the best, the best first.
        query: ``normalize``, ``keep the length``, or ``undecided``.
        document: the same for the other side.
        reason: one or two sentences.
        measure: what decided, as ``space|measure``.
        intervals: the measure of each variant considered, over the batches.
        warnings: what limits the advice.
        confidence: level of the intervals.

    >>> Advice(None, ("qnorm", "dnorm"), "undecided", "undecided", "", "", {}).verdict
    'undecided between qnorm and dnorm'
    """

    recommended: str | None
    contenders: tuple[str, ...]
    query: str
    document: str
    reason: str
    measure: str
    intervals: Mapping[str, Interval]
    warnings: tuple[str, ...] = ()
    confidence: float = 0.95

    @property
    def verdict(self) -> str:
        """The advice in a few words."""
        if self.recommended is not None:
            return self.recommended
        if not self.contenders:
            return "undecided"
        *first, last = self.contenders
        return f"undecided between {', '.join(first)} and {last}" if first else "undecided"

    def to_json(self) -> dict[str, Any]:
        """All fields and the verdict as JSON values."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        intervals = {name: interval.to_json() for name, interval in self.intervals.items()}
        return json_safe({"verdict": self.verdict, **fields, "intervals": intervals})


def intervals_by_variant(
    measurements: Sequence[Measurement], space: str, name: str, *, confidence: float = 0.95
) -> dict[str, Interval | None]:
    """The interval of one measure of one space for each variant; None where it has no value.

    Raises:
        InputError: nothing was measured in that space.

    >>> intervals_by_variant([], "query", "kappa")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: nothing was measured in space 'query'; add it to fisher.spaces.
    """
    values: dict[str, list[float | None]] = {}
    for item in measurements:
        if item.space == space:
            values.setdefault(item.variant, []).append(item.values.get(name))
    if not values:
        spaces = list(dict.fromkeys(item.space for item in measurements))
        hint = f" Measured: {', '.join(spaces)}." if spaces else ""
        raise InputError(f"nothing was measured in space {space!r}; add it to fisher.spaces.{hint}")
    return {
        variant: mean_interval([x for x in found if x is not None], confidence=confidence)
        if found and all(x is not None for x in found)
        else None
        for variant, found in values.items()
    }


def advise(
    measurements: Sequence[Measurement],
    norms: Mapping[str, Norms],
    *,
    task: str,
    measure: str = "document|effective_rank",
    confidence: float = 0.95,
) -> Advice:
    """Recommends a variant by one measure of one space, or says that it is undecided.

    The best variant is recommended if its interval over the batches lies apart from every other
    variant's. Where intervals overlap, all that cannot be told from the best are contenders, and
    a side is still decided if they agree on it. In a symmetric task only scores with equal powers
    are considered. Whether the measure predicts what training finds is a question of its own
    (:func:`score_adviser`); the advice says what was measured, not that it must come true.

    Args:
        measurements: of several batches, any spaces.
        norms: lengths of each side, from :func:`measure_norms`.
        task: a name in :data:`TASKS`.
        measure: ``space|measure``.
        confidence: of the intervals.

    Raises:
        InputError: an unknown task, space or measure.

    >>> advise([], {}, task="symetric")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown task 'symetric'; known: asymmetric, symmetric. Did you mean 'symmetric'?
    """
    choose("task", task, TASKS)
    space, bar, name = measure.rpartition("|")
    if not bar:
        raise InputError(f"measure {measure!r} must be SPACE|MEASURE, as document|effective_rank.")
    prefer = find_measure(name).prefer
    scores = {item.variant: item.score for item in measurements if item.space == space}
    found = intervals_by_variant(measurements, space, name, confidence=confidence)
    symmetric = {variant: score.is_symmetric for variant, score in scores.items()}
    allowed = [v for v in found if task == "asymmetric" or symmetric[v]]
    warnings = [*_length_warnings(norms)]
    if not allowed:
        raise InputError(
            "the task is symmetric, but every variant measured is one-sided; add cosine or dot to "
            "fisher.variants."
        )
    constant = bool(norms) and all(side.variation < _CONSTANT for side in norms.values())
    unknown = [v for v in allowed if found[v] is None]
    known = {v: interval for v in allowed if (interval := found[v]) is not None}

    def undecided(reason: str, contenders: Sequence[str]) -> Advice:
        return Advice(
            None,
            tuple(contenders),
            _agreement([scores[v].gamma_query for v in contenders]),
            _agreement([scores[v].gamma_document for v in contenders]),
            reason,
            measure,
            known,
            tuple(warnings),
            confidence,
        )

    what = f"{name} of the {_space_text(space)}"
    if constant:
        return undecided(
            "The lengths of both sides are constant, so all variants are one score up to the "
            "temperature; nothing is to be chosen.",
            allowed,
        )
    if unknown:
        return undecided(f"The {what} is not known for {', '.join(unknown)}.", allowed)
    if all(math.isinf(interval.mean) for interval in known.values()):
        return undecided(
            f"The {what} is infinite for every variant; choose a regular measure, such as "
            "effective_rank.",
            allowed,
        )
    sign = 1.0 if prefer == "low" else -1.0
    order = sorted(allowed, key=lambda v: sign * known[v].mean)
    best = order[0]
    contenders = [v for v in order if v == best or _overlap(known[best], known[v])]
    text = f"{what} ({prefer} is better)"
    if len(contenders) == 1:
        fits_all = len(allowed) == len(found)
        others = ", ".join(f"{v} {_number(known[v])}" for v in order[1:])
        reason = (
            f"By the {text}, {best} at {_number(known[best])} lies apart from {others}."
            if others
            else f"{best} is the only {'' if fits_all else 'symmetric '}variant measured."
        )
        if not fits_all:
            reason += " The task is symmetric: one-sided scores were left out."
        return Advice(
            best,
            (best,),
            _agreement([scores[best].gamma_query]),
            _agreement([scores[best].gamma_document]),
            reason,
            measure,
            known,
            tuple(warnings),
            confidence,
        )
    if any(known[v].low is None and not math.isinf(known[v].mean) for v in contenders):
        return undecided(
            f"One batch has no spread, so nothing says whether {_number(known[best])} for {best} "
            "differs from the others; measure more batches (fisher.batches, or "
            "fisher.parameter_batches for a parameter space).",
            contenders,
        )
    shown = ", ".join(f"{v} {_number(known[v])}" for v in contenders)
    return undecided(f"By the {text}, intervals overlap: {shown}.", contenders)


def _overlap(first: Interval, second: Interval) -> bool:
    """Whether two means cannot be told apart; an unknown spread overlaps with everything finite."""
    if math.isinf(first.mean) or math.isinf(second.mean):
        return first.mean == second.mean
    ends = (first.low, first.high, second.low, second.high)
    low, high, other_low, other_high = (math.nan if end is None else end for end in ends)
    return not (high < other_low or other_high < low)  # an unknown end separates nothing


def _number(interval: Interval) -> str:
    if math.isinf(interval.mean):
        return "infinite"
    if interval.low is None or interval.high is None:
        return f"{interval.mean:.4g}"
    return f"{interval.mean:.4g} [{interval.low:.4g}, {interval.high:.4g}]"


def _space_text(space: str) -> str:
    if space in ("query", "document"):
        return f"{space} side's embeddings"
    return f"parameters {space}"


def _agreement(powers: Sequence[float]) -> str:
    if powers and all(power == 1.0 for power in powers):
        return "normalize"
    if powers and all(power == 0.0 for power in powers):
        return "keep the length"
    if powers and len(set(powers)) == 1:
        return f"power {powers[0]:g}"
    return "undecided"


def _length_warnings(norms: Mapping[str, Norms]) -> list[str]:
    flat = [side for side in norms.values() if side.variation < _CONSTANT]
    return [
        f"the length of {side.side} embeddings hardly varies (coefficient of variation "
        f"{side.variation:.2g}): normalizing that side only rescales the temperature. A layer norm "
        "without weights before first-token pooling fixes all lengths."
        for side in flat
    ]
