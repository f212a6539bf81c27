"""Rankings with other document norms, and queries' losses, beside plain NumPy."""

import numpy as np
import pytest
import reference
from magnitude_cases import DIM, norms_of, planted

from magjax.analysis import MagnitudeSettings, ablate_norms, with_norms
from magjax.analysis._magnitude_negatives import Judgements
from magjax.analysis._magnitude_queries import choose_candidates, query_losses, temperature_of
from magjax.checks import InputError
from magjax.similarity import Score, calibrate_temperature

SETTINGS = MagnitudeSettings(
    metrics=("mrr@10", "ndcg@10"), top_k=10, occurrences=5, shuffles=3, resamples=20, seed=4
)


@pytest.fixture(scope="module")
def case():
    return planted(5.0, queries=30, documents=60, noise=0.4)


def ablate(case, variant="dot", **changes):
    return ablate_norms(**(case | changes), score=Score.of(variant), settings=SETTINGS)


def reciprocal_ranks(case, documents, normalized=False):
    """MRR@10 by sorting all scores; each query has one relevant document."""
    wide = documents.astype(np.float64)
    if normalized:
        wide = wide / norms_of(documents)[:, None]
    values = []
    for q, query in enumerate(case["queries"].astype(np.float64)):
        scores = wide @ query
        (answer,) = (int(name[1:]) for name in case["qrels"][f"q{q}"])
        place = 1 + int((scores > scores[answer]).sum())
        values.append(1.0 / place if place <= 10 else 0.0)
    return np.array(values)


def test_each_condition_ranks_with_the_norms_that_it_says(case):
    found = {item.name: item for item in ablate(case).conditions}
    assert list(found) == ["as they are", "shuffled", "inverted", "removed"]
    documents, norms = case["documents"], norms_of(case["documents"])
    directions = documents.astype(np.float64) / norms[:, None]
    draws = np.random.default_rng(4)
    draws.integers(-4, 5, 30)  # the queries' factors come first
    shuffled = [
        reciprocal_ranks(case, directions * draws.permutation(norms)[:, None]) for _ in range(3)
    ]
    order = np.argsort(norms)
    inverted = np.empty_like(norms)
    inverted[order] = norms[order][::-1]
    expected = {
        "as they are": reciprocal_ranks(case, documents),
        "shuffled": np.mean(shuffled, axis=0),
        "inverted": reciprocal_ranks(case, directions * inverted[:, None]),
        "removed": reciprocal_ranks(case, documents, normalized=True),
    }
    intact = expected["as they are"]
    for name, values in expected.items():
        assert found[name].metrics["mrr@10"].mean == pytest.approx(values.mean(), abs=1e-9)
        if name != "as they are":
            difference = found[name].difference["mrr@10"]
            assert difference.mean == pytest.approx((values - intact).mean(), abs=1e-9)
            assert difference.low <= difference.mean <= difference.high
            assert found[name].p_corrected["mrr@10"] >= difference.p_value
    seeds = found["shuffled"].seeds["mrr@10"]
    assert seeds.count == 3
    assert seeds.mean == pytest.approx(np.mean(shuffled), abs=1e-9)
    assert not found["removed"].seeds


def test_norms_that_carry_relevance_are_missed_when_they_are_gone(case):
    found = {item.name: item for item in ablate(case).conditions}
    assert found["shuffled"].difference["mrr@10"].high < 0.0
    assert found["inverted"].difference["mrr@10"].mean < found["shuffled"].difference["mrr@10"].mean


@pytest.mark.parametrize("variant", ["dot", "qnorm"])
def test_documents_of_equal_norms_lose_nothing(variant):
    random = np.random.default_rng(0)
    signs = random.choice([-1.0, 1.0], (40, DIM)).astype(np.float32)  # all of norm 4, exactly
    case = {
        "queries": (signs[:10] + random.normal(size=(10, DIM))).astype(np.float32),
        "documents": signs,
        "qrels": {f"q{i}": {f"d{i}": 1} for i in range(10)},
        "query_ids": [f"q{i}" for i in range(10)],
        "document_ids": [f"d{i}" for i in range(40)],
    }
    for condition in ablate(case, variant).conditions[1:]:
        for metric in SETTINGS.metrics:
            difference = condition.difference[metric]
            assert (difference.mean, difference.low, difference.high) == (0.0, 0.0, 0.0)
            assert condition.p_corrected[metric] == 1.0


@pytest.mark.parametrize("variant", ["cosine", "dnorm"])
def test_a_score_without_document_norms_has_nothing_to_change(case, variant):
    found = ablate(case, variant)
    assert not found.applies
    assert [item.name for item in found.conditions] == ["as they are"]
    expected = reciprocal_ranks(case, case["documents"], normalized=True)
    assert found.conditions[0].metrics["mrr@10"].mean == pytest.approx(expected.mean(), abs=1e-9)


@pytest.mark.parametrize("variant", ["cosine", "dot", "qnorm", "dnorm"])
def test_the_norm_of_a_query_changes_no_ranking(case, variant):
    assert ablate(case, variant).queries_changed == 0


def test_new_norms_keep_directions_and_zero_vectors():
    x = np.random.default_rng(0).normal(size=(5, DIM)).astype(np.float32)
    x[2] = 0.0
    norms, wanted = norms_of(x), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    wanted[4] = norms[4]
    found = with_norms(x, norms, wanted)
    assert found.dtype == np.float32
    np.testing.assert_allclose(norms_of(found)[[0, 1, 3]], [1.0, 2.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(found[0] / 1.0, x[0] / norms[0], rtol=1e-5)
    assert not found[2].any()
    assert found[4].tobytes() == x[4].tobytes()


def losses_of(case, judgements, candidates, score, temperature):
    """Loss and its gradient by central differences, one query at a time."""

    def loss(query, q):
        kept = [d for d in candidates if d not in judgements.excluded[q]]
        logits = reference.scores([query], case["documents"][kept].astype(float), *score.gammas)[0]
        right = [d in judgements.relevant[q] for d in kept]
        parts = [
            [x / temperature for x, yes in zip(logits, right, strict=True) if yes == wanted]
            for wanted in (True, False)
        ]
        return reference.softmax_cross_entropy(*parts)

    found = []
    for q, query in enumerate(case["queries"].astype(float)):
        if judgements.relevant[q].size:
            steps = np.eye(DIM) * 1e-5
            slopes = [(loss(query + s, q) - loss(query - s, q)) / 2e-5 for s in steps]
            found.append((loss(query, q), np.linalg.norm(slopes)))
        else:
            found.append((np.nan, np.nan))
    return np.array(found).T


@pytest.mark.parametrize("variant", ["cosine", "dot", "qnorm", "dnorm"])
def test_losses_and_gradients_are_those_of_a_loop(variant):
    case = planted(1.0, queries=5, documents=12, per_query=2)
    case["qrels"]["q2"] = {}
    exclude = {"q1": [next(d for d in case["document_ids"] if d not in case["qrels"]["q1"])]}
    judgements = Judgements.of(case["qrels"], case["query_ids"], case["document_ids"], exclude)
    score = Score.of(variant)
    candidates = choose_candidates(judgements, 10, seed=1)
    temperature = 0.3 if variant in ("cosine",) else 3.0
    found = query_losses(
        case["queries"],
        case["documents"],
        judgements,
        candidates,
        score=score,
        temperature=temperature,
    )
    expected = losses_of(case, judgements, candidates, score, temperature)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


def test_candidates_hold_every_relevant_document(case):
    judgements = Judgements.of(case["qrels"], case["query_ids"], case["document_ids"])
    chosen = choose_candidates(judgements, 40, seed=0)
    assert len(set(chosen)) == 40
    assert set(np.concatenate(judgements.relevant)) <= set(chosen)
    assert chosen.tolist() == choose_candidates(judgements, 40, seed=0).tolist()
    assert choose_candidates(judgements, 1000, seed=0).size == 60
    assert choose_candidates(judgements, None, seed=0).size == 60
    with pytest.raises(InputError, match="candidates=29 cannot hold the 30 relevant documents"):
        choose_candidates(judgements, 29, seed=0)


def test_the_temperature_is_the_models_or_is_said_to_be_calibrated(case):
    known = temperature_of(Score.of("dot", 0.25), case["queries"], case["documents"])
    assert known == (0.25, "the model's")
    found, source = temperature_of(Score.of("dot"), case["queries"], case["documents"])
    assert source.startswith("calibrated")
    expected = calibrate_temperature(
        case["queries"], case["documents"], gamma_query=0.0, gamma_document=0.0
    )
    assert found == pytest.approx(expected, rel=1e-6)
