import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.evaluation import Ranking
from magjax.evaluation.rag import answer_ranks, answer_recall, has_answer

DOCUMENTS = {"d1": "Emma is by Jane Austen", "d2": "a novel", "d3": "US, not the U.S."}
ANSWERS = {"q1": ["Austen", "J. Austen"], "q2": ["a novel"], "q3": ["No"], "q4": ["nobody knows"]}
RANKED = {"q1": ["d2", "d1", "d3"], "q2": ["d2"], "q3": ["d1"], "q9": ["d1"]}


def test_recall_of_a_case_counted_by_hand():
    found = answer_recall(RANKED, DOCUMENTS, ANSWERS, [1, 2])
    assert found.per_query == {
        "q1": {"answer_recall@1": 0.0, "answer_recall@2": 1.0},
        "q2": {"answer_recall@1": 1.0, "answer_recall@2": 1.0},
        "q4": {"answer_recall@1": 0.0, "answer_recall@2": 0.0},  # missing from the ranking
    }
    assert found.mean == {"answer_recall@1": 1 / 3, "answer_recall@2": 2 / 3}
    assert found.counts == {"queries": 3, "missing": 1, "unjudged": 1, "yes_no": 1}
    assert answer_ranks(RANKED, DOCUMENTS, ANSWERS)["q1"] == 2


def test_both_matches_in_one_pass():
    found = answer_recall({"q": ["d3"]}, DOCUMENTS, {"q": ["U.S"]}, [1], matches=("dpr", "squad"))
    assert found.mean == {"answer_recall@1": 1.0, "answer_recall_squad@1": 1.0}
    found = answer_recall(
        {"q": ["d1"]}, DOCUMENTS, {"q": ["the Emma"]}, [1], matches=("dpr", "squad")
    )
    assert found.mean == {"answer_recall@1": 0.0, "answer_recall_squad@1": 1.0}


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_recall_equals_a_loop_over_passages(data):
    words = st.sampled_from(["x", "y", "z", "xy", "-"])
    texts = st.lists(words, min_size=1, max_size=4).map(" ".join)
    documents = {
        f"d{i}": text for i, text in enumerate(data.draw(st.lists(texts, min_size=1, max_size=6)))
    }
    order = st.permutations(list(documents))
    answers = {
        f"q{i}": [a] for i, a in enumerate(data.draw(st.lists(texts, min_size=1, max_size=4)))
    }
    ranked = {name: data.draw(order) for name in answers}
    found = answer_recall(ranked, documents, answers, [1, 2, 5])
    for name, aliases in answers.items():
        hits = [has_answer(documents[d], aliases) for d in ranked[name]]
        for k in (1, 2, 5):
            assert found.per_query[name][f"answer_recall@{k}"] == float(any(hits[:k]))


def test_a_ranking_object_equals_its_lists():
    ranking = Ranking(
        ("q1", "q2"),
        (("d2", "d1"), ("d2",)),
        (np.array([2.0, 1.0]), np.array([1.0])),
        (np.array([1, 0]), np.array([1])),
    )
    lists = {"q1": ["d2", "d1"], "q2": ["d2"]}
    answers = {name: ANSWERS[name] for name in lists}
    assert answer_recall(ranking, DOCUMENTS, answers) == answer_recall(lists, DOCUMENTS, answers)


def test_each_passage_is_split_once(monkeypatch):
    from magjax.evaluation.rag import _answer_recall

    split = []
    original = _answer_recall.searchable
    monkeypatch.setattr(
        _answer_recall,
        "searchable",
        lambda text, match: split.append(text) or original(text, match),
    )
    ranked = {f"q{i}": ["d2", "d1"] for i in range(10)}
    answer_recall(ranked, DOCUMENTS, {name: ["Austen"] for name in ranked}, [2])
    assert sorted(split) == sorted([DOCUMENTS["d1"], DOCUMENTS["d2"]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": {"q3": ["No"]}}, "none of the 1 questions has an answer other than yes or no"),
        (
            {"ranking": {"q1": ["d7"]}},
            "question 'q1' names passage 'd7', which the documents do not",
        ),
        ({"ks": [0]}, "k of answer recall=0 must be"),
        ({"ks": []}, "at least one depth"),
        ({"matches": ("exact",)}, "unknown match 'exact'"),
    ],
)
def test_what_cannot_be_measured_is_refused(change, message):
    case = {"ranking": RANKED, "documents": DOCUMENTS, "answers": ANSWERS} | change
    with pytest.raises(InputError, match=message):
        answer_recall(**case)
