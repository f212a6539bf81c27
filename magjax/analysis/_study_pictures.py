"""Pictures of a study: the value of every system with its seeds, and curves of training."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from magjax.analysis._style import NOTE_COLOUR, Style, panel_grid, variant_styles
from magjax.checks import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CurveOfRun", "ValueOfSystem", "runs_figure", "values_figure"]


class ValueOfSystem(NamedTuple):
    """One system in one panel.

    Attributes:
        panel: the test.
        system: a variant's name.
        mean: of the metric over seeds; None where every run failed.
        low: lower end of the interval over seeds; None where none is known.
        high: upper end; None where ``low`` is.
        seeds: the value of each seed.

    >>> ValueOfSystem("code", "dnorm", 0.5, 0.4, 0.6, (0.45, 0.55)).seeds
    (0.45, 0.55)
    """

    panel: str
    system: str
    mean: float | None
    low: float | None
    high: float | None
    seeds: Sequence[float | int]


class CurveOfRun(NamedTuple):
    """One quantity of one run.

    Attributes:
        panel: where to draw it.
        variant: of the run.
        steps: ascending.
        values: one a step.

    >>> CurveOfRun("from random", "dnorm", (0, 10), (0.1, 0.4)).variant
    'dnorm'
    """

    panel: str
    variant: str
    steps: Sequence[float | int]
    values: Sequence[float | int]


def values_figure(
    values: Sequence[ValueOfSystem],
    *,
    untrained: Mapping[tuple[str, str], float] | None = None,
    lines: Mapping[str, tuple[str, float]] | None = None,
    label: str,
    title: str,
    footnote: str = "",
) -> "Figure":
    """Means with their intervals, every seed as a small dot; one panel a test, one line a variant.

    Args:
        values: variants in the order to draw them.
        untrained: the value of the untrained model by panel and variant: a hollow diamond.
        lines: by panel, name and value of a yardstick that has no variant, such as BM25.
        label: of the horizontal axis, such as ``"nDCG@10"``.
        title: above the panels.
        footnote: below them.

    Returns:
        A matplotlib figure, which a notebook shows.

    Raises:
        InputError: no value, or a variant twice in a panel.

    >>> figure = values_figure(
    ...     [ValueOfSystem("code", "dnorm", 0.5, 0.4, 0.6, (0.45, 0.55))], label="nDCG@10",
    ...     lines={"code": ("BM25", 0.35)}, title="Trained")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0.500']
    """
    from matplotlib.lines import Line2D

    panels = list(dict.fromkeys(row.panel for row in values))
    _check(panels, [(row.panel, row.system) for row in values])
    styles = variant_styles(row.system for row in values)
    heights = {variant: -float(i) for i, variant in enumerate(styles)}
    figure, grid = panel_grid(
        panels,
        panel_size=(3.8, 1.0 + 0.5 * len(styles)),
        margin=1.1,
        title=title,
        footnote=footnote,
    )
    shown: dict[str, dict[str, Any]] = {}
    for axes, panel in zip(grid, panels, strict=True):
        axes.set_xlabel(label)
        axes.margins(x=0.12)
        for row in values:
            if row.panel == panel:
                _draw_value(axes, heights[row.system], styles[row.system], row, shown)
        for (where, system), value in (untrained or {}).items():
            if where == panel and system in heights:
                axes.plot(
                    [value], [heights[system]], color=styles[system].colour, **_MARKS["untrained"]
                )
                shown["untrained"] = _MARKS["untrained"]
        if lines and panel in lines:
            name, value = lines[panel]
            axes.axvline(value, color=NOTE_COLOUR, **_YARDSTICK)
            shown[name] = _YARDSTICK
        axes.set_ylim(min(heights.values()) - 0.6, 0.75)
        axes.set_yticks(list(heights.values()), list(heights))
    if shown:
        figure.legend(
            handles=[Line2D([], [], color=NOTE_COLOUR, **style) for style in shown.values()],
            labels=list(shown),
            loc="outside right upper",
            frameon=False,
            fontsize=8,
        )
    return figure


_SEED = "one seed"
_MARKS: dict[str, dict[str, Any]] = {
    "mean and interval": {"marker": "o", "linewidth": 2.2, "markersize": 6.5},
    "mean": {"marker": "o", "linewidth": 0, "markersize": 6.5, "markerfacecolor": "white"},
    _SEED: {"marker": "o", "linewidth": 0, "markersize": 3, "alpha": 0.7},
    "untrained": {"marker": "D", "linewidth": 0, "markersize": 5, "markerfacecolor": "white"},
}
_YARDSTICK: dict[str, Any] = {"linewidth": 1.2, "linestyle": (0, (5, 4))}


def _draw_value(
    axes: "Axes", height: float, style: Style, row: ValueOfSystem, shown: dict[str, Any]
) -> None:
    if row.mean is None:
        across = axes.get_yaxis_transform()
        axes.text(0.02, height, "every run failed", transform=across, va="center", size=8)
        return
    kind = "mean"
    if row.low is not None and row.high is not None:
        axes.hlines(height, row.low, row.high, color=style.colour, linewidth=2.2)
        kind = "mean and interval"
    axes.plot([row.mean], [height], color=style.colour, **_MARKS[kind])
    shown[kind] = _MARKS[kind]
    if len(row.seeds) > 1:
        # A little below the line, so that they do not hide under the mean.
        heights = [height - 0.2] * len(row.seeds)
        axes.plot(list(row.seeds), heights, color=style.colour, **_MARKS[_SEED])
        shown[_SEED] = _MARKS[_SEED]
    axes.annotate(
        f"{row.mean:.3f}",
        (row.mean, height),
        (0, 6),
        textcoords="offset points",
        ha="center",
        size=8,
    )


def runs_figure(
    curves: Sequence[CurveOfRun], *, label: str, title: str, footnote: str = ""
) -> "Figure":
    """Curves of training: the mean over a variant's runs, and each run as a thin line.

    Args:
        curves: one a run.
        label: of the vertical axis, such as ``"loss"``.
        title: above the panels.
        footnote: below them.

    Returns:
        A matplotlib figure, which a notebook shows.

    Raises:
        InputError: no curve, or one without points.

    >>> figure = runs_figure(
    ...     [CurveOfRun("from random", "dnorm", (0, 10), (4.0, 2.0))], label="loss", title="Loss")
    >>> figure.axes[0].get_title()
    'from random'
    """
    panels = list(dict.fromkeys(curve.panel for curve in curves))
    _check(panels, [])
    styles = variant_styles(curve.variant for curve in curves)
    figure, grid = panel_grid(
        panels, panel_size=(4.4, 3.2), margin=1.5, title=title, footnote=footnote
    )
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid, panels, strict=True):
        axes.set_xlabel("step")
        for variant, style in styles.items():
            runs = [c for c in curves if (c.panel, c.variant) == (panel, variant)]
            if not runs:
                continue
            for run in runs:
                if not len(run.steps) or len(run.steps) != len(run.values):
                    raise InputError(
                        f"a curve of {variant!r} in {panel!r} has {len(run.steps)} steps and "
                        f"{len(run.values)} values; give one value a step, at least one."
                    )
                axes.plot(run.steps, run.values, color=style.colour, linewidth=0.6, alpha=0.45)
            steps, means = _mean_curve(runs)
            (line,) = axes.plot(
                steps,
                means,
                color=style.colour,
                linewidth=1.2 + 0.3 * style.width,
                linestyle=style.dashes,
                marker="o" if len(steps) == 1 else None,
                zorder=4.0 - 0.1 * style.width,
            )
            handles.setdefault(variant, line)
    figure.supylabel(label, fontsize=10)
    figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside right center",
        frameon=False,
    )
    return figure


def _mean_curve(runs: Sequence[CurveOfRun]) -> tuple[list[float | int], list[float]]:
    """The mean at the steps that every run has."""
    tables = [dict(zip(run.steps, run.values, strict=True)) for run in runs]
    steps = sorted(set.intersection(*(set(table) for table in tables)))
    return steps, [float(np.mean([table[step] for table in tables])) for step in steps]


def _check(panels: Sequence[str], keys: Sequence[tuple[str, str]]) -> None:
    if not panels:
        raise InputError("there is nothing to draw; give at least one row.")
    for i, key in enumerate(keys):
        if key in keys[:i]:
            raise InputError(f"{key[1]!r} is given twice in panel {key[0]!r}; give each once.")
