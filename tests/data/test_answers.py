"""Questions with answers, and the passages they are asked of, in every form that is read."""

import gzip
import json

import pytest

from magjax.checks import InputError
from magjax.data import Passages, QuestionSet, read_beir, read_passages, read_questions


@pytest.fixture
def file(tmp_path):
    def make(name, content):
        path = tmp_path / name
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return make


def lines(*rows):
    return "\n".join(map(json.dumps, rows)) + "\n"


def test_nq_open_lines_without_ids(file):
    path = file(
        "NQ-open.dev.jsonl",
        lines(
            {"question": "when was it", "answer": ["14 December 1972 UTC", "December 1972"]},
            {"question": "who wrote emma", "answer": ["Jane Austen"]},
        ),
    )
    found = read_questions(path)
    assert found.ids == ["question-0", "question-1"]
    assert found.questions == ["when was it", "who wrote emma"]
    assert found.answers == [("14 December 1972 UTC", "December 1972"), ("Jane Austen",)]
    assert found.answers_of["question-1"] == ("Jane Austen",)


def test_squad_like_and_musique_lines(file):
    path = file(
        "qa.jsonl.gz",
        lines(
            {"_id": "a", "question": "q?", "answers": ["308", " 308 ", ""], "answer_start": [34]},
            {"id": 7, "question": "q?", "answers": {"text": ["x", "y"], "answer_start": [1, 2]}},
            {"id": "m", "question": "q?", "answer": "NYC", "answer_aliases": ["New York", "NYC"]},
            {"id": "s", "question": "q?", "answers": [{"text": "x", "answer_start": 3}]},
        ),
    )
    found = read_questions(path)
    assert found.ids == ["a", "7", "m", "s"]
    assert found.answers == [("308",), ("x", "y"), ("NYC", "New York"), ("x",)]


def test_triviaqa_joins_the_names_of_an_entity(file):
    answer = {
        "Aliases": ["Sunset Blvd", "Sunset Bulevard"],
        "MatchedWikiEntityName": "",
        "NormalizedAliases": ["sunset blvd", "sunset boulevard"],
        "NormalizedValue": "sunset boulevard",
        "Type": "WikipediaEntity",
        "Value": "Sunset Boulevard",
    }
    row = {"Question": "Which musical?", "QuestionId": "tc_33", "Answer": answer}
    found = read_questions(file("unfiltered-web-dev.json", {"Data": [row], "Split": "dev"}))
    assert found.ids == ["tc_33"]
    assert found.answers == [
        ("Sunset Boulevard", "Sunset Blvd", "Sunset Bulevard", "sunset blvd", "sunset boulevard")
    ]


def test_hotpotqa_is_a_list(file):
    rows = [
        {"_id": "5a8b", "question": "same nationality?", "answer": "yes", "context": [["T", ["s"]]]}
    ]
    found = read_questions(file("hotpot_dev_distractor_v1.json", rows))
    assert (found.ids, found.answers) == (["5a8b"], [("yes",)])


def test_squad_leaves_impossible_questions_out_and_says_so(file, caplog):
    qas = [
        {"id": "1", "question": "who?", "answers": [{"text": "a", "answer_start": 0}] * 2},
        {"id": "2", "question": "what?", "answers": [], "is_impossible": True},
    ]
    squad = {
        "version": "v2.0",
        "data": [{"title": "T", "paragraphs": [{"context": "c", "qas": qas}]}],
    }
    found = read_questions(file("dev-v2.0.json", squad))
    assert (found.ids, found.answers, found.unanswered) == (["1"], [("a",)], 1)
    assert "left out 1 questions that state no answer" in caplog.text


def test_dprs_lists_are_read_and_never_run(file, tmp_path):
    path = file(
        "nq-test.csv",
        "who sings does he love me with reba\t['Linda Davis']\n"
        '"what is ""it"""\t["it\'s", \'b\\u00e9\']\n'
        'why\t"[\'a\', ""b\'s""]"\n',
    )
    found = read_questions(path)
    assert found.questions == ["who sings does he love me with reba", 'what is "it"', "why"]
    assert found.answers == [("Linda Davis",), ("it's", "bé"), ("a", "b's")]
    witness = tmp_path / "ran"
    path = file("evil.tsv", f"q\t[open({str(witness)!r}, 'w').write('x')]\n")
    with pytest.raises(InputError, match=r"evil\.tsv:1: .* is no list of answers \(ValueError\)"):
        read_questions(path)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", lines({"answers": ["x"]}), r"a\.jsonl:1: 'question' is None"),
        ("a.jsonl", lines({"question": " ", "answers": ["x"]}), "1: 'question' is ' '"),
        (
            "a.jsonl",
            lines({"question": "q", "answers": [1815]}),
            "1: an answer is 1815, but must be",
        ),
        (
            "a.jsonl",
            lines({"question": "q", "answers": {"value": "x"}}),
            "an answer is {'value': 'x'}",
        ),
        ("a.jsonl", lines({"question": "q", "answers": True}), "an answer is True"),
        ("a.jsonl", lines({"question": "q", "id": 1.5, "answers": ["x"]}), "the id is 1.5"),
        ("a.jsonl", lines(*[{"question": "q", "id": 1, "answers": ["x"]}] * 2), "'1' occurs twice"),
        ("a.jsonl", lines({"question": "q"}), "holds no question with an answer"),
        ("a.jsonl", "", "holds no question with an answer"),
        ("a.jsonl", "[1]\n", "a JSON object was needed"),
        ("a.json", ["x"], r"a\.json: entry 0: str where an object"),
        ("a.json", [{"question": "q", "answer": 5}], "entry 0: an answer is 5"),
        ("a.json", {"rows": []}, r"nor an object with 'data' .* it is dict with 'rows'"),
        ("a.json", {"data": [{"paragraphs": [{}]}]}, r"not SQuAD's list .* \(KeyError: 'qas'\)"),
        ("a.json", {"data": 5}, "not SQuAD's list"),
        ("a.json", "{", "not valid JSON"),
        ("a.tsv", "question only\n", "1: 1 columns where a question"),
        ("a.tsv", "q\t'x'\n", "'x'\" is no list; write"),
        ("a.tsv", "q\t[1]\n", "an answer is 1"),
        ("a.tsv", "q\t" + "[" * 5000 + "\n", "is no list of answers"),
        ("a.tsv", '"q\t[]\n', "the quotes cannot be read"),
        ("a.parquet", "x", "questions are read from .jsonl, .json, .tsv and .csv"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(file, name, content, message):
    with pytest.raises(InputError, match=message):
        read_questions(file(name, content))


def test_questions_without_an_answer_are_no_question_set():
    with pytest.raises(InputError, match="question 'q' has no answer"):
        QuestionSet(["q"], ["who?"], [()])
    with pytest.raises(InputError, match="2 lists of answers for 1 questions"):
        QuestionSet(["q"], ["who?"], [("a",), ("b",)])


def test_the_fingerprint_names_questions_and_answers():
    one = QuestionSet(["q"], ["who?"], [("a",)])
    assert one.fingerprint == QuestionSet(["q"], ["who?"], [("a",)], source="other").fingerprint
    assert one.fingerprint != QuestionSet(["q"], ["who?"], [("b",)]).fingerprint


def test_beirs_corpus_keeps_titles_apart(file):
    path = file(
        "corpus.jsonl",
        lines(
            {"_id": "d1", "title": "Emma", "text": "a novel"},
            {"_id": 2, "title": None, "text": "untitled"},
            {"_id": "d3", "text": ""},
        ),
    )
    found = read_passages(path)
    assert found == Passages(
        ["d1", "2", "d3"], ["Emma", "", ""], ["a novel", "untitled", ""], "corpus.jsonl"
    )
    assert found.documents == ["Emma a novel", "untitled", ""]


def test_dprs_passages_with_and_without_header(file):
    rows = '1\t"Aaron or ""Ahron"" is"\tAaron\n2\tplain "text"\tOther\n'
    for content in (rows, "id\ttext\ttitle\n" + rows):
        found = read_passages(file("psgs_w100.tsv.gz", content))
        assert found.ids == ["1", "2"]
        assert found.texts == ['Aaron or "Ahron" is', 'plain "text"']
        assert found.titles == ["Aaron", "Other"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", lines({"_id": "d", "title": 5, "text": "x"}), r"a\.jsonl:1: 'text' must be"),
        ("a.jsonl", lines(*[{"_id": "d", "text": "x"}] * 2), "2: id 'd' occurred in line 1"),
        ("a.jsonl", "", "holds no passage"),
        ("a.tsv", "id\ttext\ttitle\n", "holds no passage"),
        ("a.tsv", "1\ttext\n", r"a\.tsv:1: 2 columns where id, text and title"),
        ("a.tsv", "1\tx\ty\n1\tx\ty\n", "2: the id '1' is empty or occurred before"),
        ("a.tsv", "\tx\ty\n", "the id '' is empty"),
        ("a.csv", "x", "from a .jsonl or .tsv file"),
    ],
)
def test_a_broken_corpus_is_named_with_its_place(file, name, content, message):
    with pytest.raises(InputError, match=message):
        read_passages(file(name, content))


def test_real_questions_and_passages(data_root):
    hotpot = data_root / "hotpotqa-sample"
    questions, passages = (
        read_questions(hotpot / "qa.jsonl"),
        read_passages(hotpot / "corpus.jsonl"),
    )
    assert (len(questions), len(passages)) == (500, 4968)
    assert passages.documents == read_beir(hotpot, split="dev").documents
    assert len(read_questions(data_root / "nq-open" / "dev.jsonl")) == 3610
    assert read_questions(data_root / "xquad" / "qa.de.jsonl").answers[0] == ("308",)
