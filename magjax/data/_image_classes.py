"""Folders of classes: one subfolder of images each."""

import os
from pathlib import Path
from typing import Literal

from magjax.checks import InputError, choose
from magjax.data._image_decoder import ImageDecoder
from magjax.data._image_text import ImageTextSet
from magjax.data._images import ImageFiles

__all__ = ["read_image_classes"]


def read_image_classes(
    path: str | os.PathLike[str],
    *,
    decoder: ImageDecoder | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> ImageTextSet:
    """Reads ``path/CLASS/IMAGE``; the caption of an image is the name of its class.

    Underscores in a class's name become spaces. Files and folders that begin with a dot are left
    out; every other file of a class must be an image. Images are read in the order of their
    paths, whose last two parts are their ids.

    Args:
        path: the folder of classes.
        decoder: how images are read.
        on_error: ``"skip"`` decodes every image once at the start and leaves the bad ones out.

    Raises:
        InputError: no folder, or one without images in subfolders.

    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "red_square").mkdir()
    >>> Image.new("RGB", (4, 4), "red").save(folder / "red_square" / "1.png")
    >>> data = read_image_classes(folder)
    >>> data.image_ids, data.captions
    (['red_square/1.png'], [('red square',)])
    """
    choose("on_error", on_error, ("raise", "skip"))
    root = Path(path)
    classes = _visible(root) if root.is_dir() else []
    files = [file for folder in classes if folder.is_dir() for file in _visible(folder)]
    if not files:
        raise InputError(f"{root} must hold a folder for each class with images in it.")
    data = ImageTextSet(
        image_ids=[f"{file.parent.name}/{file.name}" for file in files],
        images=ImageFiles(files, decoder),
        captions=[(file.parent.name.replace("_", " "),) for file in files],
        source=str(root),
    )
    return data.decodable() if on_error == "skip" else data


def _visible(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if not file.name.startswith("."))
