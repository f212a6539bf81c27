"""What the tests of exports share: embeddings of varied lengths, and float64 scores of any pair."""

import numpy as np

from magjax.export import Embeddings
from magjax.similarity import PRESETS, Score

SCORES = [*map(Score.of, PRESETS), Score.power(0.3, 0.7)]
DIM = 24


def names(kind, n):
    return [f"{kind} {i}" for i in range(n)]


def normal(seed, n, *, dim=DIM):
    """Lengths differ by a factor of about ten: a metric that ignores them ranks otherwise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim)) * np.exp(0.6 * rng.normal(size=(n, 1)))
    return x.astype(np.float32)


def documents_of(array, *, side="document", **settings):
    return Embeddings.from_array(side, names(side[0], len(array)), array, **settings)


def exact(queries, documents, score):
    """The trained scores of all pairs, and per query the largest that there could be."""
    sides = []
    for x, gamma in zip((queries, documents), score.gammas, strict=True):
        wide = np.asarray(x, np.float64)
        length = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
        sides.append(wide / np.where(length > 0, length, 1.0) ** gamma)
    q, d = sides
    scale = np.linalg.norm(q, axis=1) * np.linalg.norm(d, axis=1).max()
    return np.array([[float(a @ b) for b in d] for a in q]), scale


def assert_same_ranking(found, queries, documents, score, k, *, near=1e-6):
    """Documents stand where exact scores put them, up to near-ties, with their exact scores."""
    scores, scale = exact(queries, documents, score)
    rows = {name: row for row, name in enumerate(names("d", len(documents)))}
    assert len(found.documents) == len(queries)
    for i, (ids, values) in enumerate(zip(found.documents, found.scores, strict=True)):
        best = np.sort(scores[i])[::-1][:k]
        assert len(ids) == len(set(ids)) == len(best)
        mine = scores[i][[rows[name] for name in ids]]
        slack = near * (scale[i] or 1.0)
        np.testing.assert_allclose(mine, best, rtol=0, atol=slack)
        np.testing.assert_allclose(values, mine, rtol=0, atol=slack)


def recall(found, queries, documents, score, k):
    """Share of the exact best k that was found."""
    scores, _ = exact(queries, documents, score)
    hits = 0
    for i, ids in enumerate(found.documents):
        best = {f"d {row}" for row in np.argsort(-scores[i])[:k]}
        hits += len(best & set(ids))
    return hits / (k * len(queries))
