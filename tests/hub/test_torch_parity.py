"""Every layer's output against torch: the families at random, and a published checkpoint."""

import json

import numpy as np
import pytest

from magjax.encoders import MODEL_TYPES
from magjax.hub import load
from magjax.hub._tower import read_tower, write_tower

FAMILIES = list(MODEL_TYPES)


def assert_layers_equal(ours, theirs, atol=1e-5):
    assert len(ours) == len(theirs)
    for layer, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=0, atol=atol, err_msg=f"layer {layer}")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_equals_torch_and_back(
    family, torch_folder, token_batch, states, torch_states, tmp_path
):
    transformers = pytest.importorskip("transformers")
    model, folder = torch_folder(family)
    batch = token_batch(family)
    expected = torch_states(model, batch)
    tower = read_tower(folder)
    assert_layers_equal(states(tower, batch), expected)
    # The other direction: torch reads what we write and computes the very same.
    written = tmp_path / "written"
    written.mkdir()
    write_tower(tower, written)
    again = transformers.AutoModel.from_pretrained(written)
    assert type(again) is type(model)
    for layer, other in zip(torch_states(again.eval(), batch), expected, strict=True):
        np.testing.assert_array_equal(layer, other)
    assert_layers_equal(states(read_tower(written), batch), expected)


@pytest.mark.parametrize("act", ["gelu_new", "relu", "silu"])
def test_activation_and_epsilon_come_from_the_file(
    act, torch_folder, token_batch, states, torch_states
):
    transformers = pytest.importorskip("transformers")
    _, folder = torch_folder("bert")
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_act": act, "layer_norm_eps": 0.1}
    (folder / "config.json").write_text(json.dumps(config))
    model = transformers.AutoModel.from_pretrained(folder).eval()
    batch = token_batch("bert")
    assert_layers_equal(states(read_tower(folder), batch), torch_states(model, batch))


def test_real_checkpoint(minilm, states, torch_states):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    model = load(minilm)
    texts = [
        "What is the length of an embedding good for?",
        "It says how sure a model is, how specific a text is, or nothing at all. " * 6,
        "",
        "naïve 北京 🙂 def f(x): return x",
    ]
    lists = model.tokenizer.encode(texts, 128)
    mask = np.array([[i < len(ids) for i in range(128)] for ids in lists], np.int32)
    batch = {"input_ids": np.zeros((4, 128), np.int32), "attention_mask": mask}
    for row, ids in enumerate(lists):
        batch["input_ids"][row, : len(ids)] = ids
    batch["token_type_ids"] = np.indices((4, 128))[1].astype(np.int32) % 2
    theirs = transformers.BertModel.from_pretrained(minilm).eval()
    # Real tokens only: what padding computes is seen by nobody, and beside a two-token text it is
    # ill-conditioned (torch's own float32 strays up to 3e-4 from its float64 there).
    seen = mask[:, :, None]
    assert_layers_equal(
        [layer * seen for layer in states(model.encoder.query_tower, batch)],
        [layer * seen for layer in torch_states(theirs, batch)],
    )


def test_real_checkpoint_embeds_as_sentence_transformers(minilm, embed):
    library = pytest.importorskip("sentence_transformers")
    texts = ["adds two arrays", "The cosine of the angle between two long vectors. " * 30, ""]
    expected = library.SentenceTransformer(str(minilm), device="cpu").encode(texts)
    model = load(minilm)
    assert model.text.max_length("document") == 256
    lists = model.tokenizer.encode(texts, 256)
    mask = np.array([[i < len(ids) for i in range(256)] for ids in lists], np.int32)
    batch = {"input_ids": np.zeros((3, 256), np.int32), "attention_mask": mask}
    for row, ids in enumerate(lists):
        batch["input_ids"][row, : len(ids)] = ids
    ours = model.score.normalize(embed(model.encoder, batch, "document"), "document")
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)


def test_real_checkpoint_ignores_batch_mates(minilm, embed):
    model = load(minilm)
    short, long = model.tokenizer.encode(["a", "tensor " * 400], 256)
    assert (len(short), len(long)) == (3, 256)
    batch = {"input_ids": np.zeros((8, 256), np.int32)}
    batch["input_ids"][:, :3] = short
    batch["input_ids"][1:7] = long
    batch["attention_mask"] = (batch["input_ids"] != 0).astype(np.int32)
    small = {name: value[:1, :16] for name, value in batch.items()}
    # Unit vectors: raw ones are about 6 long, and float32 rounding is relative to that.
    alone, together = (
        model.score.normalize(embed(model.encoder, part), "query") for part in (small, batch)
    )
    np.testing.assert_allclose(together[0], alone[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(together[7], alone[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", ["mean", "cls", "max", "lasttoken", "weightedmean"])
def test_pooling_dense_and_prompts_equal_sentence_transformers(
    mode, torch_folder, tokenizer, embed, tmp_path
):
    library = pytest.importorskip("sentence_transformers")
    torch = pytest.importorskip("torch")
    from sentence_transformers.sentence_transformer import modules

    _, folder = torch_folder("bert")
    tokenizer.save(folder)
    torch.manual_seed(1)
    chain = [
        modules.Transformer(str(folder), max_seq_length=20),
        modules.Pooling(32, pooling_mode=mode),
        modules.Dense(32, 8, activation_function=torch.nn.Tanh() if mode == "cls" else None),
    ]
    theirs = library.SentenceTransformer(
        modules=chain,
        device="cpu",
        prompts={"query": "find: ", "document": "text: "},
        similarity_fn_name="dot",
    )
    theirs.save(str(tmp_path / "st"))
    model = load(tmp_path / "st")
    assert model.score.variant == "dot"
    assert model.encoder.dim == 8
    assert model.text.to_json() == {
        "query_prompt": "find: ",
        "document_prompt": "text: ",
        "query_max_length": 20,
        "document_max_length": 20,
    }
    texts = ["adds two arrays", "def add(a, b): return a + b " * 5, ""]
    for side, encode in (("query", theirs.encode_query), ("document", theirs.encode_document)):
        prompt = model.text.prompt(side)
        lists = model.tokenizer.encode([prompt + text for text in texts], 20)
        mask = np.array([[i < len(ids) for i in range(20)] for ids in lists], np.int32)
        batch = {"input_ids": np.zeros((3, 20), np.int32), "attention_mask": mask}
        for row, ids in enumerate(lists):
            batch["input_ids"][row, : len(ids)] = ids
        np.testing.assert_allclose(
            embed(model.encoder, batch, side), encode(texts), rtol=0, atol=1e-5
        )
