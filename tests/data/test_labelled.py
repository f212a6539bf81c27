"""Labelled texts and labelled pairs in every form, and what is wrong with some."""

import json

import pytest

from magjax.checks import InputError
from magjax.data import (
    LabelledTexts,
    find_labelled_pairs,
    find_labelled_texts,
    read_labelled_pairs,
    read_labelled_texts,
)

BATCH = (["a cat", 'a "dog', "a car"], ["animal", "animal", "thing"])
PAIRS = [("a man", "one man", 1.0), ("a dog", "a car", 0.0)]


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("test.tsv", ["animal\ta cat", 'animal\ta "dog', "thing\ta car"]),
        ("test.tsv", ["label\ttext", "animal\ta cat", 'animal\ta "dog', "thing\ta car"]),
        ("test.tsv", ["sentences\tlabels", "a cat\tanimal", 'a "dog\tanimal', "a car\tthing"]),
        ("test.csv", ["label,id,text", "animal,1,a cat", 'animal,2,"a ""dog"', "thing,3,a car"]),
        (
            "test.jsonl",
            [json.dumps({"text": t, "label": x}) for t, x in zip(*BATCH, strict=True)],
        ),
        ("test.jsonl", [json.dumps({"sentences": BATCH[0], "labels": BATCH[1]})]),
    ],
)
def test_labelled_texts_are_read(tmp_path, name, lines):
    write(tmp_path / "set" / name, *lines)
    (found,) = find_labelled_texts(tmp_path)
    assert found.name == "set"
    assert found.batches == [BATCH]
    assert (len(found), found.labels, found.empty) == (3, 2, 0)
    assert found.fingerprint == LabelledTexts("x", [BATCH]).fingerprint


def test_lines_of_lists_are_batches_of_their_own(tmp_path):
    other = (["one", "two"], [1, 2])
    lines = [json.dumps({"sentences": t, "labels": x}) for t, x in (BATCH, other)]
    found = read_labelled_texts(write(tmp_path / "test.jsonl", *lines))
    assert found.batches == [BATCH, (["one", "two"], ["1", "2"])]
    assert (len(found), found.labels) == (5, 4)


def test_an_empty_text_is_kept_and_counted(tmp_path):
    found = read_labelled_texts(write(tmp_path / "test.tsv", "a\tx", "b\t", "b\ty"))
    assert found.batches == [(["x", "", "y"], ["a", "b", "b"])]
    assert found.empty == 1


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.tsv", ["a\tx", "b\ty\tz"], r"a.tsv:2: 3 columns where 2 were needed: label and text"),
        ("a.tsv", ["a\tx", "a\ty"], "all 2 texts have one label"),
        ("a.tsv", ["a\tx", "\ty"], r"a.tsv:2: the label is ''"),
        ("a.tsv", ["a\tx\t1", "b\ty\t2"], r"a.tsv:2: no 'text'; found 'a', 'x', '1'"),
        ("a.csv", ["a,x", "b,y"], r"a.csv:2: no 'text'"),
        ("a.csv", ["label,text"], "holds no text"),
        ("a.jsonl", ['{"text": "x"}'], r"a.jsonl:1: no 'label'; found 'text'"),
        ("a.jsonl", ['{"text": null, "label": 1}'], r"a.jsonl:1: the text is None"),
        ("a.jsonl", ['{"text": "x", "label": ["a", "b"]}'], r"the label is \['a', 'b'\]"),
        ("a.jsonl", ['{"text": "x", "label": 1.5}'], r"the label is 1.5; give a name or a whole"),
        ("a.jsonl", ['{"text": ["x"], "label": ["a", "b"]}'], "1 texts and 2 labels"),
        (
            "a.jsonl",
            ['{"text": ["x", "y"], "label": ["a", "b"]}', '{"text": "x", "label": "a"}'],
            "mixes lines of one text with lines of many",
        ),
        (
            "a.jsonl",
            ['{"text": ["x", "y"], "label": ["a", "b"]}', '{"text": ["x"], "label": ["a"]}'],
            "batch 2: all 1 texts have one label",
        ),
    ],
)
def test_wrong_labelled_texts_are_refused(tmp_path, name, lines, message):
    with pytest.raises(InputError, match=message):
        read_labelled_texts(write(tmp_path / name, *lines))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("test.tsv", ["sentence1\tsentence2\tlabel", "a man\tone man\t1", "a dog\ta car\t0"]),
        ("test.csv", ["label,sent1,sent2", "1.0,a man,one man", "0,a dog,a car"]),
        (
            "test.jsonl",
            [json.dumps({"sentence1": a, "sentence2": b, "label": int(x)}) for a, b, x in PAIRS],
        ),
        *(
            (
                name,
                [
                    json.dumps(
                        {
                            "sent1": [row[0] for row in PAIRS],
                            "sent2": [row[1] for row in PAIRS],
                            "labels": [int(row[2]) for row in PAIRS],
                        }
                    )
                ],
            )
            for name in ("test.json", "test.jsonl")
        ),
    ],
)
def test_labelled_pairs_are_read(tmp_path, name, lines):
    write(tmp_path / "tweets" / name, *lines)
    (found,) = find_labelled_pairs(tmp_path)
    assert found.name == "tweets"
    assert [*zip(found.first, found.second, found.grades.tolist(), strict=True)] == PAIRS


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.tsv", ["sentence1\tsentence2\tlabel", "a\tb\t2"], r"a.tsv:2: the label '2' must be 0"),
        ("a.tsv", ["sentence1\tsentence2\tlabel", "a\tb\t"], r"a.tsv:2: the label is missing"),
        ("a.tsv", ["sentence1\tsentence2", "a\tb"], r"a.tsv:2: no 'label'; found"),
        ("a.tsv", ["sentence1\tsentence2\tlabel"], "holds no labelled pair"),
        ("a.json", ["[1]"], "holds a list where an object was needed"),
        ("a.json", ["{"], "is not valid JSON"),
        ("a.jsonl", ['{"sent1": ["a"], "sent2": ["b"], "labels": [1, 0]}'], r"hold \[1, 1, 2\]"),
        ("a.jsonl", ['{"sent1": "a", "sent2": "b", "labels": [1]}'], "no list.*three lists of"),
        ("a.jsonl", ['{"sent1": "a", "sent2": null, "label": 1}'], "'sentence2' is None"),
    ],
)
def test_wrong_labelled_pairs_are_refused(tmp_path, name, lines, message):
    with pytest.raises(InputError, match=message):
        read_labelled_pairs(write(tmp_path / name, *lines))


def test_an_empty_root_says_what_it_looked_for(tmp_path):
    with pytest.raises(InputError, match=r"no set of labelled texts: .*test.tsv.*\(label, text\)"):
        find_labelled_texts(tmp_path)
    with pytest.raises(InputError, match=r"no set of labelled pairs: .*test.json \(sentence1"):
        find_labelled_pairs(tmp_path)
