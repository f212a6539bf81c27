"""What --data may name."""

import gzip
import json

import pytest

from magjax.checks import InputError
from magjax.export import Texts, read_texts


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_of_documents_needs_no_queries(tmp_path):
    file = lines(
        tmp_path / "corpus.jsonl",
        {"_id": "a", "title": "Title", "text": "and text"},
        {"id": 7, "text": ""},
        {"_id": "c", "title": None, "text": "\u4e2d"},
    )
    texts = read_texts(file)
    assert texts.side("document") == (["a", "7", "c"], ["Title and text", "", "\u4e2d"])
    with pytest.raises(InputError, match="holds no texts of side 'query'"):
        texts.side("query")
    zipped = tmp_path / "other.jsonl.gz"
    zipped.write_bytes(gzip.compress(b"\xef\xbb\xbf" + file.read_bytes() + b"\r\n\r\n"))
    again = read_texts(zipped)
    assert again.sides == texts.sides
    assert again.fingerprint == texts.fingerprint
    assert read_texts(lines(tmp_path / "x.jsonl", {"_id": "a", "text": ""})).fingerprint != (
        texts.fingerprint
    )


def test_a_file_of_pairs_has_both_sides(tmp_path):
    file = lines(
        tmp_path / "pairs.jsonl",
        {"query": "what adds", "positive": "a + b", "negatives": ["a - b"]},
    )
    texts = read_texts(file)
    assert texts.side("document")[1] == ["a + b", "a - b"]
    assert texts.side("query")[1] == ["what adds"]


def test_a_beir_folder_has_both_sides(tmp_path):
    lines(tmp_path / "corpus.jsonl", {"_id": "d", "text": "a + b"})
    lines(tmp_path / "queries.jsonl", {"_id": "q", "text": "what adds"})
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "dev.tsv").write_text("q\td\t1\n")
    texts = read_texts(tmp_path, split="dev")
    assert texts.sides == {"document": (["d"], ["a + b"]), "query": (["q"], ["what adds"])}
    with pytest.raises(InputError, match="unknown split"):
        read_texts(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no record"),
        ('{"_id": "a"}', "1: 'text' must be a string"),
        ('\n{"text": "a"}', "2: '_id' is None"),
        ('{"_id": true, "text": "a"}', "1: '_id' is True"),
        ('{"_id": "a", "text": "b"}\n[1]', "2: an object was needed"),
        ('{"_id": "a", "text": "b"}\n{', "2: not readable as JSON lines"),
        ('{"_id": "a", "title": 3, "text": "b"}', "'title' a string or null"),
    ],
)
def test_broken_files_are_named_with_their_line(tmp_path, content, message):
    file = tmp_path / "x.jsonl"
    file.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_texts(file)
    assert "x.jsonl" in str(caught.value)


def test_unknown_sources_are_named():
    with pytest.raises(InputError, match=r"nothing\.jsonl does not exist"):
        read_texts("nothing.jsonl")
    with pytest.raises(InputError, match="nothing is no folder"):
        read_texts("nothing")


def test_thinning_spreads_evenly_and_keeps_the_ends():
    ids = [str(i) for i in range(10)]
    texts = Texts("x", "0", {"document": (ids, ids), "query": (ids[:2], ids[:2])})
    thin = texts.thinned(document=4, query=5)
    assert thin.side("document")[0] == ["0", "3", "6", "9"]
    assert thin.side("query")[0] == ["0", "1"]
