"""BRIGHT as its Hugging Face repository has it: ``examples/`` and ``documents/`` of each task."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from magjax.checks import InputError, need
from magjax.data._lines import fail_at, json_lines
from magjax.data._records import Benchmark

__all__ = ["BRIGHT_TASKS", "find_bright", "read_bright"]

BRIGHT_TASKS: tuple[str, ...] = (
    "biology",
    "earth_science",
    "economics",
    "psychology",
    "robotics",
    "stackoverflow",
    "sustainable_living",
    "leetcode",
    "pony",
    "aops",
    "theoremqa_questions",
    "theoremqa_theorems",
)
"""The 12 tasks, in the order of the paper's table."""

_NOTHING = "N/A"  # what a list of excluded ids holds when it is empty
_SHARD = r"(-\d+-of-\d+)?\.(parquet|jsonl|jsonl\.gz)"
_log = logging.getLogger(__name__)


def find_bright(root: str | os.PathLike[str], *, documents: str = "documents") -> tuple[str, ...]:
    """The tasks of BRIGHT of which ``root`` holds documents.

    Raises:
        InputError: there is none.

    >>> find_bright("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere holds no BRIGHT task: /nowhere/documents has no parquet or \
JSONL file of biology, earth_science, economics, psychology, robotics, stackoverflow, \
sustainable_living, leetcode, pony, aops, theoremqa_questions or theoremqa_theorems.
    """
    folder = Path(root) / documents
    found = tuple(task for task in BRIGHT_TASKS if _shards(folder, task))
    if not found:
        raise InputError(
            f"{root} holds no BRIGHT task: {folder} has no parquet or JSONL file of "
            f"{', '.join(BRIGHT_TASKS[:-1])} or {BRIGHT_TASKS[-1]}."
        )
    return found


def read_bright(
    root: str | os.PathLike[str],
    task: str,
    *,
    long: bool = False,
    queries: str = "examples",
) -> Benchmark:
    """Reads one task of BRIGHT, ids to leave out included.

    The files are those of the Hugging Face repository ``xlangai/BRIGHT``:
    ``examples/TASK-00000-of-00001.parquet`` (query, id, excluded_ids, gold_ids, gold_ids_long) and
    ``documents/TASK-...parquet`` (id, content); also as ``TASK.jsonl``. An ``excluded_ids`` of
    ``["N/A"]`` is empty.

    Args:
        root: the folder that holds ``examples/`` and ``documents/``.
        task: one of :data:`BRIGHT_TASKS`, or any other that has such files.
        long: search ``long_documents/``, whole pages, for ``gold_ids_long``.
        queries: the folder of queries; others are rewritten ones, such as ``gpt4_reason``.

    Raises:
        InputError: a missing file, field or package; an id that repeats with another text; a gold
            or excluded document that is not there; a document that is both.

    >>> read_bright("/nowhere", "biology")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/examples holds no file of task 'biology': biology.jsonl, or \
biology-00000-of-00001.parquet as on Hugging Face.
    """
    top = Path(root)
    gold = "gold_ids_long" if long else "gold_ids"
    examples = list(_rows(top / queries, task))
    query_ids, texts, qrels, excluded = [], [], {}, {}
    for source, line, row in examples:
        name = _text(row, "id", source, line)
        query_ids.append(name)
        texts.append(_text(row, "query", source, line))
        qrels[name] = dict.fromkeys(_ids(row, gold, source, line), 1)
        left_out = [i for i in _ids(row, "excluded_ids", source, line) if i != _NOTHING]
        if left_out:
            excluded[name] = left_out
    documents: dict[str, str] = {}
    twice = 0
    for source, line, row in _rows(top / ("long_documents" if long else "documents"), task):
        name, text = _text(row, "id", source, line), _text(row, "content", source, line)
        twice += name in documents
        if documents.setdefault(name, text) != text:
            fail_at(source, line, f"document {name!r} occurred before with another content.")
    if twice:
        _log.warning("%s: %d documents stand there twice and are kept once.", task, twice)
    return Benchmark(
        name=f"{task} (long)" if long else task,
        query_ids=query_ids,
        queries=texts,
        document_ids=list(documents),
        documents=list(documents.values()),
        qrels=qrels,
        excluded=excluded,
    )


def _shards(folder: Path, task: str) -> list[Path]:
    pattern = re.compile(re.escape(task) + _SHARD)
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if pattern.fullmatch(entry.name))


def _rows(folder: Path, task: str) -> Iterator[tuple[Path, int, Mapping[str, Any]]]:
    """File, number and fields of each row."""
    shards = _shards(folder, task)
    if not shards:
        raise InputError(
            f"{folder} holds no file of task {task!r}: {task}.jsonl, or "
            f"{task}-00000-of-00001.parquet as on Hugging Face."
        )
    kinds = {path.suffix == ".parquet" for path in shards}
    if len(kinds) > 1:
        raise InputError(f"{folder} holds task {task!r} as parquet and as JSONL; keep one of them.")
    for path in shards:
        if path.suffix == ".parquet":
            for line, row in _parquet_rows(path):
                yield path, line, row
        else:
            for line, row in json_lines(path):
                yield path, line, row


def _parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    parquet = need("pyarrow.parquet", "parquet")
    lib = need("pyarrow", "parquet")
    try:
        batches = parquet.ParquetFile(path).iter_batches()
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
    except (lib.ArrowException, OSError) as error:
        raise InputError(f"{path} is no Parquet file that can be read ({error}).") from error


def _text(row: Mapping[str, Any], field: str, source: Path, line: int) -> str:
    value = row.get(field)
    if isinstance(value, int) and not isinstance(value, bool) and field == "id":
        return str(value)
    if not isinstance(value, str):
        found = ", ".join(map(repr, row)) or "nothing"
        fail_at(source, line, f"{field!r} is {value!r}, but must be a string; fields: {found}.")
    return value


def _ids(row: Mapping[str, Any], field: str, source: Path, line: int) -> list[str]:
    value = row.get(field)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        fail_at(source, line, f"{field!r} is {value!r}, but must be a list of document ids.")
    return value
