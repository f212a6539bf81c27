"""STS files in every form that they are published in, and what is wrong with some."""

import gzip

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.data import TextPairs, find_sts, read_sts

ROWS = [(5.0, 'A man said "hello.', "One man said hi"), (0.25, "a dog", "a car, red")]


def expect(pairs, rows=ROWS):
    assert [*zip(pairs.grades.tolist(), pairs.first, pairs.second, strict=True)] == list(rows)
    assert pairs.grades.dtype == np.float64


def write(path, *lines, gz=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if gz else text.encode())
    return path


def tabbed(*rows):
    return ["\t".join(map(str, row)) for row in rows]


def test_tsv_is_read_without_quoting(tmp_path):
    lines = tabbed(("score", "sentence1", "sentence2"), *ROWS)
    pairs = read_sts(write(tmp_path / "test.tsv", *lines))
    expect(pairs)
    assert pairs.name == "test"
    assert len(pairs) == 2
    assert (pairs.parts, pairs.unjudged, pairs.empty) == ((), 0, 0)
    zipped = read_sts(write(tmp_path / "z" / "test.tsv.gz", *lines, gz=True))
    assert zipped.fingerprint == pairs.fingerprint
    expect(read_sts(write(tmp_path / "b" / "test.tsv", "\ufeff" + lines[0] + "\r", *lines[1:])))


def test_csv_is_read_with_quoting(tmp_path):
    lines = (
        "sentence1,sentence2,score",
        '"A man said ""hello.",One man said hi,5.0',
        "",
        'a dog,"a car, red",0.25',
    )
    expect(read_sts(write(tmp_path / "test.csv", *lines)))
    broken = ("sentence1,sentence2,score", 'a,"b', "", 'c",1.5')
    expect(read_sts(write(tmp_path / "n.csv", *broken)), [(1.5, "a", "b\n\nc")])


def test_jsonl_is_read(tmp_path):
    lines = (
        '{"sentence1": "A man said \\"hello.", "sentence2": "One man said hi", "score": 5}',
        '{"sentence1": "a dog", "sentence2": "a car, red", "score": 0.25, "split": "test"}',
    )
    expect(read_sts(write(tmp_path / "test.jsonl.gz", *lines, gz=True)))


def test_the_glue_form_has_ten_columns(tmp_path):
    names = [
        "index",
        "genre",
        "filename",
        "year",
        "old_index",
        "source1",
        "source2",
        "sentence1",
        "sentence2",
        "score",
    ]
    rows = [(i, "g", "f", "2012", "none", "s", "s", a, b, s) for i, (s, a, b) in enumerate(ROWS)]
    expect(read_sts(write(tmp_path / "dev.tsv", *tabbed(names, *rows))))
    hidden = tabbed(names[:-1], *(row[:-1] for row in rows))
    with pytest.raises(InputError, match=r"test.tsv:2: no 'score'.*--split=dev"):
        read_sts(write(tmp_path / "test.tsv", *hidden))


def test_the_original_form_has_no_header(tmp_path):
    rows = [("g", "f", "2012", "0001", s, a, b) for s, a, b in ROWS]
    rows[1] += ("source", "source")
    write(tmp_path / "stsbenchmark" / "sts-test.csv", *tabbed(*rows))
    (found,) = find_sts(tmp_path)
    expect(found)
    assert found.name == "stsbenchmark"
    broken = write(tmp_path / "b" / "sts-test.csv", *tabbed(*rows, ROWS[0]))
    with pytest.raises(InputError, match=r"sts-test.csv:3: 3 columns where 7"):
        read_sts(broken)


def test_sick_is_read_by_its_own_names(tmp_path):
    names = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
    rows = [(i, a, b, s, "NEUTRAL") for i, (s, a, b) in enumerate(ROWS)]
    write(tmp_path / "a" / "SICK_test_annotated.txt", *tabbed(names, *rows))
    (found,) = find_sts(tmp_path)
    expect(found)
    split = [(*names, "SemEval_set"), (*rows[0], "TEST"), (*rows[1], "TRIAL")]
    write(tmp_path / "b" / "SICK.txt", *tabbed(*split))
    expect(find_sts(tmp_path / "b")[0], ROWS[:1])
    expect(find_sts(tmp_path / "b", "dev")[0], ROWS[1:])
    with pytest.raises(InputError, match="no scored pair"):
        find_sts(tmp_path / "b", "train")


def semeval(folder, name, rows, golds, ends=("", "")):
    write(folder / f"STS.input.{name}.txt", *tabbed(*rows))
    write(folder / f"STS.gs.{name}.txt", *golds)


def test_the_parts_of_a_year_are_one_set_and_blank_gold_lines_are_not_judged(tmp_path):
    folder = tmp_path / "STS16-en-test"
    semeval(folder, "plagiarism", [("a", "b"), ("c", "d"), ("e", "f")], ["", "3", "0.5"])
    semeval(folder, "headlines", [("g", "h", "s", "s"), ("i", 'j "')], ["4", ""])
    write(folder / "STS.gs.ALL.dat", "1")  # what else lies there is nobody's
    (found,) = find_sts(tmp_path)
    expect(found, [(4.0, "g", "h"), (3.0, "c", "d"), (0.5, "e", "f")])
    assert found.name == "STS16-en-test"
    assert found.parts == ("headlines", "plagiarism", "plagiarism")
    assert found.unjudged == 2


@pytest.mark.parametrize(
    ("rows", "golds", "message"),
    [
        ([("a", "b")], ["1", "2"], r"STS.gs.x.txt:2: a score, but STS.input.x.txt has no such"),
        ([("a", "b", "c")], ["1"], r"STS.input.x.txt:1: 3 columns where 2"),
        ([("a", "b")], ["high"], r"STS.gs.x.txt:1: the score 'high' is no finite number"),
        ([("a", "b")], [""], r"no judged pair"),
    ],
)
def test_semeval_files_that_disagree_are_refused(tmp_path, rows, golds, message):
    semeval(tmp_path, "x", rows, golds)
    with pytest.raises(InputError, match=message):
        find_sts(tmp_path)


def test_a_part_without_its_gold_file_is_refused(tmp_path):
    write(tmp_path / "STS.input.x.txt", "a\tb")
    with pytest.raises(InputError, match=r"STS.input.x.txt, but no STS.gs.x.txt"):
        find_sts(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\ta\tb", r"test.tsv:2: the score is missing; give one"),
        (" \ta\tb", r"test.tsv:2: the score is missing"),
        ("nan\ta\tb", r"test.tsv:2: the score 'nan' is no finite number"),
        ("2,5\ta\tb", r"test.tsv:2: the score '2,5' is no finite number"),
        ("1.0\ta", r"test.tsv:2: 2 columns where the header has 3; check the tabs"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    with pytest.raises(InputError, match=message):
        read_sts(write(tmp_path / "test.tsv", "score\tsentence1\tsentence2", line))


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.csv", ["score,sentence1,sentence2", '1,"a,b'], r"a.csv:2: no valid CSV"),
        ("a.csv", ["score,sentence1,sentence2", "1,a,b,c"], r"a.csv:2: 4 columns .* commas"),
        ("a.tsv", ["score\tsentence1\tscore", "1\ta\tb"], r"a.tsv:1: two columns are called"),
        ("a.tsv", ["score\tsentence1\ttext", "1\ta\tb"], r"a.tsv:2: no 'sentence2'; found"),
        ("a.tsv", tabbed(*ROWS), r"a.tsv:2: no 'score'; found '5.0'"),
        ("a.tsv", ["score\tsentence1\tsentence2"], r"a.tsv holds no scored pair"),
        ("a.jsonl", ['{"sentence1": "a", "sentence2": "b", "score": null}'], r"score is missing"),
        ("a.jsonl", ['{"sentence1": "a", "sentence2": "b", "score": true}'], r"score True is no"),
        ("a.jsonl", ['{"sentence1": 7, "sentence2": "b", "score": 1}'], r"must be a string"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, name, lines, message):
    with pytest.raises(InputError, match=message):
        read_sts(write(tmp_path / name, *lines))


def test_an_empty_sentence_is_kept_and_counted(tmp_path):
    pairs = read_sts(write(tmp_path / "a.tsv", "score\tsentence1\tsentence2", "1\t\tb", "2\tc\td"))
    assert pairs.first == ["", "c"]
    assert pairs.empty == 1


def test_sets_are_found_at_and_below_the_root(tmp_path):
    lines = tabbed(("score", "sentence1", "sentence2"), *ROWS)
    for folder in (tmp_path / "root", tmp_path / "root" / "b" / "c", tmp_path / "root" / ".cache"):
        write(folder / "test.tsv", *lines)
    assert [pairs.name for pairs in find_sts(tmp_path / "root")] == ["b/c", "root"]


def test_an_empty_root_says_what_it_looked_for(tmp_path):
    with pytest.raises(InputError, match=r"holds no STS set: .*test.tsv.*STS.gs.NAME.txt"):
        find_sts(tmp_path)
    write(tmp_path / "dev.tsv", "score\tsentence1\tsentence2", "1\ta\tb")
    with pytest.raises(InputError, match=r"It has the split dev: name one with --split="):
        find_sts(tmp_path)
    with pytest.raises(InputError, match="is no folder"):
        find_sts(tmp_path / "nowhere")
    write(tmp_path / "test.tsv", "")
    write(tmp_path / "test.csv", "")
    with pytest.raises(InputError, match=r"holds test.tsv and test.csv for one set"):
        find_sts(tmp_path)


def test_pairs_that_disagree_are_refused():
    for wrong, message in (
        ((["a"], ["b", "c"], [1.0]), "1 first texts, 2 second, 1 grades"),
        ((["a"], ["b"], [1.0], ("x", "y")), "2 parts; give one of each a pair"),
        (([], [], []), "holds no pair"),
        ((["a"], ["b"], [float("nan")]), "the grade of pair 0 is nan"),
    ):
        with pytest.raises(InputError, match=message):
            TextPairs("s", *wrong)


def test_the_sts_benchmark_is_whole(data_root):
    found = {split: find_sts(data_root / "sts-b", split)[0] for split in ("train", "dev", "test")}
    assert {split: len(pairs) for split, pairs in found.items()} == {
        "train": 5749,
        "dev": 1500,
        "test": 1379,
    }
    assert found["test"].name == "sts-b"
    assert found["test"].first[0] == "A girl is styling her hair."
    assert sum('"' in text for text in found["train"].first) > 100
    for pairs in found.values():
        assert pairs.empty == 0
        assert pairs.grades.min() >= 0.0
        assert pairs.grades.max() <= 5.0
