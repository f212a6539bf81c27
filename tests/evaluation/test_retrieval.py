"""From texts to metrics, to files and to a table."""

import json
import logging

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.data import Benchmark
from magjax.evaluation import (
    METRICS,
    check_depth,
    encode,
    evaluate_bm25,
    evaluate_retrieval,
    evaluate_run,
    format_results,
    search,
    write_results,
)
from magjax.similarity import Score


@pytest.fixture(scope="module")
def result(small_model, small_preprocessor, small_benchmark):
    return evaluate_retrieval(
        small_model.encoder, small_preprocessor, small_benchmark, small_model.require_score()
    )


def test_is_encoding_then_search_then_metrics(
    result, small_model, small_preprocessor, small_benchmark
):
    sides = {
        "query": (small_benchmark.queries, small_benchmark.query_ids),
        "document": (small_benchmark.documents, small_benchmark.document_ids),
    }
    queries, documents = (
        encode(small_model.encoder, small_preprocessor, texts, side)
        for side, (texts, _) in sides.items()
    )
    ranking = search(
        queries,
        documents,
        score=Score.of("qnorm"),
        k=100,
        query_ids=small_benchmark.query_ids,
        document_ids=small_benchmark.document_ids,
    )
    assert result.ranking.to_run() == ranking.to_run()
    assert result.evaluation == evaluate_run(ranking, small_benchmark.qrels, METRICS)
    assert result.evaluation.counts == {"queries": 3, "missing": 0, "unjudged": 1}
    for side, embeddings in (("query", queries), ("document", documents)):
        norms = np.linalg.norm(embeddings.astype(np.float64), axis=1)
        assert result.norms[side] == pytest.approx({"mean": norms.mean(), "std": norms.std()})


def test_the_score_matters(small_model, small_preprocessor, small_benchmark, result):
    cosine = evaluate_retrieval(
        small_model.encoder, small_preprocessor, small_benchmark, Score.of("cosine")
    )
    assert cosine.ranking.to_run() != result.ranking.to_run()
    assert cosine.to_json()["score"]["variant"] == "cosine"


def test_identical_ids_are_left_out_only_when_asked(
    small_model, small_preprocessor, small_benchmark
):
    found = {
        asked: evaluate_retrieval(
            small_model.encoder,
            small_preprocessor,
            small_benchmark,
            Score.of("cosine"),
            k=5,
            metrics=["mrr@5"],
            ignore_identical_ids=asked,
        ).ranking
        for asked in (False, True)
    }
    assert found[False].documents[0][0] == "add"  # the query's own text
    assert "add" not in found[True].documents[0]
    assert len(found[True].documents[0]) == 5  # the sixth document took its place
    assert found[True].documents[1:] == found[False].documents[1:]
    assert "add" in found[True].documents[1]  # another query may find it


def test_skipped_queries_are_said(
    small_model, small_preprocessor, small_benchmark, caplog, monkeypatch
):
    monkeypatch.setattr(logging.getLogger("magjax"), "propagate", True)
    with caplog.at_level(logging.WARNING, "magjax.evaluation"):
        evaluate_bm25(small_benchmark)
    assert "small set: skipped 1 queries without a judgement; the means are over 3" in caplog.text


def test_progress_tells_the_side(small_model, small_preprocessor, small_benchmark):
    said = []
    evaluate_retrieval(
        small_model.encoder,
        small_preprocessor,
        small_benchmark,
        Score.of("dot"),
        progress=lambda *event: said.append(event),
    )
    assert ("query", 4, 4) in said
    assert ("document", 6, 6) in said


def test_metrics_may_not_look_deeper_than_k(small_model, small_preprocessor, small_benchmark):
    with pytest.raises(InputError, match="'recall@100' looks at 100 documents a query, but k=10"):
        evaluate_retrieval(
            small_model.encoder, small_preprocessor, small_benchmark, Score.of("dot"), k=10
        )
    with pytest.raises(InputError, match="set k to 100 or more"):
        evaluate_bm25(small_benchmark, k=10)
    check_depth(["map", "recall@10"], 10)


def test_files(result, small_benchmark, tmp_path):
    write_results(tmp_path, [result, evaluate_bm25(small_benchmark)], {"checkpoint": "here"})
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "per_query/small_set.bm25.jsonl",
        "per_query/small_set.jsonl",
        "results.json",
        "runs/small_set.bm25.trec",
        "runs/small_set.trec",
    ]
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["checkpoint"] == "here"
    model, lexical = written["results"]
    assert model["metrics"] == result.evaluation.mean
    assert model["score"] == Score.of("qnorm", 0.05).to_json()
    assert (model["domain"], model["system"], model["k"]) == ("small set", "model", 100)
    assert model["fingerprint"] == lexical["fingerprint"] == small_benchmark.fingerprint
    assert (lexical["system"], lexical["score"], lexical["norms"]) == ("bm25", None, None)
    lines = [
        json.loads(line)
        for line in (tmp_path / "per_query" / "small_set.jsonl").read_text().splitlines()
    ]
    assert {line.pop("query_id"): line for line in lines} == result.evaluation.per_query
    run = {}
    for line in (tmp_path / "runs" / "small_set.trec").read_text().splitlines():
        query, _, document, _, score, tag = line.split()
        run.setdefault(query, {})[document] = float(score)
        assert tag == "magjax-model"
    assert evaluate_run(run, small_benchmark.qrels, METRICS) == result.evaluation


def test_results_that_would_overwrite_each_other_are_refused(result, tmp_path):
    with pytest.raises(InputError, match="two results would both be written as 'small_set'"):
        write_results(tmp_path, [result, result])
    with pytest.raises(InputError, match="may not hold 'results'"):
        write_results(tmp_path, [result], {"results": []})
    assert not any(tmp_path.iterdir())


def test_table(result, small_benchmark):
    text = format_results([result, evaluate_bm25(small_benchmark, metrics=["ndcg@10"])])
    header, _, first, second, *notes = text.splitlines()
    assert header.split() == ["domain", "system", "score", "queries", "documents", *METRICS]
    values = [f"{value:.4f}" for value in result.evaluation.mean.values()]
    assert first.split() == ["small", "set", "model", "qnorm", "3", "6", *values]
    assert second.split()[-4:] == ["-"] * 4
    assert notes == [
        "small set, model: 1 queries without a judgement, skipped.",
        "small set, bm25: 1 queries without a judgement, skipped.",
    ]


def test_no_judged_query_is_refused():
    nothing = Benchmark("b", ["q"], ["a"], ["d"], ["b"], {})
    with pytest.raises(InputError, match="no query has a judgement"):
        evaluate_bm25(nothing)
