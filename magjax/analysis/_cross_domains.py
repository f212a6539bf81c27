"""Whether gains are larger out of domain than in domain."""

import dataclasses
from typing import Any

import numpy as np

from magjax.analysis._cross_table import DIRECTIONS, CrossCell, CrossEvaluation
from magjax.checks import InputError, choose
from magjax.statistics import Interval, PairedDifference, bootstrap_interval, paired_bootstrap

__all__ = ["DomainGap", "domain_gaps"]


@dataclasses.dataclass(frozen=True)
class DomainGap:
    """How much larger a gain is out of domain than in domain.

    Attributes:
        metric: its name.
        contrast: what is gained over what.
        domains: names of the two benchmarks, in domain first.
        direction: of retrieval.
        in_domain: the gain in domain.
        out_of_domain: the gain out of domain.
        gap: out of domain minus in domain, with the interval of a bootstrap that draws the queries
            of either domain on their own.

    >>> [field.name for field in dataclasses.fields(DomainGap)][:3]
    ['metric', 'contrast', 'domains']
    """

    metric: str
    contrast: str
    domains: tuple[str, str]
    direction: str
    in_domain: PairedDifference
    out_of_domain: PairedDifference
    gap: Interval

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "metric": self.metric,
            "contrast": self.contrast,
            "domains": list(self.domains),
            "direction": self.direction,
            "in_domain": self.in_domain.to_json(),
            "out_of_domain": self.out_of_domain.to_json(),
            "gap": self.gap.to_json(),
        }


def domain_gaps(
    in_domain: CrossEvaluation,
    out_of_domain: CrossEvaluation,
    metric: str,
    *,
    baseline: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> list[DomainGap]:
    """Whether gains are larger out of domain, as claim 3 of arXiv 2602.09229 reports.

    Two kinds of gain: of every model under its trained score over the baseline model under its own;
    and, within each model, of the scores that keep the ranked side's length over those that divide
    by it. Intervals are for each gap alone, not corrected for their number.

    Args:
        in_domain: the table of the domain that models were trained in.
        out_of_domain: the table of another.
        metric: one of both.
        baseline: the model that others are compared with; default: the first one trained under
            cosine, else the first with a trained score.
        resamples: of the bootstraps.
        seed: of the bootstraps.

    Raises:
        InputError: an unknown metric, an unknown baseline or one without a trained score, or tables
            of other models or directions.

    >>> from magjax.analysis import ModelEmbeddings, cross_evaluate
    >>> from magjax.data import Benchmark
    >>> from magjax.similarity import Score
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", Score.of("dot"), np.ones((1, 2), np.float32),
    ...                         np.array([[1, 1], [4, 0]], np.float32))
    >>> found = cross_evaluate([model], benchmark, metrics=["mrr@2"], k=2)
    >>> [(gap.contrast, gap.gap.mean) for gap in domain_gaps(found, found, "mrr@2")]
    [('m: dot over cosine', 0.0)]
    """
    tables = (in_domain, out_of_domain)
    names = [[row.model for row in table.rows] for table in tables]
    if names[0] != names[1] or in_domain.direction != out_of_domain.direction:
        raise InputError(
            f"{in_domain.domain} and {out_of_domain.domain} are tables of other models or "
            "directions; evaluate the same models on both."
        )
    for table in tables:
        choose("metric", metric, table.metrics)
    found = []
    for contrast, pairs in _contrasts(tables, baseline):
        gains = [
            paired_bootstrap(one.values[metric], two.values[metric], resamples=resamples, seed=seed)
            for one, two in pairs
        ]
        differences = [one.values[metric] - two.values[metric] for one, two in pairs]
        gap = bootstrap_interval(
            lambda here, there: float(np.mean(there) - np.mean(here)),
            *differences,
            resamples=resamples,
            seed=seed,
        )
        domains = (in_domain.domain, out_of_domain.domain)
        direction = in_domain.direction
        found.append(DomainGap(metric, contrast, domains, direction, gains[0], gains[1], gap))
    return found


def _contrasts(
    tables: tuple[CrossEvaluation, CrossEvaluation], baseline: str | None
) -> list[tuple[str, list[tuple[CrossCell, CrossCell]]]]:
    """What is compared with what, in either table."""
    first = tables[0]
    chosen = _baseline(first, baseline)
    contrasts = []
    for row in first.rows:
        if chosen is None or row.trained is None or row.model == chosen:
            continue
        pairs = []
        for table in tables:
            ours, theirs = table.row(row.model).trained, table.row(chosen).trained
            assert ours is not None
            assert theirs is not None
            pairs.append((ours, theirs))
        ours, theirs = pairs[0]
        contrasts.append(
            (f"{row.model} ({ours.name}) over {chosen} ({theirs.name}), own scores", pairs)
        )
    side = DIRECTIONS[first.direction]
    for row in first.rows:
        kept = next((cell.name for cell in row.cells if cell.score.gamma(side) == 0.0), None)
        divided = next((cell.name for cell in row.cells if cell.score.gamma(side) == 1.0), None)
        if kept is None or divided is None:
            continue
        pairs = []
        for table in tables:
            one, two = table.cell(row.model, kept), table.cell(row.model, divided)
            if one is not None and two is not None:
                pairs.append((one, two))
        if len(pairs) == len(tables):
            contrasts.append((f"{row.model}: {kept} over {divided}", pairs))
    return contrasts


def _baseline(table: CrossEvaluation, named: str | None) -> str | None:
    trained = {row.model: row.trained for row in table.rows if row.trained is not None}
    if named is not None:
        if table.row(named).trained is None:
            raise InputError(f"the baseline {named!r} states no trained score to compare with.")
        return named
    cosine = (name for name, cell in trained.items() if cell.name == "cosine")
    return next(cosine, next(iter(trained), None))
