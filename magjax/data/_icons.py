"""Icons: find the glyph that a name describes, and the name of a glyph."""

import hashlib
import importlib.metadata
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from magjax.checks import InputError, positive_integer
from magjax.data import _icon_fonts
from magjax.data._icon_fonts import OUT_OF_DOMAIN_ICONS, TRAINING_ICONS, draw, glyphs
from magjax.data._image_text import ImageTextBenchmark, ImageTextData, ImageTextSet
from magjax.data._images import ImageArrays
from magjax.data._lines import json_lines, write_json_lines
from magjax.files import cache_folder, read_json, write_folder, write_json

__all__ = ["icon_base_name", "icons", "make_icons"]

_log = logging.getLogger(__name__)

# Words that tell drawings of one thing apart, in the families' own terms.
_VARIANTS = frozenset(
    [
        "alt",
        "bold",
        "duotone",
        "fill",
        "light",
        "line",
        "outline",
        "regular",
        "s",
        "sharp",
        "solid",
        "thin",
        "variant",
    ]
)
# Remix Icon says "line" for what the training families call "outline"; theirs is a drawn line.
_SYNONYMS = {"remix": {"line": "outline"}}
# A base name with more drawings than this (digits in boxes and circles, charging batteries) would
# fill a test with copies of one question; it stays in training.
_LARGEST_GROUP = 16
_LARGEST_SIZE = 128  # pixels: 17,000 pictures then take 280 MB
_DRAWING = "drawing:"  # no name holds a colon
_PARTS = ("train", "development", "in_domain", "out_of_domain")


def icon_base_name(name: str) -> str:
    """What a glyph's name names, without words of its style, without numbers and order of words.

    >>> icon_base_name("arrow-left-circle-outline"), icon_base_name("circle-arrow-left-fill")
    ('arrow circle left', 'arrow circle left')
    """
    words = _words(name)
    kept = [word for word in words if word not in _VARIANTS and not word.isdigit()]
    return " ".join(sorted(set(kept or words)))


def icons(size: int = 32, *, cache: str | os.PathLike[str] | None = None) -> ImageTextData:
    """The embedded icon set, drawn on first use (some seconds) and cached.

    14,247 glyphs of eight fonts in six families, black on white, with the words of their names
    as captions ("arrow left circle outline"; Remix Icon's "line" is called "outline" too). A glyph with several names has several
    captions; a name in two fonts is a caption with several images. ``train`` and ``in_domain``
    show Material Design Icons, Phosphor and Font Awesome, ``out_of_domain`` Remix Icon, Codicons
    and Elusive Icons, from which nothing is trained on. Both tests hold 1,000 images,
    ``development`` 500. No base name (:func:`icon_base_name`) and no drawing of a test or of
    ``development`` occurs in ``train``, in whatever family, nor does one of a test in
    ``development``. The parts are the same for every size. Image ids start with the font: ``mdi/arrow-left``.

    Args:
        size: pixels of a picture's side, 8 to 128.
        cache: folder for the result; default ``$MAGJAX_CACHE``, else ``~/.cache/magjax``.

    Raises:
        InputError: QtAwesome is missing or of another make, an odd size, or damaged cached files.

    >>> data = icons()  # doctest: +SKIP
    >>> len(data.in_domain.image_ids), len(data.out_of_domain.image_ids)  # doctest: +SKIP
    (1000, 1000)
    """
    if not 8 <= positive_integer("size", size) <= _LARGEST_SIZE:
        raise InputError(f"size={size} must be from 8 to {_LARGEST_SIZE} pixels.")
    folder = cache_folder(cache) / "icons" / f"{size}-{_cache_key()}"
    if not folder.is_dir():
        _log.info("drawing the icon set from the fonts of QtAwesome: some seconds, once.")
        data, rows = make_icons(size)
        if not folder.is_dir():  # another process may have been quicker
            _write(folder, data, rows)
    return _read(folder)


def make_icons(
    size: int, *, images: int = 1_000, development: int = 500
) -> tuple[np.ndarray, list[dict]]:
    """Draws all glyphs and assigns them to the parts.

    Base names that share a drawing or a glyph count as one. Which are held out goes by the hash
    of the name, the same order for both tests, so that they ask for the same things as far as
    both have them, and another version of a font moves few.

    Args:
        size: pixels of a picture's side.
        images: of each test.
        development: images of the development test.

    Returns:
        The pictures ``uint8[glyphs, size, size]``, and a row for each: ``part``, ``id``,
        ``captions``. Glyphs of the out-of-domain families that are not asked for, and training
        glyphs whose base name only the other families' test asks for, are in no part.

    Raises:
        InputError: too few glyphs for the tests.

    >>> pictures, rows = make_icons(8, images=20, development=10)  # doctest: +SKIP
    """
    domains = {"in": TRAINING_ICONS, "out": OUT_OF_DOMAIN_ICONS}
    pictures: list[np.ndarray] = []
    names: list[list[tuple[str, str]]] = []  # per picture, font and name
    drawings: dict[str, dict[str, int]] = {domain: {} for domain in domains}
    inside: list[bool] = []
    groups = _Groups()
    for domain, fonts in domains.items():
        for font in fonts:
            drawn = draw(font, size)
            for glyph in glyphs(font):
                picture, drawing = drawn[glyph.code]
                if not drawing:  # a space
                    continue
                groups.join(_DRAWING + drawing, *map(icon_base_name, glyph.names))
                number = drawings[domain].setdefault(drawing, len(pictures))
                if number == len(pictures):
                    pictures.append(picture)
                    names.append([])
                    inside.append(domain == "in")
                names[number] += [(font, name) for name in glyph.names]
    group_of = [groups.root(icon_base_name(found[0][1])) for found in names]
    parts = _split(group_of, inside, images, development)
    rows = [
        {
            "part": part,
            "id": "/".join(found[0]),
            "captions": list(dict.fromkeys(_caption(font, name) for font, name in found)),
        }
        for part, found in zip(parts, names, strict=True)
    ]
    kept = [number for number, part in enumerate(parts) if part]
    return np.stack([pictures[number] for number in kept]), [rows[number] for number in kept]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[-_ ]+", name.lower()) if word]


def _caption(font: str, name: str) -> str:
    synonyms = _SYNONYMS.get(font, {})
    return " ".join(synonyms.get(word, word) for word in _words(name))


class _Groups:
    """Names that belong together, directly or by way of others (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def root(self, name: str) -> str:
        while (parent := self._parents.setdefault(name, name)) != name:
            self._parents[name] = name = self._parents[parent]
        return name

    def join(self, *names: str) -> None:
        # The first base name stands for all, never a drawing.
        roots = sorted(map(self.root, names), key=lambda name: (name.startswith(_DRAWING), name))
        for root in roots:
            self._parents[root] = roots[0]


def _split(
    group_of: Sequence[str], inside: Sequence[bool], images: int, development: int
) -> list[str]:
    members: dict[tuple[str, bool], list[int]] = {}
    for number, key in enumerate(zip(group_of, inside, strict=True)):
        members.setdefault(key, []).append(number)
    order = sorted(set(group_of), key=lambda name: hashlib.sha256(name.encode()).digest())
    parts = [""] * len(group_of)
    held_out: set[str] = set()

    def take(part: str, domain: bool, count: int, groups: Iterable[str]) -> set[str]:
        taken = set()
        for group in groups:
            found = members.get((group, domain), [])[:count]
            if found and len(members[group, domain]) <= _LARGEST_GROUP:
                taken.add(group)
                for number in found:
                    parts[number] = part
                count -= len(found)
            if not count:
                return taken
        raise InputError(
            f"the icon fonts hold {count} images too few for the {part} test; install the "
            "versions of constraints.txt."
        )

    held_out |= take("out_of_domain", False, images, order)
    held_out |= take("in_domain", True, images, order)
    rest = [group for group in order if group not in held_out]
    held_out |= take("development", True, development, rest)
    for number, (group, domain) in enumerate(zip(group_of, inside, strict=True)):
        if domain and group not in held_out:
            parts[number] = "train"
    return parts


def _cache_key() -> str:
    """Versions of the fonts and of what draws them, and this code."""
    from PIL import features

    digest = hashlib.sha256()
    for module in (_icon_fonts.__file__, __file__):
        digest.update(Path(module).read_bytes())
    try:
        version = importlib.metadata.version("qtawesome")
    except importlib.metadata.PackageNotFoundError:
        version = "missing"  # drawing then says what to install
    versions = version, importlib.metadata.version("pillow"), features.version("freetype2")
    digest.update(repr(versions).encode())
    return digest.hexdigest()[:16]


def _write(folder: Path, pictures: np.ndarray, rows: Sequence[Mapping]) -> None:
    with write_folder(folder) as target:
        np.save(target / "images.npy", pictures, allow_pickle=False)
        write_json_lines(target / "icons.jsonl.gz", rows)
        data = _data(pictures, rows)
        write_json(target / "fingerprints.json", data.fingerprints)


def _read(folder: Path) -> ImageTextData:
    damage = "the fingerprints differ"
    try:
        pictures = np.load(folder / "images.npy", allow_pickle=False)
        rows = [row for _, row in json_lines(folder / "icons.jsonl.gz")]
        data = _data(pictures, rows)
        if data.fingerprints == read_json(folder / "fingerprints.json"):
            return data
    except (InputError, OSError, KeyError, TypeError, ValueError) as error:
        damage = str(error)
    raise InputError(f"the cached icons {folder} are damaged ({damage}); delete that folder.")


def _data(pictures: np.ndarray, rows: Sequence[Mapping]) -> ImageTextData:
    chosen: dict[str, list[int]] = {part: [] for part in _PARTS}
    for number, row in enumerate(rows):
        chosen[row["part"]].append(number)
    found = {}
    for part, numbers in chosen.items():
        ids = [rows[number]["id"] for number in numbers]
        found[part] = ImageTextSet(
            image_ids=ids,
            images=ImageArrays(pictures[numbers], ids),
            captions=[tuple(rows[number]["captions"]) for number in numbers],
            source=f"icons/{part}",
        )
    tests = (ImageTextBenchmark.of(found[part], f"icons/{part}") for part in _PARTS[1:])
    return ImageTextData(found["train"], *tests)
