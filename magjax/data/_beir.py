"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from magjax.checks import InputError, choose
from magjax.data._lines import fail_at, find_file, json_lines
from magjax.data._qrels import read_qrels
from magjax.data._records import Benchmark
from magjax.data._tables import folders, set_name

__all__ = ["beir_splits", "find_beir", "read_beir"]

_PARTS = ("corpus.jsonl", "queries.jsonl", "qrels")


def find_beir(root: str | os.PathLike[str]) -> tuple[dict[str, Path], dict[str, str]]:
    """Every BEIR folder at or below ``root``.

    A set is called by its path from the root (``cqadupstack/android``), or by the root's own name.

    Args:
        root: searched with all that is below it; hidden folders are passed by.

    Returns:
        folder by name, and by name what is missing of the folders that hold only part of a set.

    Raises:
        InputError: no such folder.

    >>> import tempfile
    >>> top = Path(tempfile.mkdtemp())
    >>> (top / "adi").mkdir()
    >>> _ = (top / "adi" / "corpus.jsonl").write_text("")
    >>> find_beir(top)
    ({}, {'adi': 'queries.jsonl, qrels'})
    """
    top = Path(root)
    sets, partial = {}, {}
    for folder in folders(top):
        there = {entry.name.removesuffix(".gz") for entry in folder.iterdir()}
        missing = [part for part in _PARTS if part not in there]
        name = set_name(top, folder)
        if not missing:
            sets[name] = folder
        elif _PARTS[0] in there:  # queries.jsonl alone may be anything
            partial[name] = ", ".join(missing)
    return sets, partial


def beir_splits(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """The files of judgements in a BEIR folder by split, in the order of their names.

    Raises:
        InputError: there is none.

    >>> beir_splits("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/qrels holds no .tsv file; a BEIR folder keeps judgements there.
    """
    found = {
        path.name.removesuffix(".gz").removesuffix(".tsv"): path
        for path in sorted((Path(folder) / "qrels").glob("*.tsv*"))
    }
    if not found:
        raise InputError(
            f"{folder}/qrels holds no .tsv file; a BEIR folder keeps judgements there."
        )
    return found


def read_beir(
    folder: str | os.PathLike[str], split: str = "test", *, name: str | None = None
) -> Benchmark:
    """Reads a BEIR folder; every file may be gzipped.

    A document is its title, a space and its text; a null or missing title counts as none. Of the
    queries those that ``split`` judges are kept, as BEIR's own loader does.

    Args:
        folder: holds ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/``.
        split: the name of the judgements' file.
        name: what results call it; default: the folder's name.

    Raises:
        InputError: a missing file or split; with file and line: no valid JSON, a missing or
            repeated id, a missing text, an empty query, a judgement of an unknown query or
            document, or a grade that is no whole number.

    >>> read_beir("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere is no folder; name one with corpus.jsonl, queries.jsonl and qrels/.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(
            f"{root} is no folder; name one with corpus.jsonl, queries.jsonl and qrels/."
        )
    splits = beir_splits(root)
    file = splits[choose(f"split of {root}", split, splits)]
    corpus = _texts(root / "corpus.jsonl")
    queries = _texts(root / "queries.jsonl")
    for query, (line, text) in queries.items():
        if not text:
            fail_at(find_file(root / "queries.jsonl"), line, f"query {query!r} is empty.")
    qrels = read_qrels(file, queries, corpus)
    if not qrels:
        raise InputError(f"{file} holds no judgement.")
    kept = [query for query in queries if query in qrels]
    return Benchmark(
        name=name or root.resolve().name,
        query_ids=kept,
        queries=[queries[query][1] for query in kept],
        document_ids=list(corpus),
        documents=[text for _, text in corpus.values()],
        qrels=qrels,
    )


def _texts(path: Path) -> dict[str, tuple[int, str]]:
    """Line and text by id; the title, if any, stands before the text."""
    return {name: (line, titled(title, text)) for name, line, title, text in titled_texts(path)}


def titled(title: str, text: str) -> str:
    """A document as BEIR embeds it: title, a space, text."""
    return f"{title} {text}".strip()


def titled_texts(path: Path) -> Iterator[tuple[str, int, str, str]]:
    """Id, line, title (empty where there is none) and text of each row."""
    source = find_file(path)
    lines: dict[str, int] = {}
    for line, row in json_lines(source):
        name = _id(row.get("_id"), source, line)
        if name in lines:
            fail_at(source, line, f"id {name!r} occurred in line {lines[name]} already.")
        title, text = row.get("title"), row.get("text")
        if not isinstance(text, str) or not isinstance(title, str | None):
            fail_at(source, line, "'text' must be a string, and 'title' a string or null.")
        lines[name] = line
        yield name, line, title or "", text


def _id(value: Any, source: Path, line: int) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        fail_at(source, line, f"'_id' is {value!r}, but must be a string or a whole number.")
    return str(value)
