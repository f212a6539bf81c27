"""BEIR: which sets are found, how they are judged and averaged; numbers worked out by hand."""

import math
import zipfile

import pytest
from suite_cases import values, write_beir

from magjax.checks import InputError
from magjax.evaluation.suites import SUITES, SuiteSettings

CORPUS = {"d1": "3 0 apple", "d2": "2 0 pear", "d3": "1 0 plum", "d4": "0 1 fig", "d5": ""}
QUERY = {"q": "1 0 fig"}  # the model ranks d1, d2, d3; BM25 finds d4 alone
SECOND = 1 / math.log2(3)  # nDCG of one relevant document at place 2
THIRD = 1 / math.log2(4)


def run(model, root, **settings):
    return SUITES["beir"](model, root, SuiteSettings(**settings))


def test_each_set_weighs_the_same_and_forums_count_once(vector_model, tmp_path):
    write_beir(tmp_path / "scifact", CORPUS, QUERY, q="d1")  # 1
    write_beir(tmp_path / "cqadupstack" / "android", CORPUS, QUERY, q="d2")
    write_beir(tmp_path / "cqadupstack" / "english", CORPUS, QUERY, q="d3")
    write_beir(tmp_path / "msmarco", CORPUS, QUERY, split="dev", q="d3")
    (tmp_path / "msmarco" / "qrels" / "test.tsv").write_text("q\td1\t1\n")  # TREC's: not used
    report = run(vector_model, tmp_path)
    assert values(report, "ndcg@10") == pytest.approx(
        {
            "cqadupstack/android": SECOND,
            "cqadupstack/english": THIRD,
            "msmarco": THIRD,
            "scifact": 1.0,
            "cqadupstack": (SECOND + THIRD) / 2,
        }
    )
    (average,) = report.averages
    assert average.label == "mean of 2 sets, without msmarco"
    assert average.values["ndcg@10"] == pytest.approx((1 + (SECOND + THIRD) / 2) / 2)
    assert average.values["recall@100"] == 1.0
    assert any(n.startswith("2 of BEIR's 18 zero-shot sets are here; missing: trec-covid")
               for n in report.notes)  # fmt: skip
    assert "cqadupstack is the mean of 2 forums; BEIR has 12." in report.notes
    assert [result.domain for result in report.retrieval] == list(values(report, "map"))[:4]


def test_root_may_be_one_set(vector_model, tmp_path):
    report = run(vector_model, write_beir(tmp_path / "mine", CORPUS, QUERY, q="d2 d5"))
    assert values(report, "mrr@10") == {"mine": 0.5}
    assert values(report, "recall@100") == {"mine": 1.0}  # the empty document is searched too
    assert report.averages == ()
    assert "in the mean, but not sets of BEIR: mine." in report.notes


def test_another_split_is_used_only_where_it_is_the_only_one(vector_model, tmp_path):
    write_beir(tmp_path / "nq", CORPUS, QUERY, split="dev", q="d2")
    report = run(vector_model, tmp_path)
    assert values(report, "mrr@10") == {"nq": 0.5}
    assert "nq: judged by dev, its only split." in report.notes
    (tmp_path / "nq" / "qrels" / "train.tsv").write_text("q\td1\t1\n")
    with pytest.raises(InputError, match=r"unknown split of .*nq 'test'; known: dev, train"):
        run(vector_model, tmp_path)
    assert values(run(vector_model, tmp_path, split="train"), "mrr@10") == {"nq": 1.0}


def test_queries_in_the_corpus_do_not_find_themselves(vector_model, tmp_path):
    corpus = {"a": "1 0", "b": "1 0 more", "c": "0 1"}
    queries = {"a": "1 0", "c": "0 1"}
    write_beir(tmp_path / "own", corpus, queries, a="b", c="a")
    write_beir(tmp_path / "arguana", {"q": "9 0 otherwise", "r": "1 0"}, {"q": "1 0"}, q="r")
    write_beir(tmp_path / "numbers", {"1": "9 0", "2": "1 0"}, {"1": "1 0 not it"}, **{"1": "2"})
    found = run(vector_model, tmp_path)
    assert values(found, "mrr@10") == {"arguana": 1.0, "numbers": 0.5, "own": 0.75}
    said = "the document whose id is the query's is not returned."
    assert [n for n in found.notes if said in n] == [f"arguana: {said}", f"own: {said}"]
    # "c" finds two documents of score 0: the greater id stands first, so "a" is second.
    assert found.retrieval[-1].ranking.documents == (("b", "c"), ("b", "a"))
    for asked, arguana, numbers in ((True, 1.0, 1.0), (False, 0.5, 0.5)):
        forced = values(run(vector_model, tmp_path, ignore_identical_ids=asked), "mrr@10")
        assert (forced["arguana"], forced["numbers"]) == (arguana, numbers)


def test_bm25_is_held_to_the_same_rules(vector_model, tmp_path):
    write_beir(tmp_path / "arguana", {"q": "1 0 fig", "r": "1 0 fig tree"}, QUERY, q="r")
    write_beir(tmp_path / "nq", CORPUS, QUERY, q="d4")
    report = run(vector_model, tmp_path, bm25=True, metrics=("mrr@10",))
    assert [(row.name, row.system, row.values["mrr@10"]) for row in report.rows] == [
        ("arguana", "model", 1.0),
        ("arguana", "bm25", 1.0),
        ("nq", "model", 1 / 5),  # of equal scores, d5 stands before d4
        ("nq", "bm25", 1.0),
    ]
    assert [(a.system, a.values) for a in report.averages] == [
        ("model", {"mrr@10": 3 / 5}),
        ("bm25", {"mrr@10": 1.0}),
    ]


def test_a_broken_set_stops_before_anything_is_embedded(vector_model, embedded, tmp_path):
    write_beir(tmp_path / "a", CORPUS, QUERY, q="d1")
    write_beir(tmp_path / "b", CORPUS, QUERY, q="d9")
    with pytest.raises(InputError, match=r"b/qrels/test\.tsv:2: document 'd9' is not in the corp"):
        run(vector_model, tmp_path)
    assert embedded == []


def test_parts_of_sets_are_skipped_and_said(vector_model, tmp_path):
    write_beir(tmp_path / "nq", CORPUS, QUERY, q="d1")
    write_beir(tmp_path / "robust04", CORPUS, QUERY, q="d1")
    (tmp_path / "robust04" / "queries.jsonl").unlink()
    report = run(vector_model, tmp_path)
    assert list(values(report, "map")) == ["nq"]
    assert "robust04 is skipped: it lacks queries.jsonl." in report.notes


def test_an_empty_root_says_what_was_looked_for(vector_model, tmp_path):
    with pytest.raises(InputError, match=r"holds no BEIR set: neither it nor a folder below it has "
                       r"corpus\.jsonl, queries\.jsonl and qrels/\.$"):  # fmt: skip
        run(vector_model, tmp_path)
    with zipfile.ZipFile(tmp_path / "nq.zip", "w") as archive:
        archive.writestr("nq/corpus.jsonl", "")
    write_beir(tmp_path / "x", CORPUS, QUERY, q="d1")
    (tmp_path / "x" / "qrels" / "test.tsv").unlink()
    (tmp_path / "x" / "qrels").rmdir()
    with pytest.raises(InputError, match=r"x lacks qrels\. Unpack nq\.zip first"):
        run(vector_model, tmp_path)
