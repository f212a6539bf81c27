"""The picture of a cross-evaluation: a heat map a data set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from magjax.analysis._cross_table import DIRECTIONS, CrossEvaluation
from magjax.analysis._style import NOTE_COLOUR, panel_grid
from magjax.checks import InputError, choose

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["cross_figure"]

_COLOURS = "cividis"  # told apart by every kind of colour vision, and in grey
_LETTERS = 26  # of a model's name beside its row


def cross_figure(evaluations: Sequence[CrossEvaluation], metric: str) -> "Figure":
    """Models down, scores across, one panel a table; darker is lower within a panel.

    A frame marks the score that a model was trained under, and lines part scores that rank
    differently: cells of one group must coincide.

    Args:
        evaluations: tables, one a data set and direction.
        metric: one of each table's metrics.

    Returns:
        A matplotlib figure, which a notebook shows.

    Raises:
        InputError: no table, or an unknown metric.

    >>> from magjax.analysis import ModelEmbeddings, cross_evaluate
    >>> from magjax.data import Benchmark
    >>> from magjax.similarity import Score
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", Score.of("dot"), np.ones((1, 2), np.float32),
    ...                         np.array([[1, 1], [4, 0]], np.float32))
    >>> figure = cross_figure([cross_evaluate([model], benchmark, metrics=["mrr@2"], k=2)], "mrr@2")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0.500', '0.500', '1.000', '1.000']
    """
    if not evaluations:
        raise InputError("there is no table to draw; give at least one.")
    for table in evaluations:
        choose("metric", metric, table.metrics)
    columns = max(len(table.score_names) for table in evaluations)
    rows = max(len(table.rows) for table in evaluations)
    names = [_short(row.model) for table in evaluations for row in table.rows]
    beside = 0.085 * max(map(len, names))
    titles = [
        table.domain
        if table.direction == "query_to_document"
        else f"{table.domain}, document to query"
        for table in evaluations
    ]
    figure, grid = panel_grid(
        titles,
        panel_size=(beside + 0.5 + 0.85 * columns, 0.9 + 0.48 * rows),
        margin=0.4,
        title=f"{metric}: every model under every score",
        footnote=(
            "Frame: the score that the model was trained under. Lines part scores that rank "
            "differently; cells between two lines must be equal in a row. Colours compare within a "
            "panel."
        ),
        share_y=False,
    )
    for axes, table in zip(grid, evaluations, strict=True):
        _heat_map(axes, table, metric)
    return figure


def _heat_map(axes: "Axes", table: CrossEvaluation, metric: str) -> None:
    from matplotlib.patches import Rectangle

    scores, models = table.score_names, [row.model for row in table.rows]
    values = np.full((len(models), len(scores)), np.nan)
    gammas: dict[str, float] = {}
    side = DIRECTIONS[table.direction]
    for cell in table.cells:
        values[models.index(cell.model), scores.index(cell.name)] = cell.mean(metric)
        gammas[cell.name] = cell.score.gamma(side)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    # A hundredth at least: what differs by noise only shall not fill the whole scale.
    spread = max(high - low, 0.01)
    axes.grid(visible=False)
    axes.imshow(values, cmap=_COLOURS, aspect="auto", vmin=high - 1.15 * spread, vmax=high)
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            axes.text(j, i, "-", ha="center", va="center", color=NOTE_COLOUR)
            continue
        dark = value < high - 0.5 * spread
        colour = "white" if dark else "black"
        axes.text(j, i, f"{value:.3f}", ha="center", va="center", size=9, color=colour)
    for row in table.rows:
        if row.trained is not None:
            place = scores.index(row.trained.name) - 0.44, models.index(row.model) - 0.42
            axes.add_patch(
                Rectangle(place, 0.88, 0.84, fill=False, edgecolor="#D55E00", linewidth=2.2)
            )
    for j in range(1, len(scores)):
        if gammas[scores[j]] != gammas[scores[j - 1]]:
            axes.axvline(j - 0.5, color="white", linewidth=4)
    # Two powers take two lines: 13 letters are as wide as a column.
    axes.set_xticks(range(len(scores)), [name.replace(",", ",\n") for name in scores], size=9)
    axes.set_yticks(range(len(models)), [_short(name) for name in models], size=9)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
