"""What all pictures share: a variant's colour and line, and how a picture becomes a file."""

import io
import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from magjax.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "NOTE_COLOUR",
    "Style",
    "figure_png",
    "panel_grid",
    "save_figure",
    "variant_styles",
]

NOTE_COLOUR = "#777777"
"""Of what is no variant."""


class Style(NamedTuple):
    """How a variant is drawn; thinner, dashed lines lie above wider ones."""

    colour: str
    width: float
    dashes: Any


# Okabe and Ito's palette, told apart by every kind of colour vision. Where spectra coincide
# (cosine and dnorm, dot and qnorm on the document side; cosine and qnorm, dot and dnorm on the
# query side) a dashed line of another hue lies on a wide one, so that both can be seen; where all
# coincide, cosine is the rim and dot the ground.
_PRESETS = {
    "cosine": Style("#000000", 4.6, "solid"),
    "dot": Style("#0072B2", 3.0, "solid"),
    "qnorm": Style("#E69F00", 2.0, (0, (5, 2))),
    "dnorm": Style("#CC79A7", 2.0, (0, (2, 2))),
}
_OTHERS = (
    Style("#009E73", 1.4, (0, (6, 1.5, 1, 1.5))),
    Style("#D55E00", 1.4, (0, (1, 1.5))),
    Style("#56B4E9", 1.4, (0, (8, 3))),
    Style("#009E73", 1.4, (0, (1, 3))),
    Style("#D55E00", 1.4, (0, (8, 3))),
    Style("#56B4E9", 1.4, (0, (6, 1.5, 1, 1.5))),
)


def variant_styles(variants: Iterable[str]) -> dict[str, Style]:
    """The style of each of ``variants``; presets look the same in every picture.

    Other variants, such as powers, take the remaining colours by name, in alphabetical order.
    """
    names = list(dict.fromkeys(variants))
    others = sorted(set(names) - set(_PRESETS))
    styles = _PRESETS | {name: _OTHERS[i % len(_OTHERS)] for i, name in enumerate(others)}
    return {name: styles[name] for name in names}


def panel_grid(
    panels: Sequence[str],
    *,
    panel_size: tuple[float, float],
    margin: float,
    title: str,
    footnote: str,
    share_y: bool = True,
) -> tuple["Figure", list["Axes"]]:
    """A figure with titled panels in rows of at most three; sizes and the margin are in inches.

    It is made without pyplot, so there is no global state to leave behind.
    """
    from matplotlib.figure import Figure

    count = len(panels)
    columns = min(count, 2 if count == 4 else 3)
    lines = math.ceil(count / columns)
    width, height = margin + columns * panel_size[0], 0.8 + lines * panel_size[1]
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(_fold(title, width, points=12), fontsize=12, x=0.01, ha="left")
    if footnote:
        text = _fold(footnote, width, points=8)
        figure.supxlabel(text, fontsize=8, x=0.01, ha="left", color="#444444")
    grid = list(figure.subplots(lines, columns, squeeze=False, sharey=share_y).ravel())
    for axes in grid[count:]:
        axes.remove()
    for axes, panel in zip(grid, panels, strict=False):
        axes.set_title(_fold(panel, panel_size[0], points=10), fontsize=10)
        axes.grid(color="#DDDDDD", linewidth=0.6)
    return figure, grid[:count]


def _fold(text: str, width: float, points: int) -> str:
    """Lines that fit into ``width`` inches: a character is about half as wide as it is high."""
    columns = int(width * 72 / (0.55 * points))
    return "\n".join(textwrap.fill(line, columns) for line in text.splitlines())


def save_figure(path: str | os.PathLike[str], figure: "Figure") -> None:
    """Writes a PNG in one rename; the same figure gives the same bytes."""
    write_bytes(path, figure_png(figure))


def figure_png(figure: "Figure") -> bytes:
    """The picture as a PNG file's content; the same figure gives the same bytes.

    Args:
        figure: a matplotlib figure, made without pyplot.

    >>> from matplotlib.figure import Figure
    >>> figure_png(Figure())[1:4]
    b'PNG'
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()
