"""Multi-hop questions in their three forms: joint recall, parts, and what is left out."""

import collections
import json
import math

import pytest
from suite_cases import values, write_beir, write_lines

from magjax.checks import InputError
from magjax.data import read_multihop
from magjax.evaluation.suites import SUITES, SuiteSettings

# Titles count as text: "3 0 A" is title "3" before text "0 A".
PARAGRAPHS = [["4", ["0 far"]], ["3", ["0 A", " and more"]], ["2", ["0 B"]], ["1", ["0 C"]]]


def hotpot(name, titles, context=PARAGRAPHS, **extra):
    return {
        "_id": name,
        "question": "1 0",
        "answer": "so",
        "supporting_facts": [[title, 0] for title in titles],
        "context": context,
        **extra,
    }


def musique(name, supporting, **extra):
    paragraphs = [
        {
            "idx": i,
            "title": str(4 - i),
            "paragraph_text": "0 text",
            "is_supporting": i in supporting,
        }
        for i in range(4)
    ]
    return {"id": name, "question": "1 0", "paragraphs": paragraphs, "answerable": True, **extra}


def run(model, root, **settings):
    return SUITES["multihop"](model, root, SuiteSettings(**settings))


def test_joint_recall_by_type(vector_model, tmp_path):
    questions = [
        hotpot("q1", ["4", "3"], type="bridge", level="hard"),  # places 1 and 2
        hotpot("q2", ["4", "1"], type="bridge", level="easy"),  # places 1 and 4
        hotpot("q3", ["2", "1"], type="comparison", level="hard"),  # places 3 and 4
    ]
    (tmp_path / "hotpot_dev_distractor_v1.json").write_text(json.dumps(questions))
    (tmp_path / "hotpot_train_v1.1.json").write_text("[not read")
    report = run(vector_model, tmp_path)
    name = "hotpot_dev_distractor_v1"
    assert values(report, "recall@2") == pytest.approx(
        {
            name: (1 + 0.5 + 0) / 3,
            f"{name} type=bridge": 0.75,
            f"{name} type=comparison": 0.0,
            f"{name} level=easy": 0.5,
            f"{name} level=hard": 0.5,
        }
    )
    assert list(values(report, "all@2").values()) == pytest.approx([1 / 3, 0.5, 0.0, 0.0, 0.5])
    assert set(values(report, "all@5").values()) == {1.0}
    assert values(report, "mrr")[name] == pytest.approx((1 + 1 + 1 / 3) / 3)
    ideal = 1 + 1 / math.log2(3)
    third = (1 / math.log2(4) + 1 / math.log2(5)) / ideal
    assert values(report, "ndcg@10")[f"{name} type=comparison"] == pytest.approx(third)
    assert [row.counts["queries"] for row in report.rows] == [3, 2, 1, 1, 2]
    assert report.retrieval[0].evaluation.per_query["q1"]["all@2"] == 1.0


def test_paragraphs_of_all_questions_are_one_corpus(tmp_path):
    shared, other = ["Shared", ["Same text."]], ["Shared", ["Another text."]]
    questions = [
        hotpot("q1", ["A"], [shared, ["A", ["a", " b"]]]),
        hotpot("q2", ["Shared"], [["B", []], ["Shared", ["Same", "text."]]]),
        hotpot("q3", ["A"], [other, ["A", ["a b"]]]),
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(questions))
    benchmark = read_multihop(path).benchmark
    assert benchmark.documents == ["Shared Same text.", "A a b", "B", "Shared Another text."]
    assert benchmark.qrels == {"q1": {"p1": 1}, "q2": {"p0": 1}, "q3": {"p1": 1}}


def test_musique_knows_hops_and_what_has_no_answer(vector_model, tmp_path):
    rows = [
        musique("2hop__1_2", {0, 1}),
        musique("3hop1__1_2_3", {1, 2, 3}),
        musique("2hop__3_4", {0}, answerable=False),
        musique("4hop2__5", set()),
    ]
    write_lines(tmp_path / "data" / "musique_full_v1.0_dev.jsonl", rows)
    report = run(vector_model, tmp_path, metrics=("all@2", "all@5"))
    name = "data/musique_full_v1.0_dev"
    assert values(report, "all@2") == {name: 0.5, f"{name} hops=2": 1.0, f"{name} hops=3": 0.0}
    assert report.notes[:2] == [
        f"{name}: 1 questions left out, not answerable.",
        f"{name}: 1 questions left out, a supporting paragraph is not in the context.",
    ]


def test_contexts_that_lack_a_supporting_paragraph(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([hotpot("q1", ["4", "nowhere"]), hotpot("q2", ["4"])]))
    data = read_multihop(path)
    assert data.benchmark.query_ids == ["q2"]
    assert data.left_out == {"a supporting paragraph is not in the context": 1}
    path.write_text(json.dumps([hotpot("q1", ["nowhere"])]))
    with pytest.raises(InputError, match=r"holds no question with supporting paragraphs \(1 a sup"):
        read_multihop(path)


def test_beir_folders_with_qa(vector_model, tmp_path):
    corpus = {"a": "3 0", "b": "2 0", "c": "1 0"}
    for name, gold in (("one", "a b"), ("two", "a c")):
        folder = write_beir(tmp_path / name, corpus, {"q": "1 0"}, split="dev", q=gold)
        write_lines(folder / "qa.jsonl", [{"_id": "q", "answers": ["x"], "type": "bridge"}])
    report = run(vector_model, tmp_path, bm25=True, metrics=("all@2",))
    assert values(report, "all@2") == {
        **{"one": 1.0, "one type=bridge": 1.0},
        **{"two": 0.0, "two type=bridge": 0.0},
    }
    assert [(a.label, a.system, a.values) for a in report.averages] == [
        ("mean of 2 sets", "model", {"all@2": 0.5}),
        ("mean of 2 sets", "bm25", {"all@2": 0.0}),
    ]
    write_lines(tmp_path / "one" / "qa.jsonl", [{"_id": "other"}])
    with pytest.raises(InputError, match=r"one/qa\.jsonl names none of the 1 questions"):
        run(vector_model, tmp_path)


def test_an_empty_root_says_what_was_looked_for(vector_model, tmp_path):
    (tmp_path / "train.json").write_text(json.dumps([hotpot("q", ["4"])]))
    with pytest.raises(InputError, match=r"holds no multi-hop set of split 'dev'.*qa\.jsonl"):
        run(vector_model, tmp_path)
    assert values(run(vector_model, tmp_path, split="train"), "mrr") == {"train": 1.0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"_id": "q", "question": "1 0"}], r"dev\.json, question 1: no question of a known form"),
        ([hotpot("q", ["4"]), hotpot("q", ["4"])], r"question 2: question 'q' occurred before"),
        ([hotpot("q", ["4"], question=" ")], r"question 1: 'question' is ' ', but must be a text"),
        ([hotpot(7, ["4"])], r"question 1: '_id' is 7, but must be a text"),
        ({"data": []}, "must hold a list of questions"),
        ([], r"holds no question with supporting paragraphs \(empty\)"),
    ],
)
def test_wrong_questions_are_named(tmp_path, content, message):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_multihop(path)


def test_the_published_sample_has_its_published_parts(data_root):
    data = read_multihop(data_root / "hotpotqa-sample")
    sizes = {part: len(queries) for part, queries in data.parts().items()}
    assert sizes == {
        **{"type=bridge": 409, "type=comparison": 91},
        **{"level=easy": 99, "level=medium": 312, "level=hard": 89},
    }
    assert set(collections.Counter(len(r) for r in data.benchmark.qrels.values())) == {2}
