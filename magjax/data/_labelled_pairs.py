"""Pairs of texts that belong together or do not."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.data._lines import fail_at, find_file
from magjax.data._tables import SUFFIXES, cell, nothing_found, split_files, table_rows
from magjax.data._text_pairs import TextPairs, pair_text
from magjax.files import read_json

__all__ = ["find_labelled_pairs", "read_labelled_pairs"]

_FIRST = ("sentence1", "sent1", "text1")
_SECOND = ("sentence2", "sent2", "text2")
_LABEL = ("label", "labels")
_VALUES = {"0": 0.0, "0.0": 0.0, "False": 0.0, "1": 1.0, "1.0": 1.0, "True": 1.0}


def find_labelled_pairs(root: str | os.PathLike[str], split: str = "test") -> list[TextPairs]:
    r"""All sets of labelled pairs under a folder.

    A folder is a set if it holds ``SPLIT.tsv``, ``SPLIT.csv``, ``SPLIT.jsonl`` (plain or gzipped)
    or ``SPLIT.json``.

    Args:
        root: the folder; all below it is searched.
        split: ``test``, ``dev``, ``train`` or another.

    Raises:
        InputError: no such folder, no set in it, or a file that :func:`read_labelled_pairs`
            refuses.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "tweets")
    >>> folder.mkdir()
    >>> _ = (folder / "dev.csv").write_text("label,sentence1,sentence2\n1,a man,one man\n")
    >>> [(pairs.name, len(pairs)) for pairs in find_labelled_pairs(folder.parent, "dev")]
    [('tweets', 1)]
    """
    found = split_files(root, [split + suffix for suffix in (*SUFFIXES, ".json")])
    if not found:
        forms = f"{split}.tsv, {split}.csv, {split}.jsonl or {split}.json"
        columns = "(sentence1, sentence2, label)"
        raise nothing_found(root, "set of labelled pairs", f"{forms} {columns}", split)
    return [read_labelled_pairs(file, name=name) for name, file in found]


def read_labelled_pairs(path: str | os.PathLike[str], *, name: str | None = None) -> TextPairs:
    r"""One file of pairs with the label 1 (they belong together) or 0.

    TSV (without quoting), CSV and JSONL hold a pair a row with ``sentence1``, ``sentence2`` and
    ``label``. A JSON file, or a line of JSONL, may also hold all pairs as three lists, the form of
    MTEB: ``{"sent1": [...], "sent2": [...], "labels": [...]}``.

    Args:
        path: ``.tsv``, ``.csv``, ``.jsonl`` or ``.json``.
        name: what results call the set; default: the file's name.

    Returns:
        The pairs; their grades are the labels.

    Raises:
        InputError: with file and line: a missing column, lists of different lengths, or a label
            other than 0 and 1.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "test.jsonl")
    >>> _ = file.write_text('{"sent1": ["a", "b"], "sent2": ["a", "c"], "labels": [1, 0]}')
    >>> read_labelled_pairs(file).grades
    array([1., 0.])
    """
    source = find_file(path)
    first, second, labels = [], [], []
    for line, a, b, label in _pairs(source):
        first.append(pair_text(source, line, a, "sentence1"))
        second.append(pair_text(source, line, b, "sentence2"))
        labels.append(_label(source, line, label))
    if not labels:
        raise InputError(f"{source} holds no labelled pair; check that it is whole.")
    return TextPairs(name or source.name.partition(".")[0], first, second, labels)


def _pairs(source: Path) -> Iterator[tuple[int, Any, Any, Any]]:
    for line, row in _objects(source):
        cells = [cell(source, line, row, *names) for names in (_FIRST, _SECOND, _LABEL)]
        lists = [isinstance(value, list) for value in cells]
        if not any(lists):
            yield line, *cells
            continue
        if not all(lists) or len({len(value) for value in cells}) > 1:
            sizes = [len(value) if isinstance(value, list) else "no list" for value in cells]
            fail_at(
                source,
                line,
                f"sentence1, sentence2 and label hold {sizes} entries; give three lists of one "
                "length, or one pair a line.",
            )
        for pair in zip(*cells, strict=True):
            yield line, *pair


def _objects(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if source.suffix != ".json":
        yield from table_rows(source)
        return
    value = read_json(source)
    if not isinstance(value, dict):
        raise InputError(f"{source} holds a {type(value).__name__} where an object was needed.")
    yield 1, value


def _label(path: Path, line: int, value: Any) -> float:
    text = str(value).strip()
    if value is None or not text:
        fail_at(path, line, "the label is missing; give 0 or 1, or remove the pair.")
    if text not in _VALUES:
        fail_at(path, line, f"the label {value!r} must be 0 or 1.")
    return _VALUES[text]
