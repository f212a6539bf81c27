"""What all suites share: settings, reports, files, and the table of suites."""

import importlib
import json

import pytest

from magjax.checks import InputError
from magjax.evaluation import evaluate_bm25
from magjax.evaluation.suites import (
    SUITES,
    Suite,
    SuiteAverage,
    SuiteReport,
    SuiteRow,
    SuiteSettings,
    write_suite,
)
from magjax.similarity import Score


@pytest.fixture
def report(small_benchmark):
    result = evaluate_bm25(small_benchmark, metrics=["mrr@10"])
    rows = [
        SuiteRow(
            name="[sts] a",
            values={"spearman": 0.8},
            intervals={"spearman": (0.75, 0.85)},
            counts={"pairs": 1379},
            score=Score.of("cosine"),
        ),
        SuiteRow(name="b", system="bm25", values={"mrr@10": 0.5}, counts={"queries": 3}),
    ]
    return SuiteReport(
        suite="mixed",
        rows=rows,
        averages=[SuiteAverage(label="mean of 2 sets", values={"spearman": 0.7})],
        notes=["b: a note."],
        retrieval=[result],
        per_item={"sts/a": [{"line": 1, "score": 0.5}, {"line": 2, "score": 0.25}]},
    )


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_that_is_listed_is_there(name):
    suite = SUITES[name]
    module, _, function = suite.target.partition(":")
    found = importlib.import_module(f"magjax.evaluation.suites.{module}")
    assert callable(getattr(found, function))
    assert suite.name == name
    fields = SuiteSettings.__dataclass_fields__
    assert set(suite.takes) <= set(fields)


def test_table_has_a_column_for_each_count_and_metric(report):
    header, _, first, second, average, note = report.format().splitlines()
    assert header.split() == [
        *("data", "set", "system", "score", "pairs", "queries", "spearman", "mrr@10"),
    ]
    assert first.split() == [
        *("[sts]", "a", "model", "cosine", "1,379", "-", "0.8000", "[0.7500,", "0.8500]", "-"),
    ]
    assert second.split() == ["b", "bm25", "-", "-", "3", "-", "0.5000"]
    assert average.split() == [*("mean", "of", "2", "sets", "model", "-", "-", "-"), "0.7000", "-"]
    assert note == "b: a note."


def test_files(report, tmp_path):
    write_suite(tmp_path, report, {"checkpoint": "here"})
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "per_item/sts_a.jsonl",
        "per_query/small_set.bm25.jsonl",
        "results.json",
        "runs/small_set.bm25.trec",
    ]
    lines = (tmp_path / "per_item" / "sts_a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == report.per_item["sts/a"]
    written = json.loads((tmp_path / "results.json").read_text())
    assert list(written) == [
        *("checkpoint", "suite", "rows", "averages", "notes", "results"),
    ]
    assert written["rows"][0]["intervals"] == {"spearman": [0.75, 0.85]}
    assert written["rows"][0]["score"]["variant"] == "cosine"
    assert written["averages"][0]["label"] == "mean of 2 sets"
    assert written["results"][0]["domain"] == "small set"


def test_entries_that_would_overwrite_each_other_are_refused(report, tmp_path):
    with pytest.raises(InputError, match="may not hold 'rows'"):
        write_suite(tmp_path, report, {"rows": []})
    twice = SuiteReport(suite="s", rows=[], per_item={"a/b": [], "a b": []})
    with pytest.raises(InputError, match="two per-item lists would be written as 'a_b'"):
        write_suite(tmp_path, twice)
    assert not any(tmp_path.iterdir())


def test_settings_a_suite_does_not_take_are_refused(vector_model, tmp_path):
    suite = Suite("toy", "_beir:run_beir", "toys in it", ("split",), {"size": "how large"})
    for settings, message in (
        (SuiteSettings(bm25=True), "--bm25 is not a flag of suite 'toy', which takes: --tokens"),
        (SuiteSettings(ignore_identical_ids=False), "--ignore_identical_ids is not a flag"),
        (SuiteSettings(options={"sise": "1"}), "unknown option of suite 'toy' 'sise'.*'size'"),
    ):
        with pytest.raises(InputError, match=message):
            suite(vector_model, tmp_path, settings)
    with pytest.raises(InputError, match=r"suite 'beir' takes no --option; got 'size'"):
        SUITES["beir"](vector_model, tmp_path, SuiteSettings(options={"size": "1"}))
    with pytest.raises(InputError, match=r"nowhere is no folder; suite 'beir' needs BEIR folders"):
        SUITES["beir"](vector_model, tmp_path / "nowhere")


def test_options_take_the_type_of_their_default():
    settings = SuiteSettings(options={"a": "3", "b": "False", "c": "x=y", "d": "0.5"})
    assert settings.option("a", 1) == 3
    assert settings.option("b", True) is False
    assert settings.option("c", "") == "x=y"
    assert settings.option("d", 1.0) == 0.5
    assert settings.option("e", 7) == 7
    with pytest.raises(InputError, match=r"--option=c=x=y: a value of type int was needed"):
        settings.option("c", 1)
    with pytest.raises(InputError, match=r"unknown value of --option=c 'x=y'; known: true, false"):
        settings.option("c", False)


def test_depth_is_that_of_the_deepest_metric_unless_named():
    assert SuiteSettings().depth(["ndcg@10"]) == 100
    assert SuiteSettings().depth(["recall@200", "map"]) == 200
    assert SuiteSettings().depth(["mrr@10"], own=1000) == 1000
    assert SuiteSettings(k=10).depth(["mrr@10"], own=1000) == 10
    with pytest.raises(InputError, match="'recall@20' looks at 20 documents"):
        SuiteSettings(k=10).depth(["recall@20"])


@pytest.mark.parametrize("wrong", [{"k": 0}, {"tokens_per_batch": 0}])
def test_counts_must_be_whole_and_positive(wrong):
    with pytest.raises(InputError, match="whole number of at least 1"):
        SuiteSettings(**wrong)
