"""The images and captions of a run: what its config names, split into training and tests."""

from collections.abc import Mapping
from typing import Any

from magjax.checks import InputError, choose
from magjax.data import (
    ImageDecoder,
    ImageTextBenchmark,
    ImageTextData,
    ImageTextSet,
    hold_out_images,
    icons,
    read_image_text,
    read_image_text_folder,
    read_tfds_images,
)

__all__ = ["IMAGE_TEXT_SOURCES", "load_image_text_data"]


def _icons(data: Mapping[str, Any], seed: int, options: dict[str, Any]) -> ImageTextData:
    del seed, options
    return icons(data["icon_size"])


def _folder(data: Mapping[str, Any], seed: int, options: dict[str, Any]) -> ImageTextData:
    del seed
    return read_image_text_folder(data["path"], **options)


def _table(data: Mapping[str, Any], seed: int, options: dict[str, Any]) -> ImageTextData:
    if not data["test_path"]:
        raise InputError(
            "data.source='table' needs a second table, which is searched at the end; set "
            "--config.data.test_path=TABLE_OR_SHARDS."
        )
    train = read_image_text(data["path"], **options)
    return _split(data, seed, train, read_image_text(data["test_path"], **options))


def _tfds(data: Mapping[str, Any], seed: int, options: dict[str, Any]) -> ImageTextData:
    options = {**options, "folder": data["folder"] or None}
    options["image_field"] = options["image_field"] or "image"
    train, test = (
        read_tfds_images(data["path"], data[name], **options)
        for name in ("train_split", "test_split")
    )
    return _split(data, seed, train, test)


def _split(
    data: Mapping[str, Any], seed: int, train: ImageTextSet, test: ImageTextSet
) -> ImageTextData:
    rest, development = hold_out_images(
        train, images=data["dev_images"], seed=seed, name="development"
    )
    return ImageTextData(rest, development, ImageTextBenchmark.of(test, "test"))


IMAGE_TEXT_SOURCES = {"icons": _icons, "folder": _folder, "table": _table, "tfds": _tfds}
"""Readers by the name that ``data.source`` takes."""


def load_image_text_data(data: Mapping[str, Any], *, seed: int) -> ImageTextData:
    """Reads what ``config.data`` names; holds out a development test where there is none.

    Args:
        data: the config's ``data`` section, as JSON.
        seed: of the development split.

    Raises:
        InputError: an unknown source, a missing path, or files that cannot be used.

    >>> load_image_text_data({"source": "foldr"}, seed=0)
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown data.source 'foldr'; known: icons, folder, table, tfds. Did you mean 'folder'?
    """
    source = choose("data.source", data["source"], IMAGE_TEXT_SOURCES)
    if source == "icons" and data["path"]:
        raise InputError(
            f"data.path={data['path']!r} was given, but data.source='icons' reads no path; set "
            "--config.data.source=folder (or table, tfds)."
        )
    if source != "icons" and not data["path"]:
        raise InputError(
            f"data.source={source!r} needs a path; set --config.data.path=FOLDER_OR_FILE."
        )
    options = {key: data[key] for key in ("image_field", "caption_field", "on_error")}
    options["decoder"] = ImageDecoder(transparency=data["transparency"])
    return IMAGE_TEXT_SOURCES[source](data, seed, options)
