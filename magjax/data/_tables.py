"""Labelled data as people keep it: TSV, CSV or JSONL, one set a folder or a file."""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.data._lines import fail_at, find_file, json_lines, text_lines

__all__ = [
    "SUFFIXES",
    "cell",
    "column",
    "first_line",
    "folders",
    "nothing_found",
    "set_name",
    "split_files",
    "table_rows",
    "table_suffix",
]

SUFFIXES = (".tsv", ".csv", ".jsonl")
"""What a file's name may end in, ``.gz`` after it allowed."""


def table_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix that says how a file is written, ``.gz`` left out.

    >>> table_suffix("sets/test.jsonl.gz")
    '.jsonl'
    """
    name = Path(path)
    return (name.with_suffix("") if name.suffix == ".gz" else name).suffix


def first_line(path: str | os.PathLike[str]) -> list[str]:
    r"""The columns of the first line of a tab-separated file that is not blank.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "a.tsv")
    >>> _ = file.write_text("score\tsentence1\n")
    >>> first_line(file)
    ['score', 'sentence1']
    """
    _, line = next(iter(text_lines(path)), (0, ""))
    return line.split("\t")


def table_rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    r"""Numbered rows of a file by the names of its columns.

    ``.tsv`` and ``.txt`` are split at tabs and nothing else: a bare ``"`` is text, as in the STS
    benchmark. ``.csv`` is read with quoting, so that fields may hold commas and line breaks.
    ``.jsonl`` holds one object a line. The first row of TSV and CSV names the columns.

    Raises:
        InputError: with file and line: a row of another width than the header, a name that occurs
            twice, a quote that is not closed, or no JSON object.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "a.tsv")
    >>> _ = file.write_text("score\tsentence1\n2.5\tsay \"a\n")
    >>> list(table_rows(file))
    [(2, {'score': '2.5', 'sentence1': 'say "a'})]
    """
    source = find_file(path)
    if table_suffix(source) == ".jsonl":
        yield from json_lines(source)
        return
    quoted = table_suffix(source) == ".csv"
    rows = _quoted(source) if quoted else ((n, x.split("\t")) for n, x in text_lines(source))
    header: list[str] | None = None
    for number, cells in rows:
        if header is None:
            header = [name.strip() for name in cells]
            for name in header:
                if header.count(name) > 1:
                    fail_at(source, number, f"two columns are called {name!r}; rename one.")
        elif len(cells) != len(header):
            between = "commas (quote a field that holds one)" if quoted else "tabs"
            fail_at(
                source,
                number,
                f"{len(cells)} columns where the header has {len(header)}; check the {between}.",
            )
        else:
            yield number, dict(zip(header, cells, strict=True))


def _quoted(source: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file with the line that each begins at."""
    reader = csv.reader((f"{line}\n" for _, line in text_lines(source, blank=True)), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            fail_at(source, start, f"no valid CSV ({error}); check the quotes of this row.")
        if cells is None:
            return
        if cells:  # a blank line has none
            yield start, cells


def column(names: Iterable[str], *known: str) -> str | None:
    """The one of ``known`` that is among the columns ``names``, or None.

    >>> column(["pair_ID", "sentence_A"], "sentence1", "sentence_A")
    'sentence_A'
    """
    present = set(names)
    return next((name for name in known if name in present), None)


def cell(path: str | os.PathLike[str], line: int, row: Mapping[str, Any], *known: str) -> Any:
    """The value of a row's column that goes by one of the names ``known``.

    Raises:
        InputError: no such column; the message lists those that there are.

    >>> cell("a.jsonl", 1, {"sent1": "a b"}, "sentence1", "sent1")
    'a b'
    """
    name = column(row, *known)
    if name is None:
        fail_at(path, line, f"no {known[0]!r}; found {', '.join(map(repr, row)) or 'nothing'}.")
    return row[name]


def split_files(root: str | os.PathLike[str], names: Sequence[str]) -> list[tuple[str, Path]]:
    """Sets under a root: each folder that holds a file of one of ``names``, with that file.

    A set is called by its folder: by the path from the root, or by the root's own name.

    Args:
        root: searched with all that is below it.
        names: file names, ``.gz`` after them allowed.

    Returns:
        (set name, file), in the order of the names; empty when there is none.

    Raises:
        InputError: no such folder, or two files for one set.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "a").mkdir()
    >>> _ = (root / "a" / "test.tsv").write_text("")
    >>> [(name, file.name) for name, file in split_files(root, ["test.tsv"])]
    [('a', 'test.tsv')]
    """
    top = Path(root)
    found = []
    for folder in folders(top):
        there = {entry.name for entry in folder.iterdir()}
        files = [name + end for name in names for end in ("", ".gz") if name + end in there]
        if len(files) > 1:
            raise InputError(
                f"{folder} holds {' and '.join(files)} for one set; keep the one to read."
            )
        found += [(set_name(top, folder), folder / name) for name in files]
    return found


def nothing_found(root: str | os.PathLike[str], kind: str, forms: str, split: str) -> InputError:
    """The error of a root without a set: what was looked for, and which splits are there.

    >>> print(nothing_found(".", "STS set", "test.tsv (score, sentence1, sentence2)", "test"))
    . holds no STS set: neither it nor a folder below it has test.tsv (score, sentence1, sentence2).
    """
    others = [
        name
        for name in ("test", "dev", "validation", "train")
        if name != split and split_files(root, [name + suffix for suffix in SUFFIXES])
    ]
    hint = f" It has the split {' and '.join(others)}: name one with --split=." if others else ""
    return InputError(
        f"{root} holds no {kind}: neither it nor a folder below it has {forms}.{hint}"
    )


def folders(top: Path) -> Iterator[Path]:
    """``top`` and the folders below it in order; hidden ones are passed by.

    Raises:
        InputError: ``top`` is no folder.

    >>> [folder == Path(".") for folder in folders(Path("."))][0]
    True
    """
    if not top.is_dir():
        raise InputError(f"{top} is no folder; name a folder of data sets.")
    yield top
    for entry in sorted(top.iterdir()):
        if entry.is_dir() and not entry.name.startswith("."):
            yield from folders(entry)


def set_name(top: Path, folder: Path) -> str:
    """What results call the set in ``folder`` under the root ``top``.

    >>> set_name(Path("sets"), Path("sets/sts/a")), set_name(Path("sets/a"), Path("sets/a"))
    ('sts/a', 'a')
    """
    return top.resolve().name if folder == top else folder.relative_to(top).as_posix()
