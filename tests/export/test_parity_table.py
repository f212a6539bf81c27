"""The table tells right from wrong: it can say NO."""

import sys

import export_cases as cases
import numpy as np
import pytest

from magjax.evaluation import search
from magjax.export import Found, ParityRow, format_parity, parity_rows
from magjax.export._parity import _Exact
from magjax.similarity import Score

DOCUMENTS = cases.normal(11, 80)
QUERIES = cases.normal(12, 6)
IDS = {"query_ids": cases.names("q", 6), "document_ids": cases.names("d", 80)}


def rows(**settings):
    return list(parity_rows(QUERIES, DOCUMENTS, **IDS, **settings))


def test_exact_targets_agree_under_every_preset():
    pytest.importorskip("pyarrow")
    found = rows(score=Score.of("qnorm"), targets=["numpy", "parquet"])
    assert [(row.target, row.score) for row in found] == [
        (target, preset)
        for target in ("numpy", "parquet")
        for preset in ("cosine", "dot", "qnorm", "dnorm")
    ]
    assert all(row.identical and row.recall == 1.0 for row in found)
    assert all(row.largest_difference < 3e-7 for row in found)


def test_approximate_indexes_are_tried_with_and_without_the_augmentation():
    pytest.importorskip("faiss")
    found = rows(score=Score.power(0.2, 0.4), targets=["faiss"])
    near = [(row.index, row.augment, row.metric) for row in found if row.index != "flat"]
    assert near == [
        (index, augment, metric)
        for index in ("hnsw", "ivf")
        for augment, metric in (
            ("none", "inner_product"),
            ("euclidean", "euclidean"),
            ("cosine", "cosine"),
        )
    ]
    assert all(row.score == "power" for row in found if row.index != "flat")
    # Where documents are unit vectors there is nothing to augment.
    found = rows(score=Score.of("dnorm"), targets=["faiss"])
    assert {row.augment for row in found} == {"none"}


def test_pgvector_is_asked_in_a_table_that_is_dropped(postgres):
    import psycopg

    found = rows(score=Score.of("dot"), targets=["pgvector"], postgres=postgres)
    assert all(row.identical for row in found if row.index == "flat")
    assert len(found) == 4 + 2 * 3
    with psycopg.connect(postgres) as connection:
        left = connection.execute(
            "SELECT tablename FROM pg_tables WHERE tablename LIKE 'magjax_parity%'"
        ).fetchall()
    assert left == []


def test_a_missing_engine_is_a_row_that_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    (row,) = rows(score=Score.of("dot"), targets=["faiss"])
    assert "pip install -e '.[faiss]'" in row.missing
    assert "not checked: this needs the package faiss" in format_parity([row], 10)


def test_a_wrong_ranking_is_called_wrong():
    exact = _Exact.of(
        QUERIES, DOCUMENTS, IDS["query_ids"], IDS["document_ids"], Score.of("qnorm"), 10
    )
    right = Found(exact.ranking.documents, exact.ranking.scores)
    figures = exact.compare(right)
    assert figures.pop("largest_difference") < 1e-15
    assert figures == {"identical": True, "recall": 1.0}
    # What a store that normalizes silently would return.
    cosine = search(QUERIES, DOCUMENTS, score=Score.of("cosine"), k=10, **IDS)
    figures = exact.compare(Found(cosine.documents, cosine.scores))
    assert not figures["identical"]
    assert figures["recall"] < 0.9
    assert figures["largest_difference"] > 0.01
    fewer = Found([ids[:9] for ids in right.documents], [s[:9] for s in right.scores])
    assert exact.compare(fewer)["identical"] is False
    assert exact.compare(fewer)["recall"] == pytest.approx(0.9)
    nothing = Found([[]] * 6, [np.zeros(0)] * 6)
    assert exact.compare(nothing)["recall"] == 0.0
    one = ParityRow(target="x", score="dot", identical=False, metric="cosine")
    other = ParityRow(target="y", score="qnorm", identical=True, metric="cosine")
    lines = format_parity([one, other], 10).splitlines()
    assert lines[2:] == [
        "| target | metric | dot | qnorm |",
        "|---|---|---|---|",
        "| x | cosine | NO, 0.0e+00 | - |",
        "| y | cosine | - | yes, 0.0e+00 |",
    ]


def test_near_ties_may_swap():
    documents = np.array([[1.0, 0.0], [1.0 + 1e-7, 0.0], [0.5, 0.0]], np.float32)
    query = np.array([[2.0, 0.0]], np.float32)
    exact = _Exact.of(query, documents, ["q"], ["a", "b", "c"], Score.of("dot"), 2)
    for ids, scores, identical in (
        (["a", "b"], [2.0, 2.0], True),
        (["b", "a"], [2.0, 2.0], True),
        (["b", "c"], [2.0, 1.0], False),
    ):
        assert exact.compare(Found([ids], [np.array(scores)]))["identical"] is identical
