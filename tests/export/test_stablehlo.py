"""Exported programs: the live model's numbers, without its code."""

import json
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file
from serving_cases import TEXTS, tiny_model

from magjax.checks import InputError
from magjax.data import SIDES, TextPreprocessor
from magjax.encoders import POOLINGS
from magjax.evaluation import encode
from magjax.export._exported import load_exported
from magjax.export._stablehlo import export_encoders
from magjax.mesh import data_mesh
from magjax.similarity import Score

pytest.importorskip("flatbuffers", reason="flatbuffers is not installed (the stablehlo extra)")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Model and folder of an ordinary export."""
    model = tiny_model()
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_encoders(model, folder)
    return model, folder


@pytest.fixture(scope="module")
def loaded(exported):
    return load_exported(exported[1])


def live(model, texts, side, *, normalized=True):
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    mesh = data_mesh(jax.devices()[:1])
    raw = encode(model.encoder, preprocessor, texts, side, mesh=mesh)
    return np.asarray(model.score.normalize(raw, side)) if normalized else raw


def assert_same(found, expected):
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(1, abs(expected).max()))


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_every_batch_size_gives_the_live_embeddings(exported, loaded, batch):
    found = loaded.encode(TEXTS[:batch], "query")
    assert_same(found, live(exported[0], TEXTS[:batch], "query"))


@pytest.mark.parametrize(
    "score", [Score.of("qnorm"), Score.of("dnorm"), Score.power(0.3, 0.7)], ids=lambda s: s.variant
)
def test_inner_products_are_the_trained_score(tmp_path, score):
    model = tiny_model(score)
    export_encoders(model, tmp_path / "model")
    loaded = load_exported(tmp_path / "model")
    assert loaded.score == score
    queries, documents = (loaded.encode(TEXTS, side) for side in SIDES)
    raw = [live(model, TEXTS, side, normalized=False).astype(np.float64) for side in SIDES]
    lengths = [np.linalg.norm(x, axis=1, keepdims=True) for x in raw]
    q, d = (x / n**g for x, n, g in zip(raw, lengths, score.gammas, strict=True))
    expected = q @ d.T
    atol = 1e-6 * max(1, abs(expected).max())
    np.testing.assert_allclose(queries.astype(np.float64) @ documents.T, expected, 0, atol)


@pytest.mark.parametrize(
    "settings",
    [
        {"shared": False, "projection_dim": 6, "projection_activation": "tanh"},
        {"model_type": "roberta"},
        {"model_type": "mpnet"},
        {"model_type": "distilbert", "dtype": "bfloat16"},
        {"pooling": "last"},
        {"pooling": "weighted_mean"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_every_kind_of_encoder_can_be_exported(tmp_path, settings):
    model = tiny_model(**settings)
    sides = ("document",) if settings.get("shared", True) else SIDES
    export_encoders(model, tmp_path / "model", sides=sides)
    loaded = load_exported(tmp_path / "model")
    assert loaded.dim == model.encoder.dim
    for side in sides:
        found, expected = loaded.encode(TEXTS, side), live(model, TEXTS, side)
        if settings.get("dtype") == "bfloat16":  # rounds at other places in other shapes
            np.testing.assert_allclose(found, expected, rtol=0, atol=0.02 * abs(expected).max())
        else:
            assert_same(found, expected)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_pooling_has_one_program_for_all_shapes(tmp_path, pooling):
    export_encoders(tiny_model(pooling=pooling), tmp_path / "model", sides=["query"])
    program = (tmp_path / "model" / "query.stablehlo").read_bytes()
    *_, input_ids, attention_mask = jax.export.deserialize(bytearray(program)).in_avals
    assert str(input_ids) == str(attention_mask) == "int32[batch,length]"


def test_one_program_serves_all_lengths_but_mpnets(exported, tmp_path):
    about = json.loads((exported[1] / "export.json").read_text())
    assert about["sides"]["query"]["programs"] == [{"file": "query.stablehlo", "length": None}]
    export_encoders(tiny_model(model_type="mpnet"), tmp_path / "model", sides=["document"])
    about = json.loads((tmp_path / "model" / "export.json").read_text())
    assert [p["length"] for p in about["sides"]["document"]["programs"]] == [16, 32, 40]
    loaded = load_exported(tmp_path / "model")
    with pytest.raises(InputError, match="length 17 fits no document program; known: 16, 32, 40"):
        loaded.encode_tokens(
            np.ones((1, 17), np.int32), np.ones((1, 17), np.int32), side="document"
        )


def test_lengths_beyond_the_limit_are_refused(loaded):
    row = np.ones((1, 21), np.int32)
    with pytest.raises(InputError, match="length 21 fits no query program; known: 1 to 20"):
        loaded.encode_tokens(row, row, side="query")


def test_shared_weights_are_stored_once_and_separate_ones_by_side(exported, tmp_path):
    shared = load_file(exported[1] / "parameters.safetensors")
    assert all(name.startswith("query_tower/") for name in shared)
    export_encoders(tiny_model(shared=False), tmp_path / "both")
    export_encoders(tiny_model(shared=False), tmp_path / "one", sides=["document"])
    both, one = (load_file(tmp_path / f / "parameters.safetensors") for f in ("both", "one"))
    assert len(both) == 2 * len(shared)
    assert set(one) == {name for name in both if name.startswith("document_tower/")}


def test_raw_embeddings_can_be_exported(tmp_path):
    model = tiny_model(Score.of("cosine"))
    export_encoders(model, tmp_path / "model", normalized=False)
    loaded = load_exported(tmp_path / "model")
    assert not loaded.normalized
    assert_same(loaded.encode(TEXTS, "query"), live(model, TEXTS, "query", normalized=False))
    export_encoders(tiny_model(None), tmp_path / "unscored", normalized=False)
    assert load_exported(tmp_path / "unscored").score is None
    with pytest.raises(InputError, match="states no score"):
        export_encoders(tiny_model(None), tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_one_side_alone(tmp_path):
    export_encoders(tiny_model(), tmp_path / "model", sides=("query",))
    loaded = load_exported(tmp_path / "model")
    assert loaded.sides == ("query",)
    with pytest.raises(InputError, match="unknown exported side 'document'; known: query"):
        loaded.encode(["a"], "document")


def test_texts_keep_their_order_and_none_is_fine(exported, loaded):
    model, _ = exported
    assert loaded.encode([], "query").shape == (0, 16)
    found = loaded.encode(TEXTS[::-1], "document", tokens_per_batch=160)
    assert_same(found, live(model, TEXTS, "document")[::-1])


WITHOUT_MAGJAX = """
import json, sys
import jax, numpy, safetensors.numpy, tokenizers

folder, texts, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
about = json.load(open(f"{folder}/export.json"))
side = about["sides"]["query"]
program = jax.export.deserialize(bytearray(open(f"{folder}/query.stablehlo", "rb").read()))
stored = safetensors.numpy.load_file(f"{folder}/parameters.safetensors")
parameters = {name: stored[name] for name in side["parameters"]}
tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.enable_truncation(side["max_length"])
tokenizer.enable_padding(pad_id=about["pad_id"])
rows = tokenizer.encode_batch([about["text"]["query_prompt"] + text for text in texts])
ids = numpy.array([row.ids for row in rows], "int32")
mask = numpy.array([row.attention_mask for row in rows], "int32")
numpy.save(out, jax.jit(program.call)(parameters, ids, mask))
assert not [name for name in sys.modules if name.startswith(("magjax", "flax"))]
"""


def test_a_process_without_magjax_gives_the_same(exported, tmp_path):
    model, folder = exported
    arguments = [str(folder), json.dumps(TEXTS), str(tmp_path / "found.npy")]
    subprocess.run([sys.executable, "-c", WITHOUT_MAGJAX, *arguments], check=True, cwd=tmp_path)
    assert_same(np.load(tmp_path / "found.npy"), live(model, TEXTS, "query"))


def test_reading_an_export_unpickles_nothing(exported, monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler", "_Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert load_exported(exported[1]).encode(["a"], "query").shape == (1, 16)
    for file in exported[1].glob("*.stablehlo"):
        assert not file.read_bytes().startswith(b"\x80")  # how every pickle since 2.3 begins


def test_the_same_model_gives_the_same_bytes_and_no_path_of_this_machine(exported, tmp_path):
    model, folder = exported
    export_encoders(model, tmp_path / "again")
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        p.name for p in (tmp_path / "again").iterdir()
    )
    for file in folder.iterdir():
        content = file.read_bytes()
        assert content == (tmp_path / "again" / file.name).read_bytes(), file.name
        assert b"magjax/" not in content, file.name
        assert b"site-packages" not in content, file.name


def test_an_export_for_several_platforms_runs_here(tmp_path):
    model = tiny_model()
    export_encoders(model, tmp_path / "model", platforms=("cpu", "cuda", "rocm", "tpu"))
    assert_same(
        load_exported(tmp_path / "model").encode(TEXTS, "query"), live(model, TEXTS, "query")
    )
