"""Per-item values of a study's systems, put side by side: same tests, items and seeds."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from magjax.checks import InputError, choose
from magjax.study._cells import StoredCell
from magjax.study._measured import Measured

__all__ = ["Series", "Unit", "series_of", "study_units"]


@dataclasses.dataclass(frozen=True)
class Unit:
    """What systems are compared on.

    Attributes:
        task: name of the task.
        start: name of the start model.
        domain: name of the test.
        inside: whether the test is in domain.

    >>> Unit("code", "random", "code/in_domain", True).label
    'code/in_domain (in domain), from random'
    """

    task: str
    start: str
    domain: str
    inside: bool

    @property
    def label(self) -> str:
        """For readers, in one line."""
        return f"{self.domain} ({self.place}), from {self.start}"

    @property
    def place(self) -> str:
        """In or out of domain."""
        return "in domain" if self.inside else "out of domain"


@dataclasses.dataclass(frozen=True)
class Series:
    """The values of one system on one unit.

    Attributes:
        seeds: of the runs, ascending; one for a reference.
        values: ``[seeds, items]`` of a metric; 0 for every item of a run that failed.
        failed: seeds of the runs that failed.
        trained: whether seeds are runs, so that training noise shows in them.

    >>> Series((0, 1), np.array([[0.0, 1.0], [0.5, 0.5]]), (), True).mean
    0.5
    """

    seeds: tuple[int, ...]
    values: np.ndarray
    failed: tuple[int, ...]
    trained: bool

    @property
    def mean(self) -> float:
        """Over seeds and items, failed runs as 0."""
        return float(self.values.mean())

    @property
    def finished(self) -> np.ndarray:
        """The mean over items of each run that did not fail."""
        kept = [seed not in self.failed for seed in self.seeds]
        return self.values[kept].mean(1)

    def rows(self, seeds: Sequence[int]) -> np.ndarray:
        """Values ``[seeds, items]`` of the given seeds; a reference is the same at each."""
        if not self.trained:
            return np.repeat(self.values, len(seeds), axis=0)
        return self.values[[self.seeds.index(seed) for seed in seeds]]


def study_units(cells: Sequence[StoredCell], inside: Sequence[str] = ()) -> list[Unit]:
    """Task, start and domain of everything that was measured, in the order of the cells.

    Args:
        cells: of one study.
        inside: names of the tests in domain; empty for the first of each task.

    Raises:
        InputError: a name of ``inside`` that no test has.

    >>> study_units([])
    []
    """
    domains: dict[str, dict[str, None]] = {}
    starts: dict[str, dict[str, None]] = {}
    for cell in cells:
        domains.setdefault(cell.task, {}).update({m.domain: None for m in cell.result.measured})
        if cell.start:
            starts.setdefault(cell.task, {})[cell.start] = None
    known = [domain for found in domains.values() for domain in found]
    for name in inside if known else ():
        choose("test in in_domain", name, known)
    return [
        Unit(task, start, domain, inside=domain in inside if inside else place == 0)
        for task, found in domains.items()
        for start in starts.get(task, {})
        for place, domain in enumerate(found)
    ]


def series_of(cells: Sequence[StoredCell], unit: Unit, metric: str) -> dict[str, Series]:
    """The series of every system on a unit: references first, then variants.

    Args:
        cells: of a study; trials count for nothing here.
        unit: what to look at.
        metric: whose values to take. Where a test keeps none but has the metric, its mean stands
            for a single item.

    Raises:
        InputError: cells disagree on the test or its number of items, or one run is there twice.

    >>> series_of([], Unit("code", "random", "code/in_domain", True), "ndcg@10")
    {}
    """
    rows: dict[str, dict[int, np.ndarray | None]] = {}
    fingerprints: dict[str, str] = {}

    def put(system: str, cell: StoredCell, values: np.ndarray | None) -> None:
        if cell.seed in rows.setdefault(system, {}):
            raise InputError(
                f"two cells hold {system} at seed {cell.seed} on {unit.label}, one of them "
                f"{cell.id}; take those of one study, as magjax.study.study_state does."
            )
        rows[system][cell.seed] = values

    for cell in cells:
        if cell.task != unit.task or cell.start not in ("", unit.start) or cell.role == "trial":
            continue
        for found in cell.result.measured:
            if found.domain == unit.domain and metric in found.means:
                system = cell.variant if cell.role == "trained" else found.system
                put(system, cell, _items(found, metric))
                fingerprints[cell.id] = found.fingerprint
        if cell.role == "trained" and cell.result.failure:
            put(cell.variant, cell, None)
    sizes = {len(row) for seeds in rows.values() for row in seeds.values() if row is not None}
    if len(set(fingerprints.values())) > 1 or len(sizes) > 1:
        raise InputError(
            f"cells of {unit.label} were measured on different tests: {fingerprints}; items {sizes}."
        )
    if not sizes:
        return {}
    (items,) = sizes
    trained = {cell.variant for cell in cells if cell.role == "trained"}
    return {
        system: _series(by_seed, items, trained=system in trained)
        for system, by_seed in rows.items()
    }


def _series(by_seed: Mapping[int, np.ndarray | None], items: int, *, trained: bool) -> Series:
    seeds = tuple(sorted(by_seed))
    values = np.zeros((len(seeds), items))
    for place, seed in enumerate(seeds):
        found = by_seed[seed]
        if found is not None:
            values[place] = found
    failed = tuple(seed for seed in seeds if by_seed[seed] is None)
    return Series(seeds, values, failed, trained)


def _items(found: Measured, metric: str) -> np.ndarray:
    return np.asarray(found.values.get(metric) or [found.means[metric]], np.float64)
