"""The suites of symmetric tasks from files to reports: rows, averages, notes, refusals."""

import dataclasses
import json

import numpy as np
import pytest
from equals_cases import REASON, one_sided_models, scores_by_hand
from scipy.stats import pearsonr, spearmanr

from magjax.checks import InputError
from magjax.data import TextSettings, find_labelled_pairs, find_labelled_texts, find_sts
from magjax.evaluation import ORDERS, embed_pairs, evaluate_clustering, pair_scores
from magjax.evaluation.suites import SUITES, SuiteSettings, write_suite
from magjax.similarity import Score

WORDS = ("adds", "sorts", "sum of", "multiplies", "a list", "all numbers", "two numbers", "how to")
FEW = {"resamples": "20"}


@pytest.fixture(scope="module")
def model(small_model):
    text = TextSettings(query_max_length=16, document_max_length=16)
    return dataclasses.replace(small_model, score=Score.of("cosine"), text=text)


def texts(seed, count):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 4))) for _ in range(count)]


def table(path, header, *columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [header, *zip(*columns, strict=True)]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))


@pytest.fixture(scope="module")
def sts_root(tmp_path_factory):
    root = tmp_path_factory.mktemp("sts")
    grades = np.random.default_rng(1).integers(0, 6, 20)
    table(
        root / "b" / "test.tsv",
        ("score", "sentence1", "sentence2"),
        grades,
        texts(2, 20),
        texts(3, 20),
    )
    for name, seed in (("news", 4), ("forum", 5)):
        table(root / "STS16" / f"STS.input.{name}.txt", texts(seed, 2), texts(6, 8), texts(7, 8))
        gold = np.random.default_rng(seed).integers(0, 6, 9).tolist()
        gold[3] = ""
        (root / "STS16" / f"STS.gs.{name}.txt").write_text("".join(f"{g}\n" for g in gold))
    return root


def settings(**changes):
    return SuiteSettings(options=FEW, **changes)


def test_sts_reports_each_set_and_part_and_the_mean_over_sets(model, sts_root, tmp_path):
    report = SUITES["sts"](model, sts_root, settings())
    names = [row.name for row in report.rows]
    assert names == ["STS16", "STS16 forum", "STS16 news", "b"]
    assert [row.counts["pairs"] for row in report.rows] == [16, 8, 8, 20]
    assert {row.system for row in report.rows} == {"model"}
    spearman = {}
    for pairs in find_sts(sts_root):
        embeddings = embed_pairs(model, pairs)
        (values,) = pair_scores(embeddings, model.score).values()
        by_hand, _ = scores_by_hand(embeddings, model.score)
        np.testing.assert_allclose(values, by_hand, rtol=1e-9)
        row = next(row for row in report.rows if row.name == pairs.name)
        spearman[pairs.name] = spearmanr(values, pairs.grades).statistic
        assert row.values["spearman"] == pytest.approx(spearman[pairs.name], abs=1e-9)
        assert row.values["pearson"] == pytest.approx(pearsonr(values, pairs.grades)[0], abs=1e-9)
        assert row.intervals["spearman"][0] < row.values["spearman"] < row.intervals["spearman"][1]
        assert row.fingerprint == pairs.fingerprint
        assert [record["score"] for record in report.per_item[pairs.name]] == values.tolist()
    (average,) = report.averages
    assert average.label == "mean of 2 sets"
    assert average.values["spearman"] == pytest.approx(np.mean([*spearman.values()]), abs=1e-9)
    assert report.notes == ["STS16: 2 pairs without a gold score are left out."]
    write_suite(tmp_path, report)
    written = json.loads((tmp_path / "results.json").read_text())
    assert [row["name"] for row in written["rows"]] == names
    assert len((tmp_path / "per_item" / "STS16.jsonl").read_text().splitlines()) == 16
    assert "STS16 forum" in report.format()


def test_sts_under_a_one_sided_score_is_refused_or_has_a_row_an_order(model, sts_root):
    qnorm = dataclasses.replace(model, score=Score.of("qnorm"))
    with pytest.raises(InputError, match=r"suite 'sts' compares texts as equals.*allow_asymmetric"):
        SUITES["sts"](qnorm, sts_root, settings())
    report = SUITES["sts"](qnorm, sts_root, settings(allow_asymmetric=True))
    assert [row.system for row in report.rows if row.name == "b"] == [
        f"model {order}" for order in ORDERS
    ]
    assert [average.system for average in report.averages] == [f"model {order}" for order in ORDERS]
    assert report.notes[0].startswith("The model tells queries from documents: its score qnorm")
    dnorm = dataclasses.replace(model, score=Score.of("dnorm"))
    other = SUITES["sts"](dnorm, sts_root, settings(allow_asymmetric=True))
    value = {row.system: row.values["spearman"] for row in report.rows if row.name == "b"}
    swapped = {row.system: row.values["spearman"] for row in other.rows if row.name == "b"}
    assert value["model score(a,b)"] == swapped["model score(b,a)"]
    assert value["model symmetrized"] == swapped["model symmetrized"]


@pytest.mark.parametrize("name", ["sts", "pair_classification", "clustering"])
def test_an_encoder_with_sides_is_refused_before_anything_is_read(model, tmp_path, name):
    for kind, other in one_sided_models(model).items():
        with pytest.raises(InputError, match=rf"suite '{name}' .*{REASON[kind]}"):
            SUITES[name](other, tmp_path)
    with pytest.raises(InputError, match=r"neither it nor a folder below it has test\.tsv"):
        SUITES[name](model, tmp_path)
    with pytest.raises(InputError, match=r"--k is not a flag of suite"):
        SUITES[name](model, tmp_path, SuiteSettings(k=10))


def test_cut_and_empty_texts_are_said(model, tmp_path):
    long = " ".join(WORDS * 3)
    table(
        tmp_path / "a" / "dev.tsv",
        ("score", "sentence1", "sentence2"),
        (1, 2, 3),
        (long, "", "adds"),
        ("adds", "sorts", "adds"),
    )
    report = SUITES["sts"](model, tmp_path, settings(split="dev"))
    assert report.notes == [
        "a: 1 pairs with an empty text, kept as published.",
        "a: 25.0% of the texts were cut to the length limit.",
    ]
    assert report.averages == ()


def test_pair_classification_reports_average_precision(model, tmp_path):
    sklearn = pytest.importorskip("sklearn.metrics")
    header = ("sentence1", "sentence2", "label")
    for seed, name in enumerate(("p", "q")):
        labels = [0, 1] * 10
        table(tmp_path / name / "test.tsv", header, texts(seed, 20), texts(seed + 9, 20), labels)
    report = SUITES["pair_classification"](model, tmp_path, settings())
    assert [row.name for row in report.rows] == ["p", "q"]
    for row, pairs in zip(report.rows, find_labelled_pairs(tmp_path), strict=True):
        scores = [record["score"] for record in report.per_item[row.name]]
        expected = sklearn.average_precision_score(pairs.grades, scores)
        assert row.values["ap"] == pytest.approx(expected, abs=1e-9)
        assert row.counts == {"pairs": 20, "positive": 10}
        assert row.values["accuracy"] >= 0.5
        assert row.details["recall"] > 0.0
    (average,) = report.averages
    assert average.values["ap"] == pytest.approx(np.mean([r.values["ap"] for r in report.rows]))


def test_clustering_reports_the_v_measure(model, tmp_path):
    table(tmp_path / "c" / "test.tsv", ("label", "text"), ["x", "y", "z"] * 5, texts(8, 15))
    chosen = SuiteSettings(seed=4, options={"runs": "3"})
    report = SUITES["clustering"](model, tmp_path, chosen)
    (data,) = find_labelled_texts(tmp_path)
    expected = evaluate_clustering(model, data, runs=3, seed=4).forms["both"]
    (row,) = report.rows
    assert row.values["v_measure"] == pytest.approx(expected.v_measure.mean, abs=1e-9)
    assert row.counts == {"texts": 15, "labels": 3}
    assert row.details["runs"] == pytest.approx(expected.runs)
    qnorm = dataclasses.replace(model, score=Score.of("qnorm"))
    both = SUITES["clustering"](qnorm, tmp_path, dataclasses.replace(chosen, allow_asymmetric=True))
    assert [row.system for row in both.rows] == ["model query", "model document"]
    # The query's form of qnorm is that of cosine.
    assert both.rows[0].values == row.values
