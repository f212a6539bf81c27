"""Runs on disk: read, written, and measured without a model."""

import gzip
import json
import logging
import math

import numpy as np
import pytest
import pytrec_eval

from magjax.checks import InputError
from magjax.data import Benchmark, read_run
from magjax.evaluation import Ranking, evaluate_bm25, evaluate_run_file, write_results

QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t2\nq2\td3\t1\nq3\td1\t1\n"
RUN = "q1 Q0 d1 1 2.5 me\nq1 Q0 d2 2 2.5 me\nq1 Q0 d9 3 9 me\nq2 Q0 d3 1 1e-3 me\nq4 Q0 d1 1 1 me\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "test.tsv").write_text(QRELS)
    (tmp_path / "mine.trec").write_text(RUN)
    return tmp_path / "mine.trec", tmp_path / "test.tsv"


def test_scores_rank_and_queries_are_counted(files):
    result = evaluate_run_file(*files, metrics=["mrr", "ndcg@10"])
    ideal = 2 + 1 / math.log2(3)
    gain = 2 / math.log2(3) + 1 / math.log2(4)  # d9, then of the tied two the greater id
    assert result.evaluation.mean == pytest.approx(
        {"mrr": (1 / 2 + 1 + 0) / 3, "ndcg@10": (gain / ideal + 1 + 0) / 3}
    )
    assert result.evaluation.counts == {"queries": 3, "missing": 1, "unjudged": 1}
    assert (result.domain, result.system, result.k) == ("test", "mine", 3)
    assert (result.queries, result.documents) == (4, 4)
    at_two = evaluate_run_file(*files, metrics=["mrr"], relevance_level=2)
    assert at_two.evaluation.mean["mrr"] == pytest.approx((1 / 2 + 0 + 0) / 3)


def test_agrees_with_trec_eval_on_what_was_written(tmp_path):
    rng = np.random.default_rng(3)
    scores = {f"q{i}": {f"d{j}": float(rng.normal()) for j in range(30)} for i in range(5)}
    qrels = {q: {d: int(rng.integers(0, 3)) for d in row} for q, row in scores.items()}
    Ranking.from_run(scores).write_trec(tmp_path / "a.trec", "tag")
    assert read_run(tmp_path / "a.trec") == scores
    lines = [f"{q} 0 {d} {grade}\n" for q, row in qrels.items() for d, grade in row.items()]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    found = evaluate_run_file(tmp_path / "a.trec", tmp_path / "qrels.txt", metrics=["map", "ndcg"])
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg"}).evaluate(scores)
    assert found.evaluation.per_query == theirs


def test_ids_with_white_space_are_written_as_json_lines(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("magjax"), "propagate", True)
    benchmark = Benchmark("b", ["q 1"], ["sum"], ["d 1"], ["a sum"], {"q 1": {"d 1": 1}})
    result = evaluate_bm25(benchmark, metrics=["mrr"])
    with caplog.at_level(logging.WARNING, "magjax.evaluation"):
        write_results(tmp_path, [result])
    assert "b.bm25: ids hold white space; its run is written as JSON lines" in caplog.text
    assert not (tmp_path / "runs" / "b.bm25.trec").exists()
    run = read_run(tmp_path / "runs" / "b.bm25.jsonl")
    assert run == result.ranking.to_run()
    assert Ranking.from_run(run).documents == (("d 1",),)


def test_gzipped_runs_and_windows_line_ends(tmp_path, files):
    zipped = tmp_path / "zipped.trec.gz"
    zipped.write_bytes(gzip.compress(RUN.replace("\n", "\r\n").encode()))
    assert read_run(zipped) == read_run(files[0])
    assert read_run(tmp_path / "zipped.trec") == read_run(files[0])
    assert evaluate_run_file(zipped, files[1]).system == "zipped"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d3 4 me", r"5 columns where a run needs 6, 'query Q0 document rank score tag'; "
                          "without a score"),
        ("q1\td3\t4", "3 columns where a run needs 6"),
        ("q1 Q0 d3 4 high me", "the score 'high' is no number"),
        ("q1 Q0 d3 4 nan me", "the score 'nan' is no number"),
        ("q1 Q0 d2 4 0.5 me", "document 'd2' occurred before for query 'q1'"),
    ],
)  # fmt: skip
def test_wrong_lines_are_named(files, line, message):
    files[0].write_text(RUN + line + "\n")
    with pytest.raises(InputError, match=rf"mine\.trec:6: {message}"):
        evaluate_run_file(*files)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query_id": "q", "documents": ["d"]}, "'scores' were needed"),
        ({"query_id": "q", "documents": ["d"], "scores": []}, "with one score a document"),
        ({"query_id": "q", "documents": ["d"], "scores": [None]}, "the score None is no number"),
        ({"query_id": "q", "documents": ["d"], "scores": [True]}, "the score True is no number"),
        ({"query_id": "q", "documents": [1], "scores": [0.5]}, "document 1 must be a string"),
        ({"query_id": "p", "documents": [], "scores": []}, "query 'p' occurred before"),
    ],
)
def test_wrong_json_lines_are_named(tmp_path, row, message):
    first = {"query_id": "p", "documents": ["d"], "scores": [0.5]}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(row)}\n")
    with pytest.raises(InputError, match=rf"a\.jsonl:2: .*{message}"):
        read_run(tmp_path / "a.jsonl")


def test_runs_of_other_judgements_are_refused(tmp_path, files, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("magjax"), "propagate", True)
    run, qrels = files
    with pytest.raises(InputError, match=r"none\.trec does not exist"):
        evaluate_run_file(tmp_path / "none.trec", qrels)
    run.write_text("x1 Q0 d1 1 0.5 me\n")
    with pytest.raises(InputError, match=r"share no query: 'x1' is one of the run's, 'q1' one of"):
        evaluate_run_file(run, qrels)
    run.write_text("\n")
    with pytest.raises(InputError, match=r"mine\.trec holds no run"):
        evaluate_run_file(run, qrels)
    run.write_text("q1 Q0 other 1 0.5 me\n")
    with caplog.at_level(logging.WARNING, "magjax.evaluation"):
        assert evaluate_run_file(run, qrels).evaluation.mean["map"] == 0.0
    assert "returns no judged document" in caplog.text
    qrels.write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(InputError, match=r"test\.tsv holds no judgement"):
        evaluate_run_file(run, qrels)


def test_ranking_of_a_run_needs_numbers():
    with pytest.raises(InputError, match="gives query 'q' a score NaN"):
        Ranking.from_run({"q": {"d": math.nan}})
