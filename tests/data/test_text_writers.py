import dataclasses
import gzip
import json

import pytest

from magjax.checks import InputError
from magjax.data import (
    Benchmark,
    TrainingSet,
    read_beir,
    read_pairs_jsonl,
    write_beir,
    write_pairs_jsonl,
)

BENCHMARK = Benchmark(
    name="sums",
    query_ids=["q 1", "q:ä"],
    queries=["what adds", "was zählt «ab»"],
    document_ids=["d1", "d 2", "d3"],
    documents=["def f(a, b):\n    return a + b", "a\t- b", ""],
    qrels={"q 1": {"d1": 1, "d 2": 0}, "q:ä": {"d 2": 2}},
)
PAIRS = TrainingSet(
    query_ids=["p", "q"],
    queries=["adds", "takes away"],
    positives=[(0,), (1, 2)],
    negatives=[(1,), ()],
    document_ids=["a", "b", "c"],
    documents=["a + b", "a - b", "b - a"],
)


def test_a_written_benchmark_is_read_back_whole(tmp_path):
    write_beir(tmp_path / "sums", BENCHMARK, split="dev")
    found = read_beir(tmp_path / "sums", split="dev")
    for field in dataclasses.fields(Benchmark):
        assert getattr(found, field.name) == getattr(BENCHMARK, field.name), field.name


def test_the_files_are_those_that_beir_names(tmp_path):
    write_beir(tmp_path / "sums", BENCHMARK)
    with gzip.open(tmp_path / "sums" / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert rows[1] == {"_id": "d 2", "text": "a\t- b"}
    lines = (tmp_path / "sums" / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "query-id\tcorpus-id\tscore"
    assert lines[1:] == ["q 1\td1\t1", "q 1\td 2\t0", "q:ä\td 2\t2"]


def test_written_pairs_are_read_back_whole(tmp_path):
    write_pairs_jsonl(tmp_path / "pairs.jsonl.gz", PAIRS)
    found = read_pairs_jsonl(tmp_path / "pairs.jsonl.gz")
    for field in ("query_ids", "queries", "positives", "negatives", "document_ids", "documents"):
        assert getattr(found, field) == getattr(PAIRS, field), field
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl.gz"]


def test_a_folder_that_exists_is_refused_and_left_alone(tmp_path):
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        write_beir(tmp_path, BENCHMARK)
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"excluded": {"q 1": ["d3"]}}, "cannot say"),
        ({"relevance_level": 2}, "relevance_level=2"),
    ],
)
def test_what_the_form_cannot_say_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        write_beir(tmp_path / "sums", dataclasses.replace(BENCHMARK, **changes))
    assert not list(tmp_path.iterdir())


def test_pairs_under_another_ending_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.jsonl\.gz"):
        write_pairs_jsonl(tmp_path / "pairs.jsonl", PAIRS)
