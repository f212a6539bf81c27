"""Approximate search: what an index holds, what it finds, and what that costs."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from search_cases import SCORES, find, ids, normal, reference, same

from magjax import hub
from magjax.checks import InputError
from magjax.data import Benchmark
from magjax.evaluation import (
    check_index,
    evaluate_index,
    evaluate_retrieval,
    evaluate_run,
    search_index,
)
from magjax.similarity import Score

faiss = pytest.importorskip("faiss", reason="the faiss extra is not installed")

ROOT = Path(__file__).parents[2]


def through(index, queries, documents, score, k, **options):
    return search_index(
        queries,
        documents,
        index=index,
        score=score,
        k=k,
        query_ids=options.pop("query_ids", ids("q", len(queries))),
        document_ids=options.pop("document_ids", ids("d", len(documents))),
        **options,
    )


@pytest.fixture(scope="module")
def vectors():
    """Documents and queries whose lengths vary a hundredfold."""
    rng = np.random.default_rng(0)
    queries, documents = (
        (rng.normal(size=(n, 24)) * 10 ** rng.uniform(-1, 1, (n, 1))).astype(np.float32)
        for n in (20, 300)
    )
    return queries, documents


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_a_flat_index_ranks_by_the_trained_score(vectors, score):
    exact = find(*vectors, score, 10)
    same(through("faiss:Flat", *vectors, score, 10, rescore=True), exact)
    own = through("faiss:Flat", *vectors, score, 10)
    expected = reference(*vectors, ids("d", 300), score)
    for found, scores, whole in zip(own.documents, own.scores, expected, strict=True):
        by_name = {name: value for value, name in whole}
        size = max(abs(value) for value, _ in whole)
        np.testing.assert_allclose(scores, [by_name[name] for name in found], atol=1e-6 * size)
        assert set(found) == {name for _, name in whole[:10]}


def test_exact_is_a_kind_of_index(vectors):
    same(through("exact", *vectors, SCORES[1], 7), find(*vectors, SCORES[1], 7))


def test_excluded_documents_give_way_to_others(vectors):
    score = Score.of("qnorm")
    best = find(*vectors, score, 3)
    exclude = {"q0": best.documents[0][:2], "q3": [*best.documents[3], "nowhere"]}
    expected = find(*vectors, score, 5, exclude=exclude)
    same(through("faiss:Flat", *vectors, score, 5, exclude=exclude, rescore=True), expected)
    few = through("faiss:Flat", vectors[0], vectors[1][:4], score, 9, exclude={"q1": ["d2"]})
    assert [len(found) for found in few.documents[:3]] == [4, 3, 4]


def test_cells_that_are_not_visited_are_missing(vectors):
    score = Score.of("dot")
    exact = find(*vectors, score, 50)
    few = through("faiss:IVF8,Flat", *vectors, score, 50, index_search="nprobe=1", rescore=True)
    every = through("faiss:IVF8,Flat", *vectors, score, 50, index_search="nprobe=8", rescore=True)
    same(every, exact)
    assert sum(map(len, few.documents)) < 20 * 50
    every_score = find(*vectors, score, 300).to_run()
    for query, found in few.to_run().items():
        assert all(every_score[query][name] == value for name, value in found.items())


def test_the_same_vectors_give_the_same_graph(vectors):
    before = faiss.omp_get_max_threads()
    one, other = (
        through("faiss:HNSW8", *vectors, Score.of("dnorm"), 10, index_search="efSearch=12")
        for _ in range(2)
    )
    same(one, other)
    assert faiss.omp_get_max_threads() == before
    wide = through("faiss:HNSW8", *vectors, Score.of("dnorm"), 10, index_search="efSearch=300")
    assert wide.documents == find(*vectors, Score.of("dnorm"), 10).documents


def test_quantized_vectors_are_ranked_by_what_the_index_says_or_by_the_exact_score(vectors):
    score = Score.of("cosine")
    own = through("faiss:SQ4", *vectors, score, 20)
    again = through("faiss:SQ4", *vectors, score, 20, rescore=True)
    exact = find(*vectors, score, 300).to_run()
    assert own.documents != again.documents
    for query, coarse, fine in zip(own.query_ids, own.documents, again.documents, strict=True):
        assert sorted(coarse) == sorted(fine)
        assert list(fine) == sorted(fine, key=lambda name: exact[query][name], reverse=True)


def test_equal_scores_stand_by_id_descending():
    documents = np.repeat(normal(1, 1, 8), 4, axis=0)
    found = through("faiss:Flat", normal(2, 1, 8), documents, Score.of("dot"), 4)
    assert found.documents == (("d3", "d2", "d1", "d0"),)


@pytest.mark.parametrize(
    ("index", "index_search", "message"),
    [
        ("hnsw", "", "neither exact nor faiss:FACTORY"),
        ("faiss:", "", "neither exact"),
        ("faiss:IVF8, Flat", "", "neither exact"),
        ("exact", "nprobe=8", "index is exact"),
        ("faiss:L2norm,Flat", "", "makes any score a cosine"),
        ("faiss:ITQ16,Flat", "", "makes any score a cosine"),
        ("faiss:LSH", "", "faiss refuses 'LSH' by inner product"),
        ("faiss:HNWS32", "", "faiss refuses 'HNWS32'"),
        ("faiss:HNSW8", "efsearch=12", "faiss refuses 'HNSW8' with efsearch=12 by inner"),
        ("faiss:IVF512,Flat", "", "for 300 vectors of 24 dimensions"),
    ],
)
def test_wrong_indexes_are_refused(vectors, index, index_search, message):
    with pytest.raises(InputError, match=message):
        through(index, *vectors, Score.of("dot"), 5, index_search=index_search)


def test_wrong_embeddings_are_refused(vectors):
    queries, documents = vectors
    broken = documents.copy()
    broken[7, 3] = np.nan
    for wrong, message in (
        ((queries, broken), "document 'd7' is not finite"),
        ((queries[:, :20], documents), "20 dimensions and documents 24"),
        ((queries.astype(np.float64), documents), "float64"),
    ):
        with pytest.raises(InputError, match=message):
            through("faiss:Flat", *wrong, Score.of("dot"), 5)
    with pytest.raises(InputError, match="k=0"):
        through("faiss:Flat", *vectors, Score.of("dot"), 0)


def test_faiss_is_asked_for_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert check_index("exact") is None
    with pytest.raises(InputError, match=r"faiss.*pip install -e '.\[faiss\]'"):
        check_index("faiss:Flat")


def test_a_lossless_index_loses_nothing(small_model, small_preprocessor, small_benchmark):
    arguments = (small_model.encoder, small_preprocessor, small_benchmark, small_model.score)
    options = {"k": 4, "metrics": ["ndcg@3", "mrr@4"], "ignore_identical_ids": True}
    found = evaluate_index(*arguments, index="faiss:Flat", **options)
    expected = evaluate_retrieval(*arguments, **options)
    assert found.exact.to_json() == expected.to_json()
    same(found.exact.ranking, expected.ranking)
    assert found.loss == {"ndcg@3": 0.0, "mrr@4": 0.0}
    assert found.recall == {4: 1.0}
    assert found.approximate.system == "faiss:Flat"
    json.dumps(found.to_json())


def test_a_lossy_index_loses_what_its_ranking_lacks(small_model, small_preprocessor):
    documents = [
        " ".join(f"{a}{b}" for b in "xyz"[: 1 + n % 3]) for n, a in enumerate("abcdefgh" * 3)
    ]
    names = ids("d", len(documents))
    queries = documents[:8]
    qrels = {f"q{i}": {f"d{i}": 1} for i in range(8)}
    benchmark = Benchmark("lossy", ids("q", 8), queries, names, documents, qrels)
    found = evaluate_index(
        small_model.encoder,
        small_preprocessor,
        benchmark,
        small_model.score,
        index="faiss:IVF4,Flat",
        index_search="nprobe=1",
        k=12,
        metrics=["ndcg@10"],
    )
    means = [
        evaluate_run(result.ranking, qrels, ["ndcg@10"]).mean["ndcg@10"]
        for result in (found.exact, found.approximate)
    ]
    assert found.loss["ndcg@10"] == pytest.approx(means[0] - means[1])
    # By hand: each found document counts if its exact score reaches the exact list's last.
    for depth, share in found.recall.items():
        shares = []
        for query, best in found.exact.ranking.to_run().items():
            floor = sorted(best.values(), reverse=True)[depth - 1]
            hits = list(found.approximate.ranking.to_run()[query].values())[:depth]
            shares.append(sum(value >= floor - 1e-6 * abs(floor) for value in hits) / depth)
        assert share == pytest.approx(np.mean(shares))
    assert sorted(found.recall) == [10, 12]
    assert found.recall[12] < 1.0
    assert f"finds {found.recall[10]:.1%} of the exact top 10" in found.describe()


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("launch_evaluate", ROOT / "launch/evaluate.py")
    module = importlib.util.module_from_spec(spec)
    before = set(flags.FLAGS)
    spec.loader.exec_module(module)
    yield module
    for name in set(flags.FLAGS) - before:  # another program's tests may define the same flags
        delattr(flags.FLAGS, name)


def test_the_program_adds_the_row_of_the_index(
    program, small_model, small_benchmark, tmp_path, capsys, monkeypatch
):
    hub.save(small_model, tmp_path / "model")
    monkeypatch.setattr(program, "read_benchmarks", lambda sources, split: [small_benchmark])
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])
    argv = [f"--checkpoint={tmp_path / 'model'}", "--data=small", f"--workdir={tmp_path / 'run'}"]
    with flagsaver.flagsaver():
        flags.FLAGS(["evaluate.py", *argv, "--index=faiss:HNSW4", "--index_search=efSearch=40"])
        assert program.main() == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[2:4] for line in said[2:4]] == [
        ["model", "qnorm"],
        ["faiss:HNSW4", "qnorm"],
    ]
    assert said[-1].startswith("small set, faiss:HNSW4 (efSearch=40) against exact search: ndcg@10")
    written = json.loads((tmp_path / "run" / "results.json").read_text())
    assert written["indexes"][0]["recall_of_exact"]["@100"] == 1.0
    assert [result["system"] for result in written["results"]] == ["model", "faiss:HNSW4"]
    assert (tmp_path / "run" / "runs" / "small_set.faiss_HNSW4.trec").is_file()
    with flagsaver.flagsaver():
        flags.FLAGS(["evaluate.py", *argv, "--index=HNSW4"])
        with pytest.raises(InputError, match="neither exact nor faiss:FACTORY"):
            program.main()
