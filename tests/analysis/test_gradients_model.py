"""A gradient analysis of a model: its sample, parameter gradients, report and pictures."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from magjax import hub
from magjax.analysis import (
    GradientSample,
    GradientSettings,
    format_gradients,
    gradients_figure,
    gradients_overview_figure,
    measure_gradients,
    parameter_gradient_sweep,
    write_gradients,
)
from magjax.checks import InputError
from magjax.data import Benchmark, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.similarity import PRESETS, Score

NUMBERS = {f"d{i}": f"adds {i} numbers" for i in range(12)}


@pytest.fixture(scope="module")
def benchmark():
    qrels = {f"q{i}": {f"d{i}": 1, f"d{i + 1}": 1} if i < 2 else {f"d{i}": 1} for i in range(9)}
    qrels["q9"] = {"d0": 0}
    return Benchmark(
        "numbers",
        [f"q{i}" for i in range(10)],
        [f"how to add {i}" for i in range(10)],
        list(NUMBERS),
        list(NUMBERS.values()),
        qrels,
        excluded={"q4": ["d11"]},
    )


@pytest.fixture(scope="module")
def model():
    tokenizer = TextTokenizer.train(list(NUMBERS.values()) * 2, 300)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    text = TextSettings(query_max_length=16, document_max_length=16)
    return hub.Model(DualEncoder.create(config), Score.of("dnorm", 0.5), tokenizer, text)


def test_a_sample_has_the_first_answers_and_no_false_negative(benchmark):
    sample = GradientSample.draw(benchmark, queries=20, documents=20, seed=3)
    assert sample.query_ids == [f"q{i}" for i in range(9)]  # q9 has no answer
    assert sorted(sample.document_ids) == sorted(NUMBERS)
    answers = [sample.document_ids[place] for place in sample.positives]
    assert answers == [f"d{i}" for i in range(9)]
    absent = {
        (sample.query_ids[i], sample.document_ids[j])
        for i, j in zip(*np.nonzero(~sample.where), strict=True)
    }
    assert absent == {("q0", "d1"), ("q1", "d2"), ("q4", "d11")}
    rows, where = sample.batch(4, seed=1)
    assert len(rows) == 4
    theirs = [answers[row] for row in rows]
    for i, row in enumerate(rows):
        for j, document in enumerate(theirs):
            assert where[i, j] == ((sample.query_ids[row], document) not in absent)


def test_draws_are_seeded_and_the_batch_alone_is_a_part(benchmark):
    one, two, other = (
        GradientSample.draw(benchmark, queries=4, documents=3, seed=seed) for seed in (5, 5, 6)
    )
    assert one.document_ids == two.document_ids
    assert (one.query_ids, one.document_ids) != (other.query_ids, other.document_ids)
    alone = GradientSample.draw(benchmark, queries=4, documents=0, seed=5)
    assert alone.document_ids == one.document_ids[:4]


def test_parameter_gradients_are_those_of_the_whole_graph(model):
    random = np.random.default_rng(0)
    tokens = {
        side: {
            "input_ids": random.integers(5, 200, (3, 6)).astype(np.int32),
            "attention_mask": np.ones((3, 6), np.int32),
        }
        for side in ("query", "document")
    }
    where = np.ones((3, 3), bool)
    where[1, 2] = False
    score = Score.power(0.5, 0.0, 0.2)
    settings = {"score": score, "scales": [0.5, 2.0], "where": where}
    found = parameter_gradient_sweep(model.encoder, tokens, space="all", **settings)
    assert found.shape == (2, 3)

    graph, state = nnx.split(model.encoder)

    @jax.jit
    def gradients(state, scale):
        def loss(state, row):
            encoder = nnx.merge(graph, state)
            x = scale * encoder.embed(tokens["query"], "query")[row]
            documents = encoder.embed(tokens["document"], "document")
            logits = documents @ x / jnp.sqrt(jnp.linalg.norm(x)) / 0.2
            logits = jnp.where(jnp.asarray(where)[row], logits, -jnp.inf)
            return jax.nn.logsumexp(logits) - logits[row]

        return jax.vmap(jax.grad(loss), in_axes=(None, 0))(state, jnp.arange(3))

    for c, scale in enumerate((0.5, 2.0)):
        leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(gradients(state, scale))]
        squares = sum((leaf**2).reshape(3, -1).sum(axis=1) for leaf in leaves)
        np.testing.assert_allclose(found[c], np.sqrt(squares), rtol=2e-4)


def test_parameter_gradients_refuse_what_they_cannot_use(model):
    tokens = {"input_ids": np.ones((1, 4), np.int32), "attention_mask": np.ones((1, 4), np.int32)}
    batch = {"query": tokens, "document": tokens}
    for score, space, message in (
        (Score.of("dot"), "all", "no temperature"),
        (Score.of("dot", 1.0), "nothing_such", "no parameter matches"),
        (Score.of("dot", 1.0), "all", "at least 2"),
    ):
        with pytest.raises(InputError, match=message):
            parameter_gradient_sweep(model.encoder, batch, space=space, score=score, scales=[1.0])


@pytest.fixture(scope="module")
def report(model, benchmark):
    settings = GradientSettings(
        documents=3, points=5, lowest=0.25, highest=4.0, parameter_queries=4, parameter_points=2
    )
    return measure_gradients(model, benchmark, settings=settings)


def test_a_model_is_measured_under_every_preset(report):
    assert [entry.name for entry in report.scores] == list(PRESETS)
    assert report.scores[3].score == Score.of("dnorm", 0.5)
    assert report.scores[3].temperature_source == "the model's"
    for entry in report.scores:
        assert max(entry.deviations().values()) < 1e-9
        assert entry.measured.scales.tolist() == [0.25, 0.5, 1.0, 2.0, 4.0]
        assert entry.parameters.scales.tolist() == [0.25, 1.0, 4.0]
        assert np.bincount(entry.difficulty).tolist() == [3, 3, 3]
        hard = entry.measured.loss[:, entry.difficulty == 2]
        np.testing.assert_allclose(entry.quartiles("loss")[2][1], np.median(hard, axis=1))
        assert hard[2].min() >= entry.measured.loss[2, entry.difficulty == 1].max()
        larger = entry.measured.query[4] > entry.measured.query[2]
        if entry.score.gamma_query == 0.0:
            assert entry.steeper("query")["easy"] == larger[entry.difficulty == 0].mean()
        else:
            assert set(entry.steeper("direction").values()) == {0.0}
            norms = entry.parameters.norms  # the length of a normalized query has no effect
            np.testing.assert_allclose(norms, norms[[1, 1, 1]], rtol=2e-3)
    assert "12 candidates" in report.notes[0]


def test_ranks_can_say_what_is_hard(model, benchmark):
    settings = GradientSettings(points=3, difficulty="rank", parameters="none")
    found = measure_gradients(model, benchmark, [Score.of("cosine")], settings, temperature=0.1)
    (entry,) = found.scores
    assert (entry.score.temperature, entry.temperature_source) == (0.1, "given")
    assert entry.parameters is None
    assert np.bincount(entry.difficulty).tolist() == [3, 3, 3]
    with pytest.raises(InputError, match="left out"):
        entry.quartiles("parameters")


def test_too_few_queries_are_refused(model, benchmark):
    few = dataclasses.replace(benchmark, qrels={"q0": {"d0": 1}, "q1": {"d1": 1}}, fingerprint="")
    with pytest.raises(InputError, match="2 queries with an answer, too few"):
        measure_gradients(model, few)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": 2}, "queries=2 leaves no query"),
        ({"documents": -1}, "documents=-1"),
        ({"lowest": 2.0}, "either side of 1"),
        ({"points": 0}, "points=0"),
        ({"difficulty": "lss"}, "Did you mean 'loss'"),
        ({"parameters": ""}, "parameters is empty"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        GradientSettings(**changes)


def test_pictures_show_the_measured_lines_and_the_closed_form_over_them(report):
    entry = report.scores[1]
    figure = gradients_figure(report, entry)
    assert len(figure.axes) == 6
    lines = {line.get_label(): line for line in figure.axes[1].lines}
    np.testing.assert_allclose(lines["hard"].get_ydata(), entry.quartiles("query")[2][1])
    circles = [line for line in figure.axes[1].lines if line.get_marker() == "o"]
    assert len(circles) == 3
    for number, line in enumerate(circles):
        expected = entry.quartiles("query", expected=True)[number][1]
        np.testing.assert_allclose(line.get_ydata(), expected)
    overview = gradients_overview_figure(report)
    labels = [text.get_text() for text in overview.legends[0].get_texts()]
    assert labels == [*PRESETS, "closed form"]


def test_a_report_is_written_and_says_when_it_cannot_be_trusted(report, tmp_path):
    report = dataclasses.replace(report, scores=report.scores[:2])
    paths = write_gradients(tmp_path, [report], {"checkpoint": "m"})
    assert all(path.stat().st_size for path in paths)
    saved = json.loads((tmp_path / "gradients.json").read_text())
    assert saved["checkpoint"] == "m"
    (found,) = saved["reports"]
    assert found["fingerprint"] == report.fingerprint
    quartiles = found["scores"]["dot"]["quartiles"]["query"]["easy"]
    np.testing.assert_allclose(quartiles, report.scores[1].quartiles("query")[0])
    lines = (tmp_path / "gradients" / "numbers.dot.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["query_id"] for row in rows] == list(report.query_ids)
    np.testing.assert_allclose(
        [row["query"] for row in rows], report.scores[1].measured.query.T, rtol=1e-6
    )
    assert "WARNING" not in format_gradients(report)
    entry = report.scores[1]
    spoilt = dataclasses.replace(entry.measured, documents=entry.measured.documents * 1.01)
    wrong = dataclasses.replace(report, scores=(dataclasses.replace(entry, measured=spoilt),))
    assert "WARNING: jax.grad and the closed form of 'documents' differ" in format_gradients(wrong)
    with pytest.raises(InputError, match="rename a data set"):
        write_gradients(tmp_path, [report, report])
