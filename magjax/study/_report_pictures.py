"""The pictures of a study's report."""

from collections.abc import Sequence

from magjax.analysis import CurveOfRun, ValueOfSystem, figure_png, runs_figure, values_figure
from magjax.study._cells import StoredCell
from magjax.study._document import Picture
from magjax.study._tables import TableRow

__all__ = ["curve_pictures", "value_picture"]


def value_picture(
    rows: Sequence[TableRow], metric: str, confidence: float, folder: str
) -> Picture | None:
    """Means with intervals and seeds, by test; None before anything is trained.

    >>> value_picture([], "ndcg@10", 0.95, "toy")
    """
    names = {
        row.unit: f"{row.unit.domain}\n{row.unit.place}, from {row.unit.start}" for row in rows
    }
    values = [
        ValueOfSystem(names[row.unit], row.system, row.mean, row.low, row.high, row.seeds)
        for row in rows
        if row.trained
    ]
    if not values:
        return None
    untrained = {
        (names[row.unit], row.system.removeprefix("untrained ")): row.mean
        for row in rows
        if row.system.startswith("untrained ") and row.mean is not None
    }
    lines = {
        names[row.unit]: ("BM25", row.mean)
        for row in rows
        if row.system == "bm25" and row.mean is not None
    }
    footnote = f"Bars: Student's {confidence:.0%} interval over seeds."
    if any(row.low is None for row in values):
        footnote += " Open dots: one seed, no interval."
    figure = values_figure(
        values,
        untrained=untrained,
        lines=lines,
        label=metric,
        title=f"{metric} by the score that each variant was trained under",
        footnote=footnote,
    )
    text = f"{metric} of each variant by test, with its interval and the value of every seed"
    return Picture(f"{folder}/values.png", figure_png(figure), text)


def curve_pictures(cells: Sequence[StoredCell], folder: str) -> list[Picture]:
    """The development metric and the loss by step, a panel a task and start.

    >>> curve_pictures([], "toy")
    []
    """
    trained = [cell for cell in cells if cell.role == "trained" and cell.result.curve]
    tasks = {cell.task for cell in trained}
    pictures = []
    names = dict.fromkeys(name for cell in trained for name in cell.result.curve)
    development = [name for name in names if name.startswith("development ")]
    for quantity, file in [*((name, "development") for name in development), ("loss", "loss")]:
        curves = []
        for cell in trained:
            points = cell.result.curve.get(quantity)
            if points:
                steps, values = zip(*points, strict=True)
                panel = f"from {cell.start}" if len(tasks) == 1 else f"{cell.task}, {cell.start}"
                curves.append(CurveOfRun(panel, cell.variant, steps, values))
        if curves:
            figure = runs_figure(
                curves,
                label=quantity,
                title=f"{quantity} while training",
                footnote="Wide: mean over seeds; thin: each seed.",
            )
            text = f"{quantity} by step of every run"
            pictures.append(Picture(f"{folder}/{file}.png", figure_png(figure), text))
    return pictures
