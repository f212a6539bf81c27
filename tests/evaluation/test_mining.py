"""Hard negatives: by hand, against loops, and in any order."""

import hashlib
import math

import numpy as np
import pytest
from mining_cases import training_set_and_embeddings
from search_cases import SCORES, ids

from magjax.checks import InputError
from magjax.data import TrainingSet
from magjax.evaluation import MiningSettings, mine_negatives
from magjax.similarity import Score

DOT = Score.of("dot")


def line_of(scores):
    """Documents on a line: their scores against the query (1,) are these numbers."""
    return np.array(scores, np.float32)[:, None]


def texts(n):
    return [f"text {i}" for i in range(n)]


def one_query(scores, positives=(0,), documents=None, **settings):
    """Negatives of one query whose documents have these dot products."""
    documents = documents or texts(len(scores))
    data = TrainingSet(["q"], ["asked"], [tuple(positives)], [()], ids("d", len(scores)), documents)
    (found,) = mine_negatives(
        data, line_of([1.0]), line_of(scores), score=DOT, settings=MiningSettings(**settings)
    )
    np.testing.assert_array_equal(found.negative_scores, np.float32(scores)[found.negatives])
    return found.negatives.tolist()


def test_candidates_within_the_margin_of_the_answer_are_left_out():
    scores = [1.0, 2.0, 0.96, 0.94, 0.5, -3.0]
    assert one_query(scores) == [3, 4, 5]
    assert one_query(scores, margin=0.5) == [4, 5]
    assert one_query(scores, margin=0.0) == [2, 3, 4, 5]
    assert one_query(scores, margin=None) == [1, 2, 3, 4, 5]


def test_the_margin_lies_below_a_negative_score_too():
    """(1 - 0.05) * -0.5 = -0.475 would let -0.49 pass, which is better than the answer."""
    scores = [-0.5, -0.49, -0.52, -0.53, -0.8]
    assert one_query(scores) == [3, 4]
    assert one_query(scores, margin=0.0) == [2, 3, 4]


def test_the_lowest_answer_sets_the_margin():
    assert one_query([1.0, 0.4, 0.9, 0.39, 0.3], positives=(0, 1)) == [4]


def test_the_highest_score_may_be_limited_too():
    scores = [1.0, 0.9, 0.7, 0.5, 0.3]
    assert one_query(scores, max_score=0.7) == [2, 3, 4]
    assert one_query(scores, max_score=0.95, margin=0.4) == [3, 4]
    assert one_query(scores, max_score=0.4, margin=None) == [4]


def test_the_best_candidates_may_be_passed_over():
    scores = [1.0, 1.2, 0.9, 0.8, 0.7, 0.6]
    # The first two are 1.2, which the margin would have left out, and 0.9.
    assert one_query(scores, skip_top=2) == [3, 4, 5]
    assert one_query(scores, skip_top=2, negatives=1) == [3]
    assert one_query(scores, skip_top=1, k=3, negatives=2) == [2, 3]


def test_known_answers_are_no_negatives_by_text_either():
    documents = ["right", "right ", "other", "", "asked", "other\n", "third"]
    scores = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert one_query(scores, documents=documents) == [2, 6]


def test_answers_of_a_query_of_the_same_text_are_answers():
    data = TrainingSet(
        ["a", "b", "c"],
        ["how to add", "how  to add", "another"],
        [(0,), (1,), (2,)],
        [(), (3,), ()],
        ids("d", 4),
        texts(4),
    )
    found = mine_negatives(
        data,
        line_of([1.0, 1.0, 1.0]),
        line_of([1.0, 0.9, 0.8, 0.7]),
        score=DOT,
        settings=MiningSettings(margin=None),
    )
    assert [query.negatives.tolist() for query in found] == [[2, 3], [2, 3], [0, 1, 3]]


@pytest.fixture(scope="module")
def mined():
    return training_set_and_embeddings()


def by_loops(data, queries, documents, score, settings):
    """The rules once more, over all documents, in float64."""
    out = []
    for row, query in enumerate(queries.astype(np.float64)):
        raw = documents.astype(np.float64)
        values = raw @ query / np.linalg.norm(raw, axis=1) ** score.gamma_document
        values /= np.linalg.norm(query) ** score.gamma_query
        known = {
            d
            for other in range(len(data))
            if data.queries[other] == data.queries[row]
            for d in data.positives[other]
        }
        order = sorted(range(len(values)), key=lambda d: (values[d], data.document_ids[d]))[::-1]
        order = [d for d in order if d not in known][: settings.k]
        kept, seen = [], {data.documents[d] for d in known}
        for d in order:
            if data.documents[d] not in seen:
                seen.add(data.documents[d])
                kept.append(d)
        lowest = min(values[d] for d in data.positives[row])
        limit = math.inf if settings.margin is None else lowest - settings.margin * abs(lowest)
        kept = [d for d in kept[settings.skip_top :] if values[d] <= limit]
        if settings.sample == "random":
            start = f"{settings.seed}\0{data.query_ids[row]}\0"
            drawn = sorted(
                kept,
                key=lambda d: hashlib.sha256((start + data.document_ids[d]).encode()).hexdigest(),
            )[: settings.negatives]
            kept = [d for d in kept if d in drawn]
        out.append((kept[: settings.negatives], values))
    return out


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_mining_agrees_with_loops_over_all_documents(mined, score):
    for settings in (
        MiningSettings(k=30, negatives=5, skip_top=2),
        MiningSettings(k=60, negatives=4, margin=None, sample="random", seed=7),
    ):
        found = mine_negatives(*mined, score=score, settings=settings)
        expected = by_loops(*mined, score, settings)
        assert sum(len(rows) for rows, _ in expected) > 20
        for query, (rows, values) in zip(found, expected, strict=True):
            assert query.negatives.tolist() == rows
            np.testing.assert_allclose(query.negative_scores, values[rows], rtol=1e-9)
            np.testing.assert_allclose(
                query.positive_scores, values[list(query.positives)], rtol=1e-9
            )


def shuffled(mined, order):
    data, queries, documents = mined
    part = TrainingSet(
        [data.query_ids[i] for i in order],
        [data.queries[i] for i in order],
        [data.positives[i] for i in order],
        [()] * len(order),
        data.document_ids,
        data.documents,
    )
    return part, queries[order], documents


@pytest.mark.parametrize("sample", ["top", "random"])
def test_a_query_gets_the_same_negatives_in_any_order(mined, sample):
    settings = MiningSettings(margin=None, sample=sample, seed=3)

    def records(data, queries, documents):
        found = mine_negatives(data, queries, documents, score=SCORES[2], settings=settings)
        return {data.query_ids[query.row]: query.to_json(data) for query in found}

    whole = records(*mined)
    order = np.random.default_rng(0).permutation(40)
    assert records(*shuffled(mined, order)) == whole


def test_another_seed_draws_others(mined):
    drawn = [
        mine_negatives(
            *mined,
            score=DOT,
            settings=MiningSettings(sample="random", seed=seed, margin=None, negatives=5),
        )
        for seed in (0, 0, 1)
    ]
    rows = [[query.negatives.tolist() for query in found] for found in drawn]
    assert rows[0] == rows[1]
    assert sum(one != other for one, other in zip(rows[0], rows[2], strict=True)) > 30


def test_a_lossless_index_mines_the_same(mined):
    pytest.importorskip("faiss", reason="the faiss extra is not installed")
    exact = mine_negatives(*mined, score=SCORES[2])
    found = mine_negatives(*mined, score=SCORES[2], index="faiss:Flat")
    for one, other in zip(exact, found, strict=True):
        assert one.negatives.tolist() == other.negatives.tolist()
        assert one.negative_scores.tobytes() == other.negative_scores.tobytes()


def test_candidates_of_another_source_keep_their_order_and_get_the_trained_score():
    data = TrainingSet(["q"], ["asked"], [(0,)], [()], ids("d", 5), texts(5))
    (found,) = mine_negatives(
        data,
        line_of([2.0]),
        line_of([1.0, 0.1, 0.99, 0.5, 0.3]),
        score=DOT,
        candidates=[np.array([4, 0, 2, 1, 3])],
        settings=MiningSettings(k=3, negatives=3),
    )
    assert found.negatives.tolist() == [4, 1]  # 2 is within the margin, and 3 the fourth
    np.testing.assert_allclose(found.negative_scores, [0.6, 0.2], rtol=1e-6)
    np.testing.assert_allclose(found.positive_scores, [2.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k=0"),
        ({"negatives": 0}, "negatives=0"),
        ({"skip_top": -1}, "skip_top=-1"),
        ({"k": 10, "skip_top": 5}, "set k to 13 or more"),
        ({"margin": -0.1}, "margin=-0.1"),
        ({"margin": math.nan}, "margin=nan"),
        ({"max_score": math.inf}, "max_score=inf"),
        ({"sample": "best"}, "unknown sample 'best'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        MiningSettings(**settings)


def test_embeddings_must_fit(mined):
    data, queries, documents = mined
    with pytest.raises(InputError, match="query embeddings of shape"):
        mine_negatives(data, queries[:3], documents, score=DOT)
    broken = queries.copy()
    broken[5] = np.inf
    with pytest.raises(InputError, match="query 'q5' is not finite"):
        mine_negatives(data, broken, documents, score=DOT)
