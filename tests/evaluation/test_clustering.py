"""K-means against labels: against the formula of the V-measure and MTEB's own evaluator."""

import numpy as np
import pytest
import threadpoolctl
from equals_cases import REASON, one_sided_models
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.data import LabelledTexts
from magjax.evaluation import EqualTexts, TextEmbeddings, cluster_texts, evaluate_clustering
from magjax.evaluation._clustering import _agreement
from magjax.similarity import PRESETS, Score

COSINE = Score.of("cosine")


def entropy(counts):
    share = counts[counts > 0] / counts.sum()
    return -(share * np.log(share)).sum()


def agreement_by_hand(labels, clusters):
    """Homogeneity, completeness and V-measure from the contingency table."""
    rows, columns = (np.unique(values, return_inverse=True)[1] for values in (labels, clusters))
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1.0)
    joint = entropy(table.ravel())
    label, cluster = entropy(table.sum(axis=1)), entropy(table.sum(axis=0))
    homogeneity = 1.0 if label == 0 else 1.0 - (joint - cluster) / label
    completeness = 1.0 if cluster == 0 else 1.0 - (joint - label) / cluster
    total = homogeneity + completeness
    return homogeneity, completeness, 2 * homogeneity * completeness / total if total else 0.0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 6), st.integers(1, 6))
def test_the_v_measure_is_its_formula(seed, texts, labels, clusters):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    label, cluster = rng.integers(0, labels, texts), rng.integers(0, clusters, texts)
    found = metrics.homogeneity_completeness_v_measure(label, cluster)
    assert found == pytest.approx(agreement_by_hand(label, cluster), abs=1e-9)


def blobs(seed=0, *, labels=3, each=12, spread=0.6, lengths=1.0, sides=False):
    """Labelled directions with noise; ``lengths`` spreads the norms, which only raw forms see."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(labels), each)
    x = np.eye(5)[label] + spread * rng.normal(size=(len(label), 5))
    x *= rng.lognormal(0.0, lengths, (len(label), 1))
    names = [f"t{i}" for i in range(len(label))]
    data = LabelledTexts("blobs", [(names, [f"l{i}" for i in label])])
    x = x.astype(np.float32)
    y = (x * rng.lognormal(0.0, 1.0, (len(label), 1))).astype(np.float32) if sides else x
    texts = EqualTexts(x, y, (REASON["prompt"],) if sides else ())
    return TextEmbeddings(data, texts, (np.arange(len(label)),))


def runs_by_hand(x, labels, seeds):
    cluster = pytest.importorskip("sklearn.cluster")
    with threadpoolctl.threadpool_limits(1):
        return [
            agreement_by_hand(
                labels,
                cluster.MiniBatchKMeans(
                    len(set(labels)), batch_size=500, n_init="auto", random_state=seed
                ).fit_predict(x),
            )
            for seed in seeds
        ]


def form(x, gamma):
    return (x / np.linalg.norm(x, axis=1, keepdims=True) ** gamma).astype(np.float32)


@pytest.mark.parametrize("name", PRESETS)
def test_each_form_is_clustered_by_its_own_power(name):
    score = Score.of(name)
    embeddings = blobs()
    found = cluster_texts(embeddings, score, allow_asymmetric=True, runs=3, seed=5)
    labels = embeddings.data.batches[0][1]
    sides = (
        {"both": score.gamma_query}
        if score.is_symmetric
        else dict(zip(("query", "document"), score.gammas, strict=True))
    )
    assert list(found.forms) == list(sides)
    for side, gamma in sides.items():
        expected = np.array(runs_by_hand(form(embeddings.texts.query, gamma), labels, (5, 6, 7)))
        by = found.forms[side]
        assert by.runs == pytest.approx(expected[:, 2], abs=1e-9)
        assert by.v_measure.mean == pytest.approx(expected[:, 2].mean(), abs=1e-9)
        assert (by.homogeneity, by.completeness) == pytest.approx(
            tuple(expected[:, :2].mean(axis=0)), abs=1e-9
        )
        assert by.v_measure.count == 3
    assert (found.texts, found.labels) == (36, 3)
    assert found.to_json()["asymmetries"] == list(found.asymmetries)


def test_lengths_matter_to_raw_embeddings_only():
    plain, long = blobs(1, lengths=0.0, spread=0.2), blobs(1, lengths=2.0, spread=0.2)
    for embeddings in (plain, long):
        assert cluster_texts(embeddings, COSINE, runs=2).forms["both"].v_measure.mean == 1.0
    dot = Score.of("dot")
    assert cluster_texts(long, dot, runs=2).forms["both"].v_measure.mean < 0.9


def test_one_run_has_no_interval_and_the_seed_counts_up():
    embeddings = blobs(2, spread=1.5)
    one = cluster_texts(embeddings, COSINE, runs=1, seed=3).forms["both"]
    assert one.v_measure.low is None
    many = cluster_texts(embeddings, COSINE, runs=4, seed=2).forms["both"]
    assert many.runs[1] == one.runs[0]
    assert len(set(many.runs)) > 1
    assert many.v_measure.low < many.v_measure.mean < many.v_measure.high


def test_batches_are_clustered_apart():
    a, b = blobs(3, spread=1.0), blobs(4, labels=2, spread=1.0)
    x = np.concatenate([a.texts.query, b.texts.query])
    data = LabelledTexts("two", [*a.data.batches, *b.data.batches])
    rows = (np.arange(36), 36 + np.arange(24))
    both = cluster_texts(TextEmbeddings(data, EqualTexts(x, x), rows), COSINE, runs=2)
    apart = [cluster_texts(part, COSINE, runs=2).forms["both"].runs for part in (a, b)]
    assert both.forms["both"].runs == pytest.approx(np.mean(apart, axis=0))
    assert (both.texts, both.labels) == (60, 3)


def test_collapsed_embeddings_agree_with_nothing():
    x = np.ones((6, 3), np.float32)
    assert _agreement(x, ["a", "b"] * 3, 0) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("score", "sides"), [(Score.of("qnorm"), False), (COSINE, True)], ids=["score", "encoder"]
)
def test_sides_are_refused_or_reported_one_by_one(score, sides):
    embeddings = blobs(sides=sides)
    with pytest.raises(InputError, match="blobs compares texts as equals"):
        cluster_texts(embeddings, score)
    found = cluster_texts(embeddings, score, allow_asymmetric=True, runs=1)
    assert list(found.forms) == ["query", "document"]
    labels = embeddings.data.batches[0][1]
    for side, x in (("query", embeddings.texts.query), ("document", embeddings.texts.document)):
        expected = runs_by_hand(form(x, score.gamma(side)), labels, [0])
        assert found.forms[side].runs[0] == pytest.approx(expected[0][2], abs=1e-9)


def test_a_model_is_evaluated(small_model):
    texts = ["adds two numbers", "adds a list", "sorts a list", "sorts all numbers"]
    data = LabelledTexts("s", [(texts, ["add", "add", "sort", "sort"])])
    found = evaluate_clustering(small_model, data, score=COSINE, runs=2)
    assert 0.0 <= found.forms["both"].v_measure.mean <= 1.0
    with pytest.raises(InputError, match="is one-sided"):
        evaluate_clustering(small_model, data)
    with pytest.raises(InputError, match="runs=0 must be"):
        evaluate_clustering(small_model, data, score=COSINE, runs=0)


def test_a_model_with_sides_is_refused_before_it_embeds(small_model, monkeypatch):
    data = LabelledTexts("s", [(["adds", "sorts"], ["a", "b"])])
    monkeypatch.setattr("magjax.evaluation._symmetric.encode", None)
    for kind, model in one_sided_models(small_model).items():
        with pytest.raises(InputError, match=REASON[kind]):
            evaluate_clustering(model, data, score=COSINE)
