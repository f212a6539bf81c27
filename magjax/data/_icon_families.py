"""The icon set as a classification: which family drew a picture."""

import os

from magjax.data._icons import icons
from magjax.data._image_text import ImageTextSet
from magjax.data._images import ImageArrays

__all__ = ["icon_families"]

# The names that a class of zero-shot classification has, by font.
_FAMILIES = {
    "mdi": "material design icons",
    "phosphor": "phosphor icons",
    "fa-solid": "font awesome",
    "fa-regular": "font awesome",
    "fa-brands": "font awesome",
    "remix": "remix icon",
    "codicon": "codicons",
    "elusive": "elusive icons",
}


def icon_families(size: int = 32, *, cache: str | os.PathLike[str] | None = None) -> ImageTextSet:
    """The pictures of both tests of :func:`icons`, captioned by their family: six classes.

    Captions of training never name a family, so a model tells families apart by chance unless it
    was trained on other text.

    Args:
        size: pixels of a picture's side, 8 to 128.
        cache: as of :func:`icons`.

    >>> len(set(icon_families().flat_captions))  # doctest: +SKIP
    6
    """
    tests = icons(size, cache=cache).tests
    ids = [name for test in tests for name in test.image_ids]
    pictures = [test.images[row] for test in tests for row in range(len(test.image_ids))]
    return ImageTextSet(
        image_ids=ids,
        images=ImageArrays(pictures, ids),
        captions=[(_FAMILIES[name.partition("/")[0]],) for name in ids],
        source="icons/families",
    )
