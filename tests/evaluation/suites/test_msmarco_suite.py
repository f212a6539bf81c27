"""MS MARCO's dev queries and TREC's graded ones, whose relevance begins at 2."""

import math

import pytest
from suite_cases import values

from magjax.checks import InputError
from magjax.data import TrainingSet, read_trec_dl
from magjax.evaluation.suites import SUITES, SuiteSettings


@pytest.fixture
def folder(tmp_path):
    collection = [f"{i}\t{5 - i} 0 passage" for i in range(4)]  # ranked 0, 1, 2, 3
    (tmp_path / "collection.tsv").write_text("\n".join([*collection, "4\t\n"]))
    (tmp_path / "queries.dev.tsv").write_text("10\t1 0\n11\t2 0\n12\t1 0 unjudged\n")
    (tmp_path / "qrels.dev.tsv").write_text("10\t0\t3\t1\n11\t0\t0\t1\n")
    return tmp_path


@pytest.fixture
def trec(folder):
    (folder / "msmarco-test2019-queries.tsv").write_text("19\t1 0\n20\t1 0 unjudged\n")
    # Ranked: 0 (grade 1, not relevant), 1 (grade 3), 2 (not judged), 3 (grade 2).
    (folder / "2019qrels-pass.txt").write_text("19 Q0 0 1\n19 Q0 1 3\n19 Q0 3 2\n19 Q0 4 0\n")
    return folder


def test_dev_queries(vector_model, folder):
    report = SUITES["msmarco"](vector_model, folder)
    (row,) = report.rows
    assert row.name.endswith("/dev")
    assert row.values == pytest.approx(
        {
            "mrr@10": (1 / 4 + 1) / 2,
            "recall@1000": 1.0,
            "ndcg@10": (1 / math.log2(5) + 1) / 2,
        }
    )
    assert report.retrieval[0].k == 1000
    assert report.averages == ()


def test_the_small_dev_set_goes_first(vector_model, folder):
    (folder / "qrels.dev.small.tsv").write_text("11\t0\t1\t1\n")
    report = SUITES["msmarco"](vector_model, folder, SuiteSettings(metrics=("mrr@10",)))
    assert list(values(report, "mrr@10").values()) == [0.5]
    asked = SUITES["msmarco"](vector_model, folder, SuiteSettings(split="dev"))
    assert asked.rows[0].values["mrr@10"] == (1 / 4 + 1) / 2


def test_trec_is_graded_and_counts_from_two(vector_model, trec):
    report = SUITES["trec_dl"](vector_model, trec)
    gain = 1 + 3 / math.log2(3) + 2 / math.log2(5)
    best = 3 + 2 / math.log2(3) + 1 / math.log2(4)
    assert report.rows[0].values == pytest.approx(
        {
            "ndcg@10": gain / best,
            "map": (1 / 2 + 2 / 4) / 2,
            "mrr": 1 / 2,
            "recall@100": 1.0,
            "recall@1000": 1.0,
        }
    )
    assert report.rows[0].counts == {"queries": 1, "documents": 5}
    assert report.notes[:2] == [
        "ndcg is graded; all other measures count passages judged 2 or 3 as relevant.",
        "trec-dl-2019, model: 1 queries without a judgement, skipped.",
    ]


def test_the_collection_is_embedded_once_for_both_years(vector_model, embedded, trec):
    (trec / "msmarco-test2020-queries.tsv").write_text("30\t0 1\n")
    (trec / "2020qrels-pass.txt").write_text("30 0 3 2\n")
    report = SUITES["trec_dl"](vector_model, trec)
    assert embedded == ["trec-dl-2019+corpus", "trec-dl-2020"]
    assert [row.name for row in report.rows] == ["trec-dl-2019", "trec-dl-2020"]
    assert report.averages == ()
    # All scores of the second year's query are 0: ties stand by id descending.
    assert report.retrieval[1].ranking.documents == (("4", "3", "2", "1", "0"),)
    only = SUITES["trec_dl"](vector_model, trec, SuiteSettings(split="2020"))
    assert [row.name for row in only.rows] == ["trec-dl-2020"]


def test_related_passages_are_no_answers_to_train_on(trec):
    (benchmark,) = read_trec_dl(trec)
    data = TrainingSet.from_benchmark(benchmark)
    assert data.positives == [(1, 3)]


def test_missing_and_wrong_files_are_named(vector_model, folder):
    with pytest.raises(InputError, match=r"holds no TREC Deep Learning task: msmarco-test2019-"):
        SUITES["trec_dl"](vector_model, folder)
    (folder / "2019qrels-pass.txt").write_text("19 Q0 0 1\n")
    with pytest.raises(InputError, match=r"msmarco-test2019-queries\.tsv does not exist"):
        SUITES["trec_dl"](vector_model, folder)
    with pytest.raises(InputError, match=r"unknown year '2021'; known: 2019, 2020"):
        SUITES["trec_dl"](vector_model, folder, SuiteSettings(split="2021"))
    (folder / "msmarco-test2019-queries.tsv").write_text("19\t1 0\n")
    (folder / "2019qrels-pass.txt").write_text("18 Q0 0 1\n")
    with pytest.raises(InputError, match=r"2019qrels-pass\.txt:1: query '18' is not among"):
        SUITES["trec_dl"](vector_model, folder)
    (folder / "2019qrels-pass.txt").write_text("19 Q0 77 1\n")
    with pytest.raises(InputError, match="name document '77', which the corpus does not hold"):
        SUITES["trec_dl"](vector_model, folder)
    with pytest.raises(InputError, match=r"queries\.eval\.tsv does not exist"):
        SUITES["msmarco"](vector_model, folder, SuiteSettings(split="eval"))
    with pytest.raises(InputError, match="'recall@1000' looks at 1000 documents"):
        SUITES["msmarco"](vector_model, folder, SuiteSettings(k=100))
