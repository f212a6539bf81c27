"""Runs on disk: TREC's six columns, and JSON lines for ids that those cannot hold."""

import math
import os
from pathlib import Path

from magjax.checks import InputError
from magjax.data._lines import fail_at, find_file, json_lines, text_lines

__all__ = ["read_run"]

_FORM = "query Q0 document rank score tag"


def read_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    r"""Scores by query id and document id, in the order of the file.

    A TREC run has six columns, ``query Q0 document rank score tag``, separated by white space; as in
    trec_eval the score ranks, the column ``rank`` does not. A file ``.jsonl`` holds
    ``{"query_id", "documents", "scores"}`` a line. Either may be gzipped.

    Args:
        path: the file.

    Raises:
        InputError: with file and line: another number of columns (a run without scores has no
            ranking that can be trusted), a score that is no number, a document twice for one
            query; or the file is empty.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "bm25.trec")
    >>> _ = file.write_text("q1 Q0 d2 1 9.5 bm25\nq1 Q0 d1 2 4.25 bm25\n")
    >>> read_run(file)
    {'q1': {'d2': 9.5, 'd1': 4.25}}
    """
    source = find_file(path)
    found = _from_json(source) if ".jsonl" in source.suffixes else _from_trec(source)
    if not found:
        raise InputError(f"{source} holds no run: no line '{_FORM}'.")
    return found


def _from_trec(source: Path) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for number, line in text_lines(source):
        columns = line.split()
        if len(columns) != 6:
            fail_at(
                source,
                number,
                f"{len(columns)} columns where a run needs 6, '{_FORM}'; without a score there is "
                "nothing to rank by.",
            )
        query, _, document, _, text, _ = columns
        _add(run, query, document, text, source, number)
    return run


def _from_json(source: Path) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for number, row in json_lines(source):
        query, documents, scores = row.get("query_id"), row.get("documents"), row.get("scores")
        if (
            not isinstance(query, str)
            or not isinstance(documents, list)
            or not isinstance(scores, list)
            or len(documents) != len(scores)
        ):
            fail_at(
                source,
                number,
                "'query_id', 'documents' and 'scores' were needed, with one score a document.",
            )
        if query in run:
            fail_at(source, number, f"query {query!r} occurred before.")
        run[query] = {}
        for document, score in zip(documents, scores, strict=True):
            _add(run, query, document, score, source, number)
    return run


def _add(
    run: dict[str, dict[str, float]],
    query: str,
    document: object,
    score: object,
    source: Path,
    number: int,
) -> None:
    if not isinstance(document, str):
        fail_at(source, number, f"document {document!r} must be a string.")
    try:
        value = math.nan if isinstance(score, bool) else float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        fail_at(source, number, f"the score {score!r} is no number.")
    row = run.setdefault(query, {})
    if document in row:
        fail_at(source, number, f"document {document!r} occurred before for query {query!r}.")
    row[document] = value
