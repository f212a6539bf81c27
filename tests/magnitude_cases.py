"""Embeddings whose norms carry what a test plants, for the tests of magnitude analysis."""

import numpy as np

DIM = 16


def planted(effect, *, queries=40, documents=200, seed=0, per_query=1, noise=0.15):
    """Queries with relevant documents whose norms lie ``effect`` deviations above the others'."""
    random = np.random.default_rng(seed)
    directions = random.normal(size=(documents, DIM))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = random.normal(10.0, 1.0, documents)
    relevant = random.permutation(documents)[: queries * per_query].reshape(queries, per_query)
    norms[relevant] += effect
    asked = directions[relevant].mean(1) + noise * random.normal(size=(queries, DIM))
    return {
        "queries": (asked * random.uniform(0.5, 2.0, (queries, 1))).astype(np.float32),
        "documents": (directions * norms[:, None]).astype(np.float32),
        "qrels": {
            f"q{query}": {f"d{row}": 1 for row in rows} for query, rows in enumerate(relevant)
        },
        "query_ids": [f"q{query}" for query in range(queries)],
        "document_ids": [f"d{row}" for row in range(documents)],
    }


def norms_of(embeddings):
    return np.sqrt((embeddings.astype(np.float64) ** 2).sum(1))
