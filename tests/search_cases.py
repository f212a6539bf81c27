"""What the tests of exact search share: cases, and float64 loops that share nothing with it."""

import math

import numpy as np

from magjax.evaluation import search
from magjax.similarity import PRESETS, Score

SCORES = [*map(Score.of, PRESETS), Score.power(0.3, 0.7)]


def ids(kind, n):
    return [f"{kind}{i}" for i in range(n)]


def find(queries, documents, score, k, **options):
    return search(
        queries,
        documents,
        score=score,
        k=k,
        query_ids=options.pop("query_ids", ids("q", len(queries))),
        document_ids=options.pop("document_ids", ids("d", len(documents))),
        **options,
    )


def reference(queries, documents, document_ids, score):
    """Per query all documents best first, by math.fsum: the correctly rounded sums."""
    found = []
    for q in queries.tolist():
        scored = []
        length = math.sqrt(math.fsum(a * a for a in q))
        for name, d in zip(document_ids, documents.tolist(), strict=True):
            value = math.fsum(a * b for a, b in zip(q, d, strict=True))
            norm = math.sqrt(math.fsum(a * a for a in d))
            if score.gamma_document:
                value = value / norm**score.gamma_document if norm else 0.0
            if score.gamma_query:
                value = value / length**score.gamma_query if length else 0.0
            scored.append((value, name))
        found.append(sorted(scored, reverse=True))
    return found


def check(ranking, expected, k, *, rtol=1e-13):
    """Scores agree; ids agree wherever the reference separates scores by more than rounding."""
    for documents, scores, whole in zip(ranking.documents, ranking.scores, expected, strict=True):
        best = whole[:k]
        assert len(documents) == len(scores) == len(best)
        np.testing.assert_allclose(scores, [s for s, _ in best], rtol=1e-10, atol=1e-300)
        for place, (value, name) in enumerate(best):
            near = [abs(value - other) for other, n in whole if n != name]
            if not near or min(near) > rtol * max(abs(value), 1e-290):
                assert documents[place] == name


def same(left, right):
    assert left.documents == right.documents
    for a, b in zip(left.scores, right.scores, strict=True):
        assert a.tobytes() == b.tobytes()  # bitwise


def normal(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)
