"""Multi-hop questions: HotpotQA, 2WikiMultihopQA, MuSiQue, and BEIR folders with ``qa.jsonl``."""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from magjax.checks import InputError
from magjax.data._beir import beir_splits, read_beir, titled
from magjax.data._lines import fail_at, has_file, json_lines
from magjax.data._records import Benchmark, text_key
from magjax.data._tables import folders, set_name

__all__ = ["MultiHop", "find_multihop", "read_multihop"]

_GROUPS = ("type", "level", "hops")
_Fail = Callable[[str], NoReturn]


@dataclasses.dataclass(frozen=True)
class MultiHop:
    """Multi-hop questions, whose relevant documents are the supporting paragraphs.

    Args:
        benchmark: questions, paragraphs, and grade 1 for each supporting paragraph.
        groups: what the data set says of a question, such as ``type``, ``level`` or ``hops``:
            attribute, then question id, then value.
        left_out: questions that cannot be judged, by reason.

    >>> benchmark = Benchmark("b", ["q"], ["who?"], ["d"], ["she"], {"q": {"d": 1}})
    >>> MultiHop(benchmark, {"type": {"q": "bridge"}}, {}).parts()
    {'type=bridge': ['q']}
    """

    benchmark: Benchmark
    groups: Mapping[str, Mapping[str, str]]
    left_out: Mapping[str, int]

    def parts(self) -> dict[str, list[str]]:
        """Question ids by ``attribute=value``, values in order."""
        parts: dict[str, list[str]] = {}
        for attribute, values in self.groups.items():
            for value in sorted(set(values.values())):
                parts[f"{attribute}={value}"] = [q for q, v in values.items() if v == value]
        return parts


def find_multihop(root: str | os.PathLike[str], split: str = "dev") -> dict[str, Path]:
    """What :func:`read_multihop` can read at or below ``root``, by name.

    BEIR folders that hold ``qa.jsonl``, and ``.json`` and ``.jsonl`` files of the original forms
    whose name holds the word ``split``, as ``hotpot_dev_distractor_v1.json``.

    Raises:
        InputError: no such folder.

    >>> import tempfile
    >>> top = Path(tempfile.mkdtemp())
    >>> _ = (top / "musique_ans_v1.0_dev.jsonl").write_text('{"paragraphs": []}')
    >>> list(find_multihop(top))
    ['musique_ans_v1.0_dev']
    """
    top, found = Path(root), {}
    for folder in folders(top):
        if has_file(folder / "qa.jsonl") and has_file(folder / "corpus.jsonl"):
            found[set_name(top, folder)] = folder
            continue
        for path in sorted(folder.iterdir()):
            stem = path.name.removesuffix(".gz").rpartition(".")[0]
            if split in re.split(r"[^a-z0-9]+", stem.lower()) and _is_original(path):
                name = path.relative_to(top).with_name(stem).as_posix()
                if name in found:
                    raise InputError(f"{folder} holds {stem!r} twice; keep one of the files.")
                found[name] = path
    return found


def read_multihop(
    path: str | os.PathLike[str], split: str = "dev", *, name: str | None = None
) -> MultiHop:
    """Reads multi-hop questions with their supporting paragraphs.

    - A BEIR folder with ``qa.jsonl`` (``_id``, and ``type``, ``level`` or ``hops`` where the data
      has them): ``qrels/SPLIT.tsv`` judges the paragraphs.
    - HotpotQA's and 2WikiMultihopQA's JSON: a list of ``{_id, question, context: [[title,
      [sentence, ...]], ...], supporting_facts: [[title, sentence number], ...], type, level}``.
    - MuSiQue's JSONL: ``{id, question, paragraphs: [{title, paragraph_text, is_supporting}, ...],
      answerable}``; the number of hops is in the id (``2hop__...``).

    The corpus of the last two is the union of all questions' paragraphs, each once by title and
    text; a document is its title, a space and its text. Questions that are not answerable, or of
    which a supporting paragraph is in no context, are left out and counted.

    Args:
        path: a folder or a file.
        split: of a BEIR folder; where it has only one, that one is read.
        name: what results call the set; default: the name of the folder or file.

    Raises:
        InputError: a missing file or field, no question with supporting paragraphs, or a
            ``qa.jsonl`` that names none of the folder's questions.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "dev.json")
    >>> _ = file.write_text('''[{"_id": "q", "question": "Who wrote it?", "type": "bridge",
    ...     "context": [["It", ["It is a book", " by A."]], ["A", ["A writes."]]],
    ...     "supporting_facts": [["It", 1]]}]''')
    >>> data = read_multihop(file)
    >>> data.benchmark.documents, data.benchmark.qrels
    (['It It is a book by A.', 'A A writes.'], {'q': {'p0': 1}})
    """
    source = Path(path)
    if source.is_dir():
        return _read_folder(source, split, name)
    title = name or source.name.removesuffix(".gz").rpartition(".")[0]
    if not source.is_file():
        raise InputError(f"{source} does not exist; name a folder, or a .json or .jsonl file.")
    return _read_original(source, title)


def _read_folder(folder: Path, split: str, name: str | None) -> MultiHop:
    splits = beir_splits(folder)
    split = next(iter(splits)) if len(splits) == 1 else split
    benchmark = read_beir(folder, split, name=name)
    groups: dict[str, dict[str, str]] = {}
    known = set(benchmark.query_ids)
    asked = 0
    for _, row in json_lines(folder / "qa.jsonl"):
        query = str(row.get("_id"))
        asked += query in known
        for attribute in _GROUPS:
            if query in known and isinstance(row.get(attribute), str | int):
                groups.setdefault(attribute, {})[query] = str(row[attribute])
    if not asked:
        raise InputError(
            f"{folder}/qa.jsonl names none of the {len(known)} questions of split {split!r}; its "
            "'_id' must be that of queries.jsonl."
        )
    return MultiHop(benchmark, groups, {})


def _read_original(path: Path, name: str) -> MultiHop:
    corpus: dict[tuple[str, str], str] = {}
    queries: dict[str, str] = {}
    supporting: dict[str, list[str]] = {}
    groups: dict[str, dict[str, str]] = {}
    left_out: dict[str, int] = {}
    for number, row in _records(path):
        fail: _Fail = partial(fail_at if ".jsonl" in path.suffixes else _fail_in, path, number)
        query = _string(row, "_id" if "_id" in row else "id", fail)
        if query in queries:
            fail(f"question {query!r} occurred before.")
        paragraphs, named = _paragraphs(row, fail)
        places = [
            corpus.setdefault((title, text_key(text)), f"p{len(corpus)}")
            for title, text, _ in paragraphs
        ]
        found = [place for place, (*_, yes) in zip(places, paragraphs, strict=True) if yes]
        reason = (
            "not answerable"
            if row.get("answerable") is False
            else "a supporting paragraph is not in the context"
            if named > len(found) or not found
            else None
        )
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        queries[query] = _string(row, "question", fail)
        supporting[query] = found
        hops = re.match(r"(\d+)hop", query)
        values = {**row, "hops": int(hops[1])} if hops else row
        for attribute in _GROUPS:
            if isinstance(values.get(attribute), str | int):
                groups.setdefault(attribute, {})[query] = str(values[attribute])
    if not queries:
        said = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(
            f"{path} holds no question with supporting paragraphs ({said or 'empty'})."
        )
    benchmark = Benchmark(
        name=name,
        query_ids=list(queries),
        queries=list(queries.values()),
        document_ids=list(corpus.values()),
        documents=[titled(title, text) for title, text in corpus],
        qrels={query: dict.fromkeys(ids, 1) for query, ids in supporting.items()},
    )
    return MultiHop(benchmark, groups, left_out)


def _paragraphs(row: Mapping[str, Any], fail: _Fail) -> tuple[list[tuple[str, str, bool]], int]:
    """Title, text and "is supporting" of each paragraph; how many paragraphs must be supporting."""
    try:
        if "paragraphs" in row:
            found = [
                (str(p["title"]), str(p["paragraph_text"]), p["is_supporting"] is True)
                for p in row["paragraphs"]
            ]
            return found, sum(yes for *_, yes in found)
        titles = {str(title) for title, _ in row["supporting_facts"]}
        # HotpotQA's sentences bring their leading space, 2WikiMultihopQA's do not.
        found = [
            (str(title), " ".join(sentence.strip() for sentence in sentences), title in titles)
            for title, sentences in row["context"]
        ]
        return found, len(titles)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fail(
            f"no question of a known form ({type(error).__name__}: {error}): 'context' and "
            "'supporting_facts' as in HotpotQA, or 'paragraphs' as in MuSiQue, were needed."
        )


def _fail_in(path: Path, number: int, problem: str) -> NoReturn:
    """As :func:`fail_at` for JSON that has no lines to count."""
    raise InputError(f"{path}, question {number}: {problem}")


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if ".jsonl" in path.suffixes:
        yield from json_lines(path)
        return
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise InputError(f"{path} is no valid JSON ({error}).") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} must hold a list of questions, as HotpotQA publishes them.")
    yield from enumerate(rows, start=1)


def _is_original(path: Path) -> bool:
    """Whether a file looks like one of the original forms; its beginning decides."""
    if path.suffix == ".json":
        with path.open("rb") as file:
            return re.search(rb'"(supporting_facts|context)"', file.read(1 << 20)) is not None
    if ".jsonl" in path.suffixes and path.is_file():
        _, first = next(json_lines(path), (0, {}))
        return "paragraphs" in first
    return False


def _string(row: Mapping[str, Any], field: str, fail: _Fail) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        fail(f"{field!r} is {value!r}, but must be a text.")
    return value
