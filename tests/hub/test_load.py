import json
import logging

import ml_dtypes
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file

from magjax.checks import InputError
from magjax.encoders import EncoderConfig
from magjax.hub import load, save
from magjax.hub._names import name_table
from magjax.hub._tensors import read_tensors, write_tensors
from magjax.hub._tower import read_tower, write_tower
from magjax.similarity import Score


@pytest.fixture
def plain(make_model, tmp_path):
    """A Hugging Face folder that states neither score nor pooling."""
    model = make_model()
    folder = tmp_path / "plain"
    folder.mkdir()
    write_tower(model.encoder.query_tower, folder)
    model.tokenizer.save(folder)
    return folder


@pytest.fixture
def scored(make_model, tmp_path):
    save(make_model(Score.of("qnorm", 0.05), pooling="max"), tmp_path / "scored")
    return tmp_path / "scored"


def weights(tower) -> dict:
    return {path: np.asarray(v[...]) for path, v in nnx.to_flat_state(nnx.state(tower))}


def assert_same_weights(first, second):
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    for path in ours:
        np.testing.assert_array_equal(ours[path], theirs[path], err_msg=str(path))


# What a folder leaves open, and what it states.


def test_plain_folder_states_no_score(plain, caplog):
    with caplog.at_level(logging.INFO, "magjax.hub"):
        model = load(plain)
    assert model.score is None
    assert model.encoder.pooling == "mean"
    assert "states no pooling; using mean" in caplog.text
    given = load(plain, score=Score.of("dnorm"), pooling="cls", query_prompt="q: ")
    assert given.score == Score.of("dnorm")
    assert given.encoder.pooling == "cls"
    assert given.text.query_prompt == "q: "


def test_another_score_needs_a_cross_evaluation(scored):
    assert load(scored, score=Score.of("qnorm")).score == Score.of("qnorm", 0.05)
    with pytest.raises(InputError, match=r"score dot .* trained for qnorm .*cross-evaluation"):
        load(scored, score=Score.of("dot"))
    crossed = load(scored, score=Score.of("dot"), cross_evaluation=True)
    assert crossed.score == Score.of("dot")


@pytest.mark.parametrize(
    ("argument", "value"),
    [("pooling", "mean"), ("query_prompt", "q: "), ("document_prompt", "text: ")],
)
def test_stated_settings_are_part_of_the_model(scored, argument, value):
    with pytest.raises(InputError, match=f"{argument}={value!r} contradicts"):
        load(scored, **{argument: value})
    crossed = load(scored, **{argument: value}, cross_evaluation=True)
    owner = crossed.encoder if argument == "pooling" else crossed.text
    assert getattr(owner, argument) == value


def test_the_least_length_counts_and_lowering_is_said(plain, scored, caplog):
    # plain: 80 positions, tokenizer 64; scored: 16 and 48 stated.
    assert load(plain).text.max_length("query") == 64
    assert load(plain, query_max_length=8, document_max_length=24).text.to_json() == {
        "query_prompt": "",
        "document_prompt": "",
        "query_max_length": 8,
        "document_max_length": 24,
    }
    with caplog.at_level(logging.WARNING, "magjax.hub"):
        model = load(scored, query_max_length=40, document_max_length=20)
    assert (model.text.query_max_length, model.text.document_max_length) == (16, 20)
    assert "query_max_length=40 is lowered to 16, the limit of its folder" in caplog.text
    lifted = load(scored, query_max_length=512, cross_evaluation=True)
    assert lifted.text.query_max_length == 64
    with pytest.raises(InputError, match="query_max_length=0"):
        load(plain, query_max_length=0)


def test_compute_dtype_and_remat(plain):
    tower = load(plain, dtype="bfloat16", remat=True).encoder.query_tower
    assert tower.dtype == "bfloat16"
    assert tower.remat is True
    assert_same_weights(tower, load(plain).encoder.query_tower)
    with pytest.raises(InputError, match="unknown dtype 'float16'"):
        load(plain, dtype="float16")


# Run folders.


def test_run_folder_means_its_model(make_model, tmp_path):
    model = make_model(Score.of("qnorm"))
    save(model, tmp_path / "run" / "model")
    (tmp_path / "run" / "config.json").write_text('{"seed": 1}')
    (tmp_path / "run" / "checkpoints").mkdir()
    loaded = load(tmp_path / "run")
    assert loaded.score == Score.of("qnorm")
    assert_same_weights(loaded.encoder, model.encoder)


def test_run_without_model_yet(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="has saved no model/ yet"):
        load(tmp_path)


def test_a_step_is_read_by_the_callers_reader(make_model, tmp_path):
    save(make_model(Score.of("qnorm")), tmp_path / "model")
    calls = []

    def restore(run, step, model):
        calls.append((run, step, model.score))
        return model

    loaded = load(tmp_path, step=30, restore=restore)
    assert loaded.score == Score.of("qnorm")
    assert calls == [(tmp_path, 30, Score.of("qnorm"))]
    with pytest.raises(InputError, match="step=30 needs restore="):
        load(tmp_path, step=30)
    with pytest.raises(InputError, match="is no run folder"):
        load(tmp_path / "model", step=30, restore=restore)


# Weight files.


def test_shards_in_bfloat16(torch_folder, states, token_batch, torch_states):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    _, folder = torch_folder("xlm-roberta")
    theirs = transformers.AutoModel.from_pretrained(folder, dtype=torch.bfloat16)
    sharded = folder.parent / "sharded"
    theirs.save_pretrained(sharded, max_shard_size="20KB")
    assert (sharded / "model.safetensors.index.json").is_file()
    assert len(list(sharded.glob("model-*.safetensors"))) > 2
    tower = read_tower(sharded)
    assert {v.dtype for v in weights(tower).values()} == {np.dtype("float32")}
    batch = token_batch("xlm-roberta")
    wide = theirs.float().eval()
    for ours, other in zip(states(tower, batch), torch_states(wide, batch), strict=True):
        np.testing.assert_allclose(ours, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_widens_without_loss(tmp_path, dtype):
    values = np.random.default_rng(0).normal(size=(5, 3)).astype(dtype)
    save_file({"a": values}, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(read_tensors(tmp_path)["a"], values.astype(np.float32))


def test_transposed_arrays_are_written_in_their_own_order(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3).T
    write_tensors(tmp_path / "model.safetensors", {"a": values})
    np.testing.assert_array_equal(load_file(tmp_path / "model.safetensors")["a"], values)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "distilbert", "mpnet"])
def test_name_table_meets_every_parameter_once(family):
    config = EncoderConfig(family, num_hidden_layers=2, hidden_size=12, num_attention_heads=2)
    paths = [target.path for target in name_table(config).values()]
    assert len(paths) == len(set(paths))


def edit(folder, change):
    """Rewrites the weights of ``folder`` through ``change(dict)``."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


QUERY = "encoder.layer.0.attention.self.query.weight"


def test_leftovers_on_either_side_raise(plain):
    edit(plain, lambda t: t.pop(QUERY))
    with pytest.raises(InputError, match=f"1 missing \\({QUERY}\\)"):
        load(plain)
    edit(plain, lambda t: t.update({"encoder.layer.1.output.dense.bias": np.zeros(32, "f4")}))
    with pytest.raises(InputError, match=r"1 missing .*; 1 unknown \(encoder.layer.1.output"):
        load(plain)


def test_a_shape_against_the_configuration(plain):
    edit(plain, lambda t: t.update({QUERY: np.zeros((32, 16), "f4")}))
    with pytest.raises(InputError, match=rf"{QUERY} has shape \(16, 32\) .* \(32, 32\)"):
        load(plain)


def test_pooler_and_heads_are_left_out_and_named(plain, make_model, caplog):
    def add(tensors):
        tensors["pooler.dense.weight"] = np.zeros((32, 32), "f4")
        tensors["cls.predictions.bias"] = np.zeros(310, "f4")
        tensors["embeddings.position_ids"] = np.arange(80)[None]

    before = load(plain).encoder
    edit(plain, add)
    with caplog.at_level(logging.INFO, "magjax.hub"):
        after = load(plain).encoder
    assert_same_weights(before, after)
    assert "cls.predictions.bias, pooler.dense.weight" in caplog.text


def test_names_of_pre_training_classes_and_old_layer_norms(plain):
    before = load(plain).encoder

    def rename(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            old = old.replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[f"bert.{old}"] = tensors.pop(name)

    edit(plain, rename)
    assert_same_weights(before, load(plain).encoder)
    edit(plain, lambda t: t.update({QUERY: t[f"bert.{QUERY}"]}))
    with pytest.raises(InputError, match=f"holds {QUERY} twice"):
        load(plain)


def test_pickles_are_refused_with_advice(plain):
    (plain / "model.safetensors").rename(plain / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model.bin but no .*Convert once"):
        load(plain)
    (plain / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match=r"holds no model.safetensors and no"):
        load(plain)


def test_damaged_and_quantized_files(plain):
    edit(plain, lambda t: t.update({QUERY: np.zeros((32, 32), np.int8)}))
    with pytest.raises(InputError, match=f"{QUERY} is int8"):
        load(plain)
    (plain / "model.safetensors").write_bytes(b"not a safetensors file")
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        load(plain)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, 'no "weight_map"'),
        ({"weight_map": {"a": "model-1.safetensors"}}, "model-1.safetensors does not exist"),
        ({"weight_map": {"a": "../model.safetensors"}}, "outside its folder"),
        ({"weight_map": {"a": "here.safetensors", "b": "here.safetensors"}}, "lists b, which no"),
    ],
)
def test_a_broken_index(tmp_path, index, message):
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "here.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match=message):
        read_tensors(tmp_path)


# What is no model.


def test_wrong_paths(tmp_path, plain):
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "none")
    with pytest.raises(InputError, match="is a file; name the folder"):
        load(plain / "config.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no model"):
        load(tmp_path / "empty")


def test_unsupported_model_type_comes_before_any_weight(plain):
    config = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps({**config, "model_type": "deberta"}))
    (plain / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"config.json: unknown model_type 'deberta'"):
        load(plain)


def test_folder_without_tokenizer(plain):
    (plain / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="holds no tokenizer"):
        load(plain)


# Hub ids: the tests run offline, so nothing is fetched.


def test_hub_id_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("hf:nobody/no-such-model", "nobody/no-such-model"):
        with pytest.raises(InputError, match="no-such-model is no local folder, and fetching it"):
            load(name)
    with pytest.raises(InputError, match="is no hub id"):
        load("hf:no-such-model")


def test_a_mistyped_path_is_no_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(InputError, match=r"^runs/frist does not exist"):
        load("runs/frist")


def test_a_hub_id_fetches_no_pickles(plain, monkeypatch):
    import huggingface_hub

    seen = {}

    def fetch(name, **filters):
        seen.update(filters, name=name)
        return str(plain)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert load("hf:org/name").score is None
    assert seen["name"] == "org/name"
    assert seen["allow_patterns"] == ["*.safetensors", "*.json", "*.txt", "*.model"]
