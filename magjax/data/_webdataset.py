"""WebDataset shards: tar files whose members belong together by name."""

import glob
import json
import logging
import os
import tarfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NoReturn

import numpy as np

from magjax.checks import InputError, choose
from magjax.data._image_decoder import ImageDecoder
from magjax.data._image_text import ImageTextSet
from magjax.data._image_text_table import CAPTION_FIELDS, caption_list
from magjax.data._record_checks import content_fingerprint

__all__ = ["find_shards", "read_webdataset"]

_log = logging.getLogger(__name__)

_IMAGES = ("avif", "bmp", "gif", "jpeg", "jpg", "png", "ppm", "tif", "tiff", "webp")
_TEXTS = ("txt", "json")
_MAX_TEXT = 2**20  # bytes of a caption file; they are read as a whole

# Shard, offset and size of a member's content.
_Place = tuple[Path, int, int]


def find_shards(path: str | os.PathLike[str]) -> list[Path]:
    """The tar files that ``path`` names: one, a pattern with ``*``, or all of a folder, in order.

    Returns an empty list where the path is of another kind.

    Raises:
        InputError: braces as in ``{000..010}.tar``, no match, or a compressed archive.

    >>> find_shards("pairs.jsonl")
    []
    """
    name = str(path)
    if name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")):
        raise InputError(
            f"{name} is compressed, so that its images cannot be read one by one; unpack it to .tar."
        )
    if name.endswith(".tar") and Path(name).is_file():
        return [Path(name)]
    if Path(name).is_dir():
        found = sorted(Path(name).glob("*.tar"))
    elif name.endswith(".tar"):
        if "{" in name:
            raise InputError(f"{name}: braces are not expanded; use a pattern with *.")
        found = sorted(map(Path, glob.glob(name)))
    else:
        return []
    if not found:
        raise InputError(f"{name} matches no .tar file.")
    return found


def read_webdataset(
    shards: Sequence[str | os.PathLike[str]],
    *,
    caption_field: str = "",
    decoder: ImageDecoder | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> ImageTextSet:
    """Reads images with captions from tar shards in place; nothing is unpacked to the disk.

    Members whose names agree up to the first dot of the last part are one sample: an image
    (``key.jpg``, ``.png``, ``.webp``, ...) with ``key.txt``, one caption, or ``key.json``, an
    object with a caption or a list of captions; ``.json`` counts where both are there. The shards
    are indexed once, by their headers; images are then read in any order. Other members are
    ignored, and so are links and devices; names are only names, wherever they point.

    Args:
        shards: uncompressed tar files.
        caption_field: of ``key.json``; default: the first found of captions, caption, text, title.
        decoder: how images are read.
        on_error: ``"skip"`` leaves samples without an image or a caption out, counted in
            ``skipped``, and images that do not decode, which are all decoded once at the start.

    Raises:
        InputError: a shard cannot be read, a sample lacks its image or caption (shard and key are
            named), or its caption is empty or too long to be one.

    >>> import io, tempfile
    >>> from PIL import Image
    >>> shard = Path(tempfile.mkdtemp(), "train-000.tar")
    >>> png = io.BytesIO()
    >>> Image.new("RGB", (4, 4)).save(png, "PNG")
    >>> with tarfile.open(shard, "w") as file:
    ...     for name, content in (("7.png", png.getvalue()), ("7.txt", b"a heart")):
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len(content)
    ...         file.addfile(member, io.BytesIO(content))
    >>> data = read_webdataset([shard])
    >>> data.image_ids, data.captions, data.images[0].shape
    (['train-000/7'], [('a heart',)], (4, 4, 3))
    """
    choose("on_error", on_error, ("raise", "skip"))
    paths = [Path(shard) for shard in shards]
    source = f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else str(paths[0])
    keys, places, captions, problems = [], [], [], []
    for shard in paths:
        for key, members in _samples(shard):
            try:
                place, texts = _read_sample(shard, key, members, caption_field)
            except InputError as error:
                if on_error == "raise":
                    raise
                problems.append(str(error))
                continue
            keys.append(_one_line(key))
            places.append(place)
            captions.append(tuple(texts))
    if problems:
        _log.warning("%s: skipped %d samples: %s", source, len(problems), " ".join(problems[:3]))
    data = ImageTextSet(
        image_ids=[f"{place[0].stem}/{key}" for place, key in zip(places, keys, strict=True)],
        images=TarImages(places, keys, decoder),
        captions=captions,
        source=source,
        skipped=len(problems),
    )
    return data.decodable() if on_error == "skip" else data


class TarImages:
    """Images inside of tar files, read by their place.

    Args:
        places: shard, offset and size of each.
        keys: what the samples are called in their shards.
        decoder: how to read them.

    >>> TarImages([(Path("a.tar"), 512, 9)], ["7"]).name(0)
    'a.tar:7'
    """

    def __init__(
        self, places: Sequence[_Place], keys: Sequence[str], decoder: ImageDecoder | None = None
    ):
        self._places = list(places)
        self._keys = list(keys)
        self._decoder = decoder or ImageDecoder()

    @property
    def fingerprint(self) -> str:
        """Names and places of the images, and how they are decoded; not their content.

        >>> len(TarImages([], []).fingerprint)
        16
        """
        places = ((shard.name, offset, size) for shard, offset, size in self._places)
        return content_fingerprint([repr(self._decoder)], self._keys, places)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> np.ndarray:
        shard, offset, size = self._places[index]
        return self._decoder.read(_content(shard, offset, size), self.name(index))

    def name(self, index: int) -> str:
        """Shard and key.

        >>> TarImages([(Path("a.tar"), 0, 9)], ["7"]).name(0)
        'a.tar:7'
        """
        return f"{self._places[index][0]}:{self._keys[index]}"


def _content(shard: Path, offset: int, size: int) -> bytes:
    # Opened anew each time (20 microseconds): no position is shared between threads.
    try:
        with shard.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError as error:
        raise InputError(f"{shard} cannot be read ({error.strerror}).") from error


def _samples(shard: Path) -> Iterator[tuple[str, dict[str, _Place]]]:
    """Samples of a shard in order: the key, and the place of each member by its ending."""
    samples: dict[str, dict[str, _Place]] = {}
    try:
        with tarfile.open(shard, "r:") as file:
            while (member := file.next()) is not None:
                # The list keeps a kilobyte a member that nobody asks for again.
                file.members.clear()  # type: ignore[attr-defined]
                path = PurePosixPath(member.name)
                stem, dot, ending = path.name.partition(".")
                ending = ending.lower()
                if not member.isreg() or not stem or not dot or ending not in (*_IMAGES, *_TEXTS):
                    continue
                members = samples.setdefault(str(path.with_name(stem)), {})
                kind = "image" if ending in _IMAGES else ending
                if kind in members:
                    raise InputError(
                        f"{shard}: sample {str(path.with_name(stem))!r} has two members of the "
                        f"kind {kind}; give each image a name of its own."
                    )
                members[kind] = shard, member.offset_data, member.size
    except InputError:
        raise
    except (OSError, ValueError, tarfile.TarError) as error:
        raise InputError(f"{shard} is no tar file that can be read ({error}).") from error
    yield from samples.items()


def _read_sample(
    shard: Path, key: str, members: dict[str, _Place], caption_field: str
) -> tuple[_Place, list[str]]:
    fail = partial(_fail, shard, key)
    kind = "json" if "json" in members else "txt"
    for need, ending in (("image", "jpg, .png, .webp, ..."), (kind, "txt or .json")):
        if need not in members:
            fail(f"no .{ending}")
    if members[kind][2] > _MAX_TEXT:
        fail(f"its .{kind} of {members[kind][2]:,} bytes is no caption")
    try:
        text = _content(*members[kind]).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(f"its .{kind} is not UTF-8 ({error.reason})")
    return members["image"], caption_list(
        text.strip() if kind == "txt" else _caption_of(text, caption_field, fail), fail
    )


def _caption_of(text: str, caption_field: str, fail: Any) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        fail(f"its .json is not valid ({error})")
    if not isinstance(value, dict):
        fail(f"its .json is {type(value).__name__}, but must be an object")
    for field in (caption_field,) if caption_field else CAPTION_FIELDS:
        if field in value:
            return value[field]
    return fail(f"its .json has no {caption_field or ' or '.join(CAPTION_FIELDS)}")


def _fail(shard: Path, key: str, problem: str) -> NoReturn:
    raise InputError(f"{shard}: sample {key!r}: {problem.removesuffix('.')}.")


def _one_line(key: str) -> str:
    """A key without characters that ids may not hold."""
    return "".join(c if c.isprintable() else "_" for c in key)
