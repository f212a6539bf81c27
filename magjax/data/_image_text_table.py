"""Tables of images and captions: rows to images with all their captions."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from magjax.checks import InputError
from magjax.data._image_decoder import ImageDecoder
from magjax.data._images import ImageFiles
from magjax.data._lines import fail_at, json_lines
from magjax.data._record_checks import content_fingerprint, text_key

__all__ = ["CAPTION_FIELDS", "ImageTable", "TableImages", "caption_list", "table_rows"]

CAPTION_FIELDS = ("captions", "caption", "text", "title")
_IMAGE_FIELDS = ("image", "file", "path", "file_name", "image_path", "filepath")

Place = tuple[Path, int | None]
Fail = Callable[[str], NoReturn]


def caption_list(value: Any, fail: Fail) -> list[str]:
    """A caption or list of captions as a list without repetitions; ``fail`` is told of others.

    >>> caption_list(["a heart", "a  heart", "love"], print)
    ['a heart', 'love']
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        fail(f"the caption is {value!r}, but must be a string or a list of strings.")
    if not texts or not all(text.strip() for text in texts):
        fail("a caption is empty; remove it or give its text.")
    distinct: dict[str, str] = {}
    for text in texts:
        distinct.setdefault(text_key(text), text)
    return list(distinct.values())


def table_rows(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    r"""Numbered rows of a JSONL, CSV or TSV file, as mappings by field.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = file.write_text("image,caption\na.png,a heart\n")
    >>> list(table_rows(file))
    [(2, {'image': 'a.png', 'caption': 'a heart'})]
    """
    if source.suffix not in (".csv", ".tsv"):
        yield from json_lines(source)
        return
    with source.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t" if source.suffix == ".tsv" else ",", strict=True)
        header: list[str] | None = None
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                fail_at(source, reader.line_num, f"the table is broken here ({error}).")
            except UnicodeDecodeError as error:
                fail_at(
                    source,
                    reader.line_num + 1,
                    f"not UTF-8 ({error.reason}); convert the file to UTF-8.",
                )
            if header is None:
                header = cells
            elif cells and len(cells) != len(header):
                fail_at(
                    source,
                    reader.line_num,
                    f"{len(cells)} cells where the header has {len(header)}; quote cells that "
                    "hold the separator.",
                )
            elif cells:
                yield reader.line_num, dict(zip(header, cells, strict=True))


class ImageTable:
    """Images in the order in which rows name them first, with all captions of each.

    Args:
        source: the table, for messages and as the root of its paths.
        image_field: the field of the image, or empty for the usual ones.
        caption_field: the field of the caption or captions, or empty for the usual ones.
        must_exist: whether a missing file is an error here.

    >>> table = ImageTable(Path("a.csv"), "", "", must_exist=False)
    >>> table.add(2, {"image": "a.png", "caption": "a heart"})
    >>> table.add(3, {"image": "a.png", "caption": "love"})
    >>> table.captions, table.places
    ({'a.png': ['a heart', 'love']}, [(PosixPath('a.png'), None)])
    """

    def __init__(self, source: Path, image_field: str, caption_field: str, *, must_exist: bool):
        self.captions: dict[str, list[str]] = {}
        self.places: list[Place] = []
        self.arrays: dict[Path, np.ndarray] = {}
        self._source = source
        self._must_exist = must_exist
        self._ids: dict[Place, str] = {}
        self._fields = {
            "image": (image_field,) if image_field else _IMAGE_FIELDS,
            "caption": (caption_field,) if caption_field else CAPTION_FIELDS,
        }

    def add(self, line: int, row: Mapping[str, Any]) -> None:
        """Takes a row in; errors name the file and ``line``."""

        def fail(problem: str) -> NoReturn:
            fail_at(self._source, line, problem)

        place, name = self._place(row, fail)
        texts = caption_list(row[self._field("caption", row, fail)], fail)
        if place not in self._ids:
            if name in self.captions:
                fail(f"image {name!r} occurred before with another file or index.")
            self._look(place, fail)
            self._ids[place] = name
            self.places.append(place)
        known = self.captions.setdefault(self._ids[place], [])
        known[:] = caption_list([*known, *texts], fail)

    def _field(self, kind: str, row: Mapping[str, Any], fail: Fail) -> str:
        for field in self._fields[kind]:
            if field in row:
                return field
        names = " or ".join(self._fields[kind])
        return fail(f"no {kind} ({names}); found {', '.join(map(repr, row)) or 'nothing'}.")

    def _place(self, row: Mapping[str, Any], fail: Fail) -> tuple[Place, str]:
        file, index = row.get("file"), row.get("index")
        if isinstance(file, str) and file.endswith(".npz"):
            if isinstance(index, bool) or not isinstance(index, int) or index < 0:
                fail(f"'index' is {index!r}, but must be a row of {file}, from 0.")
            name = row.get("image", f"{file}/{index}")
            return (self._source.parent / file, index), str(name)
        field = self._field("image", row, fail)
        if not isinstance(row[field], str) or not row[field].strip():
            fail(f"{field!r} is {row[field]!r}, but must be the path of an image.")
        return (self._source.parent / row[field], None), row[field]

    def _look(self, place: Place, fail: Fail) -> None:
        path, index = place
        if path not in self.arrays and not path.is_file():
            if self._must_exist:
                fail(f"{path} does not exist; mend the path or set on_error='skip'.")
            return
        if index is None:
            return
        if path not in self.arrays:
            self.arrays[path] = _load(path)
        if self._must_exist and index >= len(self.arrays[path]):
            fail(f"index {index} is not in {path}, which holds {len(self.arrays[path])} images.")


class TableImages:
    """Images of a table: files, and rows of arrays.

    Args:
        places: per image a file, and the row if that is an archive of arrays.
        arrays: of each archive.
        decoder: how files are read.

    >>> images = TableImages([(Path("a.npz"), 1)], {Path("a.npz"): np.zeros((2, 4, 5), np.uint8)})
    >>> images.name(0), images[0].shape
    ('a.npz[1]', (4, 5))
    """

    def __init__(
        self,
        places: Sequence[Place],
        arrays: Mapping[Path, np.ndarray],
        decoder: ImageDecoder | None = None,
    ):
        self._places = list(places)
        self._arrays = dict(arrays)
        self._decoder = decoder or ImageDecoder()
        self._files = ImageFiles([path for path, _ in places], self._decoder)

    @property
    def fingerprint(self) -> str:
        """Names of the files, their sizes, the rows, and how images are decoded.

        >>> len(TableImages([], {}).fingerprint)
        16
        """
        return content_fingerprint([self._files.fingerprint], [row for _, row in self._places])

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> np.ndarray:
        path, row = self._places[index]
        if row is None:
            return self._files[index]
        if path not in self._arrays or row >= len(self._arrays[path]):
            raise InputError(f"{self.name(index)} does not exist.")
        return self._decoder.read(self._arrays[path][row], self.name(index))

    def name(self, index: int) -> str:
        """The file, and the row in brackets.

        >>> TableImages([(Path("a.png"), None)], {}).name(0)
        'a.png'
        """
        path, row = self._places[index]
        return str(path) if row is None else f"{path}[{row}]"


def _load(path: Path) -> np.ndarray:
    """The array ``images`` of an ``.npz``, or its only one."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays)
            chosen = "images" if "images" in names else names[0] if len(names) == 1 else None
            if chosen is not None:
                return arrays[chosen]
    except Exception as error:  # zip, header and pickle errors: NumPy has no common one
        raise InputError(f"{path} cannot be read as .npz ({error}).") from error
    raise InputError(
        f"{path} holds the arrays {', '.join(names) or 'none'}; name that of the images 'images'."
    )
