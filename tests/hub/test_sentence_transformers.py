import json
import logging

import numpy as np
import pytest
from safetensors.numpy import save_file

from magjax.checks import InputError
from magjax.hub import load
from magjax.hub._tower import write_tower
from magjax.similarity import Score

KINDS = "sentence_transformers.models."


@pytest.fixture
def make_folder(make_model, tmp_path):
    """Writes a sentence-transformers folder by hand, each file as given."""
    model = make_model()

    def make(modules=("Transformer", "Pooling"), *, pooling=None, general=None, bert=None):
        folder = tmp_path / "st"
        for index, name in enumerate(modules):
            part = folder if index == 0 else folder / f"{index}_{name.rpartition('.')[2]}"
            part.mkdir(parents=True, exist_ok=True)
        write_tower(model.encoder.query_tower, folder)
        model.tokenizer.save(folder)
        listed = [
            {
                "idx": i,
                "name": str(i),
                "path": "" if i == 0 else f"{i}_{name.rpartition('.')[2]}",
                "type": name if "." in name else KINDS + name,
            }
            for i, name in enumerate(modules)
        ]
        write = {"modules.json": listed, "sentence_bert_config.json": bert}
        write["config_sentence_transformers.json"] = general
        write["1_Pooling/config.json"] = pooling or {"pooling_mode_mean_tokens": True}
        for name, content in write.items():
            if content is not None and (folder / name).parent.is_dir():
                (folder / name).write_text(json.dumps(content))
        return folder

    return make


def test_real_checkpoint_states_cosine(minilm):
    model = load(minilm)
    assert model.score == Score.of("cosine")
    assert model.encoder.pooling == "mean"
    assert model.encoder.dim == 384
    # sentence_bert_config.json 256, tokenizer_config.json and positions 512, tokenizer.json 128.
    assert (model.text.query_max_length, model.text.document_max_length) == (256, 256)
    assert model.text.query_prompt == model.text.document_prompt == ""
    assert [len(ids) for ids in model.tokenizer.encode(["", "a " * 900], 256)] == [2, 256]


@pytest.mark.parametrize(
    ("modules", "similarity", "score"),
    [
        (("Transformer", "Pooling", "Normalize"), None, Score.of("cosine")),
        (("Transformer", "Pooling", "Normalize"), "dot", Score.of("cosine")),
        (("Transformer", "Pooling"), "cosine", Score.of("cosine")),
        (("Transformer", "Pooling"), "dot", Score.of("dot")),
        (("Transformer", "Pooling"), "dot_product", Score.of("dot")),
        (("Transformer", "Pooling"), None, None),
    ],
)
def test_score(make_folder, modules, similarity, score):
    folder = make_folder(modules, general={"similarity_fn_name": similarity})
    assert load(folder).score == score


def test_a_stated_score_is_defended(make_folder):
    folder = make_folder(general={"similarity_fn_name": "cosine"})
    with pytest.raises(InputError, match=r"score dot .* trained for cosine"):
        load(folder, score=Score.of("dot"))


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "weightedmean", "include_prompt": True}, "weighted_mean"),
        ({"pooling_mode": ["mean"]}, "mean"),
        ({"word_embedding_dimension": 32}, "mean"),
    ],
)
def test_pooling(make_folder, config, pooling):
    assert load(make_folder(pooling=config)).encoder.pooling == pooling


def test_newer_module_names(make_folder):
    modules = (
        "sentence_transformers.base.modules.transformer.Transformer",
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
        "sentence_transformers.base.modules.normalize.Normalize",
    )
    assert load(make_folder(modules)).score == Score.of("cosine")


def test_dense(make_folder, embed):
    folder = make_folder(("Transformer", "Pooling", "Dense"))
    config = {
        "in_features": 32,
        "out_features": 4,
        "bias": False,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    weight = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    (folder / "2_Dense/config.json").write_text(json.dumps(config))
    save_file({"linear.weight": weight}, folder / "2_Dense/model.safetensors")
    batch = {"input_ids": np.array([[2, 9, 3]]), "attention_mask": np.ones((1, 3), np.int32)}
    model = load(folder)
    assert model.encoder.dim == 4
    pooled = embed(load(make_folder()).encoder, batch)
    expected = np.tanh(np.asarray(pooled, np.float64) @ weight.T.astype(np.float64))
    # make_folder rewrote modules.json, but the model above is already read.
    np.testing.assert_allclose(embed(model.encoder, batch), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "tensors", "message"),
    [
        ({"activation_function": "my.Gelu"}, ["linear.weight"], "unknown activation"),
        ({"use_residual": True}, ["linear.weight"], "residual"),
        ({"module_input_name": "token_embeddings"}, ["linear.weight"], "module_input_name"),
        ({"bias": True}, ["linear.weight"], "lacks linear.bias"),
        ({}, ["linear.weight", "linear.bias"], "holds linear.bias, which no setting mentions"),
        ({}, [], "holds pytorch_model.bin but no model.safetensors"),
        ({"out_features": 5}, ["linear.weight"], r"linear.weight has shape \(32, 4\)"),
    ],
)
def test_dense_refusals(make_folder, change, tensors, message):
    folder = make_folder(("Transformer", "Pooling", "Dense"))
    config = {
        "in_features": 32,
        "out_features": 4,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
        **change,
    }
    (folder / "2_Dense/config.json").write_text(json.dumps(config))
    shapes = {"linear.weight": (4, 32), "linear.bias": (4,)}
    if tensors:
        save_file(
            {name: np.zeros(shapes[name], np.float32) for name in tensors},
            folder / "2_Dense/model.safetensors",
        )
    else:
        (folder / "2_Dense/pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match=message):
        load(folder)


def test_prompts_of_both_sides(make_folder, caplog):
    general = {"prompts": {"query": "q: ", "document": "", "passage": "p: ", "other": "o: "}}
    text = load(make_folder(general=general)).text
    assert (text.query_prompt, text.document_prompt) == ("q: ", "p: ")
    assert "documents get the prompt 'passage' ('p: ')" in caplog.text
    with pytest.raises(InputError, match="query_prompt='x' contradicts"):
        load(make_folder(general=general), query_prompt="x")
    with caplog.at_level(logging.WARNING, "magjax.hub"):
        text = load(make_folder(general={**general, "default_prompt_name": "other"})).text
    assert (text.query_prompt, text.document_prompt) == ("q: ", "p: ")
    assert "default prompt 'other'" in caplog.text


def test_length_is_the_least(make_folder):
    assert load(make_folder(bert={"max_seq_length": 24})).text.query_max_length == 24
    # 64: the tokenizer's limit; the file asks for more than there are positions.
    assert load(make_folder(bert={"max_seq_length": 512})).text.query_max_length == 64


def test_lower_casing_must_be_the_tokenizers_own(make_folder, monkeypatch):
    folder = make_folder(bert={"max_seq_length": 24, "do_lower_case": True})
    assert load(folder).text.query_max_length == 24
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "normalizer": None}))
    with pytest.raises(InputError, match="do_lower_case"):
        load(folder)


@pytest.mark.parametrize(
    ("lowers", "settings", "fits"),
    [
        (True, {"tokenizer_class": "BertTokenizer"}, True),
        (True, {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True}, True),
        (True, {"tokenizer_class": "BertTokenizer", "do_lower_case": False}, False),
        (False, {"tokenizer_class": "MPNetTokenizer"}, False),
        (False, {"tokenizer_class": "BertTokenizer", "do_lower_case": False}, True),
        (True, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}, True),
        (False, {"do_lower_case": True}, True),
    ],
)
def test_transformers_would_rebuild_a_bert_tokenizer(make_folder, lowers, settings, fits):
    folder = make_folder()
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    normalizer = tokenizer["normalizer"] if lowers else None
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "normalizer": normalizer}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "[PAD]", **settings}))
    if fits:
        load(folder)
    else:
        with pytest.raises(InputError, match="do_lower_case"):
            load(folder)


def test_a_length_that_the_tokenizer_lowers_is_logged(make_folder, caplog):
    load(make_folder(bert={"max_seq_length": 512}))
    assert "query_max_length=512 of its folder is lowered to 64, the limit of its" in caplog.text


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (
            ("Transformer", "Pooling", "LayerNorm"),
            "module 'sentence_transformers.models.LayerNorm'",
        ),
        (("my_code.Transformer", "Pooling"), "module 'my_code.Transformer'"),
        (("Transformer",), "chains Transformer for the query side; supported"),
        (("Transformer", "Pooling", "Normalize", "Dense"), "chains .*Normalize > Dense"),
    ],
)
def test_other_modules_are_refused(make_folder, modules, message):
    with pytest.raises(InputError, match=message):
        load(make_folder(modules))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"pooling": {"pooling_mode_mean_sqrt_len_tokens": True}}, "mean_sqrt_len_tokens"),
        ({"pooling": {"pooling_mode": ["mean", "max"]}}, "combines 2 poolings"),
        (
            {"pooling": {"include_prompt": False}, "general": {"prompts": {"query": "q"}}},
            "include_prompt",
        ),
        ({"general": {"similarity_fn_name": "euclidean"}}, "unknown similarity_fn_name"),
        ({"general": {"truncate_dim": 16}}, "truncates embeddings to 16"),
        ({"bert": {"transformer_task": "fill-mask"}}, "fill-mask"),
    ],
)
def test_settings_that_would_change_the_numbers_are_refused(make_folder, files, message):
    with pytest.raises(InputError, match=message):
        load(make_folder(**files))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"idx": 0, "path": ""}], 'must list objects with "idx"'),
        ([{"idx": 0, "path": "../other", "type": f"{KINDS}Transformer"}], "outside its folder"),
        ("text", 'must list objects with "idx"'),
    ],
)
def test_damaged_module_list(make_folder, content, message):
    folder = make_folder()
    (folder / "modules.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        load(folder)
