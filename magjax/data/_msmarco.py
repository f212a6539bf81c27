"""MS MARCO's tab-separated files: collection, queries, judgements, triples."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from magjax.checks import InputError, choose
from magjax.data._lines import fail_at, find_file, has_file, text_lines
from magjax.data._pairs import DocumentTable
from magjax.data._qrels import read_qrels
from magjax.data._records import Benchmark, TrainingSet

__all__ = ["read_msmarco", "read_msmarco_triples", "read_trec_dl"]

_TREC_YEARS = ("2019", "2020")  # later years search another collection


def read_msmarco(folder: str | os.PathLike[str], split: str = "dev.small") -> Benchmark:
    """Reads ``collection.tsv``, ``queries.SPLIT.tsv`` and ``qrels.SPLIT.tsv`` of a folder.

    Collection and queries are ``id TAB text``; judgements have trec_eval's four columns, or three.
    Queries that ``split`` does not judge are left out. Every file may be gzipped.

    Args:
        folder: holds the three files.
        split: "train", "dev.small", ...; where there is no ``queries.SPLIT.tsv``, its part before
            the first dot is tried (MS MARCO has ``queries.dev.tsv`` beside ``qrels.dev.small.tsv``).

    Raises:
        InputError: a missing file; with file and line: a wrong number of columns, a repeated id,
            an empty query, a judgement of an unknown query or document.

    >>> read_msmarco("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/collection.tsv does not exist, nor does it with .gz added.
    """
    root = Path(folder)
    collection = _read_texts(root / "collection.tsv", may_be_empty=True)
    queries = _read_texts(_queries_file(root, split))
    qrels = read_qrels(root / f"qrels.{split}.tsv", queries, collection)
    kept = [name for name in queries if name in qrels]
    return Benchmark(
        name=f"{root.resolve().name}/{split}",
        query_ids=kept,
        queries=[queries[name] for name in kept],
        document_ids=list(collection),
        documents=list(collection.values()),
        qrels=qrels,
    )


def read_trec_dl(
    folder: str | os.PathLike[str], years: Sequence[str] | None = None
) -> list[Benchmark]:
    """Reads the passage tasks of TREC's Deep Learning track, over MS MARCO's collection.

    Per year ``msmarco-testYEAR-queries.tsv`` and ``YEARqrels-pass.txt`` beside ``collection.tsv``;
    every file may be gzipped. Passages are judged 0 to 3, and 1 ("related") is not relevant:
    measures of yes or no count from 2 (``trec_eval -l 2``). Queries without a judgement (157 of 200
    in 2019, 146 of 200 in 2020) are kept, and counted by whoever evaluates.

    Args:
        folder: holds the files.
        years: of ``"2019"`` and ``"2020"``; default: those that are there.

    Returns:
        one benchmark a year, all with the same document objects.

    Raises:
        InputError: no year, or a year with one of its files missing; as :func:`read_msmarco`.

    >>> read_trec_dl("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere holds no TREC Deep Learning task: msmarco-test2019-queries.tsv \
and 2019qrels-pass.txt, or the same of 2020, beside collection.tsv.
    """
    root = Path(folder)
    files = {
        year: (root / f"msmarco-test{year}-queries.tsv", root / f"{year}qrels-pass.txt")
        for year in _TREC_YEARS
    }
    if years is None:
        years = [year for year in _TREC_YEARS if any(map(has_file, files[year]))]
    if not years:
        raise InputError(
            f"{root} holds no TREC Deep Learning task: msmarco-test2019-queries.tsv and "
            "2019qrels-pass.txt, or the same of 2020, beside collection.tsv."
        )
    judged = {}
    for year in years:
        queries_file, qrels_file = files[choose("year", year, _TREC_YEARS)]
        queries = _read_texts(queries_file)
        judged[year] = queries, read_qrels(qrels_file, queries)
    collection = _read_texts(root / "collection.tsv", may_be_empty=True)
    ids, texts = list(collection), list(collection.values())
    return [
        Benchmark(
            name=f"trec-dl-{year}",
            query_ids=list(queries),
            queries=list(queries.values()),
            document_ids=ids,
            documents=texts,
            qrels=qrels,
            relevance_level=2,
        )
        for year, (queries, qrels) in judged.items()
    ]


def read_msmarco_triples(
    path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None
) -> TrainingSet:
    r"""Reads ``query TAB positive TAB negative`` lines; lines of one query become one record.

    A document that is a positive of a query in any line is none of its negatives.

    Args:
        path: the triples, plain or gzipped.
        folder: where ``collection.tsv`` and ``queries.train.tsv`` are, if the triples hold ids;
            without it they hold texts.

    Raises:
        InputError: with file and line: not three columns, an empty text, an unknown id.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "triples.tsv")
    >>> _ = file.write_text("what adds\ta + b\ta - b\nwhat adds\ta + b\ta / b\n")
    >>> data = read_msmarco_triples(file)
    >>> data.documents, data.negatives
    (['a + b', 'a - b', 'a / b'], [(1, 2)])
    """
    source = find_file(path)
    collection = queries = None
    if folder is not None:
        collection = _read_texts(Path(folder) / "collection.tsv", may_be_empty=True)
        queries = _read_texts(_queries_file(Path(folder), "train"))
    table = DocumentTable()
    positives: dict[str, dict[int, None]] = {}
    negatives: dict[str, dict[int, None]] = {}
    for number, line in text_lines(source):
        fail = partial(fail_at, source, number)
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 3 or not all(columns):
            fail(f"{len(columns)} columns where query, positive and negative were needed.")
        query, *documents = columns
        if queries is not None and query not in queries:
            fail(f"query {query!r} is not in the queries of {folder}.")
        positive, negative = (_add(table, document, collection, fail) for document in documents)
        if positive == negative:
            fail("the positive and the negative are the same; remove the line.")
        positives.setdefault(query, {})[positive] = None
        negatives.setdefault(query, {})[negative] = None
    if not positives:
        raise InputError(f"{source} holds no triple.")
    names = list(positives)
    return TrainingSet(
        query_ids=[f"query-{i}" for i in range(len(names))] if queries is None else names,
        queries=names if queries is None else [queries[name] for name in names],
        positives=[tuple(positives[name]) for name in names],
        negatives=[tuple(i for i in negatives[n] if i not in positives[n]) for n in names],
        document_ids=table.ids,
        documents=table.texts,
        source=str(source),
    )


def _add(
    table: DocumentTable,
    document: str,
    collection: dict[str, str] | None,
    fail: Callable[[str], None],
) -> int:
    if collection is None:
        return table.add(None, document, fail)
    if document not in collection:
        fail(f"document {document!r} is not in the collection.")
    return table.add(document, collection[document], fail)


def _queries_file(root: Path, split: str) -> Path:
    exact = root / f"queries.{split}.tsv"
    if "." in split and not has_file(exact):
        return find_file(root / f"queries.{split.split('.')[0]}.tsv")
    return find_file(exact)


def _read_texts(path: Path, *, may_be_empty: bool = False) -> dict[str, str]:
    source = find_file(path)
    texts: dict[str, str] = {}
    for number, line in text_lines(source):
        name, tab, text = line.partition("\t")
        if not tab or not name.strip():
            fail_at(source, number, "an id, a tab and a text were needed.")
        if name in texts:
            fail_at(source, number, f"id {name!r} occurred before; ids must be unique.")
        if not text.strip() and not may_be_empty:
            fail_at(source, number, f"query {name!r} is empty.")
        texts[name] = text.strip()
    return texts
