"""BM25 by the library against its formula in loops."""

import math
import re
from collections import Counter

import pytest

from magjax.checks import InputError
from magjax.data import Benchmark
from magjax.evaluation import bm25

WORDS = re.compile(r"\b\w\w+\b")


def benchmark(queries, documents):
    query_ids = [f"q{i}" for i in range(len(queries))]
    document_ids = [f"d{i}" for i in range(len(documents))]
    return Benchmark("b", query_ids, queries, document_ids, documents, {"q0": {"d0": 1}})


def reference(query, documents):
    """Lucene's formula, no stop words in these texts."""
    words = [WORDS.findall(text.lower()) for text in documents]
    mean = sum(map(len, words)) / len(words)
    scores = {}
    for i, row in enumerate(words):
        counts = Counter(row)
        total = 0.0
        for word in WORDS.findall(query.lower()):
            containing = sum(word in other for other in words)
            if containing:
                weight = math.log(1 + (len(words) - containing + 0.5) / (containing + 0.5))
                length = 1.5 * (1 - 0.75 + 0.75 * len(row) / mean)
                total += weight * counts[word] / (counts[word] + length)
        if total:
            scores[f"d{i}"] = total
    return scores


def test_scores_are_lucenes():
    documents = ["alpha beta beta gamma", "Gamma delta", "", "beta gamma delta epsilon zeta", "eta"]
    queries = ["beta gamma", "delta delta ETA", "unknown", "theta a"]
    ranking = bm25(benchmark(queries, documents), k=10)
    for query, found in zip(queries, ranking.to_run().values(), strict=True):
        assert found == pytest.approx(reference(query, documents), rel=1e-6)
        assert list(found.values()) == sorted(found.values(), reverse=True)


def test_ties_stand_by_id_descending_at_the_cut_too():
    documents = ["same words here"] * 20 + ["other thing"]
    ranking = bm25(benchmark(["same words"], documents), k=3)
    assert ranking.documents == (tuple(sorted((f"d{i}" for i in range(20)), reverse=True)[:3]),)
    assert [documents[row] for row in ranking.rows[0]] == ["same words here"] * 3


def test_nothing_in_common_finds_nothing():
    assert bm25(benchmark(["alpha", "the of"], ["beta", ""])).documents == ((), ())
    assert bm25(benchmark(["alpha"], ["the of a", "x"])).documents == ((),)
    assert bm25(benchmark(["alpha"], ["alpha"]), k=5).documents == (("d0",),)


def test_wrong_k_is_refused():
    with pytest.raises(InputError, match="k=0"):
        bm25(benchmark(["alpha"], ["beta"]), k=0)
