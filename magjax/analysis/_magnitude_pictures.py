"""Pictures of a magnitude analysis: relevance, documents, queries, rankings with other norms."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from magjax.analysis._magnitude_contrast import EVER_RELEVANT
from magjax.analysis._magnitude_marks import (
    OTHER,
    RELEVANT,
    bar,
    boxes,
    by_count,
    by_value,
    cloud,
    with_alpha,
)
from magjax.analysis._magnitude_report import MagnitudeReport
from magjax.analysis._magnitude_text import format_interval
from magjax.analysis._style import panel_grid
from magjax.statistics import Interval, PairedDifference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ablation_figure", "document_norms_figure", "query_norms_figure", "relevance_figure"]

_BINS = 40
_DRAWN_METRICS = 2


def relevance_figure(report: MagnitudeReport) -> "Figure":
    """Norms of relevant documents beside those of others, one panel a kind of others.

    Densities over (query, document) pairs, or over distinct documents in the last panel. Norms
    beyond the corpus' 0.1 % and 99.9 % quantiles stand in the outer bins.

    Args:
        report: what :func:`measure_magnitude` found.

    Returns:
        A matplotlib figure, which a notebook shows.

    >>> from magjax.analysis import MagnitudeSettings, measure_magnitude
    >>> from magjax.similarity import Score
    >>> x = np.eye(4, dtype="float32")
    >>> report = measure_magnitude(x[:1], x, {"q": {"a": 1}}, query_ids=["q"],
    ...     document_ids=list("abcd"), score=Score.of("dot", 1.0),
    ...     settings=MagnitudeSettings(metrics=("mrr@10",), negatives=("all",), resamples=10))
    >>> len(relevance_figure(report).axes)
    2
    """
    norms, values = report.values.norms["document"], report.values
    ever = values.relevant_queries > 0
    panels, groups = [], []
    for found in report.contrasts:
        effect, auc = found.pooled["cohens_d"], found.pooled["norm_auc"]
        over = "documents" if found.kind == EVER_RELEVANT else "pairs"
        name = "never relevant" if found.kind == EVER_RELEVANT else found.kind
        panels.append(
            f"against {name}, over {over}\nd {format_interval(effect, 2)}\n"
            f"AUC {format_interval(auc, 2)}"
        )
        if found.kind == EVER_RELEVANT:
            groups.append((ever.astype(float), (~ever).astype(float)))
        else:
            groups.append((values.relevant_queries, values.pairs[found.kind]))
    low, high = np.quantile(norms, [0.001, 0.999])
    margin = 0.0 if high > low else 0.05 * max(abs(low), 1e-6)
    edges = np.linspace(low - margin, high + margin, _BINS + 1)
    placed = np.clip(norms, edges[0], edges[-1])
    figure, grid = panel_grid(
        panels,
        panel_size=(3.8, 3.4),
        margin=0.6,
        title=f"{report.domain}: do relevant documents differ in norm? ({report.score.variant})",
        footnote="Outer bins hold what lies beyond the 0.1 % and 99.9 % quantiles of all documents. "
        f"{_level(report)}",
    )
    for axes, (one, other) in zip(grid, groups, strict=True):
        for weights, colour, label in ((other, OTHER, "others"), (one, RELEVANT, "relevant")):
            axes.hist(
                placed,
                list(edges),
                weights=weights,
                density=True,
                histtype="stepfilled",
                color=with_alpha(colour, 0.35),
                edgecolor=colour,
                linewidth=1.4,
                label=label,
            )
        axes.set_xlabel("norm of the document")
    grid[0].set_ylabel("density")
    grid[0].legend(frameon=False)
    return figure


def document_norms_figure(report: MagnitudeReport) -> "Figure":
    """Document norm against text length, in-degree and the number of queries answered.

    Clouds of at most 4,000 documents with the median of each tenth of them; boxes hold the middle
    half of all documents with that count, whiskers reach 1.5 times as far.

    Args:
        report: what :func:`measure_magnitude` found.

    Returns:
        A matplotlib figure, which a notebook shows.

    >>> from magjax.analysis import MagnitudeSettings, measure_magnitude
    >>> from magjax.similarity import Score
    >>> x = np.eye(4, dtype="float32")
    >>> report = measure_magnitude(x[:1], x, {"q": {"a": 1}}, query_ids=["q"],
    ...     document_ids=list("abcd"), score=Score.of("dot", 1.0),
    ...     settings=MagnitudeSettings(metrics=("mrr@10",), negatives=("all",), resamples=10))
    >>> len(document_norms_figure(report).axes)
    2
    """
    values = report.values
    norms = values.norms["document"]
    columns: dict[str, np.ndarray] = dict(values.lengths)
    counts = {"in-degree": values.in_degree, "relevant queries": values.relevant_queries}
    figure, grid = panel_grid(
        _with_correlations(report, "document", [*columns, *counts]),
        panel_size=(3.8, 3.3),
        margin=0.6,
        title=f"{report.domain}: what goes with a document's norm? ({report.score.variant})",
        footnote=f"In-degree: queries among whose {report.settings.occurrences} best a document "
        f"stands. Line: medians of each tenth. {_level(report)}",
    )
    for axes, (name, column) in zip(grid, (columns | counts).items(), strict=True):
        if name in counts:
            boxes(axes, by_count(column, norms))
            axes.set_xlabel(name)
        else:
            cloud(axes, np.maximum(column, 1), norms, highlighted=values.relevant_queries > 0)
            axes.set_xscale("log")
            axes.set_xlabel(name)
    for axes in grid[:: _columns_of(grid)]:
        axes.set_ylabel("norm of the document")
    if columns:
        grid[0].legend(frameon=False, fontsize=8, markerscale=2.0)
    return figure


def query_norms_figure(report: MagnitudeReport) -> "Figure":
    """Query norm against the query's loss, gradient and first metric.

    Args:
        report: what :func:`measure_magnitude` found.

    Returns:
        A matplotlib figure, which a notebook shows.

    >>> from magjax.analysis import MagnitudeSettings, measure_magnitude
    >>> from magjax.similarity import Score
    >>> x = np.eye(4, dtype="float32")
    >>> report = measure_magnitude(x[:1], x, {"q": {"a": 1}}, query_ids=["q"],
    ...     document_ids=list("abcd"), score=Score.of("dot", 1.0),
    ...     settings=MagnitudeSettings(metrics=("mrr@10",), negatives=("all",), resamples=10))
    >>> len(query_norms_figure(report).axes)
    4
    """
    norms = report.values.norms["query"]
    names = ["loss", "gradient", "norm x gradient", report.settings.metrics[0]]
    columns = report.values.query_columns()
    figure, grid = panel_grid(
        _with_correlations(report, "query", names),
        panel_size=(3.8, 3.3),
        margin=0.6,
        title=f"{report.domain}: what goes with a query's norm? ({report.score.variant})",
        footnote=f"InfoNCE over {report.candidates:,} documents at temperature "
        f"{report.temperature:.3g} and its gradient at the query's embedding. Line: medians of each "
        f"tenth. {_level(report)}",
    )
    for axes, name in zip(grid, names, strict=True):
        known = ~np.isnan(columns[name])
        column = columns[name][known]
        axes.set_xlabel(name)
        if name in report.settings.metrics:
            boxes(axes, by_value(column, norms[known]))
            continue
        cloud(axes, column, norms[known])
        if column.min() > 0.0 and column.max() > 30.0 * column.min():
            axes.set_xscale("log")
    for axes in grid[:: _columns_of(grid)]:
        axes.set_ylabel("norm of the query")
    return figure


def ablation_figure(report: MagnitudeReport) -> "Figure":
    """The first two metrics with norms as they are, shuffled, inverted, removed; and differences.

    Args:
        report: what :func:`measure_magnitude` found.

    Returns:
        A matplotlib figure, which a notebook shows.

    >>> from magjax.analysis import MagnitudeSettings, measure_magnitude
    >>> from magjax.similarity import Score
    >>> x = np.eye(4, dtype="float32")
    >>> report = measure_magnitude(x[:1], x, {"q": {"a": 1}}, query_ids=["q"],
    ...     document_ids=list("abcd"), score=Score.of("dot", 1.0),
    ...     settings=MagnitudeSettings(metrics=("mrr@10",), negatives=("all",), resamples=10))
    >>> len(ablation_figure(report).axes)
    2
    """
    drawn = report.settings.metrics[:_DRAWN_METRICS]
    conditions = report.ablation.conditions
    panels: dict[str, Sequence[Interval | PairedDifference | None]] = {
        metric: [item.metrics[metric] for item in conditions] for metric in drawn
    }
    if report.ablation.applies:
        for metric in drawn:
            panels[f"{metric}: difference"] = [item.difference.get(metric) for item in conditions]
    unused = "" if report.ablation.applies else " The score does not use the documents' norms."
    figure, grid = panel_grid(
        list(panels),
        panel_size=(4.0, 1.1 + 0.36 * len(conditions)),
        margin=1.0,
        title=f"{report.domain}: what rankings owe to document norms ({report.score.variant})",
        footnote=f"Means over {report.ablation.evaluation.counts['queries']:,} queries; "
        f"differences query by query to norms as they are. {_level(report)}{unused}",
    )
    heights = -np.arange(len(conditions), dtype=float)
    for axes, members in zip(grid, panels.values(), strict=True):
        axes.grid(visible=False, axis="y")
        axes.set_axisbelow(True)
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.set_yticks(heights, [item.name for item in conditions])
        for height, found in zip(heights, members, strict=True):
            if found is not None:
                bar(axes, float(height), found, OTHER if height else RELEVANT)
        axes.margins(x=0.16)
        axes.locator_params(axis="x", nbins=5)  # more would run into each other
    return figure


def _level(report: MagnitudeReport) -> str:
    return f"Intervals: {100 * report.settings.confidence:g}%."


def _with_correlations(report: MagnitudeReport, side: str, names: list[str]) -> list[str]:
    found = report.correlations[side]
    return [f"{name}\nSpearman {format_interval(found[name], 2)}" for name in names]


def _columns_of(grid: list["Axes"]) -> int:
    """Panels a row, as the figure laid them out."""
    place = grid[0].get_subplotspec()
    assert place is not None
    return place.get_gridspec().ncols
