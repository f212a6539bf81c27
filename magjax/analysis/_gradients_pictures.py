"""Pictures of a gradient analysis: what was measured as lines, the closed forms as circles."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from magjax.analysis._gradients_report import FIELDS, GradientReport, ScoreGradients
from magjax.analysis._gradients_sample import DIFFICULTIES, RULES
from magjax.analysis._style import NOTE_COLOUR, Style, panel_grid, variant_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["gradients_figure", "gradients_overview_figure"]

_PANELS = ("loss", "query", "log_length", "tangential", "documents")
_OVERVIEW = ("loss", "query", "log_length", "direction", "documents")
_TITLES = {
    **FIELDS,
    "loss": "loss L (nats)",
    "query": "query gradient |∂L/∂q|",
    "log_length": "∂L/∂log|q| (radial part times |q|)",
    "tangential": "tangential part of the query gradient",
    "direction": "by direction: |q| times the tangential part",
    "documents": "gradient of the query's documents |∂L/∂D|",
}
_STYLES = {
    "easy": Style("#009E73", 2.4, "solid"),
    "medium": Style("#0072B2", 2.0, (0, (5, 2))),
    "hard": Style("#D55E00", 1.7, (0, (2, 1.5))),
}
_DECADES = 1e-6  # of a panel's largest value: saturated queries fall through the lower edge
_LINEAR = 0.1  # nats: below, the axis of a derivative of either sign is linear


def gradients_figure(report: GradientReport, entry: ScoreGradients) -> "Figure":
    """Gradients under one score as queries get longer: one line for easy, medium and hard queries.

    Lines are medians over the queries of a class, bands their quartiles; circles are medians of the
    closed form, computed without differentiation. The parameters' panel has none.

    Args:
        report: what :func:`measure_gradients` found.
        entry: one of ``report.scores``.

    Returns:
        A matplotlib figure, which a notebook shows.

    >>> from magjax.analysis import GradientSettings, closed_form_sweep, query_length_sweep
    >>> from magjax.similarity import Score
    >>> q, d = np.random.default_rng(0).normal(size=(2, 6, 4))
    >>> problem = dict(gammas=(0.0, 0.0), temperature=1.0, scales=[0.5, 1.0, 2.0])
    >>> entry = ScoreGradients(Score.of("dot", 1.0), "given",
    ...     query_length_sweep(q, d, np.arange(6), **problem),
    ...     closed_form_sweep(q, d, np.arange(6), **problem), np.arange(6) // 2, None)
    >>> report = GradientReport("b", "f", GradientSettings(), list("qrstuv"), 6, (entry,), ())
    >>> len(gradients_figure(report, entry).axes)
    5
    """
    power = entry.score.gamma_query
    title = (
        f"{report.domain}, {entry.name} (gamma_query={power:g}, "
        f"gamma_document={entry.score.gamma_document:g}, "
        f"temperature={entry.score.temperature:.4g}): gradients by the query's length"
    )
    footnote = (
        f"Lines: medians of {len(report.query_ids)} queries measured by jax.grad, in "
        f"{RULES[report.settings.difficulty]}; bands: quartiles; circles: closed form. "
        f"{report.candidates} candidates."
    )

    def draw(axes: "Axes", field: str) -> None:
        scales = _scales(entry, field)
        found = entry.quartiles(field)
        for number, name in enumerate(DIFFICULTIES):
            style = _STYLES[name]
            low, middle, high = found[number]
            axes.fill_between(scales, low, high, color=style.colour, alpha=0.15, linewidth=0)
            _line(axes, scales, middle, style, name)
            if field != "parameters":
                expected = entry.quartiles(field, expected=True)[number][1]
                _circles(axes, scales, expected, style.colour)
        _scale_axis(axes, field, found[:, 1])

    figure = _figure(report, _PANELS, title, footnote, draw)
    return _with_legend(figure, "closed form")


def gradients_overview_figure(report: GradientReport) -> "Figure":
    """The scores of a gradient analysis side by side: medians over all queries, one line a score.

    Args:
        report: what :func:`measure_gradients` found.

    Returns:
        A matplotlib figure, which a notebook shows.

    >>> from magjax.analysis import GradientSettings, closed_form_sweep, query_length_sweep
    >>> from magjax.similarity import Score
    >>> q, d = np.random.default_rng(0).normal(size=(2, 6, 4))
    >>> problem = dict(gammas=(0.0, 0.0), temperature=1.0, scales=[0.5, 1.0, 2.0])
    >>> entry = ScoreGradients(Score.of("dot", 1.0), "given",
    ...     query_length_sweep(q, d, np.arange(6), **problem),
    ...     closed_form_sweep(q, d, np.arange(6), **problem), np.arange(6) // 2, None)
    >>> report = GradientReport("b", "f", GradientSettings(), list("qrstuv"), 6, (entry,), ())
    >>> [text.get_text() for text in gradients_overview_figure(report).legends[0].get_texts()]
    ['dot', 'closed form']
    """
    styles = variant_styles(entry.name for entry in report.scores)
    footnote = (
        f"Lines: medians of {len(report.query_ids)} queries measured by jax.grad; circles: closed "
        f"form. {report.candidates} candidates. Temperatures: "
        + ", ".join(f"{entry.name} {entry.score.temperature:.3g}" for entry in report.scores)
        + "."
    )

    def draw(axes: "Axes", field: str) -> None:
        medians = []
        for entry in report.scores:
            scales, style = _scales(entry, field), styles[entry.name]
            if field == "parameters":
                assert entry.parameters is not None
                medians.append(np.median(entry.parameters.norms, axis=1))
            else:
                medians.append(np.median(getattr(entry.measured, field), axis=1))
                expected = np.median(getattr(entry.expected, field), axis=1)
                _circles(axes, scales, expected, style.colour)
            _line(axes, scales, medians[-1], style, entry.name)
        _scale_axis(axes, field, np.stack(medians))

    title = f"{report.domain}: gradients by the query's length under each score"
    return _with_legend(_figure(report, _OVERVIEW, title, footnote, draw), "closed form")


def _figure(
    report: GradientReport,
    fields: tuple[str, ...],
    title: str,
    footnote: str,
    draw: Callable[["Axes", str], None],
) -> "Figure":
    shown, titles = list(fields), dict(_TITLES)
    theirs = report.scores[0].parameters
    if theirs is not None:
        shown.append("parameters")
        titles["parameters"] = f"parameter gradient |∂L/∂θ|, {theirs.space}"
        footnote += f" Parameters: {len(theirs.difficulty)} of the queries in a batch of their own."
    figure, grid = panel_grid(
        [titles[field] for field in shown],
        panel_size=(4.0, 3.2),
        margin=1.4,
        title=title,
        footnote=footnote,
        share_y=False,
    )
    for axes, field in zip(grid, shown, strict=True):
        axes.set_xscale("log", base=2)
        axes.axvline(1.0, color=NOTE_COLOUR, linewidth=0.8)
        axes.set_xlabel("factor c of the query's length", fontsize=8)
        draw(axes, field)
    return figure


def _scales(entry: ScoreGradients, field: str) -> np.ndarray:
    if field == "parameters":
        assert entry.parameters is not None
        return entry.parameters.scales
    return entry.measured.scales


def _line(axes: "Axes", x: np.ndarray, y: np.ndarray, style: Style, label: str) -> None:
    axes.plot(
        x,
        y,
        color=style.colour,
        linewidth=style.width,
        linestyle=style.dashes,
        label=label,
        zorder=4.0 - 0.1 * style.width,
    )


def _circles(axes: "Axes", x: np.ndarray, y: np.ndarray, colour: str) -> None:
    axes.plot(
        x,
        y,
        "o",
        color=colour,
        markerfacecolor="white",
        markersize=4.5,
        markeredgewidth=1.0,
        zorder=5,
    )


def _scale_axis(axes: "Axes", field: str, values: np.ndarray) -> None:
    """Logarithmic, and for what has both signs linear around 0."""
    if field == "log_length":
        axes.set_yscale("symlog", linthresh=_LINEAR)
        # Wide enough that rounding noise, 1e-16 at power 1, is the 0 that it stands for.
        finite = values[np.isfinite(values)]
        axes.set_ylim(
            2.0 * min(-_LINEAR, float(finite.min(initial=0.0))),
            2.0 * max(_LINEAR, float(finite.max(initial=0.0))),
        )
        axes.axhline(0.0, color=NOTE_COLOUR, linewidth=0.8)
        return
    positive = values[np.isfinite(values) & (values > 0.0)]
    if not positive.size:
        return
    axes.set_yscale("log")
    largest = float(positive.max())
    lowest = max(float(positive.min()), _DECADES * largest)
    # A decade at least: what is constant looks constant, and the axis has a tick to read.
    margin = max(0.15 * np.log10(largest / lowest), 0.5 * (1.0 - np.log10(largest / lowest)))
    axes.set_ylim(lowest / 10**margin, largest * 10**margin)


def _with_legend(figure: "Figure", circles: str) -> "Figure":
    from matplotlib.lines import Line2D

    lines, labels = figure.axes[0].get_legend_handles_labels()
    mark = Line2D([], [], marker="o", color=NOTE_COLOUR, markerfacecolor="white", linestyle="none")
    figure.legend(
        handles=[*lines, mark],
        labels=[*labels, circles],
        loc="outside right center",
        frameon=False,
    )
    return figure
