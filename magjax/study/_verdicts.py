"""Verdicts on claims: supported, not supported, or undecided, with the numbers."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from magjax.checks import InputError
from magjax.statistics import holm
from magjax.study._cells import StoredCell
from magjax.study._claims import Claim
from magjax.study._values import Series, Unit, series_of, study_units

__all__ = ["Verdict", "verdicts"]

Decision = Literal["supported", "not supported", "undecided"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the cells say of a claim.

    Attributes:
        claim: what was claimed.
        decision: the verdict.
        difference: mean of the best of ``better`` minus that of the best of ``than``; None
            without cells to compare.
        low: lower end of its bootstrap interval.
        high: upper end.
        p_items: of the bootstrap over seeds and items.
        p_seeds: of Student's t over seeds; None with one seed or no trained system.
        p_value: the larger of both.
        corrected: after Holm's correction over the study's claims; what is compared.
        best: the best of ``better``.
        rival: the best of ``than``.
        seeds: number of seeds.
        items: number of items (queries) of all tests.
        units: what was averaged over.
        notes: what a reader must know.

    >>> claim = Claim("t", ("qnorm",), ("dot",), "in", "ndcg@10", 0.0, ("code",), ("random",))
    >>> Verdict.without_cells(claim).decision
    'undecided'
    """

    claim: Claim
    decision: Decision
    difference: float | None
    low: float | None
    high: float | None
    p_items: float | None
    p_seeds: float | None
    p_value: float
    corrected: float
    best: str
    rival: str
    seeds: int
    items: int
    units: tuple[Unit, ...]
    notes: tuple[str, ...]

    @classmethod
    def without_cells(cls, claim: Claim) -> "Verdict":
        """Undecided, since some system has no finished run."""
        return cls(
            claim=claim,
            decision="undecided",
            difference=None,
            low=None,
            high=None,
            p_items=None,
            p_seeds=None,
            p_value=1.0,
            corrected=1.0,
            best="",
            rival="",
            seeds=0,
            items=0,
            units=(),
            notes=("Some of the systems have no finished run.",),
        )

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dataclasses.asdict(self)


def verdicts(
    cells: Sequence[StoredCell],
    claims: Sequence[Claim],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Verdict]:
    r"""Tests each claim on the per-item values of a study's cells.

    With :math:`m_v` the mean of variant v over seeds, items and units (task, start, domain),

    .. math:: D = \max_{v \in \text{better}} m_v - \max_{v \in \text{than}} m_v .

    Two questions are asked, each two-sided against the claim's margin. Would other seeds and items
    give the same sign? Seeds are drawn with replacement, then the items of each test, one draw for
    all seeds, starts and systems, and D is taken anew, the choice of the best included: ``p_items`` is twice the smaller
    share of resamples on one side, :math:`2 (1 + n) / (1 + R)`. Do the seeds agree? ``p_seeds`` is
    Student's t over the seeds' differences of the two systems that are best: the bootstrap alone
    takes a few seeds for all that there could be. The claim's p is the larger one, corrected by
    Holm over all claims. It is supported where that is at most 1 - confidence and D exceeds the
    margin, not supported where D falls short of it, and undecided otherwise. A run that failed
    counts as 0 for every item.

    Args:
        cells: as :func:`magjax.study.read_cells` gives them.
        claims: of the study.
        confidence: of the intervals and of the correction.
        resamples: R.
        seed: of the draws, the same for every claim.

    Raises:
        InputError: a claim names a domain that no cell was measured on.

    >>> verdicts([], [])
    []
    """
    found = [_test(cells, claim, confidence, resamples, seed) for claim in claims]
    corrected = holm({str(i): verdict.p_value for i, verdict in enumerate(found)})
    return [
        dataclasses.replace(
            verdict,
            corrected=corrected[str(i)],
            decision=_decide(verdict, corrected[str(i)], confidence),
        )
        for i, verdict in enumerate(found)
    ]


def _decide(verdict: Verdict, corrected: float, confidence: float) -> Decision:
    # 1 - 0.95 is a little more than 0.05 in binary.
    if verdict.difference is None or corrected > round(1.0 - confidence, 12):
        return "undecided"
    return "supported" if verdict.difference > verdict.claim.margin else "not supported"


def _test(
    cells: Sequence[StoredCell], claim: Claim, confidence: float, resamples: int, seed: int
) -> Verdict:
    units = _units(cells, claim)
    systems = (*claim.better, *claim.than)
    series = [series_of(cells, unit, claim.metric) for unit in units]
    if not units or not all(
        system in found and (len(found[system].failed) < len(found[system].seeds))
        for found in series
        for system in systems
    ):
        return Verdict.without_cells(claim)
    every = [found[system] for found in series for system in systems]
    seeds = _common_seeds(every)
    if not seeds:
        return Verdict.without_cells(claim)
    # Of each unit: [systems, seeds, items].
    values = [np.stack([found[system].rows(seeds) for system in systems]) for found in series]

    split = len(claim.better)
    by_seed = np.mean([unit.mean(2) for unit in values], axis=0)  # [systems, seeds]
    means = by_seed.mean(1)
    best, rival = int(means[:split].argmax()), split + int(means[split:].argmax())
    difference = float(means[best] - means[rival])

    tests = [(unit.task, unit.domain) for unit in units]
    drawn = _resample(values, tests, split, resamples, seed)
    tail = min(np.count_nonzero(drawn <= claim.margin), np.count_nonzero(drawn >= claim.margin))
    p_items = min(1.0, 2.0 * (int(tail) + 1) / (resamples + 1))
    low, high = np.quantile(drawn, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    p_seeds = _t_test(by_seed[best] - by_seed[rival] - claim.margin, every)
    return Verdict(
        claim=claim,
        decision="undecided",
        difference=difference,
        low=float(low),
        high=float(high),
        p_items=p_items,
        p_seeds=p_seeds,
        p_value=max(p_items, p_seeds or 0.0),
        corrected=1.0,
        best=systems[best],
        rival=systems[rival],
        seeds=len(seeds),
        items=sum({test: unit.shape[2] for test, unit in zip(tests, values, strict=True)}.values()),
        units=tuple(units),
        notes=tuple(_notes(series, systems, seeds)),
    )


def _units(cells: Sequence[StoredCell], claim: Claim) -> list[Unit]:
    known = study_units(cells, claim.inside)
    domains = list(dict.fromkeys(unit.domain for unit in known))
    if domains and claim.domain not in ("in", "out", "all", *domains):
        raise InputError(
            f"claim {claim.text!r} names the domain {claim.domain!r}; known: in, out, all, "
            f"{', '.join(domains)}."
        )
    return [
        unit
        for unit in known
        if unit.task in claim.tasks
        and unit.start in claim.starts
        and claim.domain in ("all", "in" if unit.inside else "out", unit.domain)
    ]


def _common_seeds(every: Sequence[Series]) -> tuple[int, ...]:
    """Seeds that every trained system has; any one where nothing is trained."""
    runs = [set(series.seeds) for series in every if series.trained]
    return tuple(sorted(set.intersection(*runs))) if runs else (0,)


def _resample(
    values: Sequence[np.ndarray],
    tests: Sequence[tuple[str, str]],
    split: int,
    resamples: int,
    seed: int,
) -> np.ndarray:
    """D of each resample; counts of the draws stand for the drawn values."""
    random = np.random.default_rng(seed)
    seeds = values[0].shape[1]
    drawn = np.empty(resamples)
    for i in range(resamples):
        runs = np.bincount(random.integers(seeds, size=seeds), minlength=seeds) / seeds
        means = np.zeros(len(values[0]))
        shares: dict[tuple[str, str], np.ndarray] = {}
        for test, unit in zip(tests, values, strict=True):
            if test not in shares:  # from another start the items are the same
                items = unit.shape[2]
                counts = np.bincount(random.integers(items, size=items), minlength=items)
                shares[test] = counts / items
            means += (unit @ shares[test]) @ runs / len(values)
        drawn[i] = means[:split].max() - means[split:].max()
    return drawn


def _t_test(differences: np.ndarray, every: Sequence[Series]) -> float | None:
    """Two-sided p of a mean of 0; None where seeds say nothing."""
    from scipy import stats

    if len(differences) < 2 or not any(series.trained for series in every):
        return None
    if np.ptp(differences) == 0.0:
        return 0.0 if differences[0] else 1.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _notes(
    series: Sequence[Mapping[str, Series]], systems: Sequence[str], seeds: Sequence[int]
) -> list[str]:
    notes = []
    if not any(found[system].trained for found in series for system in systems):
        notes.append("Nothing here is trained, so there is no training noise.")
    elif len(seeds) == 1:
        notes.append("One seed: the interval is over items only and leaves training noise out.")
    failed = [system for system in systems if any(found[system].failed for found in series)]
    if failed:
        notes.append(f"Failed runs of {', '.join(failed)} count as 0.")
    return notes
