"""Gradients as queries get longer: jax.grad, closed forms, and finite differences of plain loops."""

import dataclasses

import numpy as np
import pytest
import reference

from magjax.analysis import (
    closed_form_sweep,
    comparable_scores,
    difficulty_classes,
    query_length_sweep,
    sweep_deviation,
)
from magjax.analysis._gradients import checked_problem
from magjax.checks import InputError
from magjax.similarity import PRESETS, Score, calibrate_temperature

GAMMAS = [*PRESETS.values(), (0.4, 0.7)]
SCALES = [0.25, 1.0, 3.0]


@pytest.fixture(scope="module")
def problem():
    """Queries, documents, positives, mask: one shape for all tests, so one program."""
    random = np.random.default_rng(0)
    queries, documents = random.normal(size=(4, 3)), random.normal(size=(6, 3))
    where = np.ones((4, 6), bool)
    where[0, 4] = where[2, 0] = False
    return queries, documents, np.array([0, 1, 2, 5]), where


def sweeps(problem, gammas, temperature=0.7, scales=SCALES):
    *arrays, where = problem
    arguments = {"gammas": gammas, "temperature": temperature, "scales": scales, "where": where}
    return query_length_sweep(*arrays, **arguments), closed_form_sweep(*arrays, **arguments)


def plain_loss(x, documents, positive, present, gammas, temperature):
    logits = [reference.score(x, d, *gammas) / temperature for d in documents]
    rest = [logits[j] for j in range(len(logits)) if present[j] and j != positive]
    return reference.softmax_cross_entropy([logits[positive]], rest)


@pytest.mark.parametrize("gammas", GAMMAS)
def test_gradients_are_those_of_plain_loops_by_finite_differences(problem, gammas):
    queries, documents, positives, where = problem
    measured, _ = sweeps(problem, gammas)

    def check(i, c):
        x = SCALES[c] * queries[i]
        rest = (positives[i], where[i], gammas)
        by_query = reference.gradient(lambda v: plain_loss(v, documents, *rest, 0.7), x)
        by_documents = reference.gradient(lambda d: plain_loss(x, d, *rest, 0.7), documents)
        (by_log,) = reference.gradient(
            lambda t: plain_loss(x, documents, *rest, np.exp(t[0])), np.log([0.7])
        )
        unit = x / np.sqrt(sum(v * v for v in x))
        radial = sum(unit * by_query)
        expected = {
            "loss": plain_loss(x, documents, *rest, 0.7),
            "query": np.sqrt(sum(by_query**2)),
            "radial": radial,
            "tangential": np.sqrt(sum((by_query - radial * unit) ** 2)),
            "documents": np.sqrt(sum(by_documents.ravel() ** 2)),
            "documents_radial": sum((documents * by_documents).ravel()),
            "log_temperature": by_log,
        }
        for name, value in expected.items():
            assert getattr(measured, name)[c, i] == pytest.approx(value, abs=1e-7), name
        assert not by_documents[~where[i]].any()

    for i, c in ((0, 0), (2, 1), (3, 2)):
        check(i, c)


@pytest.mark.parametrize("gammas", GAMMAS)
def test_the_closed_forms_are_what_jax_measures(problem, gammas):
    queries, documents, *rest = problem
    with_zero = documents.copy()
    with_zero[3] = 0.0  # an empty document: score 0 under every preset
    for temperature in (0.05, 5.0):
        for candidates in (documents, with_zero):
            found = sweeps((queries, candidates, *rest), gammas, temperature)
            assert max(sweep_deviation(*found).values()) < 1e-9
            assert max(found[0].euler_residuals().values()) < 1e-12


@pytest.mark.parametrize("gammas", GAMMAS)
def test_a_querys_length_is_its_own_inverse_temperature(problem, gammas):
    measured, _ = sweeps(problem, gammas)
    for c, scale in enumerate(SCALES):
        sharper, _ = sweeps(problem, gammas, temperature=0.7 / scale ** (1.0 - gammas[0]))
        np.testing.assert_allclose(measured.loss[c], sharper.loss[1], rtol=1e-12)
    # The derivative by the logarithm of the length is that of the loss along the scales.
    near, _ = sweeps(problem, gammas, scales=[1.0 - 1e-6, 1.0, 1.0 + 1e-6])
    slope = (near.loss[2] - near.loss[0]) / 2e-6
    np.testing.assert_allclose(near.log_length[1], slope, atol=1e-8)
    np.testing.assert_allclose(
        measured.log_length, -(1.0 - gammas[0]) * measured.log_temperature, atol=1e-12
    )


@pytest.mark.parametrize("gammas", [(1.0, 0.0), (1.0, 1.0)])
def test_a_normalized_query_has_a_tangential_gradient_that_shrinks_with_its_length(problem, gammas):
    measured, _ = sweeps(problem, gammas)
    np.testing.assert_allclose(measured.loss, measured.loss[[1, 1, 1]], rtol=1e-12)
    np.testing.assert_allclose(measured.documents, measured.documents[[1, 1, 1]], rtol=1e-12)
    np.testing.assert_allclose(measured.direction, measured.direction[[1, 1, 1]], rtol=1e-12)
    np.testing.assert_allclose(measured.query[0], 4.0 * measured.query[1], rtol=1e-12)
    assert np.abs(measured.radial / measured.query).max() < 1e-14


@pytest.mark.parametrize("gammas", [(0.0, 0.0), (0.0, 1.0)])
def test_longer_is_steeper_for_a_hard_query_and_flatter_for_an_easy_one(gammas):
    queries = np.array([[1.0, 0.2], [0.2, 1.0]])
    documents = np.array([[1.0, 0.0], [0.0, 1.0]])
    settings = {"gammas": gammas, "temperature": 1.0, "scales": [1.0, 4.0, 16.0]}
    easy = query_length_sweep(queries, documents, [0, 1], **settings)
    hard = query_length_sweep(queries, documents, [1, 0], **settings)
    assert (np.diff(easy.query, axis=0) < 0).all()
    assert (easy.query[2] < 1e-4 * easy.query[0]).all()
    assert (np.diff(hard.query, axis=0) > 0).all()
    assert (easy.log_length < 0).all()
    assert (hard.log_length > 0).all()
    # What saturates is not the length of the gradient's terms: each keeps the length of d2 - d1.
    np.testing.assert_allclose(hard.query[2], np.sqrt(2.0), rtol=1e-5)


def test_masked_candidates_are_absent(problem):
    queries, documents, _, _ = problem
    settings = {"gammas": (0.3, 0.0), "temperature": 0.7, "scales": [1.0]}
    where = np.ones((4, 6), bool)
    where[:, 4:] = False
    masked = query_length_sweep(queries, documents, [0, 1, 2, 3], where=where, **settings)
    fewer = closed_form_sweep(queries, documents[:4], [0, 1, 2, 3], **settings)
    assert max(sweep_deviation(masked, fewer).values()) < 1e-10


def test_a_wrong_measurement_is_noticed(problem):
    measured, expected = sweeps(problem, (0.0, 0.0))
    wrong = dataclasses.replace(measured, radial=measured.radial * 1.001)
    assert sweep_deviation(wrong, expected)["radial"] > 1e-4
    assert wrong.euler_residuals()["query"] > 1e-4
    assert measured.euler_residuals()["query"] < 1e-12
    with pytest.raises(InputError, match="two of the same problem"):
        sweep_deviation(measured, closed_form_sweep(np.eye(2), np.eye(2), [0, 1], gammas=(0, 0),
                                                    temperature=1.0, scales=[1.0]))  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": np.eye(4, 3)}, "query number 3 has length 0"),
        ({"documents": np.full((6, 3), np.nan)}, "not finite"),
        ({"positives": np.array([0, 1, 2, 6])}, "from 0 to 6 of 6"),
        ({"positives": np.array([4, 1, 2, 5])}, "leaves out a query's own positive"),
        ({"where": np.eye(4, 6, dtype=bool), "positives": np.arange(4)}, "has no negative"),
        ({"scales": [0.0, 1.0]}, "above 0"),
        ({"scales": []}, "one or more"),
        ({"gammas": (0.0, 1.5)}, "gamma_document=1.5"),
        ({"temperature": 0.0}, "temperature=0.0"),
    ],
)
def test_wrong_problems_are_refused(problem, changes, message):
    names = ("queries", "documents", "positives", "where")
    settings = dict(zip(names, problem, strict=True))
    settings |= {"gammas": (0, 0), "temperature": 1.0, "scales": [1.0], **changes}
    for sweep in (query_length_sweep, closed_form_sweep):
        with pytest.raises(InputError, match=message):
            sweep(**settings)


def test_shapes_that_disagree_are_refused(problem):
    queries, documents, positives, where = problem
    rest = ((0, 0), 1.0, [1.0])
    with pytest.raises(InputError, match=r"must be \[queries, dim\]"):
        checked_problem(queries[:, :2], documents, positives, *rest, where)
    with pytest.raises(InputError, match="where has shape"):
        checked_problem(queries, documents, positives, *rest, where[:, 1:])


def test_difficulty_is_a_third_each_and_ranks_come_before_losses():
    losses = np.array([[0.5, 0.1, 3.0, 0.2, 2.0, 0.3, 9.0]])
    at_one = dataclasses.replace(
        closed_form_sweep(np.eye(2), np.eye(2), [0, 1], gammas=(0, 0), temperature=1.0, scales=[1]),
        loss=losses,
    )
    assert difficulty_classes(at_one).tolist() == [1, 0, 2, 0, 1, 0, 2]
    ranks = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0])
    assert difficulty_classes(at_one, ranks).tolist() == [2, 0, 1, 0, 0, 2, 1]


def test_comparable_scores_have_logits_that_deviate_alike(problem):
    queries, documents, *_ = problem
    own = Score.of("qnorm", 0.3)
    named = [Score.of("qnorm"), Score.of("dot"), Score.power(0.2, 0.9), Score.of("cosine", 7.0)]
    made = comparable_scores(named, own, queries, documents)
    assert made[0][0].temperature == 0.3
    assert made[3] == (Score.of("cosine", 7.0), "given")
    spreads = []
    for score, _ in made[:3]:
        matrix = reference.scores(queries, documents, *score.gammas) / score.temperature
        spreads.append(matrix.std())
    np.testing.assert_allclose(spreads, spreads[0], rtol=1e-5)
    (dot, told), *_ = comparable_scores([Score.of("dot")], None, queries, documents)
    wanted = calibrate_temperature(queries, documents, gamma_query=0.0, gamma_document=0.0)
    assert dot.temperature == wanted
    assert "0.05" in told
    with pytest.raises(InputError, match="'dot' is named twice"):
        comparable_scores([Score.of("dot"), Score.power(0, 0)], None, queries, documents)
