"""Semantic textual similarity: pairs of sentences with the similarity that people gave them."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.data._lines import fail_at, find_file, text_lines
from magjax.data._tables import (
    SUFFIXES,
    cell,
    first_line,
    folders,
    nothing_found,
    set_name,
    split_files,
    table_rows,
    table_suffix,
)
from magjax.data._text_pairs import TextPairs, pair_text

__all__ = ["find_sts", "read_sts"]

_SICK = {
    "train": "SICK_train.txt",
    "dev": "SICK_trial.txt",
    "validation": "SICK_trial.txt",
    "test": "SICK_test_annotated.txt",
}
_SICK_SETS = {"train": "TRAIN", "dev": "TRIAL", "validation": "TRIAL", "test": "TEST"}
_FORMS = (
    "{0}.tsv, {0}.csv or {0}.jsonl (score, sentence1, sentence2), sts-{0}.csv (STS-B), {1} or "
    "SICK.txt, or STS.input.NAME.txt with STS.gs.NAME.txt (STS12 to STS16)"
)

_Row = tuple[int, Any, Any, Any]  # line, score, and both sentences


def find_sts(root: str | os.PathLike[str], split: str = "test") -> list[TextPairs]:
    r"""All STS sets under a folder, each in its published form.

    A folder is a set if it holds ``SPLIT.tsv``, ``SPLIT.csv`` or ``SPLIT.jsonl``,
    ``sts-SPLIT.csv``, a file of SICK, or ``STS.input.NAME.txt`` with ``STS.gs.NAME.txt``: the
    files of one year of SemEval, which become the parts of one set, as MTEB joins them. Files may
    be gzipped, except SemEval's.

    Args:
        root: the folder; all below it is searched.
        split: ``test``, ``dev`` or ``train``; the sets of SemEval are all test.

    Raises:
        InputError: no such folder, no set in it, or a file that :func:`read_sts` refuses.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "STS16")
    >>> folder.mkdir()
    >>> _ = (folder / "STS.input.headlines.txt").write_text("a man\tone man\na dog\ta car\n")
    >>> _ = (folder / "STS.gs.headlines.txt").write_text("4.5\n\n")
    >>> [(found.name, len(found), found.parts, found.unjudged) for found in find_sts(folder.parent)]
    [('STS16', 1, ('headlines',), 1)]
    """
    sick = [_SICK[split]] if split in _SICK else []
    names = [*(split + suffix for suffix in SUFFIXES), f"sts-{split}.csv", *sick, "SICK.txt"]
    found = [read_sts(file, split=split, name=name) for name, file in split_files(root, names)]
    if split == "test":
        found += [
            _read_semeval(folder, set_name(Path(root), folder))
            for folder in folders(Path(root))
            if any(folder.glob("STS.input.*.txt"))
        ]
    if not found:
        forms = _FORMS.format(split, _SICK.get(split, "SICK_test_annotated.txt"))
        raise nothing_found(root, "STS set", forms, split)
    return sorted(found, key=lambda pairs: pairs.name)


def read_sts(
    path: str | os.PathLike[str], *, split: str = "test", name: str | None = None
) -> TextPairs:
    r"""One file of scored sentence pairs.

    The columns are found by their names: ``score``, ``sentence1`` and ``sentence2`` (as in the
    STS benchmark of GLUE or of MTEB), or SICK's ``relatedness_score``, ``sentence_A`` and
    ``sentence_B``; others are passed by, but for SICK's ``SemEval_set``, of which ``split`` is
    kept. The original STS-B without a header is known by its seven columns or more: genre, file,
    year, number, score, and both sentences. See :func:`magjax.data._tables.table_rows` on quotes.

    Args:
        path: ``.tsv``, ``.csv``, ``.jsonl`` or ``.txt``, plain or gzipped.
        split: which part of a file that holds them all (``SICK.txt``).
        name: what results call the set; default: the file's name.

    Raises:
        InputError: with file and line: a column or a score is missing, or a score is no number.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "test.tsv")
    >>> _ = file.write_text("score\tsentence1\tsentence2\n2.5\tsay \"a\tsay b\n")
    >>> pairs = read_sts(file)
    >>> pairs.grades, pairs.first
    (array([2.5]), ['say "a'])
    """
    source = find_file(path)
    first, second, scores = [], [], []
    for line, score, a, b in _rows(source, split):
        scores.append(_score(source, line, score))
        first.append(pair_text(source, line, a, "sentence1"))
        second.append(pair_text(source, line, b, "sentence2"))
    if not scores:
        raise InputError(f"{source} holds no scored pair; check that it is whole.")
    return TextPairs(name or source.name.partition(".")[0], first, second, scores)


def _rows(source: Path, split: str) -> Iterator[_Row]:
    columns = first_line(source)
    original = len(columns) >= 7 and _is_number(columns[4])
    if table_suffix(source) != ".jsonl" and original:
        for line, text in text_lines(source):
            cells = text.split("\t")
            if len(cells) < 7:
                fail_at(
                    source,
                    line,
                    f"{len(cells)} columns where 7 were needed: genre, file, year, number, score, "
                    "and both sentences.",
                )
            yield line, cells[4], cells[5], cells[6]
        return
    wanted = _SICK_SETS.get(split, split.upper())
    for line, row in table_rows(source):
        if row.get("SemEval_set", wanted) != wanted:
            continue
        if "score" not in row and "relatedness_score" not in row:
            fail_at(
                source,
                line,
                f"no 'score'; found {', '.join(map(repr, row))}. The first line must name the "
                "columns score, sentence1 and sentence2; GLUE keeps the scores of its test split "
                "to itself, so take --split=dev there.",
            )
        yield (
            line,
            cell(source, line, row, "score", "relatedness_score"),
            cell(source, line, row, "sentence1", "sentence_A"),
            cell(source, line, row, "sentence2", "sentence_B"),
        )


def _read_semeval(folder: Path, name: str) -> TextPairs:
    """The files of one year, joined; a blank line of a gold file says that nobody judged a pair."""
    inputs = {file.name[len("STS.input.") :]: file for file in folder.glob("STS.input.*.txt")}
    golds = {file.name[len("STS.gs.") :]: file for file in folder.glob("STS.gs.*.txt")}
    for ending in sorted(inputs.keys() ^ golds.keys()):
        there, missing = ("input", "gs") if ending in inputs else ("gs", "input")
        raise InputError(
            f"{folder} holds STS.{there}.{ending}, but no STS.{missing}.{ending}; each part needs "
            "its sentences and its gold scores."
        )
    first, second, scores, parts, unjudged = [], [], [], [], 0
    for ending in sorted(inputs):
        gold = {line: _score(golds[ending], line, text) for line, text in text_lines(golds[ending])}
        for line, text in text_lines(inputs[ending]):
            cells = text.split("\t")
            if len(cells) not in (2, 4):  # 2016 adds where each sentence comes from
                fail_at(inputs[ending], line, f"{len(cells)} columns where 2 were needed.")
            if line not in gold:
                unjudged += 1
                continue
            scores.append(gold.pop(line))
            first.append(pair_text(inputs[ending], line, cells[0], "the first sentence"))
            second.append(pair_text(inputs[ending], line, cells[1], "the second sentence"))
            parts.append(ending.removesuffix(".txt"))
        for line in gold:
            fail_at(golds[ending], line, f"a score, but {inputs[ending].name} has no such line.")
    if not scores:
        raise InputError(f"{folder} holds no judged pair: its STS.gs files are blank.")
    return TextPairs(name, first, second, scores, tuple(parts), unjudged)


def _score(path: Path, line: int, value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        fail_at(path, line, "the score is missing; give one, or remove the pair.")
    if isinstance(value, bool) or not _is_number(value):
        fail_at(path, line, f"the score {value!r} is no finite number.")
    return float(value)


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
