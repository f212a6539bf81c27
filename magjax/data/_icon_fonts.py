"""Glyphs of icon fonts: their names, their drawings.

The fonts come with the package QtAwesome: Material Design Icons 6 (Apache-2.0), Phosphor (MIT),
Font Awesome 6 Free (fonts OFL-1.1), Remix Icon 2 (Apache-2.0), Codicons (CC BY 4.0), Elusive Icons
(OFL-1.1). QtAwesome itself is never imported: that needs Qt.
"""

import dataclasses
import hashlib
import importlib.metadata
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from magjax.checks import InputError
from magjax.files import read_json

if TYPE_CHECKING:
    from PIL import Image, ImageFont

__all__ = ["ICON_FONTS", "OUT_OF_DOMAIN_ICONS", "TRAINING_ICONS", "Glyph", "draw", "glyphs"]

ICON_FONTS = {
    "mdi": "materialdesignicons6-webfont",
    "phosphor": "phosphor",
    "fa-solid": "fontawesome6-solid-webfont",
    "fa-regular": "fontawesome6-regular-webfont",
    "fa-brands": "fontawesome6-brands-webfont",
    "remix": "remixicon",
    "codicon": "codicon",
    "elusive": "elusiveicons-webfont",
}
"""One generation of each family: the file's name up to its version."""

TRAINING_ICONS = ("mdi", "phosphor", "fa-solid", "fa-regular", "fa-brands")
OUT_OF_DOMAIN_ICONS = ("remix", "codicon", "elusive")

# Drawn three times as large and averaged down. The em takes 11/12 of the picture, so that most
# glyphs keep a margin and small ones (dots, dashes) stay small.
_SCALE = 3
_EM = 2.75
_JUDGED = 32


@dataclasses.dataclass(frozen=True)
class Glyph:
    """One drawing of a font with all its names.

    >>> Glyph("mdi", 0xF004D, ("arrow-left",)).font
    'mdi'
    """

    font: str
    code: int
    names: tuple[str, ...]


def glyphs(font: str) -> list[Glyph]:
    """The glyphs of a font in order of their code points.

    Args:
        font: a key of ``ICON_FONTS``.

    Raises:
        InputError: QtAwesome is not installed, or does not bring this font once.

    >>> [glyph.names for glyph in glyphs("elusive")][:2]
    [('address-book-alt',), ('address-book',)]
    """
    names: dict[int, list[str]] = {}
    for name, code in read_json(_find(font, "charmap", "json")).items():
        names.setdefault(int(code, 16), []).append(name)
    return [Glyph(font, code, tuple(names[code])) for code in sorted(names)]


def draw(font: str, size: int) -> dict[int, tuple[np.ndarray, str]]:
    """All glyphs of a font, black on white, each in the middle of a square.

    Args:
        font: a key of ``ICON_FONTS``.
        size: pixels of the square's side.

    Returns:
        By code point, the picture ``uint8[size, size]``, and a hash that is equal for equal
        drawings (whatever the font) and empty for a blank one.

    Raises:
        InputError: as for :func:`glyphs`.

    >>> pictures = draw("elusive", 16)
    >>> pictures[0xF102][0].shape, int(pictures[0xF102][0].max())
    ((16, 16), 255)
    """
    from PIL import Image

    large, box = _Pen(font, size), Image.Resampling.BOX
    # What counts as equal does not depend on the size asked for.
    judge = large if size == _JUDGED else _Pen(font, _JUDGED)
    found = {}
    for glyph in glyphs(font):
        canvas = large.draw(glyph.code)
        judged = canvas if judge is large else judge.draw(glyph.code)
        blank = judged.getextrema() == (255, 255)
        drawing = "" if blank else hashlib.sha256(judged.tobytes()).hexdigest()
        found[glyph.code] = np.asarray(canvas.resize((size, size), box)), drawing
    return found


class _Pen:
    """Draws glyphs of one font, ``_SCALE`` times as large as ``size``."""

    def __init__(self, font: str, size: int):
        self._path = str(_find(font, "", "ttf"))
        self._side = _SCALE * size
        self._normal = self._font(round(_EM * size))

    def _font(self, pixels: int) -> "ImageFont.FreeTypeFont":
        from PIL import ImageFont

        # The basic layout is always there; the other depends on a system library.
        return ImageFont.truetype(self._path, pixels, layout_engine=ImageFont.Layout.BASIC)

    def draw(self, code: int) -> "Image.Image":
        """Black on white in the middle; what is larger than the square is shrunk to it."""
        from PIL import Image, ImageDraw

        font, (left, top, right, bottom) = self._normal, self._normal.getbbox(chr(code))
        longest = max(right - left, bottom - top)
        if longest > self._side:
            font = self._font(int(font.size * self._side / longest))
            left, top, right, bottom = font.getbbox(chr(code))
        canvas = Image.new("L", (self._side, self._side), 255)
        start = int(self._side - right - left) // 2, int(self._side - bottom - top) // 2
        ImageDraw.Draw(canvas).text(start, chr(code), fill=0, font=font)
        return canvas


def _find(font: str, infix: str, ending: str) -> Path:
    try:
        package = importlib.metadata.distribution("qtawesome")
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(
            "the icon set needs the fonts of the package QtAwesome (it is read, never imported); "
            "pip install qtawesome."
        ) from error
    middle = f"-{infix}" if infix else ""
    pattern = re.compile(rf"{re.escape(ICON_FONTS[font])}{middle}-[\d.]+\.{ending}")
    files = [f for f in package.files or () if f.parent.name == "fonts"]
    found = [f for f in files if pattern.fullmatch(f.name)]
    if len(found) != 1:
        raise InputError(
            f"QtAwesome {package.version} brings {len(found)} files {ICON_FONTS[font]}{middle}-*."
            f"{ending} where one was expected; install the version of constraints.txt."
        )
    return Path(str(found[0].locate()))
