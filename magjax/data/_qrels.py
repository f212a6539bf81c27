"""Relevance judgements, with or without a header, in three columns or trec_eval's four."""

import os
from collections.abc import Container

from magjax.data._lines import fail_at, find_file, text_lines

__all__ = ["read_qrels"]


def read_qrels(
    path: str | os.PathLike[str],
    query_ids: Container[str] | None = None,
    document_ids: Container[str] | None = None,
) -> dict[str, dict[str, int]]:
    r"""Grades by query id and document id, in the order of the file.

    Columns are ``query document grade`` or ``query iteration document grade``, separated by tabs,
    or by white space where a line has no tab. A first line whose last column is no number is a
    header; any other first line is a judgement. Grades may be written ``1.0``.

    Args:
        path: the file, plain or gzipped.
        query_ids: if given, the queries that may be judged.
        document_ids: if given, the documents that may be judged.

    Raises:
        InputError: with file and line: another number of columns, a grade that is no whole
            number, an unknown query or document, two different grades of one pair.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "test.tsv")
    >>> _ = file.write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\n")
    >>> read_qrels(file)
    {'q1': {'d1': 2}}
    """
    source = find_file(path)
    qrels: dict[str, dict[str, int]] = {}
    for position, (number, line) in enumerate(text_lines(source)):
        columns = [c.strip() for c in line.split("\t")] if "\t" in line else line.split()
        if len(columns) not in (3, 4):
            fail_at(source, number, f"{len(columns)} columns where 3 or 4 were needed.")
        query, document, text = columns[0], columns[-2], columns[-1]
        try:
            grade = float(text)
        except ValueError:
            if position == 0:
                continue  # a header
            fail_at(source, number, f"the grade {text!r} is no number.")
        if grade != grade or grade in (float("inf"), float("-inf")) or grade != int(grade):
            fail_at(source, number, f"the grade {text!r} is no whole number.")
        if query_ids is not None and query not in query_ids:
            fail_at(source, number, f"query {query!r} is not among the queries.")
        if document_ids is not None and document not in document_ids:
            fail_at(source, number, f"document {document!r} is not in the corpus.")
        row = qrels.setdefault(query, {})
        if row.setdefault(document, int(grade)) != grade:
            fail_at(
                source,
                number,
                f"query {query!r} grades document {document!r} {text}, before {row[document]}.",
            )
    return qrels
