"""Measurements against explicit matrices, and null directions that are there by construction."""

import json
import math

import fisher_reference as reference
import numpy as np
import pytest

from magjax.fisher import (
    CandidateSets,
    Embedded,
    FisherModel,
    ParameterFisher,
    dense_spectrum,
    embedding_fisher,
    measure_embeddings,
    measure_norms,
    measure_parameters,
    select,
    variant_name,
)
from magjax.similarity import Score

SIZE, DIM = 8, 4
SCORES = [Score.of("cosine", 0.3), Score.of("qnorm", 0.7), Score.power(0.5, 1.0, 0.4)]


def normals(seed=0):
    return np.random.default_rng(seed).normal(size=(2, SIZE, DIM)).astype(np.float32)


def sets_of(q, d):
    return CandidateSets.from_batch({"query": q[None], "document": d[None]})


def measure(q, d, scores=SCORES, **more):
    model = more.pop("model", FisherModel())
    return measure_embeddings(
        Embedded(q, d), sets_of(q, d), scores, ["query", "document"], model=model, **more
    )


def find(items, side, variant):
    (item,) = (item for item in items if (item.space, item.variant) == (side, variant))
    return item


def test_spectra_are_those_of_the_explicit_matrices():
    q, d = normals()
    found = measure(q, d, batch=2)
    assert [(item.space, item.variant) for item in found] == [
        (side, variant)
        for side in ("query", "document")
        for variant in ("cosine", "qnorm", "0.5,1")
    ]
    for item in found:
        expected = np.linalg.eigvalsh(
            reference.embedding_fisher(
                q.astype(float),
                d.astype(float),
                item.score.gammas,
                item.score.temperature,
                item.space,
                "query_to_document",
            )
        )[::-1]
        np.testing.assert_allclose(item.spectrum.eigenvalues, expected, rtol=1e-8)
        assert item.values["kappa"] == pytest.approx(expected[0] / expected[-1], rel=1e-8)
        shares = expected / expected.sum()
        entropy = -np.sum(shares * np.log(shares))
        assert item.values["effective_rank"] == pytest.approx(np.exp(entropy), rel=1e-8)
        assert (item.kind, item.batch, item.examples) == ("ggn", 2, SIZE)
        assert item.nulls == ()
        assert item.traces is None


def test_spectra_are_those_of_the_matrices_that_users_get():
    q, d = normals()
    model = FisherModel("monte_carlo", samples=3)
    found = measure(q, d, SCORES[:1], model=model, seed=5)
    for item in found:
        matrix = embedding_fisher(
            Embedded(q, d), sets_of(q, d), SCORES[0], item.space, model=model, seed=5
        )
        np.testing.assert_array_equal(item.spectrum.eigenvalues, dense_spectrum(matrix).eigenvalues)
        assert item.kind == "monte_carlo(3)"


def test_reasons_stand_by_what_is_no_number_and_by_nothing_else():
    q, d = normals()
    q[:, 1] = d[:, 1] = 0.0
    item = find(measure(q, d, orders=(2, 9), dampings=(0.5,)), "query", "qnorm")
    assert set(item.values) == {
        "kappa",
        "kappa_rank",
        "kappa_damped@0.5",
        "lambda1_over_lambda2",
        "lambda1_over_lambda9",
        "lambda1_over_mean",
        "effective_rank",
        "participation_ratio",
    }
    assert item.values["kappa"] == math.inf
    assert item.values["lambda1_over_lambda9"] is None
    assert set(item.reasons) == {"kappa", "lambda1_over_lambda9"}
    assert "1 of 4 eigenvalues" in item.reasons["kappa"]
    assert "4 eigenvalues, not 9" in item.reasons["lambda1_over_lambda9"]
    read = json.loads(json.dumps(item.to_json(), allow_nan=False))
    assert read["values"]["kappa"] == "infinite"
    assert read["values"]["lambda1_over_lambda9"] is None
    assert (read["variant"], read["score"]["temperature"]) == ("qnorm", 0.7)
    assert read["spectrum"]["rank"] == 3
    assert read["nulls"] == list(item.nulls)


def test_a_dead_dimension_is_named_on_both_sides():
    q, d = normals(1)
    q[:, 2] = d[:, 2] = 0.0
    for item in measure(q, d):
        assert item.spectrum.rank == DIM - 1
        assert item.nulls == ("1 dead dimension (2): no embedding varies there",)


def test_embeddings_that_sum_to_zero_are_named_where_that_is_known():
    """After a layer norm; float32 leaves the sum at 1e-7, which must not hide the direction."""
    q, d = (x - x.mean(axis=1, keepdims=True) for x in normals(2))
    known = {side: {"sum": np.ones(DIM)} for side in ("query", "document")}
    for item in measure(q, d, known=known):
        assert item.spectrum.rank == DIM - 1
        assert item.values["kappa"] == math.inf
        assert item.nulls == ("sum",)
    for item in measure(q, d):
        assert item.nulls == ("1 without an explanation here",)
    q, d = normals(2)
    assert all(item.nulls == () for item in measure(q, d, known=known))


def test_a_constant_sum_is_null_only_where_differences_count():
    """Adding one number to all documents' entries leaves p(document | query) as it is under dot,
    so a constant sum of documents is null for queries; the documents' own matrix has no zero."""
    q, d = (x - x.mean(axis=1, keepdims=True) + 1.0 for x in normals(3))
    known = {side: {"sum": np.ones(DIM)} for side in ("query", "document")}
    found = measure(q, d, [Score.of("dot", 0.7)], known=known)
    assert find(found, "query", "dot").nulls == ("sum",)
    assert find(found, "document", "dot").nulls == ()
    assert find(found, "document", "dot").spectrum.rank == DIM


def test_too_few_examples_are_counted():
    q, d = (x[:2] for x in normals(4))  # two queries of two candidates have two outcomes
    (item,) = measure_embeddings(
        Embedded(q, d), sets_of(q, d), SCORES[:1], ["query"], model=FisherModel()
    )
    assert item.spectrum.rank_bound == 2
    assert item.nulls == ("2 by counting: fewer outcomes than dimensions",)


def test_norms_are_pooled_over_batches():
    first = Embedded(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[0.0, 2.0], [2.0, 0.0]]))
    second = Embedded(np.array([[6.0, 8.0]]), np.array([[-2.0, 0.0]]))
    found = measure_norms([first, second])
    lengths = np.array([5.0, 1.0, 10.0])
    assert list(found) == ["query", "document"]
    assert found["query"].side == "query"
    assert found["query"].mean == pytest.approx(lengths.mean())
    assert found["query"].deviation == pytest.approx(lengths.std())
    assert found["query"].variation == pytest.approx(lengths.std() / lengths.mean())
    assert (found["document"].mean, found["document"].variation) == (2.0, 0.0)
    zero = measure_norms([Embedded(np.zeros((2, 3)), np.ones((2, 3)))])
    assert zero["query"].variation == 0.0
    assert zero["query"].to_json() == {
        "side": "query",
        "mean": 0.0,
        "deviation": 0.0,
        "variation": 0.0,
    }


def test_names_of_scores():
    assert [variant_name(Score.of(v)) for v in ("cosine", "dot")] == ["cosine", "dot"]
    assert variant_name(Score.power(1, 0)) == "qnorm"
    assert variant_name(Score.power(0.25, 0)) == "0.25,0"
    assert variant_name(Score("learnable", 0.5, 1.0)) == "0.5,1"


def test_parameter_spaces_carry_their_selection_and_traces():
    rng = np.random.default_rng(0)
    parameters = reference.tiny_parameters(rng, np.float32)
    q, d = rng.normal(size=(2, 1, 3, reference.INPUTS)).astype(np.float32)
    batch = {"query": q, "document": d}
    fisher = ParameterFisher(
        reference.Tiny(), select(parameters, "down"), CandidateSets.from_batch(batch), FisherModel()
    )
    cosine, dot = measure_parameters(
        fisher, [Score.of("cosine", 0.5), Score.of("dot", 2.0)], batch=1, orders=(2,)
    )
    vector = reference.flat({name: x.astype(float) for name, x in parameters.items()})
    size = parameters["down"].size  # the first in the order of names
    for item, gammas, temperature in ((cosine, (1.0, 1.0), 0.5), (dot, (0.0, 0.0), 2.0)):
        full = reference.parameter_fisher(
            vector,
            {name: x.astype(float) for name, x in batch.items()},
            gammas,
            temperature,
            ["query_to_document"],
            None,
            [np.ones((1, 3, 3), bool)],
        )
        expected = np.linalg.eigvalsh(full[:size, :size])[::-1]
        rank = 3 * 2  # three queries of three candidates
        np.testing.assert_allclose(
            item.spectrum.eigenvalues[:rank], expected[:rank], rtol=2e-4, atol=1e-5 * expected[0]
        )
        assert (item.space, item.kind, item.batch, item.examples) == ("down", "ggn", 1, 3)
        assert item.spectrum.dimension == size
        assert list(item.traces) == ["down"]
        assert any("counting: 3 examples have at most 6" in text for text in item.nulls)
        assert item.values["kappa"] == math.inf
        assert item.values["lambda1_over_lambda2"] == pytest.approx(
            expected[0] / expected[1], rel=1e-3
        )
    assert cosine.spectrum.trace != pytest.approx(dot.spectrum.trace, rel=0.01)
