import logging

import pytest

from magjax.checks import InputError
from magjax.data import Benchmark, TrainingSet, text_key


def training_set(**changes):
    return TrainingSet(
        **{
            "query_ids": ["q", "r"],
            "queries": ["what adds", "what subtracts"],
            "positives": [(0,), (1,)],
            "negatives": [(1,), ()],
            "document_ids": ["d", "e"],
            "documents": ["a + b", "a - b"],
            "source": "pairs",
            **changes,
        }
    )


def benchmark(**changes):
    return Benchmark(
        **{
            "name": "tiny",
            "query_ids": ["q", "r"],
            "queries": ["what adds", "what subtracts"],
            "document_ids": ["d", "e"],
            "documents": ["a + b", ""],
            "qrels": {"q": {"d": 1, "e": 2}, "r": {"d": 0, "e": -1}},
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_ids": ["q", "q"]}, "query id 'q' occurs twice"),
        ({"document_ids": ["d", "d"]}, "document id 'd' occurs twice"),
        ({"query_ids": ["q"]}, "1 query ids for 2 texts"),
        ({"document_ids": ["d", " "]}, "document id ' ' must be"),
        ({"document_ids": ["d", "e\tf"]}, "has no tab"),
        ({"queries": ["what adds", " \n"]}, "query 'r' is empty"),
        ({"positives": [(0,), ()]}, "query 'r' has no positive"),
        ({"positives": [(0,), (2,)]}, "names document number 2, but there are 2"),
        ({"positives": [(0,), (-1,)]}, "names document number -1"),
        ({"positives": [(0,)]}, "1 rows of positives for 2 queries"),
        ({"negatives": [(0,), ()]}, "'d' is a positive and a negative of query 'q'"),
        ({"documents": ["a + b", " "]}, "'e', an answer to query 'r', is empty"),
    ],
)
def test_wrong_training_records_are_refused(changes, message):
    with pytest.raises(InputError, match=f"^pairs: .*{message}"):
        training_set(**changes)


def test_training_set_needs_a_query():
    with pytest.raises(InputError, match="at least one pair"):
        training_set(query_ids=[], queries=[], positives=[], negatives=[])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qrels": {"x": {"d": 1}}}, "name query 'x'"),
        ({"qrels": {"q": {"x": 1}}}, "name document 'x'"),
        ({"queries": ["what adds", ""]}, "query 'r' is empty"),
        ({"document_ids": ["d", "d"]}, "occurs twice"),
        ({"query_ids": [], "queries": [], "qrels": {}}, "holds no query"),
        ({"document_ids": [], "documents": [], "qrels": {}}, "holds no document"),
    ],
)
def test_wrong_benchmarks_are_refused(changes, message):
    with pytest.raises(InputError, match=f"^tiny.*{message}"):
        benchmark(**changes)


def test_queries_without_judgement_and_empty_documents_are_kept():
    kept = benchmark(qrels={"q": {"d": 1}, "r": {}})
    assert list(kept.query_ids) == ["q", "r"]
    assert kept.documents[1] == ""


def test_training_pairs_of_a_benchmark(caplog):
    with caplog.at_level(logging.WARNING):
        data = TrainingSet.from_benchmark(benchmark())
    assert (data.query_ids, data.positives) == (["q"], [(0,)])
    assert "left out 1 queries without an answer and 1 empty documents" in caplog.text


def test_benchmark_without_answers_gives_no_training_set():
    with pytest.raises(InputError, match="no query has a document judged above 0"):
        TrainingSet.from_benchmark(benchmark(qrels={"q": {"d": 0}}))


def test_fingerprint_names_the_content():
    assert training_set().fingerprint == training_set(source="elsewhere").fingerprint
    assert training_set().fingerprint != training_set(negatives=[(), ()]).fingerprint
    assert training_set().fingerprint != training_set(documents=["a + b", "a-b"]).fingerprint
    assert benchmark().fingerprint == benchmark(name="other").fingerprint
    reordered = {"r": {"e": -1, "d": 0}, "q": {"e": 2, "d": 1}}
    assert benchmark().fingerprint == benchmark(qrels=reordered).fingerprint
    assert benchmark().fingerprint != benchmark(qrels={"q": {"d": 2}}).fingerprint


def test_text_key_ignores_white_space_only():
    assert text_key(" a\n\tb ") == "a b"
    assert text_key("A") != text_key("a")
