"""Embedding-space matrices against loops in float64."""

import fisher_reference as reference
import jax
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.fisher import CandidateSets, Embedded, FisherModel, embedding_fisher
from magjax.similarity import Score

SIZE, DIM = 6, 4
GAMMAS = [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.25)]


def sides(seed=0, sets=1, dtype=np.float64):
    rng = np.random.default_rng(seed)
    q, d = rng.normal(size=(2, sets, SIZE, DIM)).astype(dtype)
    return q, d, CandidateSets.from_batch({"query": q, "document": d})


def rows_of(x):
    return x.reshape(-1, x.shape[-1])


@pytest.mark.parametrize("way", ["query_to_document", "document_to_query"])
@pytest.mark.parametrize("side", ["query", "document"])
def test_matrices_equal_the_loops_for_every_variant(way, side):
    q, d, sets = sides()
    for gammas in GAMMAS:
        found = embedding_fisher(
            Embedded(q[0], d[0]),
            sets,
            Score.power(*gammas, 0.6),
            side,
            model=FisherModel(direction=way),
        )
        expected = reference.embedding_fisher(q[0], d[0], gammas, 0.6, side, way)
        assert found.shape == (DIM, DIM)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("side", ["query", "document"])
def test_the_empirical_fisher_takes_the_labels_of_the_data(side):
    q, d, sets = sides()
    found = embedding_fisher(
        Embedded(q[0], d[0]), sets, Score.of("qnorm", 0.6), side, model=FisherModel("empirical")
    )
    labels = np.arange(SIZE)[:, None]
    expected = reference.embedding_fisher(
        q[0], d[0], (1.0, 0.0), 0.6, side, "query_to_document", labels
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("side", ["query", "document"])
def test_sampled_matrices_converge_at_the_root_of_the_samples(side):
    q, d, sets = sides()
    arguments = (Embedded(q[0], d[0]), sets, Score.of("dot", 0.8), side)
    truth = embedding_fisher(*arguments)
    errors = [
        np.mean(
            [
                np.linalg.norm(
                    embedding_fisher(
                        *arguments, model=FisherModel("monte_carlo", samples=samples), seed=seed
                    )
                    - truth
                )
                for seed in range(16)
            ]
        )
        for samples in (8, 512)
    ]
    assert 5.0 < errors[0] / errors[1] < 12.0


def test_both_directions_are_the_mean_and_sets_the_mean_of_sets():
    q, d, sets = sides(sets=2)
    score = Score.of("dnorm", 0.6)
    both = embedding_fisher(
        Embedded(rows_of(q), rows_of(d)), sets, score, "query", model=FisherModel(direction="both")
    )
    single = [
        reference.embedding_fisher(q[s], d[s], (0.0, 1.0), 0.6, "query", way)
        for s in range(2)
        for way in ("query_to_document", "document_to_query")
    ]
    np.testing.assert_allclose(both, np.mean(single, axis=0), rtol=1e-8, atol=1e-10)


def test_swapping_the_sides_swaps_the_directions_and_the_powers():
    q, d, sets = sides()
    first = embedding_fisher(Embedded(q[0], d[0]), sets, Score.of("qnorm", 0.6), "query")
    second = embedding_fisher(
        Embedded(d[0], q[0]),
        sets,
        Score.of("dnorm", 0.6),
        "document",
        model=FisherModel(direction="document_to_query"),
    )
    np.testing.assert_allclose(first, second, rtol=1e-10)


def test_masked_examples_are_absent():
    q, d, _ = sides()
    where = np.ones((1, SIZE), bool)
    where[0, -2:] = False
    padded = CandidateSets.from_batch({"query": q, "document": d, "where": where})
    short = CandidateSets.from_batch({"query": q[:, :-2], "document": d[:, :-2]})
    for side in ("query", "document"):
        score = Score.of("cosine", 0.6)
        found = embedding_fisher(Embedded(q[0], d[0]), padded, score, side)
        expected = embedding_fisher(Embedded(q[0, :-2], d[0, :-2]), short, score, side)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


def test_a_single_example_at_power_one_has_no_radial_part():
    """Per example the radial direction is null; pooled over examples it is not."""
    q, d, sets = sides()
    score = Score.of("cosine", 0.6)
    pooled = np.linalg.eigvalsh(embedding_fisher(Embedded(q[0], d[0]), sets, score, "query"))
    where = np.zeros((1, SIZE), bool)
    where[0, :] = True
    one = reference.embedding_fisher(q[0][:1], d[0], (1.0, 1.0), 0.6, "query", "query_to_document")
    assert np.abs(one @ q[0, 0]).max() < 1e-12 * np.abs(one).max()
    assert pooled[0] > 1e-3 * pooled[-1]


def test_float64_sums_are_used_whatever_the_width_of_the_embeddings():
    q, d, sets = sides(dtype=np.float32)
    found = embedding_fisher(Embedded(q[0], d[0]), sets, Score.of("dot", 0.6), "query")
    expected = reference.embedding_fisher(
        q[0].astype(float), d[0].astype(float), (0.0, 0.0), 0.6, "query", "query_to_document"
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not jax.config.jax_enable_x64


def test_an_unknown_side_is_refused():
    q, d, sets = sides()
    with pytest.raises(InputError, match="Did you mean 'query'"):
        embedding_fisher(Embedded(q[0], d[0]), sets, Score.of("dot", 0.6), "querry")
