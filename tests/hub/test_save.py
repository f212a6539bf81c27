import json

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from magjax.checks import InputError
from magjax.data import TextSettings
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.hub import Model, load, save
from magjax.similarity import Score


def parameters(model: Model) -> dict:
    return {path: np.asarray(v[...]) for path, v in nnx.to_flat_state(nnx.state(model.encoder))}


def assert_same(first: Model, second: Model) -> None:
    ours, theirs = parameters(first), parameters(second)
    assert ours.keys() == theirs.keys()
    for path in ours:
        np.testing.assert_array_equal(ours[path], theirs[path], err_msg=str(path))
    assert first.score == second.score
    assert first.text == second.text
    assert first.encoder.pooling == second.encoder.pooling
    assert first.tokenizer.encode(["add x"], 9)[0].tolist() == (
        second.tokenizer.encode(["add x"], 9)[0].tolist()
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pooling": "cls", "projection_dim": 6},
        {"shared": False},
        {
            "shared": False,
            "projection_dim": 32,  # square: a missing transpose would keep the shape
            "projection_bias": False,
            "projection_activation": "tanh",
            "pooling": "weighted_mean",
        },
    ],
)
def test_reloads_bitwise(make_model, tmp_path, settings):
    model = make_model(Score.of("qnorm", 0.05), **settings)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_same(model, loaded)
    first, second = model.encoder.projection, loaded.encoder.projection
    assert (first is None) is (second is None)
    if first is not None:
        assert first.activation == second.activation
        assert (first.linear.bias is None) is (second.linear.bias is None)
    save(loaded, tmp_path / "again")
    for file in (tmp_path / "model").rglob("*"):
        if file.is_file():
            other = tmp_path / "again" / file.relative_to(tmp_path / "model")
            assert file.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    "score", [None, Score.of("dot"), Score("learnable", 0.125, 0.875, 0.07), Score.power(0.5, 0.0)]
)
def test_the_score_is_part_of_the_folder(make_model, tmp_path, score):
    save(make_model(score), tmp_path / "model")
    assert load(tmp_path / "model").score == score


def test_torch_reads_the_folder_with_tokenizer(make_model, tmp_path, states, torch_states):
    transformers = pytest.importorskip("transformers")
    model = make_model(Score.of("cosine"))
    save(model, tmp_path / "model")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    batch = tokenizer(["adds arrays", "the angle"], padding=True, return_tensors="np")
    batch = {name: batch[name].astype(np.int32) for name in ("input_ids", "attention_mask")}
    pairs = zip(states(model.encoder.query_tower, batch), torch_states(theirs, batch), strict=True)
    for ours, other in pairs:
        np.testing.assert_allclose(ours, other, rtol=0, atol=1e-5)


def test_separate_towers_are_two_hugging_face_folders(make_model, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    model = make_model(shared=False)
    save(model, tmp_path / "model")
    for side in ("query", "document"):
        folder = tmp_path / "model" / side
        theirs = transformers.AutoModel.from_pretrained(folder)
        table = model.encoder.tower(side).embeddings.word.embedding[...]
        np.testing.assert_array_equal(theirs.get_input_embeddings().weight.detach(), table)
        assert len(transformers.AutoTokenizer.from_pretrained(folder)) == (
            model.tokenizer.vocab_size
        )


def test_an_older_model_is_replaced_as_a_whole(make_model, tmp_path):
    save(make_model(shared=False), tmp_path / "model")
    save(make_model(), tmp_path / "model")
    assert not (tmp_path / "model" / "query").exists()
    assert load(tmp_path / "model").encoder.is_shared
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_other_folders_are_never_replaced(make_model, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds other files"):
        save(make_model(), tmp_path)
    with pytest.raises(InputError, match="is a file"):
        save(make_model(), tmp_path / "thesis.tex")
    (tmp_path / "empty").mkdir()
    save(make_model(), tmp_path / "empty")
    assert load(tmp_path / "empty").score is None


def test_a_failure_leaves_the_older_model(make_model, tmp_path, monkeypatch):
    model = make_model(Score.of("dot"))
    save(model, tmp_path / "model")
    broken = make_model(Score.of("cosine"))
    monkeypatch.setattr(type(broken.tokenizer), "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(broken, tmp_path / "model")
    monkeypatch.undo()
    assert_same(load(tmp_path / "model"), model)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_score_file_names_everything_that_numbers_depend_on(make_model, tmp_path):
    save(make_model(Score.of("dnorm", 0.1), pooling="last"), tmp_path / "model")
    content = json.loads((tmp_path / "model" / "score.json").read_text())
    assert content == {
        "format": 1,
        "score": {
            "variant": "dnorm",
            "gamma_query": 0.0,
            "gamma_document": 1.0,
            "temperature": 0.1,
        },
        "text": {
            "query_max_length": 16,
            "document_max_length": 48,
            "query_prompt": "find: ",
            "document_prompt": "",
        },
        "pooling": "last",
        "towers": "shared",
        "projections": {},
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2"),
        ({"score": {"variant": "qnorm"}}, "a score needs exactly the fields"),
        ({"text": {"query_max_length": 3}}, "lack document_max_length"),
        ({"text": None}, "score.json"),
        ({"pooling": "avg"}, "unknown pooling 'avg'"),
        ({"towers": "both"}, "towers is 'both'"),
        ({"towers": "separate"}, r"query.config.json does not exist"),
        ({"projections": {"third": {}}}, "projections may list"),
        ({"projections": {"projection": {"inputs": 3}}}, "projection.safetensors"),
        ({"extra": 1}, "needs exactly the fields"),
    ],
)
def test_a_damaged_score_file_is_refused(make_model, tmp_path, change, message):
    save(make_model(Score.of("qnorm")), tmp_path / "model")
    file = tmp_path / "model" / "score.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(InputError, match=message):
        load(tmp_path / "model")


def test_parts_of_different_checkpoints(make_model, tiny_sizes):
    model = make_model()
    small = EncoderConfig("bert", **{**tiny_sizes, "vocab_size": 100, "num_hidden_layers": 1})
    with pytest.raises(InputError, match="ids but the encoder only 100 embeddings"):
        Model(DualEncoder.create(small), None, model.tokenizer, model.text)
    roberta = EncoderConfig("roberta", **{**tiny_sizes, "num_hidden_layers": 1})
    with pytest.raises(InputError, match="pads with id 0 but this roberta"):
        Model(DualEncoder.create(roberta), None, model.tokenizer, model.text)
    long = TextSettings(query_max_length=16, document_max_length=81)
    with pytest.raises(InputError, match="document_max_length=81 does not fit the 80 positions"):
        Model(model.encoder, None, model.tokenizer, long)


def test_require_score(make_model):
    assert make_model(Score.of("dot")).require_score() == Score.of("dot")
    with pytest.raises(InputError, match="states no score"):
        make_model().require_score()


def test_saving_arrays_spread_over_devices(make_model, tmp_path):
    from magjax.mesh import data_mesh, replicate

    model = make_model()
    graph, state = nnx.split(model.encoder)
    spread = Model(
        nnx.merge(graph, replicate(state, data_mesh())), None, model.tokenizer, model.text
    )
    save(spread, tmp_path / "model")
    assert_same(load(tmp_path / "model"), model)
    assert all(v.dtype == jnp.float32 for v in parameters(spread).values())
