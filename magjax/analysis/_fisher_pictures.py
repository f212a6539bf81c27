"""Pictures of Fisher measurements: spectra of every variant, and measures with their intervals."""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from magjax.analysis._style import NOTE_COLOUR, Style, panel_grid, save_figure, variant_styles
from magjax.checks import InputError
from magjax.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_measures", "draw_spectra", "measures_figure", "spectra_figure"]

Curve = tuple[str, str, Array | Sequence[float | int], float | int | None]
"""Label (the variant), panel, eigenvalues [any number], and the cut-off in their unit."""

Row = tuple[str, str, float | int | None, float | int | None, float | int | None]
"""Panel, variant, and mean, lower and upper end in the panel's unit."""


def draw_spectra(
    path: str | os.PathLike[str], curves: Sequence[Curve], *, title: str, footnote: str = ""
) -> None:
    """Writes :func:`spectra_figure` to ``path`` as a PNG, in one rename; parents are made.

    Args:
        path: of the picture; an older one is replaced.
        curves: as in :func:`spectra_figure`.
        title: above the panels.
        footnote: below them, such as the kind of matrix and the number of examples.

    Raises:
        InputError: what :func:`spectra_figure` refuses.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "results", "spectra.png")
    >>> draw_spectra(path, [("dot", "query side", [4.0, 1.0], None)], title="Spectra")
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    save_figure(path, spectra_figure(curves, title=title, footnote=footnote))


def draw_measures(
    path: str | os.PathLike[str], rows: Sequence[Row], *, title: str, footnote: str = ""
) -> None:
    """Writes :func:`measures_figure` to ``path`` as a PNG, in one rename; parents are made.

    Args:
        path: of the picture; an older one is replaced.
        rows: as in :func:`measures_figure`.
        title: above the panels.
        footnote: below them, such as the level of the intervals.

    Raises:
        InputError: what :func:`measures_figure` refuses.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "measures.png")
    >>> draw_measures(path, [("kappa (lower is better)", "dot", 4.0, 3.0, 5.0)], title="Measures")
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    save_figure(path, measures_figure(rows, title=title, footnote=footnote))


def spectra_figure(curves: Sequence[Curve], *, title: str, footnote: str = "") -> "Figure":
    """Eigenvalues by rank, relative to the largest, on logarithmic axes; one panel a space.

    A variant has the same colour in every panel and picture. A line that ends above the panel's
    lower edge has no further eigenvalues; one that falls through it has zeros there, or values far
    below the cut-off. A matrix without a positive eigenvalue is named in the legend only.

    Args:
        curves: label, panel, eigenvalues in any order, and the cut-off at or below which they
            count as zero (``None``: none was used). A panel takes its curves in this order.
        title: above the panels.
        footnote: below them.

    Returns:
        A matplotlib figure, which a notebook shows.

    Raises:
        InputError: no curve, no eigenvalue, one that is not finite, or a label twice in a panel.

    >>> figure = spectra_figure(
    ...     [("dot", "query side", [4.0, 1.0], 1e-6), ("dot", "document side", [2.0, 1.0], None)],
    ...     title="Spectra",
    ... )
    >>> [axes.get_title() for axes in figure.axes]
    ['query side', 'document side']
    """
    panels = _panels(curves, [(panel, label) for label, panel, _, _ in curves], "curve")
    styles = variant_styles(label for label, _, _, _ in curves)
    figure, grid = panel_grid(
        list(panels), panel_size=(4.4, 3.6), margin=1.6, title=title, footnote=footnote
    )
    handles: dict[str, Any] = {}
    lowest = 1.0
    for axes, members in zip(grid, panels.values(), strict=True):
        axes.set_xscale("log")
        axes.set_yscale("log", nonpositive="clip")  # zeros drop to the lower edge
        axes.set_xlabel("rank of the eigenvalue")
        cutoffs: dict[float, str] = {}
        for label, _, eigenvalues, cutoff in members:
            values, largest = _relative(label, eigenvalues)
            name = label if largest > 0 else f"{label} (no positive eigenvalue)"
            handles.setdefault(name, _spectrum_line(axes, values, styles[label], name))
            level = 0.0 if cutoff is None or largest <= 0 else cutoff / largest
            if level > 0:
                # Two digits: cut-offs that differ by rounding only are one line.
                cutoffs[float(f"{level:.1e}")] = styles[label].colour
                lowest = min(lowest, 0.3 * level)
            lowest = min([lowest, *(0.5 * values[values > level][-1:])])
        for level, colour in cutoffs.items():
            shown = colour if len(cutoffs) > 1 else NOTE_COLOUR
            axes.axhline(level, color=shown, gid="cut-off", **_CUTOFF)
        if cutoffs and "cut-off" not in handles:
            (line,) = axes.plot([], [], color=NOTE_COLOUR, label="cut-off", **_CUTOFF)
            handles["cut-off"] = line
    grid[0].set_ylim(lowest, 2.0)
    figure.supylabel("eigenvalue / largest eigenvalue", fontsize=10)
    figure.legend(handles=list(handles.values()), loc="outside right center", frameon=False)
    return figure


_CUTOFF: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (5, 4))}


def _spectrum_line(axes: "Axes", values: np.ndarray, style: Style, label: str) -> Any:
    (line,) = axes.plot(
        np.arange(1, len(values) + 1),
        values,
        color=style.colour,
        linewidth=style.width,
        linestyle=style.dashes,
        label=label,
        # A single eigenvalue has no line.
        marker="o" if len(values) == 1 else None,
        zorder=4.0 - 0.1 * style.width,
    )
    return line


def _relative(label: str, eigenvalues: Array | Sequence[float | int]) -> tuple[np.ndarray, float]:
    """Eigenvalues descending, divided by the largest, and that one; NaN if it is not positive."""
    values = np.sort(np.asarray(eigenvalues, np.float64).ravel())[::-1]
    if values.size == 0 or not np.isfinite(values).all():
        raise InputError(
            f"the spectrum of {label!r} has {values.size} eigenvalues, "
            f"{np.count_nonzero(~np.isfinite(values))} of them not finite; draw finite ones."
        )
    largest = float(values[0])
    return (values / largest if largest > 0 else np.full_like(values, np.nan)), largest


def measures_figure(rows: Sequence[Row], *, title: str, footnote: str = "") -> "Figure":
    """Means as dots with their intervals as bars, one panel a measure, one line a variant.

    The axis is logarithmic where the means are positive and the values span more than a factor of
    ten. An open dot has no known interval; an infinite mean is an arrow at the right edge, and an
    unknown one is called so.

    Args:
        rows: panel (such as ``"document effective rank (higher is better)"``), variant, mean, and
            the ends of its interval, both ``None`` where no spread is known. A mean may be
            infinite, or ``None`` where it is not known; then it has no interval.
        title: above the panels.
        footnote: below them.

    Returns:
        A matplotlib figure, which a notebook shows.

    Raises:
        InputError: no row, a variant twice in a panel, or ends that do not enclose the mean.

    >>> figure = measures_figure(
    ...     [("kappa", "dot", 9.0, 7.0, 11.0), ("kappa", "dnorm", math.inf, None, None)],
    ...     title="Measures",
    ... )
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['9', 'infinite →']
    """
    panels = _panels(rows, [row[:2] for row in rows], "row")
    for row in rows:
        _check_row(row)
    if any(row[2] is not None and math.isfinite(row[2]) and row[3] is None for row in rows):
        footnote = f"{footnote}\nOpen dot: no interval is known.".strip()
    styles = variant_styles(variant for _, variant, _, _, _ in rows)
    heights = {variant: -float(i) for i, variant in enumerate(styles)}
    figure, grid = panel_grid(
        list(panels),
        panel_size=(3.7, 0.8 + 0.42 * len(styles)),
        margin=1.0,
        title=title,
        footnote=footnote,
    )
    for axes, members in zip(grid, panels.values(), strict=True):
        axes.grid(visible=False, axis="y")
        axes.set_yticks(list(heights.values()), list(heights))
        axes.set_ylim(0.4 - len(heights), 0.7)
        _scale(axes, members)
        for row in members:
            _dot(axes, heights[row[1]], styles[row[1]].colour, row)
    return figure


def _scale(axes: "Axes", members: Sequence[Row]) -> None:
    """Sets the range and kind of a panel's axis from all that is finite in it."""
    means = [mean for _, _, mean, _, _ in members if mean is not None and math.isfinite(mean)]
    ends = [end for row in members for end in row[3:] if end is not None]
    if not means:
        axes.set_xticks([])
        return
    positive = [value for value in [*means, *ends] if value > 0]
    if min(means) > 0 and max(positive) > 10 * min(positive):
        margin = (max(positive) / min(positive)) ** 0.12
        axes.set_xscale("log")
        axes.set_xlim(min(positive) / margin, max(positive) * margin)
    else:
        low, high = min([*means, *ends]), max([*means, *ends])
        # 2 % at least: what differs by rounding only looks equal, and has ticks to read.
        margin = max(0.12 * (high - low), 0.02 * abs(low), 0.02 * abs(high)) or 1.0
        axes.set_xlim(low - margin, high + margin)


def _dot(axes: "Axes", height: float, colour: str, row: Row) -> None:
    _, _, mean, low, high = row
    across = axes.get_yaxis_transform()  # x from 0 at the left edge to 1 at the right one
    if mean is None:
        axes.text(0.02, height, "not known", transform=across, va="center", color=NOTE_COLOUR)
    elif math.isinf(mean):
        axes.text(
            0.98, height, "infinite →", transform=across, ha="right", va="center", color=colour
        )
    else:
        if low is not None and high is not None:
            # On a logarithmic axis an interval that reaches 0 leaves the panel at the left.
            start = max(low, axes.get_xlim()[0])
            axes.hlines(height, start, high, color=colour, linewidth=2.2)
        face = "white" if low is None else colour
        axes.plot([mean], [height], "o", color=colour, markerfacecolor=face, markersize=6.5)
        axes.annotate(
            _short(mean), (mean, height), (0, 6), textcoords="offset points", ha="center", size=8
        )


def _short(value: float) -> str:
    """Three digits, without an exponent where the number is a usual one."""
    if 1e3 <= abs(value) < 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _check_row(row: Row) -> None:
    panel, variant, mean, low, high = row
    if mean is None or mean == math.inf:
        sound = low is None and high is None
    elif low is None or high is None:
        sound = math.isfinite(mean) and low is high
    else:
        sound = -math.inf < low <= mean <= high < math.inf
    if not sound:
        raise InputError(
            f"{variant!r} in {panel!r} has mean {mean} and interval {low} to {high}; give finite "
            "ends around the mean, or None for both (as for an infinite or unknown mean)."
        )


def _panels(items: Sequence[Any], keys: Sequence[tuple[str, str]], kind: str) -> dict[str, list]:
    """``items`` by panel, in order; ``keys`` are the panel and name of each."""
    if not items:
        raise InputError(f"there is no {kind} to draw; give at least one.")
    panels: dict[str, list] = {}
    for i, (key, item) in enumerate(zip(keys, items, strict=True)):
        if key in keys[:i]:
            raise InputError(f"{key[1]!r} is given twice in panel {key[0]!r}; give each once.")
        panels.setdefault(key[0], []).append(item)
    return panels
