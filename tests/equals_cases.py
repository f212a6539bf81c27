"""Embeddings and models for tests of tasks between equals, and their scores by hand."""

import dataclasses
import importlib
import importlib.util

import numpy as np
import pytest

from magjax.data import TextPairs, TextSettings
from magjax.encoders import DualEncoder
from magjax.evaluation import EqualTexts, PairEmbeddings

REASON = {
    "tower": "each side has an encoder of its own",
    "prompt": "each side has a prompt of its own",
}


def evaluation_module():
    """sentence-transformers' evaluators, which version 6 moved; skips without them."""
    pytest.importorskip("sentence_transformers")
    for name in ("sentence_transformer.evaluation", "evaluation"):
        if importlib.util.find_spec(f"sentence_transformers.{name.partition('.')[0]}"):
            return importlib.import_module(f"sentence_transformers.{name}")
    raise AssertionError("sentence_transformers has no evaluators where they were known to be")


def random_embeddings(seed=0, texts=12, pairs=40, dim=6, *, grades=None, sides=False, parts=()):
    """Pairs among few texts, so that equal texts and equal scores occur; lengths differ."""
    rng = np.random.default_rng(seed)
    x, y = (
        (rng.normal(size=(texts, dim)) * rng.lognormal(size=(texts, 1))).astype(np.float32)
        for _ in range(2)
    )
    equal = EqualTexts(x, y, (REASON["tower"],)) if sides else EqualTexts(x, x)
    first, second = rng.integers(0, texts, (2, pairs))
    if grades is None:
        grades = rng.integers(0, 6, pairs).astype(np.float64)
    names = [f"text {i}" for i in range(texts)]
    data = TextPairs(
        "tiny", [names[i] for i in first], [names[i] for i in second], grades, tuple(parts)
    )
    return PairEmbeddings(data, equal, first, second)


def scores_by_hand(embeddings, score):
    """``score(a, b)`` and ``score(b, a)`` of every pair, one after the other."""
    query, document = (
        np.asarray(x, np.float64) for x in (embeddings.texts.query, embeddings.texts.document)
    )

    def one(a, b):
        lengths = np.linalg.norm(query[a]), np.linalg.norm(document[b])
        return (query[a] @ document[b] / lengths[0] ** score.gamma_query) / lengths[
            1
        ] ** score.gamma_document

    rows = list(zip(embeddings.first, embeddings.second, strict=True))
    return np.array([one(a, b) for a, b in rows]), np.array([one(b, a) for a, b in rows])


def one_sided_models(model):
    """The model with a tower of its own a side, and with a prompt of its own a side."""
    config = model.encoder.tower("query").config
    tower = DualEncoder.create(config, shared=False, seed=1)
    prompts = TextSettings(query_max_length=16, document_max_length=16, query_prompt="q: ")
    return {
        "tower": dataclasses.replace(model, encoder=tower),
        "prompt": dataclasses.replace(model, text=prompts),
    }
