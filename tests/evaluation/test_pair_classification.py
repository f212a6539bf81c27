"""Average precision and thresholds: against scikit-learn and sentence-transformers."""

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

from magjax.checks import InputError
from magjax.data import TextPairs
from magjax.evaluation import (
    ORDERS,
    classify_pairs,
    classify_scores,
    evaluate_pair_classification,
)
from magjax.similarity import Score


def by_trying_every_threshold(scores, labels):
    """Best accuracy and best F1 over thresholds at, and above, every score."""
    accuracy, f1 = [], []
    for threshold in [*np.unique(scores), np.inf]:
        taken = scores >= threshold
        accuracy.append((taken == (labels == 1)).mean())
        hits = (taken & (labels == 1)).sum()
        f1.append(2 * hits / (taken.sum() + labels.sum()))
    return max(accuracy), max(f1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 40))
def test_figures_equal_scikit_learn_and_trying_every_threshold(seed, pairs, values):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    scores = rng.integers(-values, values, pairs) / 7.0
    labels = (rng.random(pairs) < rng.uniform(0.1, 0.9)).astype(np.float64)
    labels[:2] = (0.0, 1.0)
    found = classify_scores(scores, labels, resamples=2)
    expected = metrics.average_precision_score(labels, scores)
    assert found.average_precision.mean == pytest.approx(expected, abs=1e-12)
    accuracy, f1 = by_trying_every_threshold(scores, labels)
    assert found.accuracy == pytest.approx(accuracy, abs=1e-12)
    assert found.f1 == pytest.approx(f1, abs=1e-12)
    # The thresholds reach what they are said to reach.
    assert ((scores >= found.accuracy_threshold) == (labels == 1)).mean() == found.accuracy
    taken = scores >= found.f1_threshold
    assert metrics.f1_score(labels, taken) == pytest.approx(found.f1, abs=1e-12)
    assert metrics.precision_score(labels, taken) == pytest.approx(found.precision, abs=1e-12)
    assert metrics.recall_score(labels, taken) == pytest.approx(found.recall, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_equal_sentence_transformers(seed):
    library = evaluation_module().BinaryClassificationEvaluator
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=50).round(1)
    labels = (rng.random(50) < 0.4).astype(int)
    found = classify_scores(scores, labels.astype(np.float64), resamples=2)
    accuracy, threshold = library.find_best_acc_and_threshold(scores, labels, True)
    assert (found.accuracy, found.accuracy_threshold) == pytest.approx((accuracy, threshold))
    best = library.find_best_f1_and_threshold(scores, labels, True)
    ours = (found.f1, found.precision, found.recall, found.f1_threshold)
    assert ours == pytest.approx(best)


def test_a_threshold_may_lie_above_every_score():
    found = classify_scores(np.array([0.9, 0.1, 0.1, 0.1]), np.array([0.0, 0.0, 0.0, 1.0]))
    assert found.accuracy == 0.75
    assert found.accuracy_threshold > 0.9


def test_neighbouring_numbers_are_parted():
    low = 1.0
    high = np.nextafter(low, 2.0)
    found = classify_scores(np.array([high, low]), np.array([1.0, 0.0]), resamples=2)
    assert found.accuracy == found.f1 == 1.0
    assert low < found.accuracy_threshold <= high


@pytest.mark.parametrize("score", [Score.of("cosine"), Score.of("dnorm")], ids=str)
def test_a_set_is_classified_in_every_order(score):
    metrics = pytest.importorskip("sklearn.metrics")
    labels = (np.random.default_rng(2).random(40) < 0.5).astype(np.float64)
    embeddings = random_embeddings(6, grades=labels)
    found = classify_pairs(embeddings, score, allow_asymmetric=True, resamples=50)
    forward, backward = scores_by_hand(embeddings, score)
    expected = {"score": forward}
    if not score.is_symmetric:
        expected = dict(zip(ORDERS, (forward, backward, (forward + backward) / 2), strict=True))
    assert list(found.orders) == list(expected)
    for order, values in expected.items():
        own = found.orders[order].average_precision
        assert own.mean == pytest.approx(metrics.average_precision_score(labels, values), abs=1e-9)
        assert own.low < own.mean < own.high
    assert found.to_json()["positive"] == labels.sum()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.ones(40), "the labels are 1; pairs of both labels"),
        (np.linspace(0.0, 5.0, 40), "the labels are 0, 0.128205.*pairs of both labels, 0 and 1"),
    ],
)
def test_labels_of_one_kind_or_of_many_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        classify_pairs(random_embeddings(grades=labels), Score.of("cosine"))


def test_a_model_with_sides_is_refused_before_it_embeds(small_model, monkeypatch):
    pairs = TextPairs("s", ["adds", "sorts"], ["sums", "a list"], [1.0, 0.0])
    monkeypatch.setattr("magjax.evaluation._symmetric.encode", None)
    with pytest.raises(InputError, match="is one-sided"):
        evaluate_pair_classification(small_model, pairs)
    for kind, model in one_sided_models(small_model).items():
        with pytest.raises(InputError, match=REASON[kind]):
            evaluate_pair_classification(model, pairs, score=Score.of("dot"))


def test_a_model_is_evaluated_under_another_score(small_model):
    pairs = TextPairs(
        "s",
        ["adds", "sorts a list", "adds", "list"],
        ["sorts", "a list", "adds", "all"],
        [0, 1, 1, 0],
    )
    found = evaluate_pair_classification(small_model, pairs, score=Score.of("cosine"), resamples=5)
    assert found.scores["score"][2] == pytest.approx(1.0)
    assert found.orders["score"].recall > 0.0
