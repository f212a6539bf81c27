"""A sheet of searches: captions with the images that a model found for them."""

import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from magjax.analysis._style import NOTE_COLOUR, save_figure
from magjax.checks import InputError, positive_integer
from magjax.data import ImageTextBenchmark
from magjax.evaluation import RetrievalResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_retrieval_sheet", "retrieval_sheet_figure", "sheet_queries"]

_RIGHT = "#009E73"  # Okabe and Ito's green, with a thick frame: colour is not the only sign
_CELL = 0.95  # inches of an image
_CAPTION = 2.9  # inches of a caption
_COLUMNS = 28  # characters of a line of 9 points, which need 2.1 inches
_LINES = 4


def sheet_queries(query_ids: Sequence[str], count: int) -> list[int]:
    """Which queries a sheet shows: spread evenly over all, never chosen by how well they did.

    Args:
        query_ids: of all queries.
        count: how many to show, at most.

    >>> sheet_queries(list("abcdefgh"), 4)
    [0, 2, 4, 6]
    """
    shown = min(positive_integer("count", count), len(query_ids))
    return [number * len(query_ids) // shown for number in range(shown)]


def draw_retrieval_sheet(
    path: str | os.PathLike[str],
    benchmark: ImageTextBenchmark,
    result: RetrievalResult,
    *,
    title: str,
    queries: int = 10,
    images: int = 5,
) -> None:
    """Writes :func:`retrieval_sheet_figure` to ``path`` as a PNG, in one rename.

    Args:
        path: of the picture; parents are made.
        benchmark: as in :func:`retrieval_sheet_figure`.
        result: as in :func:`retrieval_sheet_figure`.
        title: above the sheet.
        queries: captions shown.
        images: per caption.

    >>> draw_retrieval_sheet("sheet.png", benchmark, result, title="Icons")  # doctest: +SKIP
    """
    figure = retrieval_sheet_figure(benchmark, result, title=title, queries=queries, images=images)
    save_figure(path, figure)


def retrieval_sheet_figure(
    benchmark: ImageTextBenchmark,
    result: RetrievalResult,
    *,
    title: str,
    queries: int = 10,
    images: int = 5,
) -> "Figure":
    """A row a caption: its text, the place of its first right image, and the best images found.

    Right images have a thick green frame and a tick. Captions are spread evenly over the test.

    Args:
        benchmark: the images, and who answers whom.
        result: of the direction ``text_to_image``.
        title: above the sheet.
        queries: captions shown.
        images: per caption, at most as many as the result holds.

    Returns:
        A matplotlib figure, which a notebook shows.

    Raises:
        InputError: a result of another benchmark or direction.

    >>> retrieval_sheet_figure(benchmark, result, title="Icons")  # doctest: +SKIP
    """
    from matplotlib.figure import Figure

    known = dict(zip(benchmark.caption_ids, benchmark.captions, strict=True))
    ranking = result.ranking
    if set(ranking.query_ids) != set(known) or result.fingerprint != benchmark.fingerprint:
        raise InputError(
            f"the result of {result.domain!r} does not search the images of {benchmark.name!r} by "
            "its captions; give the result of text_to_image."
        )
    rows = sheet_queries(ranking.query_ids, queries)
    columns = positive_integer("images", images)
    width, height = _CAPTION + columns * _CELL, 0.85 + len(rows) * _CELL
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(width * 11)), fontsize=11, x=0.01, ha="left")
    note = "Green frame and tick: a right image. Captions are spread evenly over the test."
    figure.supxlabel(note, fontsize=8, x=0.01, ha="left", color="#444444")
    grid = figure.subplots(
        len(rows),
        columns + 1,
        squeeze=False,
        gridspec_kw={"width_ratios": [_CAPTION / _CELL, *([1.0] * columns)]},
    )
    for line, row in zip(grid, rows, strict=True):
        query = ranking.query_ids[row]
        answers = benchmark.text_to_image[query]
        _draw_caption(line[0], known[query], len(answers), result, query)
        places = ranking.rows[row][:columns].tolist()
        for axes, place in zip(line[1:], places, strict=False):
            _draw_image(axes, benchmark.images[place], benchmark.image_ids[place] in answers)
        for axes in line[1 + len(places) :]:
            axes.axis("off")
    return figure


def _draw_caption(
    axes: "Axes", caption: str, answers: int, result: RetrievalResult, query: str
) -> None:
    axes.axis("off")
    shown = textwrap.wrap(caption, _COLUMNS)
    if len(shown) > _LINES:
        shown = [*shown[: _LINES - 1], f"{shown[_LINES - 1][: _COLUMNS - 1]}…"]
    axes.text(0.0, 0.56, "\n".join(shown), va="bottom", fontsize=9, parse_math=False)
    values = result.evaluation.per_query[query]
    said = f"{answers} right" if answers > 1 else "1 right"
    if "rank" in values:
        rank = int(values["rank"])
        said += f", {'first ' if answers > 1 else ''}at place {rank:,} of {result.documents:,}"
    axes.text(0.0, 0.44, said, va="top", fontsize=7.5, color=NOTE_COLOUR)


def _draw_image(axes: "Axes", image: np.ndarray, right: bool) -> None:
    axes.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(_RIGHT if right else "#CCCCCC")
        spine.set_linewidth(3.5 if right else 0.8)
    if right:
        axes.text(
            0.97,
            0.95,
            "✓",
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=9,
            color="white",
            bbox={"boxstyle": "round,pad=0.15", "facecolor": _RIGHT, "edgecolor": "none"},
        )
