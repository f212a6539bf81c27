"""The lexical yardstick: BM25 by the bm25s library."""

import logging
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from magjax.checks import positive_integer
from magjax.data import Benchmark
from magjax.evaluation._ranking import Ranking, rank
from magjax.evaluation._search_inputs import excluded_rows

__all__ = ["bm25"]


def bm25(
    benchmark: Benchmark, k: int = 100, *, exclude: Mapping[str, Collection[str]] | None = None
) -> Ranking:
    """Ranks by BM25 as Lucene scores it (k1 = 1.5, b = 0.75), English stop words, no stemming.

    Words are two letters or more, lower-cased. Documents that share no word with the query are
    not returned, so a query may have fewer than ``k``. Ties stand by document id descending.

    Args:
        benchmark: what to search.
        k: documents a query.
        exclude: documents never to return, per query id; others take their place.

    Raises:
        InputError: ``k`` is no positive whole number.

    >>> benchmark = Benchmark("b", ["q"], ["sum of arrays"], ["d1", "d2"],
    ...     ["multiplies numbers", "adds up arrays"], {"q": {"d2": 1}})
    >>> bm25(benchmark, k=10).documents
    (('d2',),)
    """
    import bm25s

    # The library sets its own logger to DEBUG when imported.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    k = positive_integer("k", k)

    def words(texts: Sequence[str]) -> list[list[str]]:
        return bm25s.tokenize(list(texts), return_ids=False, show_progress=False)

    corpus = words(benchmark.documents)
    if any(corpus):
        index = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
        index.index(corpus, show_progress=False)
        left_out = excluded_rows(exclude, benchmark.query_ids, benchmark.document_ids)
        found = []
        for query, rows in zip(words(benchmark.queries), left_out, strict=True):
            scores = index.get_scores_from_ids(index.get_tokens_ids(query))
            scores[rows] = 0.0  # as of documents that share no word
            found.append(_best(scores, benchmark.document_ids, k))
    else:  # documents of stop words only: there is nothing to index and nothing to find
        found = [(np.empty(0, np.int64), np.empty(0))] * len(benchmark.queries)
    return Ranking(
        tuple(benchmark.query_ids),
        tuple(tuple(benchmark.document_ids[row] for row in rows) for rows, _ in found),
        tuple(scores for _, scores in found),
        tuple(rows for rows, _ in found),
    )


def _best(scores: np.ndarray, ids: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scores of the k best among the documents with a score above 0."""
    rows = np.flatnonzero(scores > 0.0)
    if len(rows) > k:  # the k-th score and whatever ties with it, before ids are compared
        rows = rows[scores[rows] >= np.partition(scores[rows], -k)[-k]]
    order = rank(scores[rows], [ids[row] for row in rows.tolist()])[:k]
    return rows[order], scores[rows[order]]
