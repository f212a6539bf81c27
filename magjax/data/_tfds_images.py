"""TensorFlow Datasets on disk as images with captions, read without TensorFlow."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from magjax.checks import InputError, choose
from magjax.data._image_decoder import ImageDecoder
from magjax.data._image_text import ImageTextSet
from magjax.data._image_text_table import CAPTION_FIELDS, caption_list
from magjax.data._record_checks import content_fingerprint

__all__ = ["read_tfds_images"]


def read_tfds_images(
    name: str,
    split: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    image_field: str = "image",
    caption_field: str = "",
    decoder: ImageDecoder | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> ImageTextSet:
    """Reads a prepared data set by name through TFDS' random access, which needs no TensorFlow.

    Nothing is downloaded: the data set must lie prepared under ``folder``, as ArrayRecord. TFDS
    writes TFRecord by default, which only TensorFlow reads; prepare it once, where TensorFlow is
    installed, by ``tfds.builder(name, file_format="array_record").download_and_prepare()``.

    COCO captions (``"coco_captions"``, splits ``"train"``, ``"val"``, ``"test"``) have the fields
    ``image``, ``image/filename`` and ``captions``, a sequence of ``{"id", "text"}``: the defaults
    read them. Where the caption's field is a class label, its name is the caption.

    All captions are read once at the start, for which every record is fetched, and no image
    decoded.

    Args:
        name: ``"coco_captions"``, with configuration and version as far as there are several:
            ``"name/config:1.2.0"``.
        split: as TFDS writes it: ``"train"``, ``"train[:10%]"``.
        folder: TFDS' ``data_dir``; default ``$TFDS_DATA_DIR``, else ``~/tensorflow_datasets``.
        image_field: an encoded image.
        caption_field: a text, a sequence of texts, a sequence of objects with a ``text``, or a
            class label; ``"captions/text"`` names a field inside. Default: the first found of
            captions, caption, text, title.
        decoder: how images are read.
        on_error: ``"skip"`` decodes every image once and leaves the bad ones out, counted.

    Raises:
        InputError: the data set is not there or not as ArrayRecord, it has no such split or
            field, or a record without a caption (named by its number from 0).

    >>> read_tfds_images("coco_captions", "val", folder="/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: no prepared data set coco_captions under /nowhere; prepare it with tfds, or name its folder.
    """
    choose("on_error", on_error, ("raise", "skip"))
    source = f"tfds {name} {split}"
    builder = _builder(name, folder)
    features = builder.info.features
    choose(f"image field of {source}", image_field, features)
    field, inner = _caption_field(source, caption_field, features)
    records = _records(builder, split, image_field)
    label = getattr(features[field], "int2str", None)
    captions = []
    for number in range(len(records)):

        def fail(problem: str, number: int = number) -> Any:
            raise InputError(f"{source}: record {number}: {problem}")

        value = records[number][field]
        captions.append(tuple(_captions(value, inner, label, fail)))
    data = ImageTextSet(
        image_ids=[f"{split}/{number}" for number in range(len(records))],
        images=_TfdsImages(records, image_field, source, builder.info.full_name, decoder),
        captions=captions,
        source=source,
    )
    return data.decodable() if on_error == "skip" else data


def _builder(name: str, folder: str | os.PathLike[str] | None) -> Any:
    # TFDS takes half a second to import.
    from tensorflow_datasets.core import read_only_builder
    from tensorflow_datasets.core.registered import DatasetNotFoundError

    root = folder or os.environ.get("TFDS_DATA_DIR") or Path.home() / "tensorflow_datasets"
    try:
        return read_only_builder.builder_from_files(name, data_dir=str(root))
    except DatasetNotFoundError as error:
        raise InputError(
            f"no prepared data set {name} under {root}; prepare it with tfds, or name its folder."
        ) from error


def _records(builder: Any, split: str, image_field: str) -> Any:
    from tensorflow_datasets import decode

    known = list(builder.info.splits)
    if split.split("[")[0].split("+")[0] not in [*known, "all"]:
        choose(f"split of {builder.info.full_name}", split, known)
    if builder.info.file_format.value != "array_record":
        raise InputError(
            f"{builder.info.full_name} lies there as {builder.info.file_format.value}, which only "
            'TensorFlow reads; prepare it again with file_format="array_record".'
        )
    # The bytes of the image file: magjax decodes them with its own limits.
    skip = {image_field: decode.SkipDecoding()}
    try:
        return builder.as_data_source(split=split, decoders=skip)
    except (NotImplementedError, ValueError, OSError) as error:
        raise InputError(f"{builder.info.full_name} {split} cannot be read ({error}).") from error


def _caption_field(source: str, stated: str, features: Any) -> tuple[str, str]:
    """The field, and the field inside of it that holds texts (empty: itself)."""
    if stated:
        field, _, inner = stated.partition("/")
        if stated in features:  # names such as "image/filename" have a stroke themselves
            return stated, ""
        choose(f"caption field of {source}", field, features)
        return field, inner
    for field in CAPTION_FIELDS:
        if field in features:
            return field, ""
    raise InputError(
        f"{source} has no {' or '.join(CAPTION_FIELDS)} but {', '.join(features)}; name the "
        "caption's field."
    )


def _captions(
    value: Any, inner: str, label: Callable[[int], str] | None, fail: Callable[[str], Any]
) -> list[str]:
    if label is not None:
        return caption_list(label(int(value)).replace("_", " "), fail)
    if isinstance(value, dict):
        key = inner or "text"
        if key not in value:
            fail(f"its captions have the fields {', '.join(value)}, but no {key}.")
        value = value[key]
    texts = value if isinstance(value, list | tuple | np.ndarray) else [value]
    found = []
    for text in texts:
        if isinstance(text, dict):
            text = text.get(inner or "text")
        try:
            found.append(text.decode("utf-8") if isinstance(text, bytes) else text)
        except UnicodeDecodeError as error:
            fail(f"its caption is not UTF-8 ({error.reason}).")
    return caption_list(found, fail)


class _TfdsImages:
    """Images of a TFDS data source; their bytes are read and decoded when asked for."""

    def __init__(
        self, records: Any, field: str, source: str, full_name: str, decoder: ImageDecoder | None
    ):
        self._records = records
        self._field = field
        self._source = source
        self._full_name = full_name
        self._decoder = decoder or ImageDecoder()

    @property
    def fingerprint(self) -> str:
        """Name, version and split of the data set, and how images are decoded."""
        parts = [self._full_name, self._source, len(self), repr(self._decoder)]
        return content_fingerprint(parts)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> np.ndarray:
        return self._decoder.read(self._records[index][self._field], self.name(index))

    def name(self, index: int) -> str:
        """Data set, split and number."""
        return f"{self._source} record {index}"
