"""Curves of one run: loss, development metric, temperature, lengths and powers."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from magjax.analysis._style import panel_grid, save_figure
from magjax.checks import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_training_curves", "read_metrics", "training_curves_figure"]

# Okabe and Ito's blue and vermilion, and other dashes, so that two curves differ without colour.
_LINES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "linestyle": "solid"},
    {"color": "#D55E00", "linestyle": (0, (4, 1.5))},
    {"color": "#009E73", "linestyle": (0, (1, 1.2))},
)


class _Panel(NamedTuple):
    title: str
    kind: str  # of the rows: train, evaluation
    curves: Mapping[str, str]  # label by quantity
    logarithmic: bool = False


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a run's ``metrics.jsonl``.

    Raises:
        InputError: the file is missing, or a line is no JSON object.

    >>> read_metrics("/nowhere/metrics.jsonl")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/metrics.jsonl does not exist; name the metrics.jsonl of a run.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file} does not exist; name the metrics.jsonl of a run.")
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{file}:{number} is no JSON ({error}); restore the file.") from error
        if not isinstance(row, dict) or "step" not in row or "kind" not in row:
            raise InputError(f"{file}:{number} lacks step or kind; each line of a run has both.")
        rows.append(row)
    return rows


def draw_training_curves(
    path: str | os.PathLike[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str,
    best_step: int | None = None,
    title: str,
) -> None:
    """Writes :func:`training_curves_figure` to ``path`` as a PNG, in one rename.

    Args:
        path: of the picture; parents are made.
        rows: as in :func:`training_curves_figure`.
        metric: as in :func:`training_curves_figure`.
        best_step: as in :func:`training_curves_figure`.
        title: above the panels.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "curves.png")
    >>> draw_training_curves(path, [{"step": 1, "kind": "train", "loss": 2.0}], metric="mrr", title="A run")
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    figure = training_curves_figure(rows, metric=metric, best_step=best_step, title=title)
    save_figure(path, figure)


def training_curves_figure(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str,
    best_step: int | None = None,
    title: str,
) -> "Figure":
    """A panel for each quantity that the run wrote; what is not finite is left out.

    Args:
        rows: lines of ``metrics.jsonl`` (:func:`read_metrics`).
        metric: that chose the best model; its values of both directions are drawn beside it where
            the run has them.
        best_step: marked by a vertical line.
        title: above the panels.

    Returns:
        A matplotlib figure, which a notebook shows.

    Raises:
        InputError: none of the quantities occurs.

    >>> figure = training_curves_figure(
    ...     [{"step": 1, "kind": "train", "loss": 2.0, "temperature": 0.05}], metric="mrr", title="")
    >>> [axes.get_title() for axes in figure.axes]
    ['loss of the batches', 'temperature']
    """
    wanted = (
        _Panel("loss of the batches", "train", {"loss": "loss"}),
        _Panel(
            f"{metric} on the development test",
            "evaluation",
            {
                metric: "mean of both",
                f"text_to_image/{metric}": "text to image",
                f"image_to_text/{metric}": "image to text",
            },
        ),
        _Panel("temperature", "train", {"temperature": "temperature"}, logarithmic=True),
        _Panel(
            "length of the embeddings",
            "train",
            {"query_norm": "queries", "document_norm": "documents"},
        ),
        _Panel(
            "power of the length",
            "train",
            {"gamma_query": "queries", "gamma_document": "documents"},
        ),
        _Panel("norm of the gradient", "train", {"gradient_norm": "gradient"}, logarithmic=True),
    )
    found = []
    for panel in wanted:
        curves = {label: _points(rows, panel.kind, name) for name, label in panel.curves.items()}
        curves = {label: points for label, points in curves.items() if points}
        if curves:
            found.append((panel, curves))
    if not found:
        raise InputError("the run's metrics hold nothing to draw; give lines of its metrics.jsonl.")
    figure, grid = panel_grid(
        [panel.title for panel, _ in found],
        panel_size=(3.7, 2.6),
        margin=0.4,
        title=title,
        footnote="" if best_step is None else f"Dotted line: the best model, of step {best_step}.",
        share_y=False,
    )
    for axes, (panel, curves) in zip(grid, found, strict=True):
        for style, (label, points) in zip(_LINES, curves.items(), strict=False):
            steps, values = zip(*points, strict=True)
            marker = "o" if len(points) < 20 else None
            axes.plot(steps, values, label=label, linewidth=1.6, marker=marker, ms=3, **style)
        if panel.logarithmic:
            _logarithmic(axes, [value for points in curves.values() for _, value in points])
        if best_step is not None:
            axes.axvline(best_step, color="#777777", linewidth=1.0, linestyle=(0, (1, 1.5)))
        if len(curves) > 1:
            axes.legend(fontsize=8, frameon=False)
        axes.set_xlabel("step", fontsize=9)
        axes.tick_params(labelsize=8, which="both")
    return figure


def _logarithmic(axes: "Axes", values: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers, where values spread enough to need one."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    if min(values) <= 0 or max(values) < 5 * min(values):
        return
    axes.set_yscale("log")
    plain = StrMethodFormatter("{x:g}")
    axes.yaxis.set_major_formatter(plain)
    # Within a decade or two there are few powers of ten to read.
    wide = max(values) > 50 * min(values)
    axes.yaxis.set_minor_formatter(NullFormatter() if wide else plain)


def _points(rows: Sequence[Mapping[str, Any]], kind: str, name: str) -> list[tuple[int, float]]:
    return [
        (row["step"], float(row[name]))
        for row in rows
        if row["kind"] == kind
        and isinstance(row.get(name), int | float)  # what is not finite is text
        and math.isfinite(row[name])
    ]
