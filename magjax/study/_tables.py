"""The table of a study: means, intervals, wins, and paired comparisons."""

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from magjax.statistics import PairedDifference, holm, mean_interval, paired_bootstrap
from magjax.study._cells import StoredCell
from magjax.study._values import Series, Unit, series_of, study_units

__all__ = ["Comparison", "TableRow", "study_csv", "study_rows"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One variant against another on the same items, means over the seeds that both finished.

    Attributes:
        other: what it is compared with.
        found: the difference with its paired bootstrap over items.
        corrected: its p-value after Holm's correction over all comparisons of the table.
        won: items on which the variant is better.
        lost: items on which it is worse.

    >>> comparison = Comparison("cosine", paired_bootstrap([1.0, 0.5], [0.5, 0.5]), 1.0, 1, 0)
    >>> comparison.found.mean
    0.25
    """

    other: str
    found: PairedDifference
    corrected: float
    won: int
    lost: int


@dataclasses.dataclass(frozen=True)
class TableRow:
    """One system on one unit.

    Attributes:
        unit: task, start and domain.
        system: a variant, ``bm25``, or ``untrained SCORE``.
        trained: whether it is a variant.
        mean: over finished seeds and items; None where every run failed.
        low: lower end of Student's t interval over seeds; None with one seed.
        high: upper end.
        seeds: the mean of each finished run.
        failed: how many runs failed.
        wins: seeds at which no other variant is better (a failed run never wins); None of
            references.
        reference: against the study's reference; None for itself, BM25 and untrained rows.
        leader: against the variant with the highest mean; None for itself, for the study's
            reference (which it is compared with already), BM25 and untrained rows.

    >>> study_rows([], "ndcg@10", reference="cosine")
    []
    """

    unit: Unit
    system: str
    trained: bool
    mean: float | None
    low: float | None
    high: float | None
    seeds: tuple[float, ...]
    failed: int
    wins: int | None
    reference: Comparison | None
    leader: Comparison | None


def study_rows(
    cells: Sequence[StoredCell],
    metric: str,
    *,
    reference: str,
    inside: Sequence[str] = (),
    confidence: float = 0.95,
    resamples: int = 10_000,
) -> list[TableRow]:
    """Every system on every unit, references first.

    Args:
        cells: of one study.
        metric: what is tabled.
        reference: the variant that all others are compared with.
        inside: names of the tests in domain; empty for the first of each task.
        confidence: of all intervals.
        resamples: of the paired bootstraps.

    Raises:
        InputError: cells disagree on a test.

    >>> study_rows([], "ndcg@10", reference="cosine")
    []
    """
    rows: list[TableRow] = []
    drawn: dict[tuple[Unit, str, str], Comparison] = {}
    for unit in study_units(cells, inside):
        series = series_of(cells, unit, metric)
        variants = {name: found for name, found in series.items() if found.trained}
        means = {name: v.finished.mean() for name, v in variants.items() if v.finished.size}
        best = max(means, key=lambda name: means[name]) if means else ""
        for system, found in series.items():
            for other in dict.fromkeys((reference, best)):
                # The reference against the best is the best against the reference.
                if other == system or system == reference or not {system, other} <= means.keys():
                    continue
                paired = _compare(found, variants[other], other, confidence, resamples)
                if paired is not None:
                    drawn[unit, system, other] = paired
        for system, found in series.items():
            finished = found.finished
            spread = mean_interval(finished, confidence=confidence) if finished.size else None
            row = TableRow(
                unit=unit,
                system=system,
                trained=found.trained,
                mean=None,
                low=None,
                high=None,
                seeds=tuple(finished.tolist()),
                failed=len(found.failed),
                wins=_wins(system, variants) if found.trained else None,
                reference=drawn.get((unit, system, reference)),
                leader=drawn.get((unit, system, best)),
            )
            if spread is not None:
                row = dataclasses.replace(row, mean=spread.mean, low=spread.low, high=spread.high)
            rows.append(row)
    names = {str(i): key for i, key in enumerate(drawn)}
    corrected = holm({name: drawn[key].found.p_value for name, key in names.items()})
    final = {
        key: dataclasses.replace(drawn[key], corrected=corrected[name])
        for name, key in names.items()
    }
    return [_with_corrected(row, final) for row in rows]


def _with_corrected(row: TableRow, final: Mapping[tuple[Unit, str, str], Comparison]) -> TableRow:
    def look_up(comparison: Comparison | None) -> Comparison | None:
        return comparison and final[row.unit, row.system, comparison.other]

    return dataclasses.replace(row, reference=look_up(row.reference), leader=look_up(row.leader))


def _compare(
    one: Series, other: Series, name: str, confidence: float, resamples: int
) -> Comparison | None:
    seeds = [
        seed
        for seed in one.seeds
        if seed in other.seeds and seed not in (*one.failed, *other.failed)
    ]
    if not seeds:
        return None
    first, second = one.rows(seeds).mean(0), other.rows(seeds).mean(0)
    found = paired_bootstrap(first, second, confidence=confidence, resamples=resamples)
    won, lost = int(np.sum(first > second)), int(np.sum(first < second))
    return Comparison(name, found, found.p_value, won, lost)


def _wins(system: str, variants: Mapping[str, Series]) -> int:
    """Seeds at which no other variant has a higher mean."""
    own, wins = variants[system], 0
    for seed in own.seeds:
        if seed in own.failed:
            continue
        value = own.rows([seed]).mean()
        rivals = [found.rows([seed]).mean() for found in variants.values() if seed in found.seeds]
        wins += bool(value >= max(rivals))
    return wins


_COLUMNS = (
    "task",
    "start",
    "domain",
    "in_domain",
    "system",
    "metric",
    "mean",
    "low",
    "high",
    "seeds",
    "failed",
    "seeds_won",
)
_COMPARED = ("other", "difference", "low", "high", "p_holm", "items_won", "items_lost")


def study_csv(rows: Sequence[TableRow], metric: str) -> str:
    r"""The table as CSV, a line a row, numbers in full; empty where there is none.

    >>> study_csv([], "ndcg@10").split(",")[:3]
    ['task', 'start', 'domain']
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    compared = [f"{kind}_{name}" for kind in ("reference", "best") for name in _COMPARED]
    writer.writerow([*_COLUMNS, *compared])
    for row in rows:
        unit = row.unit
        line: list[Any] = [
            unit.task,
            unit.start,
            unit.domain,
            str(unit.inside).lower(),
            row.system,
            metric,
        ]
        line += [row.mean, row.low, row.high, len(row.seeds), row.failed, row.wins]
        for comparison in (row.reference, row.leader):
            if comparison is None:
                line += [None] * len(_COMPARED)
            else:
                found = comparison.found
                line += [comparison.other, found.mean, found.low, found.high]
                line += [comparison.corrected, comparison.won, comparison.lost]
        writer.writerow(line)
    return buffer.getvalue()
