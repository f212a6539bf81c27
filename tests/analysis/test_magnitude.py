"""The whole magnitude analysis: what it says of planted norms, of equal ones, and of wrong input."""

import dataclasses
import json
import math

import numpy as np
import pytest
from magnitude_cases import DIM, norms_of, planted
from scipy import stats

from magjax.analysis import (
    MagnitudeSettings,
    ablation_figure,
    document_norms_figure,
    format_magnitude,
    measure_magnitude,
    query_norms_figure,
    relevance_figure,
    write_magnitude,
)
from magjax.checks import InputError
from magjax.files import read_json
from magjax.similarity import Score

SETTINGS = MagnitudeSettings(
    metrics=("ndcg@10", "success@1"), top_k=10, random=9, occurrences=5, shuffles=2, resamples=40
)
FIGURES = (ablation_figure, document_norms_figure, query_norms_figure, relevance_figure)


@pytest.fixture(scope="module")
def case():
    data = planted(2.0, queries=30, documents=60, noise=0.4)
    data["qrels"]["q7"] = {}
    return data


@pytest.fixture(scope="module")
def lengths(case):
    norms = norms_of(case["documents"])
    return {"characters": np.round(100.0 * norms).astype(np.int64), "even": np.ones(60)}


def measure(case, variant="qnorm", temperature=0.5, **others):
    return measure_magnitude(
        **(case | {"settings": SETTINGS} | others), score=Score.of(variant, temperature)
    )


@pytest.fixture(scope="module")
def report(case, lengths):
    return measure(case, lengths=lengths, name="a/b")


def test_a_planted_effect_comes_out_with_its_interval(report, case):
    found = {item.kind: item for item in report.contrasts}
    assert list(found) == ["random", "top_k", "all", "ever_relevant"]
    documents = found["ever_relevant"].pooled["cohens_d"]
    assert documents.low < 2.0 < documents.high
    assert found["all"].pooled["norm_auc"].low > 0.6
    assert found["all"].within["difference"].low > 0.0
    norms = norms_of(case["documents"])
    relevant = [norms[int(d[1:])] for row in case["qrels"].values() for d in row]
    assert found["all"].mean_relevant == pytest.approx(np.mean(relevant), rel=1e-9)


def test_documents_retrieved_for_their_norm_hide_the_effect(report):
    """The selection bias that the note warns of: hard negatives of qnorm are long themselves."""
    found = {item.kind: item.pooled["cohens_d"].mean for item in report.contrasts}
    assert found["top_k"] < found["random"]
    assert any("selection bias" in note for note in report.notes)


def test_correlations_are_those_of_scipy(report, case, lengths):
    norms, values = norms_of(case["documents"]), report.values
    found = report.correlations["document"]
    assert list(found) == ["characters", "even", "in-degree", "relevant queries"]
    assert found["characters"].mean > 0.999
    assert math.isnan(found["even"].mean)
    counts = np.zeros(60)
    for row in case["qrels"].values():
        for name in row:
            counts[int(name[1:])] += 1
    expected = stats.spearmanr(norms, counts).statistic
    assert found["relevant queries"].mean == pytest.approx(expected, abs=1e-9)
    unit = case["queries"] / norms_of(case["queries"])[:, None]
    best = np.argsort(-(unit @ case["documents"].T), axis=1)[:, :5]
    degrees = np.bincount(best.ravel(), minlength=60)
    assert values.in_degree.tolist() == degrees.tolist()
    expected = stats.spearmanr(norms, degrees).statistic
    assert found["in-degree"].mean == pytest.approx(expected, abs=1e-9)
    judged = [q for q in range(30) if q != 7]
    expected = stats.spearmanr(norms_of(case["queries"])[judged], values.losses[judged]).statistic
    assert report.correlations["query"]["loss"].mean == pytest.approx(expected, abs=1e-9)
    assert report.correlations["query"]["loss"].count == 29


def test_hubness_of_presets_that_rank_alike_is_given_once(report, case):
    assert [item.score for item in report.hubness] == ["dot, qnorm", "cosine, dnorm"]
    assert measure(case, "dnorm").hubness[0].score == "cosine, dnorm"
    own = report.hubness[0]
    assert own.skewness.mean == pytest.approx(stats.skew(report.values.in_degree), rel=1e-9)
    assert own.never == pytest.approx(np.mean(report.values.in_degree == 0))
    counts = stats.binom(30, 5 / 60)
    assert own.chance == pytest.approx(float(counts.stats("s")), rel=1e-9)
    powers = measure_magnitude(**case, settings=SETTINGS, score=Score.power(1.0, 0.5, 0.5))
    assert [item.score for item in powers.hubness] == ["power", "dot, qnorm", "cosine, dnorm"]


@pytest.mark.parametrize("exact", [True, False])
def test_equal_norms_say_nothing_anywhere(exact):
    random = np.random.default_rng(1)
    x = random.choice([-0.25, 0.25], (60, DIM)) if exact else random.normal(size=(60, DIM))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    names = [f"d{i}" for i in range(60)]
    found = measure_magnitude(
        x[:30],
        x,
        {f"q{i}": {f"d{(i + 1) % 40}": 1} for i in range(30)},
        query_ids=[f"q{i}" for i in range(30)],
        document_ids=names,
        score=Score.of("dot", 0.1),
        settings=SETTINGS,
        lengths={"characters": np.arange(60)},
    )
    for side in ("query", "document"):
        assert any(f"{side} norms hardly vary" in note for note in found.notes)
        assert all(math.isnan(value.mean) for value in found.correlations[side].values())
    for contrast in found.contrasts:
        assert contrast.pooled["norm_auc"].mean == 0.5
        assert (contrast.pooled["norm_auc"].low, contrast.pooled["norm_auc"].high) == (0.5, 0.5)
        assert math.isnan(contrast.pooled["cohens_d"].mean)
        assert math.isnan(contrast.pooled["hedges_g"].mean)
    shuffled, inverted = found.ablation.conditions[1:3]
    assert shuffled.difference["ndcg@10"].mean == inverted.difference["ndcg@10"].mean == 0.0
    for figure in FIGURES if exact else ():
        figure(found)  # nothing varies, and there is still something to draw
    assert "-" in format_magnitude(found)


def test_norms_of_almost_no_spread_are_warned_about_and_measured(case):
    close = dict(case)
    norms = norms_of(case["documents"])
    close["documents"] = (case["documents"] * ((1.0 + 1e-4 * norms) / norms)[:, None]).astype(
        np.float32
    )
    found = measure(close)
    assert any("document norms hardly vary (std/mean 0.000" in note for note in found.notes)
    assert not any("query norms" in note for note in found.notes)
    assert found.contrasts[-1].pooled["cohens_d"].mean > 1.0


def test_notes_say_what_a_number_cannot(report, case):
    text = " ".join(report.notes)
    assert "1 queries have no relevant document" in text
    assert "without a judgement count as not relevant" in text
    assert "scales as norm^-1" in text
    plain = " ".join(measure(case, "dnorm").notes)
    assert "selection bias" not in plain
    assert "scales as" not in plain
    everyone = {q: {d: 1 for d in case["document_ids"][:59]} for q in case["query_ids"]}
    everyone["q0"] = {"d59": 1}
    found = measure(case | {"qrels": everyone}).notes
    assert any("no document is nobody's answer" in note for note in found)


def test_a_kind_that_no_query_has_is_left_out_and_said_to_be(case):
    perfect = dict(case, queries=case["documents"][:30])
    perfect["qrels"] = {f"q{i}": {f"d{i}": 1} for i in range(30)}
    found = measure(perfect, "cosine", settings=dataclasses.replace(SETTINGS, top_k=1))
    assert [item.kind for item in found.contrasts] == ["random", "all", "ever_relevant"]
    assert any("nothing is compared with top_k" in note for note in found.notes)


def test_the_same_seed_gives_the_same_report_and_another_one_another(report, case, lengths):
    again = measure(case, lengths=lengths, name="a/b")
    assert again.to_json() == report.to_json()
    settings = dataclasses.replace(SETTINGS, seed=1)
    other = measure(case, lengths=lengths, settings=settings)
    assert other.contrasts[0].mean_other != report.contrasts[0].mean_other
    assert other.contrasts[2].mean_other == report.contrasts[2].mean_other


def test_the_table_holds_what_the_report_does(report):
    text = format_magnitude(report)
    assert text.startswith("a/b: 29 of 30 queries have a relevant document among 60; qnorm")
    for found in report.contrasts:
        assert found.description in text
        effect = found.pooled["cohens_d"]
        assert f"{effect.mean:.3f} [{effect.low:.3f}, {effect.high:.3f}]" in text
    assert "0 of 30 rankings changed" in text
    assert "at temperature 0.5 (the model's)" in text
    assert "does not use the documents' norms" not in text


def test_files_hold_the_report_its_queries_and_its_pictures(report, tmp_path):
    written = write_magnitude(tmp_path, [report], {"checkpoint": "m"})
    assert all(path.is_file() for path in written)
    saved = read_json(tmp_path / "magnitude.json")
    assert saved["checkpoint"] == "m"
    assert saved["reports"] == json.loads(json.dumps([report.to_json()]))
    assert saved["reports"][0]["correlations"]["document"]["even"]["mean"] is None
    lines = (tmp_path / "magnitude" / "a_b.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["query_id"] for row in rows] == [f"q{i}" for i in range(30)]
    assert rows[7]["loss"] is rows[7]["relevant_norm"] is None
    assert rows[0]["loss"] == report.values.losses[0]
    assert {"norm", "gradient_norm", "random_norm", "top_k_norm", "ndcg@10"} <= set(rows[0])
    pictures = sorted(path.name for path in (tmp_path / "magnitude").glob("*.png"))
    assert pictures == [
        f"a_b.{name}.png" for name in ("ablation", "documents", "queries", "relevance")
    ]
    with pytest.raises(InputError, match="two reports would both be written as 'a_b'"):
        write_magnitude(tmp_path, [report, report])


def test_pictures_show_every_group_and_condition(report):
    titles = [axes.get_title().splitlines()[0] for axes in relevance_figure(report).axes]
    assert titles == [
        "against random, over pairs",
        "against top_k, over pairs",
        "against all, over pairs",
        "against never relevant, over documents",
    ]
    panels = [axes.get_title().splitlines()[0] for axes in document_norms_figure(report).axes]
    assert panels == ["characters", "even", "in-degree", "relevant queries"]
    assert len(query_norms_figure(report).axes) == 4
    figure = ablation_figure(report)
    assert [axes.get_title() for axes in figure.axes] == [
        "ndcg@10",
        "success@1",
        "ndcg@10: difference",
        "success@1: difference",
    ]
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    expected = [item.metrics["ndcg@10"].mean for item in report.ablation.conditions]
    assert widths == pytest.approx(expected)


def test_wrong_input_is_named(case):
    with pytest.raises(InputError, match=r"lengths 'tokens' have shape \(3,\) for 60 documents"):
        measure(case, lengths={"tokens": np.arange(3)})
    with pytest.raises(InputError, match="document embeddings of shape"):
        measure(case | {"documents": case["documents"][:5]})
    broken = case["documents"].copy()
    broken[4, 1] = np.nan
    with pytest.raises(InputError, match="document 'd4' is not finite"):
        measure(case | {"documents": broken})
    with pytest.raises(InputError, match="candidates=3 cannot hold the 29 relevant documents"):
        measure(case, settings=dataclasses.replace(SETTINGS, candidates=3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"negatives": ("randm",)}, "unknown negatives 'randm'.*Did you mean 'random'"),
        ({"negatives": ()}, "at least one, each once"),
        ({"negatives": ("all", "all")}, "at least one, each once"),
        ({"metrics": ("ndgc@10",)}, "unknown metric 'ndgc'"),
        ({"random": 0}, "random=0 must be a whole number of at least 1"),
        ({"candidates": 0}, "candidates=0 must be a whole number"),
        ({"confidence": 1.0}, "confidence=1.0 must be below 1"),
        ({"seed": -1}, "seed=-1 must be at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        MagnitudeSettings(**changes)
