"""A training set with embeddings that the tests of mining share."""

import numpy as np
from search_cases import ids, normal

from magjax.data import TrainingSet


def training_set_and_embeddings():
    """40 queries, some of one text and some with two answers, over 150 documents."""
    data = TrainingSet(
        ids("q", 40),
        [f"query {i % 37}" for i in range(40)],
        [(i,) if i % 5 else (i, i + 40) for i in range(40)],
        [()] * 40,
        ids("d", 150),
        [f"text {i % 140}" for i in range(150)],
    )
    lengths = 10 ** np.random.default_rng(5).uniform(-1, 1, (150, 1))
    return data, normal(3, 40, 12), (normal(4, 150, 12) * lengths).astype(np.float32)
