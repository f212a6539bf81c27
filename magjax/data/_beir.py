"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``."""

import os
from pathlib import Path
from typing import Any

from magjax.checks import InputError, choose
from magjax.data._lines import fail_at, find_file, json_lines
from magjax.data._qrels import read_qrels
from magjax.data._records import Benchmark

__all__ = ["read_beir"]


def read_beir(folder: str | os.PathLike[str], split: str = "test") -> Benchmark:
    """Reads a BEIR folder; every file may be gzipped.

    A document is its title, a space and its text; a null or missing title counts as none. Of the
    queries those that ``split`` judges are kept, as BEIR's own loader does.

    Args:
        folder: holds ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/``.
        split: the name of the judgements' file.

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
    file = _split_file(root, split)
    corpus = _texts(root / "corpus.jsonl")
    queries = _texts(root / "queries.jsonl")
    for name, (line, text) in queries.items():
        if not text:
            fail_at(find_file(root / "queries.jsonl"), line, f"query {name!r} is empty.")
    qrels = read_qrels(file, queries, corpus)
    if not qrels:
        raise InputError(f"{file} holds no judgement.")
    kept = [name for name in queries if name in qrels]
    return Benchmark(
        name=root.resolve().name,
        query_ids=kept,
        queries=[queries[name][1] for name in kept],
        document_ids=list(corpus),
        documents=[text for _, text in corpus.values()],
        qrels=qrels,
    )


def _split_file(root: Path, split: str) -> Path:
    found = {
        path.name.removesuffix(".gz").removesuffix(".tsv"): path
        for path in sorted((root / "qrels").glob("*.tsv*"))
    }
    if not found:
        raise InputError(f"{root}/qrels holds no .tsv file; a BEIR folder keeps judgements there.")
    return found[choose(f"split of {root}", split, found)]


def _texts(path: Path) -> dict[str, tuple[int, str]]:
    """Line and text by id; the title, if any, stands before the text."""
    source = find_file(path)
    texts: dict[str, tuple[int, str]] = {}
    for line, row in json_lines(source):
        name = _id(row.get("_id"), source, line)
        if name in texts:
            fail_at(source, line, f"id {name!r} occurred in line {texts[name][0]} already.")
        title, text = row.get("title"), row.get("text")
        if not isinstance(text, str) or not isinstance(title, str | None):
            fail_at(source, line, "'text' must be a string, and 'title' a string or null.")
        texts[name] = line, f"{title or ''} {text}".strip()
    return texts


def _id(value: Any, source: Path, line: int) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        fail_at(source, line, f"'_id' is {value!r}, but must be a string or a whole number.")
    return str(value)
