"""Grades that begin to be relevant above 1, and joint recall, against trec_eval and loops."""

import random

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.data import Benchmark
from magjax.evaluation import evaluate_bm25, evaluate_run

MEASURES = {
    "ndcg_cut.10": "ndcg@10",
    "map": "map",
    "recip_rank": "mrr",
    "recall.5": "recall@5",
    "success.1": "success@1",
    "P.5": "precision@5",
}


def random_case(seed):
    rng = random.Random(seed)
    corpus = [f"d{i}" for i in range(20)]
    run, qrels = {}, {}
    for i in range(rng.randint(1, 5)):
        qrels[f"q{i}"] = {d: rng.randint(0, 3) for d in rng.sample(corpus, rng.randint(1, 12))}
        # Few values: ties are the rule.
        found = rng.sample(corpus, rng.randint(0, 20))
        run[f"q{i}"] = {d: rng.choice([0.0, 0.5, 1.0]) for d in found}
    return run, qrels


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), level=st.integers(1, 4))
def test_agrees_with_trec_eval_at_every_level(seed, level):
    run, qrels = random_case(seed)
    found = evaluate_run(run, qrels, list(MEASURES.values()), relevance_level=level)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(MEASURES), relevance_level=level)
    theirs = evaluator.evaluate(run)
    assert theirs.keys() == qrels.keys()
    for query, expected in theirs.items():
        for measure, metric in MEASURES.items():
            assert found.per_query[query][metric] == expected[measure.replace(".", "_")]


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), level=st.integers(1, 3))
def test_all_is_one_where_every_relevant_document_is_found(seed, level):
    run, qrels = random_case(seed)
    found = evaluate_run(run, qrels, ["all@3", "all@10"], relevance_level=level)
    for query, grades in qrels.items():
        order = sorted(sorted(run[query], reverse=True), key=lambda d: -run[query][d])
        relevant = {d for d, grade in grades.items() if grade >= level}
        for k in (3, 10):
            expected = float(bool(relevant) and relevant <= set(order[:k]))
            assert found.per_query[query][f"all@{k}"] == expected


def test_all_needs_a_cut_off():
    with pytest.raises(InputError, match="metric 'all' needs a cut-off; try all@10"):
        evaluate_run({}, {"q": {"d": 1}}, ["all"])


def test_a_level_below_one_is_refused():
    with pytest.raises(InputError, match="relevance_level=0 must be a whole number"):
        evaluate_run({}, {"q": {"d": 1}}, relevance_level=0)
    with pytest.raises(InputError, match="relevance_level=0 must be a whole number"):
        Benchmark("b", ["q"], ["a"], ["d"], ["b"], {}, relevance_level=0)


def test_a_benchmark_brings_its_level_and_its_exclusions():
    texts = ["sum of numbers", "sum", "numbers"]
    plain = Benchmark("b", ["q"], ["sum numbers"], ["d", "e", "f"], texts, {"q": {"d": 1, "e": 2}})
    strict = Benchmark(*[getattr(plain, n) for n in list(plain.__dataclass_fields__)[:6]],
                       relevance_level=2, excluded={"q": ["f"]})  # fmt: skip
    first, second = (evaluate_bm25(b, metrics=["mrr", "recall@1"]) for b in (plain, strict))
    assert first.ranking.documents == (("d", "f", "e"),)
    assert first.evaluation.mean == {"mrr": 1.0, "recall@1": 0.5}
    assert second.ranking.documents == (("d", "e"),)
    assert second.evaluation.mean == {"mrr": 0.5, "recall@1": 0.0}
    assert plain.fingerprint != strict.fingerprint


@pytest.mark.parametrize(
    ("excluded", "message"),
    [
        ({"q": ["x"]}, "query 'q' excludes document 'x', but the corpus does not hold it"),
        ({"x": ["e"]}, "query 'x' excludes document 'e', but there is no such query"),
        ({"q": ["d"]}, "document 'd' is relevant to query 'q' and excluded for it"),
    ],
)
def test_wrong_exclusions_are_refused(excluded, message):
    with pytest.raises(InputError, match=message):
        Benchmark("b", ["q"], ["a"], ["d", "e"], ["b", "c"], {"q": {"d": 1}}, excluded=excluded)
