"""Correlations with gold scores: against scipy, formulas by hand and sentence-transformers."""

import dataclasses

import jax
import numpy as np
import pytest
from equals_cases import (
    REASON,
    evaluation_module,
    one_sided_models,
    random_embeddings,
    scores_by_hand,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from magjax import hub
from magjax.checks import InputError, RunError
from magjax.data import TextPairs, find_sts
from magjax.evaluation import ORDERS, correlate_scores, embed_pairs, evaluate_sts, score_pairs
from magjax.mesh import data_mesh
from magjax.similarity import Score

COSINE, QNORM = Score.of("cosine"), Score.of("qnorm")


def ranks(values):
    """Mean rank of equal values, by counting."""
    return np.array([(values < x).sum() + ((values == x).sum() + 1) / 2 for x in values])


def pearson(x, y):
    x, y = x - np.mean(x), y - np.mean(y)
    return (x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(3, 60), st.integers(2, 6), st.integers(2, 50))
def test_correlations_equal_scipy_and_the_formula_with_ties(seed, pairs, grades, values):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values, pairs) / 7.0
    y = rng.integers(0, grades, pairs).astype(np.float64)
    x[:2], y[:2] = (0.0, 1.0), (0.0, 1.0)  # neither is constant
    found = correlate_scores(x, y, resamples=2)
    assert found.spearman.mean == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert found.pearson.mean == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    assert found.spearman.mean == pytest.approx(pearson(ranks(x), ranks(y)), abs=1e-12)
    assert found.pearson.mean == pytest.approx(pearson(x, y), abs=1e-12)
    assert found.spearman.count == found.pearson.count == pairs


def test_a_constant_has_no_correlation():
    found = correlate_scores(np.ones(5), np.arange(5.0))
    assert np.isnan(found.spearman.mean)
    assert found.spearman.low is None
    assert found.to_json()["pearson"]["mean"] is None


def test_the_interval_is_the_bootstrap_over_pairs():
    rng = np.random.default_rng(0)
    grades = rng.normal(size=80)
    scores = grades + rng.normal(size=80)
    found = correlate_scores(scores, grades, resamples=400, seed=3).spearman
    # Fisher's transformation, an approximation of another kind.
    half = 1.96 / np.sqrt(80 - 3)
    low, high = np.tanh(np.arctanh(found.mean) + np.array([-half, half]))
    assert found.low == pytest.approx(low, abs=0.05)
    assert found.high == pytest.approx(high, abs=0.05)
    again = correlate_scores(scores, grades, resamples=400, seed=3).spearman
    assert again == found
    assert correlate_scores(scores, grades, resamples=400, seed=4).spearman.low != found.low


@pytest.mark.parametrize("score", [COSINE, QNORM, Score.power(0.2, 0.9)], ids=str)
def test_a_set_is_correlated_in_every_order_and_part_by_part(score):
    parts = ["news"] * 15 + ["forum"] * 20 + ["flat"] * 5
    grades = np.random.default_rng(9).integers(0, 6, 40).astype(np.float64)
    grades[35:] = 3.0
    embeddings = random_embeddings(5, grades=grades, parts=parts)
    found = score_pairs(embeddings, score, allow_asymmetric=True, resamples=20)
    forward, backward = scores_by_hand(embeddings, score)
    # Equal pairs tie; by hand, in the other order, they differ in the last digits.
    forward, backward = forward.round(9), backward.round(9)
    expected = {"score": forward}
    if not score.is_symmetric:
        expected = dict(zip(ORDERS, (forward, backward, (forward + backward) / 2), strict=True))
    assert list(found.orders) == list(expected)
    assert found.asymmetries == (() if score is COSINE else (f"its score {score} is one-sided",))
    assert [part.name for part in found.parts] == ["tiny news", "tiny forum"]
    for order, values in expected.items():
        by = found.orders[order]
        assert by.spearman.mean == pytest.approx(stats.spearmanr(values, grades)[0], abs=1e-6)
        assert by.pearson.mean == pytest.approx(stats.pearsonr(values, grades)[0], abs=1e-6)
        assert by.spearman.low <= by.spearman.mean <= by.spearman.high
        for part, rows in zip(found.parts, (slice(0, 15), slice(15, 35)), strict=True):
            own = stats.spearmanr(values[rows], grades[rows]).statistic
            assert part.orders[order].spearman.mean == pytest.approx(own, abs=1e-6)
    written = found.to_json()
    assert written["pairs"] == 40
    assert [part["pairs"] for part in written["parts"]] == [15, 20]


def test_nothing_correlates_with_a_constant():
    with pytest.raises(InputError, match="all 40 gold scores are 2, with which nothing"):
        score_pairs(random_embeddings(grades=np.full(40, 2.0)), COSINE)
    embeddings = random_embeddings()
    embeddings.texts.query[:] = [[1, 0, 0, 0, 0, 0]]
    with pytest.raises(RunError, match=r"score of every pair is 1, .* collapsed"):
        score_pairs(embeddings, COSINE)


def test_a_model_with_sides_is_refused_before_it_embeds(small_model, monkeypatch):
    pairs = TextPairs("s", ["adds", "sorts"], ["sums", "a list"], [1.0, 2.0])
    monkeypatch.setattr("magjax.evaluation._symmetric.encode", None)
    with pytest.raises(InputError, match="is one-sided"):
        evaluate_sts(small_model, pairs)
    for kind, model in one_sided_models(small_model).items():
        with pytest.raises(InputError, match=REASON[kind]):
            evaluate_sts(model, pairs, score=COSINE)


def test_a_model_is_evaluated_under_its_own_score_or_another(small_model):
    pairs = TextPairs(
        "s", ["adds", "sorts", "sums", "list"], ["sums", "a list", "sums", "all"], [1, 2, 5, 0]
    )
    own = evaluate_sts(small_model, pairs, allow_asymmetric=True, resamples=5)
    assert own.score == small_model.score
    assert tuple(own.orders) == ORDERS
    embeddings = embed_pairs(small_model, pairs)
    for score in (COSINE, Score.of("dot")):
        found = evaluate_sts(small_model, pairs, score=score, resamples=5)
        expected, _ = scores_by_hand(embeddings, score)
        np.testing.assert_allclose(found.scores["score"], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="states no score"):
        evaluate_sts(dataclasses.replace(small_model, score=None), pairs)


@pytest.fixture(scope="module")
def libraries():
    return pytest.importorskip("sentence_transformers")


def evaluator(pairs):
    return evaluation_module().EmbeddingSimilarityEvaluator(
        pairs.first,
        pairs.second,
        pairs.grades,
        similarity_fn_names=["cosine", "dot"],
        show_progress_bar=False,
        precision=None,
    )


def test_a_sample_of_the_benchmark_equals_sentence_transformers(libraries, data_root, minilm):
    (whole,) = find_sts(data_root / "sts-b")
    # As short ones: one or two shapes compile.
    words = [
        max(len(t.split()) for t in two) for two in zip(whole.first, whole.second, strict=True)
    ]
    rows = np.random.default_rng(0).permutation(np.flatnonzero(np.array(words) <= 8))[:300]
    assert len(rows) == 300
    pairs = TextPairs(
        "sample",
        [whole.first[i] for i in rows],
        [whole.second[i] for i in rows],
        whole.grades[rows],
    )
    compare_with_sentence_transformers(libraries, pairs, minilm)


@pytest.mark.slow
def test_the_benchmark_equals_sentence_transformers(libraries, data_root, minilm):
    (pairs,) = find_sts(data_root / "sts-b")
    found = compare_with_sentence_transformers(libraries, pairs, minilm)
    assert found["cosine"] == pytest.approx(0.8203, abs=1e-4)  # published with the data set
    # A change of the data, the encoder or the order of a pair shows here.
    assert found["dot"] == pytest.approx(0.5377, abs=1e-3)
    assert found["qnorm"] == pytest.approx(0.6770, abs=1e-3)
    assert found["dnorm"] == pytest.approx(0.6712, abs=1e-3)


def compare_with_sentence_transformers(libraries, pairs, folder):
    """Spearman of each preset; those that sentence-transformers has are compared."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # beside JAX's own, more threads cost eight times the time
    their = libraries.SentenceTransformer(str(folder), device="cpu")
    # Its last module normalizes; the dot product is of raw embeddings.
    raw = libraries.SentenceTransformer(modules=[their[0], their[1]], device="cpu")
    with torch.no_grad():
        expected = evaluator(pairs)(raw)
    torch.set_num_threads(threads)
    # Eight virtual devices on few cores only cost time.
    embeddings = embed_pairs(
        hub.load(folder), pairs, mesh=data_mesh(jax.devices()[:1]), tokens_per_batch=10_240
    )
    found = {}
    for name in ("cosine", "dot", "qnorm", "dnorm"):
        result = score_pairs(embeddings, Score.of(name), allow_asymmetric=True, resamples=2)
        by = result.orders["score" if name in ("cosine", "dot") else "score(a,b)"]
        found[name] = by.spearman.mean
        if name in ("cosine", "dot"):
            assert by.spearman.mean == pytest.approx(expected[f"spearman_{name}"], abs=1e-3)
            assert by.pearson.mean == pytest.approx(expected[f"pearson_{name}"], abs=1e-3)
    return found
