import gzip
import json
import sys

import pytest

from magjax.checks import InputError
from magjax.data import read_hf_dataset, read_pairs_jsonl

TRIPLE = {"query": "what adds", "positive": "a + b", "negatives": ["a - b", "a / b"]}


def write(path, *rows):
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows))
    return path


def test_pairs_and_triples_with_shared_documents(tmp_path):
    file = write(
        tmp_path / "a.jsonl",
        TRIPLE,
        {"query": "what subtracts", "positive": ["a - b", "a + -b"], "negative": "a / b"},
    )
    data = read_pairs_jsonl(file)
    assert data.queries == ["what adds", "what subtracts"]
    assert data.query_ids == ["line-1", "line-2"]
    assert data.documents == ["a + b", "a - b", "a / b", "a + -b"]
    assert data.positives == [(0,), (1, 3)]
    assert data.negatives == [(1, 2), (2,)]
    assert data.source == str(file)


def test_ids_are_kept(tmp_path):
    row = {**TRIPLE, "id": 7, "positive_ids": ["p"], "negative_ids": ["n", 3]}
    data = read_pairs_jsonl(write(tmp_path / "a.jsonl", row))
    assert data.query_ids == ["7"]
    assert data.document_ids == ["p", "n", "3"]


def test_tevatron_form_joins_title_and_text(tmp_path):
    row = {
        "query_id": "q1",
        "query": "what adds",
        "positive_passages": [{"docid": "1", "title": "Sum", "text": "a + b"}],
        "negative_passages": [
            {"docid": "2", "title": None, "text": "a - b"},
            {"docid": "3", "text": "a / b"},
        ],
        "answers": ["+"],
    }
    data = read_pairs_jsonl(write(tmp_path / "a.jsonl", row))
    assert data.documents == ["Sum a + b", "a - b", "a / b"]
    assert (data.positives, data.negatives) == ([(0,)], [(1, 2)])
    assert data.document_ids == ["1", "2", "3"]


def test_gzip_is_recognized_with_or_without_its_name(tmp_path):
    content = json.dumps(TRIPLE).encode()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    (tmp_path / "b.jsonl").write_bytes(gzip.compress(content))
    for name in ("a.jsonl.gz", "a.jsonl", "b.jsonl"):
        assert read_pairs_jsonl(tmp_path / name).documents == ["a + b", "a - b", "a / b"]


def test_byte_order_mark_and_windows_line_ends_and_blank_lines(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(TRIPLE).encode() + b"\r\n\r\n")
    assert read_pairs_jsonl(file).queries == ["what adds"]


def test_line_separators_inside_a_text_end_no_line(tmp_path):
    row = {"query": "what\u2028adds", "positive": "a\x0c+\x1cb"}
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    assert read_pairs_jsonl(file).queries == ["what\u2028adds"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"query": ', "not valid JSON"),
        ("[1]", "list where a JSON object was needed"),
        ({"positive": "x"}, "no 'query'; found 'positive'"),
        ({"query": " ", "positive": "x"}, "the query is empty"),
        ({"query": None, "positive": "x"}, "'query' is None, but must be a string"),
        ({"query": "x"}, "no 'positive'; found 'query'"),
        ({"query": "x", "positive": ""}, "the positive is empty"),
        ({"query": "x", "positive": []}, "must be a string or a list"),
        ({"query": "x", "positive": 3}, "must be a string or a list"),
        ({"query": "x", "positive": "y", "negatives": ["z", ""]}, "the negatives is empty"),
        ({"query": "x", "positive": "y", "negatves": ["z"]}, "did you mean 'negatives'"),
        ({"query": "x", "positive": "y", "negatives": ["y"]}, "both positive and negative"),
        ({"query": "x", "positive": "y", "positive_ids": ["a", "b"]}, "one id for each of 1"),
        ({"query": "x", "positive": "y", "id": 1.5}, "id 1.5 must be a string"),
        ({"query": "x", "positive_passages": []}, "at least one"),
        ({"query": "x", "positive_passages": ["y"]}, "must be an object"),
        ({"query": "x", "positive_passages": [{"docid": "1"}]}, "no 'text'"),
    ],
)
def test_wrong_record_names_file_and_line(tmp_path, row, message):
    file = write(tmp_path / "a.jsonl", TRIPLE, row)
    with pytest.raises(InputError, match=f"{file.name}:2: .*{message}"):
        read_pairs_jsonl(file)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"id": "a"}, {"id": "a"}, "query id 'a' occurred before"),
        ({"positive_ids": ["p"]}, {"positive_ids": ["p"], "positive": "z"}, "with another text"),
    ],
)
def test_ids_must_be_unique(tmp_path, first, second, message):
    pair = {"query": "x", "positive": "y"}
    file = write(tmp_path / "a.jsonl", {**pair, **first}, {**pair, **second})
    with pytest.raises(InputError, match=rf"a\.jsonl:2: .*{message}"):
        read_pairs_jsonl(file)


def test_missing_empty_and_broken_files(tmp_path):
    with pytest.raises(InputError, match=r"does not exist, nor does it with \.gz"):
        read_pairs_jsonl(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="is no file"):
        read_pairs_jsonl(tmp_path)
    with pytest.raises(InputError, match="holds no record"):
        read_pairs_jsonl(write(tmp_path / "a.jsonl"))
    whole = gzip.compress(json.dumps(TRIPLE).encode() * 50)
    (tmp_path / "b.jsonl.gz").write_bytes(whole[:-12])
    with pytest.raises(InputError, match=r"b\.jsonl\.gz:\d+: the gzip stream is broken"):
        read_pairs_jsonl(tmp_path / "b.jsonl.gz")
    (tmp_path / "c.jsonl").write_bytes(json.dumps(TRIPLE).encode() + b"\n\xff\xfe")
    with pytest.raises(InputError, match=r"c\.jsonl:2: not UTF-8"):
        read_pairs_jsonl(tmp_path / "c.jsonl")


def test_datasets_extra_is_named_when_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'magjax\[datasets\]'"):
        read_hf_dataset(tmp_path)


def test_saved_datasets_are_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    plain = datasets.Dataset.from_list([TRIPLE, {**TRIPLE, "query": "y", "negatives": None}])
    plain.save_to_disk(tmp_path / "plain")
    data = read_hf_dataset(tmp_path / "plain")
    assert data.query_ids == ["row-0", "row-1"]
    assert data.negatives == [(1, 2), ()]

    datasets.DatasetDict({"dev": plain}).save_to_disk(tmp_path / "parts")
    assert read_hf_dataset(tmp_path / "parts", "dev").queries == ["what adds", "y"]
    with pytest.raises(InputError, match="known: dev"):
        read_hf_dataset(tmp_path / "parts")

    datasets.Dataset.from_list([TRIPLE, {**TRIPLE, "query": ""}]).save_to_disk(tmp_path / "bad")
    with pytest.raises(InputError, match="bad:1: the query is empty"):
        read_hf_dataset(tmp_path / "bad")
    with pytest.raises(InputError, match="cannot be read by datasets"):
        read_hf_dataset(tmp_path)
