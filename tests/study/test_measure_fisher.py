"""A whole Fisher measurement of a random one-layer model on a tiny data set."""

import dataclasses
import importlib.util
import json
import math
from pathlib import Path

import fisher_reference as reference
import jax
import numpy as np
import pytest
from fisher_configs import BATCHES, SETS, SIZE, tiny_fisher_config

from magjax.checks import InputError
from magjax.config import fisher_config, to_json
from magjax.data import TextPreprocessor, TrainingBatches, TrainingSet
from magjax.fisher import dual_embedding
from magjax.similarity import PRESETS
from magjax.study import measure_fisher
from magjax.study._fisher import _describe_sides
from magjax.study._text_data import load_text_data
from magjax.study._text_model import start_model

CONFIG = Path(__file__).parents[2] / "configs" / "fisher.py"


@pytest.fixture(scope="module")
def run(tiny_beir, tmp_path_factory):
    """The config, the folder and the report of one measurement with pictures."""
    folder = tmp_path_factory.mktemp("fisher") / "run"
    config = tiny_fisher_config(tiny_beir, spaces=("query", "document", "last_block"))
    report = measure_fisher(config, folder)
    return config, folder, report


@pytest.fixture
def _no_pictures(monkeypatch):
    """Pictures take seconds; one run draws them."""
    for name in ("draw_spectra", "draw_measures"):
        monkeypatch.setattr(f"magjax.study._fisher_files.{name}", lambda *_, **__: None)


@pytest.fixture(scope="module")
def embeddings(run):
    """Both sides of all batches, embedded at once: [batches, sets, size, dim]."""
    config, _, _ = run
    data = load_text_data(config["data"], seed=config["seed"])
    model = start_model(config, data.train)
    stream = TrainingBatches(
        data.train,
        TextPreprocessor(model.tokenizer, model.text),
        batch_size=SIZE,
        seed=config["seed"],
        accumulation=SETS,
    )
    batches = [stream.batch_at(number) for number in range(BATCHES)]
    rows = {
        side: {
            name: np.concatenate([b[side][name].reshape(SETS * SIZE, -1) for b in batches])
            for name in ("input_ids", "attention_mask")
        }
        for side in ("query", "document")
    }
    embed, parameters = dual_embedding(model.encoder)
    found = jax.jit(embed)(parameters, rows)
    return {
        side: np.asarray(x, np.float64).reshape(BATCHES, SETS, SIZE, -1)
        for side, x in (("query", found.queries), ("document", found.documents))
    }


def test_the_folder_holds_config_json_report_and_pictures(run):
    config, folder, report = run
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "fisher.json",
        "fisher_measures.png",
        "fisher_spectra.png",
    ]
    for name in ("fisher_measures.png", "fisher_spectra.png"):
        content = (folder / name).read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(content) > 10_000
    assert json.loads((folder / "config.json").read_text()) == config
    assert json.loads((folder / "fisher.json").read_text()) == json.loads(
        json.dumps(report.to_json(), allow_nan=False)
    )


def test_the_report_holds_every_space_variant_and_batch(run):
    config, folder, _ = run
    read = json.loads((folder / "fisher.json").read_text())
    places = [(m["space"], m["variant"], m["batch"]) for m in read["measurements"]]
    assert sorted(places) == sorted(
        [(side, v, b) for side in ("query", "document") for v in PRESETS for b in range(BATCHES)]
        + [("last_block", v, 0) for v in PRESETS]
    )
    assert {m["kind"] for m in read["measurements"]} == {"ggn"}
    examples = {m["space"]: m["examples"] for m in read["measurements"]}
    assert examples == {"query": SETS * SIZE, "document": SETS * SIZE, "last_block": SIZE}
    assert list(read["table"]) == ["query", "document", "last_block"]
    assert read["table"]["document"]["effective_rank"]["dot"]["count"] == BATCHES
    assert read["table"]["last_block"]["effective_rank"]["dot"]["low"] is None
    assert read["settings"] == config["fisher"]
    assert read["model"] == "random"
    assert set(read["data"]) == {"train", "development", "tiny"}
    assert read["advice"]["measure"] == "document|effective_rank"
    assert read["advice"]["verdict"].startswith("undecided between ") or (
        read["advice"]["recommended"] in PRESETS
    )
    assert any("median words 5 of a query and 10 of a document" in note for note in read["notes"])


def test_names_what_is_null_by_construction(run):
    _, _, report = run
    for item in report.of_space("document"):
        assert "the sum over dimensions, constant after a layer norm" in item.nulls
        assert item.values["kappa"] == math.inf
    for item in report.of_space("last_block"):
        assert item.spectrum.rank_bound == SIZE * (SIZE - 1)
        assert any(text.startswith("counting: 8 examples have at most 56") for text in item.nulls)
        scale = any("scale of the last layer norms" in text for text in item.nulls)
        assert scale == (item.variant == "cosine")


def test_temperatures_are_calibrated_on_the_first_batch(run, embeddings):
    _, _, report = run
    q, d = (embeddings[side][0].reshape(SETS * SIZE, -1) for side in ("query", "document"))

    def deviation(gammas):
        return np.std(reference.normalized(q, gammas[0]) @ reference.normalized(d, gammas[1]).T)

    for item in report.measurements:
        expected = 0.05 * deviation(item.score.gammas) / deviation((1.0, 1.0))
        assert item.score.temperature == pytest.approx(expected, rel=1e-5)
    assert report.measurements[0].score.to_json() == {
        "variant": "cosine",
        "gamma_query": 1.0,
        "gamma_document": 1.0,
        "temperature": 0.05,
    }


@pytest.mark.parametrize("side", ["query", "document"])
def test_spectra_are_those_of_the_batches_that_training_sees(side, run, embeddings):
    """Against loops over the sets of the last batch: the embeddings come from another route."""
    _, _, report = run
    (item,) = (
        item
        for item in report.of_space(side)
        if (item.variant, item.batch) == ("qnorm", BATCHES - 1)
    )
    q, d = embeddings["query"][-1], embeddings["document"][-1]
    matrices = [
        reference.embedding_fisher(
            q[s], d[s], (1.0, 0.0), item.score.temperature, side, "query_to_document"
        )
        for s in range(SETS)
    ]
    expected = np.linalg.eigvalsh(np.mean(matrices, axis=0))[::-1]
    # float32 embeddings differ in their last bits between the routes.
    np.testing.assert_allclose(
        item.spectrum.eigenvalues, expected, rtol=1e-4, atol=1e-6 * expected[0]
    )


def test_lengths_are_those_of_all_batches(run, embeddings):
    _, _, report = run
    for side in ("query", "document"):
        lengths = np.linalg.norm(embeddings[side], axis=-1)
        assert report.norms[side].mean == pytest.approx(lengths.mean(), rel=1e-5)
        assert report.norms[side].variation == pytest.approx(
            lengths.std() / lengths.mean(), rel=1e-3
        )


@pytest.mark.usefixtures("_no_pictures")
def test_a_second_run_writes_the_same_bytes(run, tmp_path):
    config, folder, _ = run
    measure_fisher(config, tmp_path / "again")
    assert (tmp_path / "again" / "fisher.json").read_bytes() == (
        folder / "fisher.json"
    ).read_bytes()


@pytest.mark.usefixtures("_no_pictures")
@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"kind": "monte_carlo", "samples": 3}, "monte_carlo(3)"),
        ({"kind": "empirical", "direction": "both", "model__dtype": "bfloat16"}, "empirical"),
    ],
)
def test_other_kinds_and_directions_run(changes, label, run, tiny_beir, tmp_path):
    _, _, first = run
    config = tiny_fisher_config(
        tiny_beir, spaces=("document",), variants=("dot", "0.5,1"), batches=2, **changes
    )
    report = measure_fisher(config, tmp_path / "run")
    assert [(m.variant, m.kind, m.batch) for m in report.measurements] == [
        (variant, label, batch) for batch in range(2) for variant in ("dot", "0.5,1")
    ]
    exact = next(m for m in first.of_space("document") if m.variant == "dot")
    assert report.measurements[0].spectrum.trace != pytest.approx(exact.spectrum.trace, rel=1e-6)
    read = json.loads((tmp_path / "run" / "fisher.json").read_text())
    assert (read["kind"], read["direction"]) == (label, config["fisher"]["direction"])
    said = "computed in float32, not in model.dtype=bfloat16" in read["notes"]
    assert said == (config["model"]["dtype"] == "bfloat16")


@pytest.mark.usefixtures("_no_pictures")
def test_spaces_are_expanded_and_measured_once_each(tiny_beir, tmp_path, monkeypatch):
    measured = []

    class Recorder:
        def __init__(self, embed, selection, sets, model, *, micro_batch, memory_gib):
            self.found = (selection.space, sets.examples, micro_batch, memory_gib)

    def record(fisher, scores, *, batch, seed, steps, probes, **_):
        measured.append((*fisher.found, batch, seed, steps, probes))
        return []

    monkeypatch.setattr("magjax.study._fisher.ParameterFisher", Recorder)
    monkeypatch.setattr("magjax.study._fisher.measure_parameters", record)
    config = tiny_fisher_config(
        tiny_beir,
        spaces=("document", "each_block", "document", "(^|/)layers/0/"),
        variants=("cosine", "dot"),
        parameter_batches=2,
        micro_batch=3,
        memory_gib=0.5,
        probes=2,
    )
    report = measure_fisher(config, tmp_path / "run")
    assert measured == [
        (space, SIZE, 3, 0.5, batch, 0, 6, 2)
        for space in ("(^|/)embeddings/", "(^|/)layers/0/")
        for batch in range(2)
    ]
    # A side named twice would halve its intervals if its batches counted twice.
    assert report.intervals("document", "effective_rank")["dot"].count == BATCHES


def test_data_whose_sides_are_alike_is_asked_about(tiny_beir):
    config = tiny_fisher_config(tiny_beir)
    data = load_text_data(config["data"], seed=0)
    assert "set fisher.task=symmetric" not in _describe_sides(data, "asymmetric")
    texts = ["one two", "three four five"]
    train = TrainingSet(["a", "b"], texts, [(0,), (1,)], [(), ()], ["c", "d"], texts)
    alike = dataclasses.replace(data, train=train)
    text = _describe_sides(alike, "asymmetric")
    assert "100.0% of the queries are also documents" in text
    assert "median words 2.5 of a query and 2.5 of a document" in text
    assert text.endswith("If both sides are equals, set fisher.task=symmetric")
    assert "If both sides" not in _describe_sides(alike, "symmetric")


def test_the_folder_of_another_config_is_refused_and_left_as_it_is(run, tiny_beir):
    _, folder, _ = run
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = tiny_fisher_config(tiny_beir, spaces=("query", "document", "last_block"), batches=2)
    with pytest.raises(InputError, match=r"another config: fisher\.batches=3 there, 2 here"):
        measure_fisher(other, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def get_config(arguments=None):
    spec = importlib.util.spec_from_file_location("configs_fisher", CONFIG)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(arguments)


def test_the_config_file_states_a_start_model_and_data():
    plain = get_config()
    assert to_json(plain) == to_json(fisher_config(init="random", seed=0))
    assert (plain.data.source, plain.text.document_max_length) == ("code", 64)
    given = get_config("checkpoint=package:some/model,seed=7")
    assert (given.model.init, given.seed) == ("package:some/model", 7)
    assert (given.data.source, given.text.document_max_length) == ("code", 128)
    beir = get_config("data=some/folder")
    assert (beir.model.init, beir.data.source, beir.data.path) == ("random", "beir", "some/folder")
    assert (beir.text.query_max_length, beir.text.document_max_length) == (64, 256)
    for wrong, message in (("chekpoint=x", "Did you mean 'checkpoint'"), ("seed=x", "must be int")):
        with pytest.raises(InputError, match=message):
            get_config(wrong)


@pytest.mark.usefixtures("_no_pictures")
def test_the_config_file_runs(tiny_beir, tmp_path):
    config = tiny_fisher_config(tiny_beir, get_config("seed=3"), spaces=("document",), batches=2)
    report = measure_fisher(config, tmp_path / "run")
    assert (tmp_path / "run" / "fisher.json").is_file()
    assert {item.variant for item in report.measurements} == set(PRESETS)
