"""Images by number, decoded when asked for."""

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from magjax.checks import InputError, positive_integer
from magjax.data._image_decoder import ImageDecoder
from magjax.data._records import content_fingerprint

__all__ = ["ChosenImages", "ImageArrays", "ImageFiles", "Images", "decodable"]

_log = logging.getLogger(__name__)

_NAMED = 3  # skipped images that the log names
_SUBMITTED = 4096  # at a time: a future takes about a kilobyte


@runtime_checkable
class Images(Protocol):
    """A sequence of images that may live in memory, in files or in archives.

    Reading is safe from several threads at once, and in other processes.

    >>> isinstance(ImageArrays(np.zeros((2, 4, 4), np.uint8), ["a", "b"]), Images)
    True
    """

    @property
    def fingerprint(self) -> str:
        """Names the content, as far as it is known without decoding."""

    def __len__(self) -> int:
        """How many images."""

    def __getitem__(self, index: int) -> np.ndarray:
        """``uint8[height, width]`` or ``uint8[height, width, 3]``, or ``InputError``."""

    def name(self, index: int) -> str:
        """What messages call the image: its path as a rule."""


class ImageArrays:
    """Images in memory.

    Args:
        arrays: ``uint8[images, height, width]`` or ``[..., 3]``, or a list of such images.
        names: what messages call each.

    Raises:
        InputError: not one name an image, or an array that is no image.

    >>> images = ImageArrays(np.zeros((2, 4, 5), np.uint8), ["a", "b"])
    >>> len(images), images[1].shape, images.name(1)
    (2, (4, 5), 'b')
    """

    def __init__(self, arrays: np.ndarray | Sequence[np.ndarray], names: Sequence[str]):
        if len(arrays) != len(names):
            raise InputError(f"{len(names)} names for {len(arrays)} images; give one each.")
        self._names = list(names)
        decoder = ImageDecoder()
        self._arrays = [decoder.read(a, n) for a, n in zip(arrays, names, strict=True)]

    @property
    def fingerprint(self) -> str:
        """A hash of the pixels.

        >>> len(ImageArrays(np.zeros((2, 4, 5), np.uint8), ["a", "b"]).fingerprint)
        16
        """
        digest = hashlib.sha256()
        for array in self._arrays:
            digest.update(repr(array.shape).encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, index: int) -> np.ndarray:
        return self._arrays[index]

    def name(self, index: int) -> str:
        """The name given.

        >>> ImageArrays(np.zeros((1, 4, 5), np.uint8), ["a"]).name(0)
        'a'
        """
        return self._names[index]


class ImageFiles:
    """Images in files of their own, decoded anew each time.

    Args:
        paths: the files.
        decoder: how to read them.

    >>> from PIL import Image
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.png")
    >>> Image.new("RGB", (5, 4)).save(path)
    >>> ImageFiles([path])[0].shape
    (4, 5, 3)
    """

    def __init__(
        self, paths: Sequence[str | os.PathLike[str]], decoder: ImageDecoder | None = None
    ):
        self._paths = [Path(path) for path in paths]
        self._decoder = decoder or ImageDecoder()

    @property
    def fingerprint(self) -> str:
        """Names of the files, their sizes, and how they are decoded; not their content.

        >>> len(ImageFiles([]).fingerprint)
        16
        """
        files = ((p.name, p.stat().st_size if p.is_file() else None) for p in self._paths)
        return content_fingerprint([repr(self._decoder)], files)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self._decoder.read(self._paths[index])

    def name(self, index: int) -> str:
        """The path.

        >>> ImageFiles(["a.png"]).name(0)
        'a.png'
        """
        return str(self._paths[index])


class ChosenImages:
    """Some images of others, in an order of their own.

    Args:
        images: all of them.
        chosen: their numbers.

    >>> images = ImageArrays(np.zeros((2, 4, 5), np.uint8), ["a", "b"])
    >>> ChosenImages(images, [1]).name(0)
    'b'
    """

    def __init__(self, images: Images, chosen: Sequence[int]):
        self._images = images
        self._chosen = list(chosen)

    @property
    def fingerprint(self) -> str:
        """Names all images and which were chosen.

        >>> len(ChosenImages(ImageFiles([]), []).fingerprint)
        16
        """
        return content_fingerprint([self._images.fingerprint], self._chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> np.ndarray:
        return self._images[self._chosen[index]]

    def name(self, index: int) -> str:
        """The name among all images.

        >>> ChosenImages(ImageFiles(["a.png"]), [0]).name(0)
        'a.png'
        """
        return self._images.name(self._chosen[index])


def decodable(images: Images, *, threads: int = 2) -> tuple[list[int], list[str]]:
    """Decodes every image once and tells the good from the bad.

    Args:
        images: all of them.
        threads: how many to decode at once.

    Returns:
        The numbers of the images that decode, and one message for each other.

    >>> from PIL import Image
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.png")
    >>> Image.new("L", (5, 4)).save(path)
    >>> decodable(ImageFiles([path, "/nowhere.png"]))
    ([0], ['/nowhere.png cannot be read (No such file or directory).'])
    """
    good: list[int] = []
    problems: list[str] = []
    for index, problem in enumerate(_attempts(images, positive_integer("threads", threads))):
        if problem is None:
            good.append(index)
        else:
            problems.append(problem)
    if problems:
        more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        _log.warning(
            "skipped %d of %d images: %s%s",
            len(problems),
            len(images),
            " ".join(problems[:_NAMED]),
            more,
        )
    return good, problems


def _attempts(images: Images, threads: int) -> Iterator[str | None]:
    def attempt(index: int) -> str | None:
        try:
            images[index]
        except InputError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(threads, thread_name_prefix="decode") as pool:
        for start in range(0, len(images), _SUBMITTED):
            yield from pool.map(attempt, range(len(images))[start : start + _SUBMITTED])
