"""Metrics against plain loops, trec_eval's own code, and published corner cases."""

import math
import random

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.evaluation import METRICS, Ranking, _metrics, evaluate_run, metric_depth

EVERY = [
    *("ndcg@1", "ndcg@3", "ndcg@10", "ndcg", "mrr@1", "mrr@3", "mrr@10", "mrr", "map", "map@3"),
    *("recall@1", "recall@5", "recall@100", "success@1", "success@5", "precision@1", "precision@5"),
]


def order(scores):
    """Best first: score descending, then id descending."""
    names = sorted(scores, reverse=True)
    return sorted(names, key=lambda name: -scores[name])


def reference(metric, scores, grades):
    name, _, cut = metric.partition("@")
    found = order(scores)[: int(cut) if cut else None]
    gains = [max(grades.get(document, 0), 0) for document in found]
    relevant = sum(grade > 0 for grade in grades.values())
    if name == "ndcg":
        best = sorted((max(g, 0) for g in grades.values()), reverse=True)
        best = best[: int(cut) if cut else None]
        dcg, ideal = (
            sum(gain / math.log2(place + 2) for place, gain in enumerate(row))
            for row in (gains, best)
        )
        return dcg / ideal if ideal else 0.0
    hits = [place for place, gain in enumerate(gains, start=1) if gain > 0]
    if name == "mrr":
        return 1 / hits[0] if hits else 0.0
    if name == "recall":
        return len(hits) / relevant if relevant else 0.0
    if name == "success":
        return float(bool(hits))
    if name == "precision":
        return len(hits) / int(cut)
    precisions = [number / place for number, place in enumerate(hits, start=1)]
    return sum(precisions) / relevant if relevant else 0.0


def random_case(seed):
    rng = random.Random(seed)
    corpus = [f"d{i}" for i in range(30)]
    run, qrels = {}, {}
    for i in range(rng.randint(1, 8)):
        judged = rng.sample(corpus, rng.randint(1, 12))
        qrels[f"q{i}"] = {name: rng.choice([-2, -1, 0, 0, 1, 1, 2, 3]) for name in judged}
        if rng.random() < 0.8:
            found = rng.sample(corpus, rng.randint(0, 30))
            # Few values: ties are the rule.
            run[f"q{i}"] = {name: rng.choice([0.0, 0.25, 0.5, 1.0, -3.0]) for name in found}
    return run, qrels


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32 - 1))
def test_agrees_with_loops_on_graded_tied_missing_and_negative(seed):
    run, qrels = random_case(seed)
    found = evaluate_run(run, qrels, EVERY)
    assert list(found.per_query) == list(qrels)
    for query, values in found.per_query.items():
        for metric, value in values.items():
            expected = reference(metric, run.get(query, {}), qrels[query])
            assert value == pytest.approx(expected, abs=1e-12), (query, metric)
    for metric, value in found.mean.items():
        rows = [values[metric] for values in found.per_query.values()]
        assert value == pytest.approx(np.mean(rows), abs=1e-15)
    assert found.counts == {
        "queries": len(qrels),
        "missing": len(qrels.keys() - run.keys()),
        "unjudged": 0,
    }


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_agrees_with_trec_eval_where_it_sees_the_same_scores(seed):
    run, qrels = random_case(seed)
    measures = {
        "ndcg_cut.10": "ndcg@10",
        "map": "map",
        "recip_rank": "mrr",
        "success.5": "success@5",
    }
    found = evaluate_run(run, qrels, list(measures.values()))
    # Grades below 0 corrupt the memory of pytrec_eval 0.5.11.
    qrels = {query: {d: max(grade, 0) for d, grade in row.items()} for query, row in qrels.items()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(measures)).evaluate(run)
    for query, values in theirs.items():
        for measure, metric in measures.items():
            assert found.per_query[query][metric] == values[measure.replace(".", "_")]


def test_a_query_missing_from_the_run_counts_as_zero():
    qrels = {"q1": {"d1": 1}, "q2": {"d1": 1}}
    for run in ({"q1": {"d1": 1.0}}, {"q1": {"d1": 1.0}, "q2": {}}):
        found = evaluate_run(run, qrels)
        assert found.mean["ndcg@10"] == 0.5
        assert found.per_query["q2"] == dict.fromkeys(METRICS, 0.0)
        assert found.counts["queries"] == 2
    assert evaluate_run({}, qrels).counts == {"queries": 2, "missing": 2, "unjudged": 0}


def test_calls_do_not_change_each_other():
    qrels, run = {"q1": {"d1": 1}}, {"q1": {"d1": 1.0, "d2": 2.0}}
    metrics = ["ndcg@10", "ndcg@100"]
    first = evaluate_run(run, qrels, metrics)
    assert evaluate_run(run, qrels, metrics) == first
    assert list(first.mean) == metrics
    assert run == {"q1": {"d1": 1.0, "d2": 2.0}}


def test_queries_without_a_judgement_are_skipped_and_counted():
    qrels = {"q1": {"d1": 1}, "q2": {}, "q3": {"d1": 1}, "q4": {"d1": 0}}
    run = {query: {"d1": 1.0} for query in ("q1", "q2", "q3", "q4", "q5")}
    found = evaluate_run(run, qrels)
    assert list(found.per_query) == ["q1", "q3", "q4"]  # judged as all irrelevant counts as 0
    assert found.per_query["q4"] == dict.fromkeys(METRICS, 0.0)
    assert found.mean["ndcg@10"] == pytest.approx(2 / 3, abs=1e-15)
    assert found.counts == {"queries": 3, "missing": 0, "unjudged": 2}


def test_gains_are_linear_and_negative_grades_count_as_zero():
    graded = evaluate_run({"q": {"d1": 1.0, "d2": 2.0}}, {"q": {"d1": 2, "d2": 1}}, ["ndcg@10"])
    assert graded.mean["ndcg@10"] == pytest.approx(0.85972, abs=5e-6)  # exponential: 0.79671
    run = {"q": {"d1": 3.0, "d2": 2.0, "d3": 1.0}}
    negative = evaluate_run(
        run, {"q": {"d1": -1, "d2": 1, "d3": 2}}, ["ndcg@10", "precision@1", "map"]
    )
    assert negative.mean == pytest.approx(
        {"ndcg@10": 0.61991, "precision@1": 0.0, "map": 0.58333}, abs=5e-6
    )


def test_negative_grades_are_safe_however_many():
    for seed in range(300):
        run, qrels = random_case(seed)
        qrels = {q: {d: -abs(grade) for d, grade in row.items()} for q, row in qrels.items()}
        assert set(evaluate_run(run, qrels, EVERY).mean.values()) == {0.0}


def test_scores_are_ranked_as_float64():
    qrels = {"q": {"good": 1}}
    close = {"good": 1.0 + 1e-12, "other": 1.0}  # the same number in float32
    assert evaluate_run({"q": close}, qrels, ["mrr@1"]).mean["mrr@1"] == 1.0
    huge = {"good": 2e300, "other": 1e300}  # both infinite in float32
    assert evaluate_run({"q": huge}, qrels, ["mrr@1"]).mean["mrr@1"] == 1.0


def test_ties_stand_by_id_descending():
    qrels = {"q": {"b": 1}}
    tied = {"a": 1.0, "b": 1.0, "c": 1.0}
    assert evaluate_run({"q": tied}, qrels, ["mrr"]).mean["mrr"] == 0.5


def test_takes_a_ranking():
    ranking = Ranking(("q",), (("b", "a"),), (np.array([2.0, 1.0]),), (np.array([1, 0]),))
    assert evaluate_run(ranking, {"q": {"a": 1}}, ["mrr"]).mean["mrr"] == 0.5


@pytest.mark.parametrize("cut", range(1, 60))
def test_reciprocal_rank_is_cut_exactly(cut):
    run = {"q": {f"{i:03}": float(-i) for i in range(1, 61)}}
    for place in (cut, cut + 1):
        value = evaluate_run(run, {"q": {f"{place:03}": 1}}, [f"mrr@{cut}"]).mean[f"mrr@{cut}"]
        assert value == pytest.approx(1 / place if place <= cut else 0.0, abs=1e-15)


def test_wrong_input_is_refused():
    run, qrels = {"q": {"d": 1.0}}, {"q": {"d": 1}}
    for metrics, message in (
        (["ndgc@10"], "unknown metric 'ndgc'.*Did you mean 'ndcg'"),
        (["recall"], "needs a cut-off; try recall@10"),
        (["ndcg@0"], "the cut-off must be a whole number"),
        (["ndcg@ten"], "the cut-off must be a whole number"),
        ([], "no metric was named"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_run(run, qrels, metrics)
    with pytest.raises(InputError, match="query 'q', document 'd' the score NaN"):
        evaluate_run({"q": {"d": math.nan}}, qrels)
    for grade in (1.0, "1", True):
        with pytest.raises(InputError, match="grades document 'd' as"):
            _metrics._check_grades({"q": {"d": grade}})
    with pytest.raises(InputError, match="grades above 10000 are refused"):
        evaluate_run(run, {"q": {"d": 10**7}})
    for empty in ({}, {"q": {}}):
        with pytest.raises(InputError, match="no query has a judgement"):
            evaluate_run(run, empty)


def test_how_deep_a_metric_looks():
    assert [metric_depth(name) for name in ("ndcg@10", "recall@100", "map", "mrr")] == [
        10,
        100,
        1,
        1,
    ]
    with pytest.raises(InputError, match="unknown metric"):
        metric_depth("f1@3")
