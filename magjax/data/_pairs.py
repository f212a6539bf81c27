"""Pairs and triples: one training example a record."""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from magjax.checks import InputError, choose
from magjax.data._lines import fail_at, find_file, json_lines
from magjax.data._records import TrainingSet

__all__ = ["DocumentTable", "read_hf_dataset", "read_pairs_jsonl"]

_FIELDS = (
    "id",
    "query_id",
    "query",
    "positive",
    "positives",
    "negative",
    "negatives",
    "positive_ids",
    "negative_ids",
    "positive_passages",
    "negative_passages",
)

Fail = Callable[[str], NoReturn]


class DocumentTable:
    """Documents in order of first appearance; equal texts without ids are one document.

    >>> table = DocumentTable()
    >>> [table.add(None, text, print) for text in ("a", "b", "a")]
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.texts: list[str] = []
        self._by_id: dict[str, int] = {}
        self._by_text: dict[str, int] = {}

    def add(self, name: str | None, text: str, fail: Callable[[str], Any]) -> int:
        """The index of a document; ``fail`` is told of an id that has another text already."""
        known = self._by_text if name is None else self._by_id
        key = text if name is None else name
        index = known.get(key)
        if index is None:
            index = len(self.texts)
            if name is None:
                name = f"document-{index}"
            if name in self._by_id:
                fail(f"document id {name!r} is taken; give all documents ids or none.")
            self.ids.append(name)
            self.texts.append(text)
            self._by_id[name] = known[key] = index
        elif self.texts[index] != text:
            fail(f"document id {name!r} occurred before with another text; ids must be unique.")
        return index


def read_pairs_jsonl(path: str | os.PathLike[str]) -> TrainingSet:
    """Reads pairs or triples, one JSON object a line, plain or gzipped.

    Either ``query`` and ``positive`` (a string or a list), with optional ``negatives`` (or
    ``negative``), ``id``, ``positive_ids`` and ``negative_ids``; or Tevatron's form: ``query_id``,
    ``query``, ``positive_passages`` and ``negative_passages``, lists of
    ``{"docid", "title", "text"}``. Other fields are ignored unless they look like a misspelt one.
    Without ids, queries are named by their line and equal texts are one document.

    Raises:
        InputError: with file and line: no valid JSON, a missing, empty or misspelt field, a
            repeated id, a positive among the negatives.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "pairs.jsonl")
    >>> _ = file.write_text('{"query": "what adds", "positive": "a + b", "negatives": ["a - b"]}')
    >>> data = read_pairs_jsonl(file)
    >>> data.query_ids, data.documents, data.positives, data.negatives
    (['line-1'], ['a + b', 'a - b'], [(0,)], [(1,)])
    """
    source = find_file(path)

    def rows() -> Iterable[tuple[str, Fail, Mapping[str, Any]]]:
        for line, row in json_lines(source):
            yield f"line-{line}", partial(fail_at, source, line), row

    return _training_set(rows(), str(source))


def read_hf_dataset(folder: str | os.PathLike[str], split: str = "train") -> TrainingSet:
    """Reads a folder written by ``datasets``' ``save_to_disk``; columns as in the JSONL forms.

    Args:
        folder: of a ``Dataset``, or of a ``DatasetDict`` with ``split`` in it.
        split: which part of a ``DatasetDict``; a lone ``Dataset`` has only "train".

    Raises:
        InputError: the extra ``datasets`` is not installed, the folder or split does not exist,
            or a row cannot be used (named by its number from 0).

    >>> read_hf_dataset("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere is no folder; name one written by save_to_disk.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{root} is no folder; name one written by save_to_disk.")
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            f"reading {root} needs the extra 'datasets'; pip install 'magjax[datasets]', or "
            "write the records as JSONL."
        ) from error
    try:
        loaded = datasets.load_from_disk(str(root))
    except (FileNotFoundError, ValueError) as error:
        raise InputError(f"{root} cannot be read by datasets ({error}).") from error
    parts = loaded if isinstance(loaded, dict) else {"train": loaded}
    part = parts[choose(f"split of {root}", split, parts)]

    def rows() -> Iterable[tuple[str, Fail, Mapping[str, Any]]]:
        for number, row in enumerate(part):
            present = {key: value for key, value in row.items() if value is not None}
            yield f"row-{number}", partial(fail_at, root, number), present

    return _training_set(rows(), str(root))


def _training_set(rows: Iterable[tuple[str, Fail, Mapping[str, Any]]], source: str) -> TrainingSet:
    table = DocumentTable()
    queries: dict[str, str] = {}
    positives, negatives = [], []
    for default, fail, row in rows:
        _check_fields(row, fail)
        name = _name(row.get("query_id", row.get("id", default)), fail)
        if name in queries:
            fail(f"query id {name!r} occurred before; ids must be unique.")
        queries[name] = _text(row, "query", fail)
        read = _read_tevatron if "positive_passages" in row else _read_plain
        answers, others = (
            tuple(dict.fromkeys(table.add(*document, fail) for document in documents))
            for documents in read(row, fail)
        )
        if set(answers) & set(others):
            fail("a document is both positive and negative; keep one.")
        positives.append(answers)
        negatives.append(others)
    if not queries:
        raise InputError(f"{source} holds no record.")
    return TrainingSet(
        query_ids=list(queries),
        queries=list(queries.values()),
        positives=positives,
        negatives=negatives,
        document_ids=table.ids,
        documents=table.texts,
        source=source,
    )


def _check_fields(row: Mapping[str, Any], fail: Fail) -> None:
    for key in (key for key in row if key not in _FIELDS):
        if near := difflib.get_close_matches(key, _FIELDS, n=1, cutoff=0.85):
            fail(f"unknown field {key!r}; did you mean {near[0]!r}?")


def _name(value: Any, fail: Fail) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        fail(f"id {value!r} must be a string or a whole number.")
    return str(value)


def _text(row: Mapping[str, Any], field: str, fail: Fail) -> str:
    if field not in row:
        fail(f"no {field!r}; found {', '.join(map(repr, row)) or 'nothing'}.")
    value = row[field]
    if not isinstance(value, str):
        fail(f"{field!r} is {value!r}, but must be a string.")
    if not value.strip():
        fail(f"the {field} is empty; remove the record or give its text.")
    return value


def _read_plain(row: Mapping[str, Any], fail: Fail) -> list[list[tuple[str | None, str]]]:
    groups = []
    for kind in ("positive", "negative"):
        plural = f"{kind}s"
        field = plural if plural in row else kind
        value = row.get(field, [] if kind == "negative" else None)
        if value is None:
            fail(f"no {kind!r}; found {', '.join(map(repr, row))}.")
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or (kind == "positive" and not values):
            fail(f"{field!r} is {value!r}, but must be a string or a list of strings.")
        texts = [_text({field: text}, field, fail) for text in values]
        ids = row.get(f"{kind}_ids", [None] * len(texts))
        if not isinstance(ids, list) or len(ids) != len(texts):
            fail(f"'{kind}_ids' must list one id for each of {len(texts)} documents.")
        names = [None if name is None else _name(name, fail) for name in ids]
        groups.append(list(zip(names, texts, strict=True)))
    return groups


def _read_tevatron(row: Mapping[str, Any], fail: Fail) -> list[list[tuple[str | None, str]]]:
    groups = []
    for field in ("positive_passages", "negative_passages"):
        passages = row.get(field, [])
        if not isinstance(passages, list) or (field[0] == "p" and not passages):
            fail(f"{field!r} must be a list of passages, at least one for the positives.")
        group = []
        for passage in passages:
            if not isinstance(passage, dict):
                fail(f"a passage in {field!r} is {passage!r}, but must be an object.")
            text = (f"{passage.get('title') or ''} {_text(passage, 'text', fail)}").strip()
            name = passage.get("docid")
            group.append((None if name is None else _name(name, fail), text))
        groups.append(group)
    return groups
