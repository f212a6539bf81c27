"""Mined negatives on disk: what is written, and how an interrupted run goes on."""

import json

import numpy as np
import pytest
from mining_cases import training_set_and_embeddings

from magjax.checks import InputError
from magjax.data import TrainingSet, read_pairs_jsonl
from magjax.evaluation import (
    MinedQuery,
    MiningSettings,
    _mining_run,
    bm25,
    evaluate_run,
    mine_negatives,
    mine_to_file,
    model_fingerprint,
)
from magjax.evaluation._mining_run import write_mined
from magjax.evaluation._part_file import PartFile
from magjax.similarity import Score

DOT = Score.of("dot")


@pytest.fixture(scope="module")
def mined():
    return training_set_and_embeddings()


def mine_blocks(mined, calls=None):
    """Stands for a model: mines the rows it is given, and notes them."""
    data, queries, documents = mined
    found = mine_negatives(
        data,
        queries,
        documents,
        score=DOT,
        settings=MiningSettings(k=12, margin=None, max_score=16.0),
    )

    def mine(rows):
        if calls is not None:
            calls.append(rows)
        return [found[row] for row in rows]

    return mine


def write(mined, path, *, resume=False, settings=None, calls=None):
    part = PartFile(path, settings or {"seed": 0}, resume=resume)
    return write_mined(part, mined[0], mine_blocks(mined, calls), wanted=8, block=16)


def test_the_file_is_read_back_as_training_data(mined, tmp_path):
    data = mined[0]
    summary = write(mined, tmp_path / "mined.jsonl")
    back = read_pairs_jsonl(tmp_path / "mined.jsonl")
    expected = [query for query in mine_blocks(mined)(range(40)) if len(query.negatives)]
    assert 0 < len(expected) < 40
    assert (summary.written, summary.left_out) == (len(expected), 40 - len(expected))
    assert summary.short == sum(len(query.negatives) < 8 for query in expected) > 0
    assert summary.negatives == sum(len(query.negatives) for query in expected)
    assert len(back) == len(expected)
    for row, query in enumerate(expected):
        assert back.query_ids[row] == data.query_ids[query.row]
        assert back.queries[row] == data.queries[query.row]
        for kind in ("positives", "negatives"):
            places = getattr(back, kind)[row]
            assert [back.document_ids[i] for i in places] == [
                data.document_ids[d] for d in getattr(query, kind)
            ]
            assert [back.documents[i] for i in places] == [
                data.documents[d] for d in getattr(query, kind)
            ]
    line = json.loads((tmp_path / "mined.jsonl").read_text().splitlines()[0])
    assert line["negative_scores"] == expected[0].negative_scores.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["mined.jsonl"]


def test_a_resumed_run_ends_with_the_same_bytes(mined, tmp_path):
    write(mined, tmp_path / "whole.jsonl")
    whole = (tmp_path / "whole.jsonl").read_bytes()
    header = json.dumps({"settings": {"seed": 0}}).encode() + b"\n"
    path = tmp_path / "mined.jsonl"
    part = tmp_path / "mined.jsonl.partial"
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in (0, 1, ends[0] - 1, ends[0], ends[0] + 9, ends[9], ends[-1] - 1, ends[-1]):
        part.write_bytes(header + whole[:cut])
        with pytest.raises(InputError, match="go on with --resume"):
            write(mined, path)
        assert part.read_bytes() == header + whole[:cut]
        calls = []
        summary = write(mined, path, resume=True, calls=calls)
        assert path.read_bytes() == whole
        assert not part.exists()
        assert summary.written == len(ends)
        assert all(rows.start % 16 == 0 for rows in calls)  # whole blocks: the same batches
        if cut == ends[-1]:
            assert len(calls) <= 1
        path.unlink()
    for torn in (b"", header[:7], header[:-1]):  # killed within the header
        part.write_bytes(torn)
        write(mined, path, resume=True)
        assert path.read_bytes() == whole
        path.unlink()
    write(mined, path, resume=True)  # nothing to go on with: a run like any
    assert path.read_bytes() == whole


def test_an_error_keeps_what_was_written(mined, tmp_path):
    path = tmp_path / "mined.jsonl"
    whole = mine_blocks(mined)

    def failing(rows):
        if rows.start:
            raise KeyboardInterrupt
        return whole(rows)

    with pytest.raises(KeyboardInterrupt):
        write_mined(PartFile(path, {"seed": 0}), mined[0], failing, wanted=8, block=16)
    assert not path.exists()
    assert len((tmp_path / "mined.jsonl.partial").read_text().splitlines()) > 5
    write(mined, path, resume=True)
    write(mined, tmp_path / "whole.jsonl")
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_what_cannot_be_gone_on_with_is_refused(mined, tmp_path):
    path = tmp_path / "mined.jsonl"
    part = tmp_path / "mined.jsonl.partial"
    header = json.dumps({"settings": {"seed": 1, "mining": {"k": 5}}}) + "\n"
    part.write_text(header)
    with pytest.raises(InputError, match=r"seed was 1 and is 0; mining.k was 5 and is 6"):
        write(mined, path, resume=True, settings={"seed": 0, "mining": {"k": 6}})
    part.write_text("[]\n")
    with pytest.raises(InputError, match="damaged header"):
        write(mined, path, resume=True)
    header = json.dumps({"settings": {"seed": 0}}) + "\n"
    part.write_text(header + '{"query_id": \n{}\n')
    with pytest.raises(InputError, match=r"partial:2: damaged"):
        write(mined, path, resume=True)
    part.write_text(header + '{"query_id": "elsewhere", "negatives": []}\n')
    with pytest.raises(InputError, match="unknown query 'elsewhere'"):
        write(mined, path, resume=True)
    part.unlink()
    path.write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match="exists already"):
            write(mined, path, resume=resume)
    assert path.read_text() == "mine"


def test_half_a_surrogate_pair_is_written_as_json_can(tmp_path):
    path = tmp_path / "odd.jsonl"
    data = TrainingSet(["q"], ["\ud83d é"], [(0,)], [()], ["d", "e"], ["ü", "ö"])
    mined = MinedQuery(0, (0,), np.ones(1), np.array([1]), np.zeros(1))
    write_mined(PartFile(path, {}), data, lambda rows: [mined], wanted=8, block=4)
    assert read_pairs_jsonl(path).queries == ["\ud83d é"]


@pytest.fixture(scope="module")
def small_set(small_benchmark):
    return TrainingSet.from_benchmark(small_benchmark)


@pytest.mark.parametrize("source", ["model", "bm25"])
def test_a_model_mines_to_a_file(small_model, small_set, small_benchmark, tmp_path, source):
    path = tmp_path / "mined.jsonl"
    settings = MiningSettings(margin=None, negatives=2)
    summary = mine_to_file(small_model, small_set, path, settings=settings, source=source)
    back = read_pairs_jsonl(path)
    assert summary.written == len(back)
    assert summary.queries == 3
    known = {q: {d for d, g in row.items() if g} for q, row in small_benchmark.qrels.items()}
    lexical = bm25(small_benchmark).to_run()
    for row in map(json.loads, path.read_text().splitlines()):
        found = row["negative_ids"]
        assert 0 < len(found) <= 2
        assert not set(found) & (known[row["query_id"]] | {"empty"})
        assert len(row["positive_scores"]) == len(row["positive_ids"])
        if source == "bm25":
            assert set(found) <= set(lexical[row["query_id"]])
    about = json.loads((tmp_path / "mined.jsonl.settings.json").read_text())
    assert about["score"]["variant"] == "qnorm"
    assert about["model"] == model_fingerprint(small_model)
    assert about["mining"]["negatives"] == 2


def test_an_interrupted_model_run_goes_on_to_the_same_bytes(
    small_model, small_set, tmp_path, monkeypatch
):
    monkeypatch.setattr(_mining_run, "_BLOCK", 2)
    settings = MiningSettings(margin=None, negatives=2)
    mine_to_file(small_model, small_set, tmp_path / "whole.jsonl", settings=settings)
    path = tmp_path / "mined.jsonl"
    embedded = []

    def stop(side, done, total):
        embedded.append((side, done))
        if side == "query" and done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mine_to_file(small_model, small_set, path, settings=settings, progress=stop)
    part = tmp_path / "mined.jsonl.partial"
    assert len(part.read_text().splitlines()) == 3  # the header and the first block
    other = MiningSettings(margin=None, negatives=3)
    with pytest.raises(InputError, match=r"mining\.negatives was 2 and is 3"):
        mine_to_file(small_model, small_set, path, settings=other, resume=True)
    embedded.clear()
    with pytest.raises(KeyboardInterrupt):
        mine_to_file(small_model, small_set, path, settings=settings, progress=stop, resume=True)
    assert [done for side, done in embedded if side == "query"] == [3]  # the second block only
    mine_to_file(small_model, small_set, path, settings=settings, resume=True)
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_an_index_is_for_the_models_own_candidates(small_model, small_set, tmp_path):
    pytest.importorskip("faiss", reason="the faiss extra is not installed")
    with pytest.raises(InputError, match="brings the candidates"):
        mine_to_file(
            small_model, small_set, tmp_path / "x.jsonl", source="bm25", index="faiss:Flat"
        )
    assert not list(tmp_path.iterdir())


def test_the_mined_scores_rank_as_the_search_does(small_model, small_set, tmp_path):
    """Distillation reads these scores: the answers and negatives, ranked by them, score alike."""
    path = tmp_path / "mined.jsonl"
    mine_to_file(small_model, small_set, path, settings=MiningSettings(margin=0.0))
    run, qrels = {}, {}
    for row in map(json.loads, path.read_text().splitlines()):
        names = [*row["positive_ids"], *row["negative_ids"]]
        values = [*row["positive_scores"], *row["negative_scores"]]
        run[row["query_id"]] = dict(zip(names, values, strict=True))
        qrels[row["query_id"]] = dict.fromkeys(row["positive_ids"], 1)
    # With margin 0 no negative may stand above the lowest answer.
    assert evaluate_run(run, qrels, ["ndcg@10"]).mean["ndcg@10"] == 1.0
