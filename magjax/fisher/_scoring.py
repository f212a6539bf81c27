"""How often the measures of a start model name the variant that training then finds best."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from magjax.checks import InputError, choose, positive_number
from magjax.statistics import holm
from magjax.tables import aligned_table

__all__ = ["Cell", "DefinitionScore", "Verdict", "format_scores", "score_adviser"]

Verdict = Literal["better than the base rate", "not better", "cannot be judged"]
"""What :func:`score_adviser` concludes about a definition."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One start model on one task: what was measured before training, and what training found.

    Attributes:
        name: of the cell, such as ``"minilm/code"``.
        winner: the variant that training found best; ``None`` if it could not separate the best.
        measures: per definition (``"document|ggn|effective_rank"``: space, kind, measure), the
            value for each variant; ``None`` where it is not known.

    >>> Cell("random/code", "dnorm", {"document|ggn|kappa": {"cosine": 9.0, "dnorm": 4.0}}).winner
    'dnorm'
    """

    name: str
    winner: str | None
    measures: Mapping[str, Mapping[str, float | int | None]]


@dataclasses.dataclass(frozen=True)
class DefinitionScore:
    """How one definition did as an adviser.

    A cell is judged if training separated a winner among the contest's variants and the
    definition named one.

    Attributes:
        definition: its name.
        hits: judged cells whose winner was named.
        judged: number of judged cells.
        abstentions: cells with a winner, for which the definition named none.
        undecided: cells without a winner.
        outside: cells whose winner is not among the variants of this contest.
        hit_rate: hits / judged; ``None`` without a judged cell.
        low: lower end of the hit rate's exact (Clopper-Pearson) interval.
        high: upper end.
        base_rate: share of the commonest winner among the judged cells, which is what always
            naming that variant scores on them.
        commonest: that variant; of several, the one listed first.
        chance: 1 / number of variants, what drawing lots scores.
        p_value: probability of at least as many hits at the base rate (exact binomial); ``None``
            if there is no judged cell or the base rate is 1.
        p_corrected: the same after Holm's correction for the number of definitions.
        confidence: of the interval; 1 - confidence bounds ``p_corrected`` of a better definition.
        verdict: ``"cannot be judged"`` with fewer than two judged cells or when all of them have
            the same winner: always naming that one is right in every cell, and none can be better.
        named: per cell with a winner, the variant that was named, or ``None``.

    >>> cell = Cell("a", "dot", {"query|ggn|kappa": {"dot": 1.0, "qnorm": 2.0}})
    >>> score, = score_adviser([cell], variants=("dot", "qnorm"), prefer={"kappa": "low"})
    >>> score.hits, score.judged, score.verdict
    (1, 1, 'cannot be judged')
    """

    definition: str
    hits: int
    judged: int
    abstentions: int
    undecided: int
    outside: int
    hit_rate: float | None
    low: float | None
    high: float | None
    base_rate: float | None
    commonest: str | None
    chance: float
    p_value: float | None
    p_corrected: float | None
    confidence: float
    verdict: Verdict
    named: Mapping[str, str | None]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values.

        >>> cell = Cell("a", None, {"query|ggn|kappa": {}})
        >>> score, = score_adviser([cell], variants=("dot", "qnorm"), prefer={"kappa": "low"})
        >>> score.to_json()["undecided"], score.to_json()["hit_rate"]
        (1, None)
        """
        return {**dataclasses.asdict(self), "named": dict(self.named)}


def score_adviser(
    cells: Sequence[Cell],
    *,
    variants: Sequence[str],
    prefer: Mapping[str, str],
    confidence: float = 0.95,
) -> list[DefinitionScore]:
    """Compares what each definition names with what training found.

    A definition names the variant with the best value. It abstains where the best value is shared
    or fewer than two variants have a value. An infinite value is a value: the worst where low is
    preferred.

    A hit rate says nothing without the base rate: if one variant wins most cells, always naming it
    needs no Fisher matrix. The test takes cells as independent; those that share a start model or
    a task are less than that, and its p-values are then too small.

    Args:
        cells: the study; their order is of no consequence.
        variants: the contest. Values of other variants are not looked at, and cells that another
            variant won are not judged.
        prefer: per measure (the part of a definition behind the last ``|``), whether ``"low"`` or
            ``"high"`` values are preferred.
        confidence: of the intervals; 1 - confidence is the error that the verdicts allow to all
            definitions together (Holm).

    Returns:
        A score for every definition that some cell has, best hit rate first, then by name.

    Raises:
        InputError: fewer than two variants, the same cell or variant twice, a measure that
            ``prefer`` lacks, or a confidence out of range.

    >>> measures = [("a", "dot", 1.0, 2.0), ("b", "qnorm", 3.0, 2.0), ("c", "qnorm", 5.0, 4.0)]
    >>> cells = [
    ...     Cell(name, winner, {"query|ggn|kappa": {"dot": dot, "qnorm": qnorm}})
    ...     for name, winner, dot, qnorm in measures
    ... ]
    >>> score, = score_adviser(cells, variants=("dot", "qnorm"), prefer={"kappa": "low"})
    >>> score.hit_rate, score.commonest, round(score.base_rate, 3), score.verdict
    (1.0, 'qnorm', 0.667, 'not better')
    """
    if positive_number("confidence", confidence) >= 1.0:
        raise InputError(f"confidence={confidence!r} must be below 1; try 0.95.")
    if len(variants) < 2:
        raise InputError(f"variants={tuple(variants)} is no contest; name at least two.")
    for kind, names in (("variant", variants), ("cell", [cell.name for cell in cells])):
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise InputError(f"{kind} {twice[0]!r} is listed twice; give each {kind} once.")
    definitions = sorted({definition for cell in cells for definition in cell.measures})
    scores = [_score(name, cells, variants, prefer, confidence) for name in definitions]
    scores = _correct(scores, error=1.0 - confidence)
    return sorted(
        scores, key=lambda score: -1.0 if score.hit_rate is None else score.hit_rate, reverse=True
    )


def _score(
    definition: str,
    cells: Sequence[Cell],
    variants: Sequence[str],
    prefer: Mapping[str, str],
    confidence: float,
) -> DefinitionScore:
    from scipy import stats

    measure = definition.rpartition("|")[2]
    side = choose(f"preference for {measure}", prefer[choose("measure", measure, prefer)], _SIGNS)
    decided = sorted(
        (cell for cell in cells if cell.winner in variants), key=lambda cell: cell.name
    )
    named = {
        cell.name: _best(cell.measures.get(definition, {}), variants, _SIGNS[side])
        for cell in decided
    }
    judged = [(cell.winner, named[cell.name]) for cell in decided if named[cell.name] is not None]
    hits = sum(winner == best for winner, best in judged)
    wins = Counter(winner for winner, _ in judged)
    commonest = max(variants, key=lambda variant: wins[variant]) if judged else None
    rate = low = high = base = p_value = None
    if judged:
        rate, base = hits / len(judged), wins[commonest] / len(judged)
        exact = stats.binomtest(hits, len(judged)).proportion_ci(confidence, method="exact")
        low, high = float(exact.low), float(exact.high)
        if base < 1.0:
            test = stats.binomtest(hits, len(judged), base, alternative="greater")
            p_value = float(test.pvalue)
    return DefinitionScore(
        definition=definition,
        hits=hits,
        judged=len(judged),
        abstentions=len(decided) - len(judged),
        undecided=sum(cell.winner is None for cell in cells),
        outside=sum(cell.winner is not None for cell in cells) - len(decided),
        hit_rate=rate,
        low=low,
        high=high,
        base_rate=base,
        commonest=commonest,
        chance=1.0 / len(variants),
        p_value=p_value,
        p_corrected=None,
        confidence=float(confidence),
        verdict="cannot be judged",
        named=named,
    )


_SIGNS = {"low": 1.0, "high": -1.0}


def _best(
    values: Mapping[str, float | int | None], variants: Sequence[str], sign: float
) -> str | None:
    known = {
        variant: sign * value
        for variant in variants
        if (value := values.get(variant)) is not None and not math.isnan(value)
    }
    if len(known) < 2:
        return None
    best = min(known, key=lambda variant: known[variant])
    # 1e-9: values that differ by the rounding of a float64 sum only are the same value.
    shared = [v for v in known.values() if math.isclose(v, known[best], rel_tol=1e-9)]
    return best if len(shared) == 1 else None


def _correct(scores: Sequence[DefinitionScore], *, error: float) -> list[DefinitionScore]:
    """Holm's correction over the definitions, and the verdicts that follow."""
    corrected = holm(
        {score.definition: score.p_value for score in scores if score.p_value is not None}
    )

    def judged(score: DefinitionScore) -> DefinitionScore:
        if score.definition not in corrected:
            return score
        p_value = corrected[score.definition]
        verdict: Verdict = "better than the base rate" if p_value <= error else "not better"
        return dataclasses.replace(score, p_corrected=p_value, verdict=verdict)

    return [judged(score) for score in scores]


def format_scores(scores: Sequence[DefinitionScore]) -> str:
    """The scores as a table of text, one row a definition; what the columns mean stands below.

    >>> wins, kappa = ["dot", "dot", "qnorm"], {"dot": 1.0, "qnorm": 2.0}
    >>> cells = [Cell(f"cell {i}", win, {"query|ggn|kappa": kappa}) for i, win in enumerate(wins)]
    >>> scores = score_adviser(cells, variants=("dot", "qnorm"), prefer={"kappa": "low"})
    >>> print(format_scores(scores).partition(chr(10))[0])
    definition        right    hit rate   95% interval   always naming   by lot   abstains      p   verdict
    """
    if not scores:
        return "No definition was scored."
    interval = f"{100 * scores[0].confidence:g}% interval"
    words = ["definition", "right", "hit rate", interval, "always naming"]
    numbers = ["by lot", "abstains", "p"]
    rows = [
        [
            score.definition,
            f"{score.hits} of {score.judged}",
            _two(score.hit_rate),
            "-" if score.low is None else f"{_two(score.low)} to {_two(score.high)}",
            "-" if score.commonest is None else f"{score.commonest} {_two(score.base_rate)}",
            _two(score.chance),
            str(score.abstentions),
            "-" if score.p_corrected is None else f"{score.p_corrected:.2g}",
            score.verdict,
        ]
        for score in scores
    ]
    right = [False] * len(words) + [True] * len(numbers) + [False]
    lines = aligned_table([*words, *numbers, "verdict"], rows, right)
    tested = sum(score.p_corrected is not None for score in scores)
    notes = [
        "Always naming: what naming the commonest winner in every cell scores on the same cells.",
        "p: probability of at least as many hits at that rate (exact binomial), corrected by Holm "
        f"for {tested} definitions.",
    ]
    reasons = {
        "had no winner that training could separate": scores[0].undecided,
        "were won by a variant outside of this contest": scores[0].outside,
    }
    if any(reasons.values()):
        counted = (f"{number} {why}" for why, number in reasons.items() if number)
        notes.append(f"Cells not judged: {', '.join(counted)}.")
    return "\n".join([*lines, *notes])


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
