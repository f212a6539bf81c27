"""A model whose embeddings can be read off the texts: the text "2 0 word" is the vector (2, 0)."""

import dataclasses

import numpy as np
import pytest

from magjax.evaluation.suites import _searching
from magjax.similarity import Score


def vectors(texts):
    """The first two words of each text as numbers; an empty text is the zero vector."""
    rows = [[float(word) for word in text.split()[:2]] or [0.0, 0.0] for text in texts]
    return np.array(rows, np.float32)


@pytest.fixture
def embedded(monkeypatch):
    """Names of the benchmarks embedded, with "+corpus" where the documents were embedded too."""
    calls = []

    def embed(encoder, preprocessor, benchmark, *, tokens_per_batch, documents, progress):
        calls.append(benchmark.name + ("+corpus" if documents is None else ""))
        if documents is None:
            documents = vectors(benchmark.documents)
        return {"query": vectors(benchmark.queries), "document": documents}

    monkeypatch.setattr(_searching, "embed_benchmark", embed)
    return calls


@pytest.fixture
def vector_model(small_model, embedded):
    """Ranks by the inner product of the vectors that the texts spell out."""
    return dataclasses.replace(small_model, score=Score.of("dot"))
