"""Exact search against float64 loops that share nothing with it."""

import math

import jax
import numpy as np
import pytest
from search_cases import SCORES, check, find, ids, normal, reference, same

from magjax.evaluation import _search
from magjax.mesh import data_mesh
from magjax.similarity import Score


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_agrees_with_float64_loops(score):
    queries, documents = normal(0, 5, 24), normal(1, 300, 24)
    documents *= np.exp(normal(2, 300, 1))
    expected = reference(queries, documents, ids("d", 300), score)
    check(find(queries, documents, score, 20), expected, 20)


def test_published_example_of_the_four_scores():
    documents = np.array([[1, 0], [10, 0]], np.float32)
    expected = {"cosine": (0.6, 0.6), "dot": (3, 30), "qnorm": (0.6, 6), "dnorm": (3, 3)}
    for name, (first, second) in expected.items():
        ranking = find(np.array([[3, 4]], np.float32), documents, Score.of(name), 2)
        run = ranking.to_run()["q0"]
        assert run == pytest.approx({"d0": first, "d1": second}, rel=1e-15)
        assert ranking.documents == (("d1", "d0"),)  # ties stand by id descending


@pytest.mark.parametrize("block_size", [1, 7, 33, 64, 100, 419, 420, 100_000])
def test_block_size_changes_nothing(block_size):
    queries, documents = normal(3, 4, 48), normal(4, 420, 48)
    one = find(queries, documents, Score.of("cosine"), 30)
    same(find(queries, documents, Score.of("cosine"), 30, block_size=block_size), one)


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_device_count_changes_nothing(devices):
    queries, documents = normal(5, 3, 40), normal(6, 3001, 40)
    documents[1000:1500] = documents[7]  # ties across devices
    every = find(queries, documents, Score.of("dnorm"), 25)
    mesh = data_mesh(jax.devices()[:devices])
    same(find(queries, documents, Score.of("dnorm"), 25, mesh=mesh, block_size=700), every)


def test_k_only_cuts():
    queries, documents = normal(7, 3, 16), normal(8, 500, 16)
    documents[100:200] = documents[3]
    whole = find(queries, documents, Score.of("cosine"), 500)
    for k in (1, 2, 10, 99, 499):
        cut = find(queries, documents, Score.of("cosine"), k)
        assert cut.documents == tuple(found[:k] for found in whole.documents)
        for a, b in zip(cut.scores, whole.scores, strict=True):
            assert a.tobytes() == b[:k].tobytes()


def test_queries_do_not_change_each_other():
    queries, documents = normal(9, 300, 16), normal(10, 200, 16)
    whole = find(queries, documents, Score.power(0.5, 0.25), 10)
    alone = find(queries[299:], documents, Score.power(0.5, 0.25), 10)
    assert alone.documents[0] == whole.documents[299]
    assert alone.scores[0].tobytes() == whole.scores[299].tobytes()


def test_order_of_the_corpus_changes_nothing():
    queries, documents = normal(11, 3, 16), normal(12, 400, 16)
    documents[50:120] = documents[0]
    names = np.array(ids("d", 400))
    order = np.random.default_rng(0).permutation(400)
    straight = find(queries, documents, Score.of("cosine"), 60)
    shuffled = find(
        queries, documents[order], Score.of("cosine"), 60, document_ids=names[order].tolist()
    )
    same(shuffled, straight)
    for row, found in zip(shuffled.rows, shuffled.documents, strict=True):
        assert [names[order][i] for i in row] == list(found)


def near_ties(n, dim=64):
    """Documents an ulp apart: float32 products cannot tell them from one another."""
    documents = np.tile(normal(13, 1, dim), (n, 1))
    rng = np.random.default_rng(14)
    for row in documents:
        column = rng.integers(dim)
        row[column] = np.nextafter(row[column], np.float32(rng.choice([-9, 9])))
    return documents


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_near_ties_are_ordered_by_their_exact_scores(score, reached):
    documents = np.concatenate([normal(15, 2000, 64), near_ties(600)])
    queries = np.concatenate([documents[-1:], normal(16, 2, 64)])
    ranking = find(queries, documents, score, 10)
    assert max(reached) >= 600  # more near-ties than the margin holds: all were scored
    names = ids("d", len(documents))
    for i, query in enumerate(queries):
        exact = [
            math.fsum(a * b for a, b in zip(query.tolist(), d, strict=True))
            / math.sqrt(math.fsum(a * a for a in d)) ** score.gamma_document
            for d in documents.tolist()
        ]
        taken = [exact[names.index(name)] for name in ranking.documents[i]]
        best = sorted(exact, reverse=True)[:10]
        np.testing.assert_allclose(taken, best, rtol=1e-14)  # float32 is off by 1e-7


@pytest.mark.parametrize("margin", [0, 1, 28, 2600])
def test_the_margin_changes_nothing(margin, monkeypatch):
    documents = np.concatenate([normal(17, 2000, 64), near_ties(600)])
    queries = np.concatenate([documents[-3:], normal(18, 2, 64)])
    expected = find(queries, documents, Score.of("cosine"), 12)
    monkeypatch.setattr(_search, "_MARGIN", margin)
    same(find(queries, documents, Score.of("cosine"), 12), expected)


def test_the_margin_is_enough_on_ordinary_data(reached):
    find(normal(19, 50, 64), normal(20, 5000, 64), Score.of("cosine"), 100)
    assert reached == []


def test_duplicates_stand_by_id_descending(reached):
    documents = np.concatenate([normal(21, 200, 32), np.tile(normal(22, 1, 32), (300, 1))])
    ranking = find(documents[-1:], documents, Score.of("cosine"), 5)
    names = sorted(ids("d", 500)[200:], reverse=True)
    assert ranking.documents[0] == tuple(names[:5])
    assert len(set(ranking.scores[0].tolist())) == 1
    assert reached == [300]


def test_ids_compare_as_their_utf8_bytes():
    names = ["z", "é", "中", "😀", "a", "Z", "10", "9"]
    ranking = find(
        np.ones((1, 2), np.float32),
        np.ones((8, 2), np.float32),
        Score.of("dot"),
        8,
        document_ids=names,
    )
    assert list(ranking.documents[0]) == sorted(names, key=str.encode, reverse=True)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 100), (3, 100), (40, 100), (1, 5)])
def test_corpus_smaller_than_k(n, k):
    queries, documents = normal(23, 1, 8), normal(24, n, 8)
    expected = reference(queries, documents, ids("d", n), Score.of("qnorm"))
    ranking = find(queries, documents, Score.of("qnorm"), k)
    assert len(ranking.documents[0]) == min(n, k)
    check(ranking, expected, k)


def test_one_dimension():
    documents = np.array([[2.0], [-3.0], [0.5]], np.float32)
    ranking = find(np.array([[-1.0]], np.float32), documents, Score.of("dot"), 2)
    assert ranking.to_run() == {"q0": {"d1": 3.0, "d2": -0.5}}


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_zero_vectors(score):
    documents = normal(25, 200, 16)
    documents[20:30] = 0.0
    queries = np.concatenate([np.zeros((1, 16), np.float32), normal(26, 1, 16)])
    ranking = find(queries, documents, score, 200)
    assert ranking.documents[0] == tuple(sorted(ids("d", 200), reverse=True))
    assert all(str(value) == "0.0" for value in ranking.scores[0].tolist())  # no -0.0
    zeros = [ranking.to_run()["q1"][f"d{i}"] for i in range(20, 30)]
    assert zeros == [0.0] * 10
    # A zero query is no reason to return anything but the ids' order with few candidates either.
    few = find(queries, documents, score, 3)
    assert few.documents == tuple(found[:3] for found in ranking.documents)


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_lengths_from_subnormal_to_the_largest(score):
    rng = np.random.default_rng(27)
    documents = rng.normal(size=(400, 16))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    exponents = rng.permutation(np.repeat([-42.0, -38, -25, -3, 0, 3, 25, 38], 50))
    documents = (documents * 10.0 ** exponents[:, None]).astype(np.float32)
    queries = (rng.normal(size=(3, 16)) * np.array([[1e-30], [1.0], [1e30]])).astype(np.float32)
    expected = reference(queries, documents, ids("d", 400), score)
    for k in (1, 30, 150):
        check(find(queries, documents, score, k), expected, k, rtol=1e-12)
