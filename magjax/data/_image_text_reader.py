"""Image-text folders: tables of images and captions, one file a split."""

import os
from pathlib import Path
from typing import Any, Literal

from magjax.checks import InputError, choose
from magjax.data._image_decoder import ImageDecoder
from magjax.data._image_text import ImageTextBenchmark, ImageTextData, ImageTextSet
from magjax.data._image_text_table import ImageTable, TableImages, table_rows
from magjax.data._lines import find_file
from magjax.data._webdataset import find_shards, read_webdataset

__all__ = ["find_image_text", "read_image_text", "read_image_text_folder"]

_TABLES = (".jsonl", ".jsonl.gz", ".csv", ".tsv")
_DEVELOPMENT = ("dev", "development", "val", "valid", "validation")


def read_image_text(
    path: str | os.PathLike[str],
    *,
    image_field: str = "",
    caption_field: str = "",
    decoder: ImageDecoder | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> ImageTextSet:
    r"""Reads a table of images and captions, or WebDataset shards.

    - ``.jsonl`` (also gzipped): one object a line. The image is a path relative to the table, or
      ``"file"``, an ``.npz`` of ``uint8`` images, with ``"index"``, a row of its array ``images``
      (or of its only array). The caption is a string or a list of strings.
    - ``.csv``, ``.tsv``: a header line names the columns; one caption a row.
    - ``.tar``, a pattern such as ``train-*.tar``, or a folder of tar files: see
      :func:`read_webdataset`.

    Rows that name the same image are one image with several captions. Other fields are ignored.

    Args:
        path: the table, or the shards.
        image_field: of a table; default: the first found of image, file, path, file_name,
            image_path, filepath.
        caption_field: default: the first found of captions, caption, text, title.
        decoder: how images are read.
        on_error: ``"raise"`` stops at a file that is missing, and at one that cannot be decoded
            when it is asked for; ``"skip"`` decodes every image once at the start and leaves the
            bad ones out, counted in ``skipped`` and named in the log.

    Raises:
        InputError: with file and line: a missing field or file, an empty caption, broken JSON.

    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> Image.new("RGB", (4, 4)).save(folder / "a.png")
    >>> _ = (folder / "train.csv").write_text("image,caption\na.png,a heart\na.png,love\n")
    >>> read_image_text(folder / "train.csv").captions
    [('a heart', 'love')]
    """
    choose("on_error", on_error, ("raise", "skip"))
    decoder = decoder or ImageDecoder()
    shards = find_shards(path)
    if shards:
        return read_webdataset(
            shards, caption_field=caption_field, decoder=decoder, on_error=on_error
        )
    source = find_file(path)
    if not source.name.endswith(_TABLES):
        raise InputError(
            f"{source} is no table or archive that is known; give a .jsonl, .csv, .tsv or .tar."
        )
    table = ImageTable(source, image_field, caption_field, must_exist=on_error == "raise")
    for line, row in table_rows(source):
        table.add(line, row)
    data = ImageTextSet(
        image_ids=list(table.captions),
        images=TableImages(table.places, table.arrays, decoder),
        captions=[tuple(texts) for texts in table.captions.values()],
        source=str(source),
    )
    return data.decodable() if on_error == "skip" else data


def read_image_text_folder(
    path: str | os.PathLike[str],
    *,
    image_field: str = "",
    caption_field: str = "",
    decoder: ImageDecoder | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> ImageTextData:
    """Reads a folder with a table per split: ``train``, ``dev`` (or ``val``), ``test``.

    Each is a ``.jsonl``, ``.csv`` or ``.tsv`` (also ``.jsonl.gz``), or ``train*.tar`` shards.

    Args:
        path: the folder.
        image_field: as in :func:`read_image_text`.
        caption_field: as in :func:`read_image_text`.
        decoder: how images are read.
        on_error: as in :func:`read_image_text`.

    Raises:
        InputError: a split is missing or occurs twice, or as in :func:`read_image_text`.

    >>> read_image_text_folder("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere is no folder; name one with train, dev and test tables.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; name one with train, dev and test tables.")
    options: dict[str, Any] = {
        "image_field": image_field,
        "caption_field": caption_field,
        "decoder": decoder,
        "on_error": on_error,
    }
    train, development, test = (
        read_image_text(find_image_text(folder, *names), **options)
        for names in (("train",), _DEVELOPMENT, ("test",))
    )
    return ImageTextData(
        train=train,
        development=ImageTextBenchmark.of(development, f"{folder.name}/development"),
        in_domain=ImageTextBenchmark.of(test, f"{folder.name}/test"),
    )


def find_image_text(folder: str | os.PathLike[str], *names: str) -> Path:
    """The table, or the pattern of shards, of one split of an image-text folder.

    Args:
        folder: where to look.
        names: what the split may be called.

    Raises:
        InputError: there is none, or more than one.

    >>> find_image_text("/nowhere", "test")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere must hold one table of the split test, but has none; write \
test.jsonl, .csv, .tsv or test-000.tar.
    """
    root = Path(folder)
    files = [root / f"{name}{ending}" for name in names for ending in _TABLES]
    found = [file for file in files if file.is_file()]
    found += [root / f"{name}*.tar" for name in names if any(root.glob(f"{name}*.tar"))]
    if len(found) != 1:
        several = f"holds {' and '.join(f.name for f in found)}" if found else "has none"
        raise InputError(
            f"{root} must hold one table of the split {' or '.join(names)}, but {several}; "
            f"write {names[0]}.jsonl, .csv, .tsv or {names[0]}-000.tar."
        )
    return found[0]
