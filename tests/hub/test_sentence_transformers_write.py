import dataclasses
import itertools
import json
import logging

import numpy as np
import pytest
from flax import nnx
from sentence_transformers_versions import (
    LAYOUTS,
    TEXTS,
    TOLERANCE,
    differences,
    library_embeddings,
    tiny_model,
    trained_embeddings,
)
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from magjax.checks import InputError
from magjax.data import TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.hub import Model, load, save, save_sentence_transformers
from magjax.similarity import PRESETS, Score

ALL_LAYOUTS = {
    **LAYOUTS,
    "two_lengths_and_projection": {"query_max_length": 8, "projection_dim": 4, "pooling": "max"},
}


@pytest.fixture
def library():
    return pytest.importorskip("sentence_transformers", reason="needs the parity extra")


@pytest.fixture
def exported(tmp_path):
    """Exports a tiny model and returns it with its folder."""

    def make(score, name="model", **settings):
        model = tiny_model(score, **settings)
        save_sentence_transformers(model, tmp_path / name)
        return model, tmp_path / name

    return make


def parameters(model):
    return {path: np.asarray(v[...]) for path, v in nnx.to_flat_state(nnx.state(model.encoder))}


def assert_same(first, second):
    ours, theirs = parameters(first), parameters(second)
    assert ours.keys() == theirs.keys()
    for path in ours:
        np.testing.assert_array_equal(ours[path], theirs[path], err_msg=str(path))
    assert first.score == second.score
    assert first.text == second.text
    assert first.encoder.pooling == second.encoder.pooling
    assert first.tokenizer.fingerprint == second.tokenizer.fingerprint
    for name in ("projection", "document_projection"):
        one, other = getattr(first.encoder, name), getattr(second.encoder, name)
        assert (one is None) is (other is None)
        if one is not None:
            assert one.activation == other.activation
            assert (one.linear.bias is None) is (other.linear.bias is None)


def kinds(folder):
    return [m["type"].rpartition(".")[2] for m in json.loads((folder / "modules.json").read_text())]


def own_projections(score):
    """One tower, and a projection for each side."""
    shared = tiny_model(score, projection_dim=6)
    other = tiny_model(score, shared=False, projection_dim=6).encoder
    encoder = DualEncoder(
        shared.encoder.query_tower,
        projection=shared.encoder.projection,
        document_projection=other.document_projection,
    )
    return dataclasses.replace(shared, encoder=encoder)


@pytest.mark.parametrize(
    ("preset", "layout"),
    [
        *itertools.product(PRESETS, ["shared", "projection", "separate"]),
        ("qnorm", "separate_projections"),
        ("dnorm", "two_lengths"),
    ],
)
def test_embeds_in_sentence_transformers_as_in_magjax(library, exported, preset, layout):
    model, folder = exported(Score.of(preset, 0.05), **LAYOUTS[layout])
    theirs = library_embeddings(folder)
    for side in ("query", "document"):
        ours = trained_embeddings(model, side)
        assert ours.shape == theirs[side].shape == (len(TEXTS), model.encoder.dim)
        np.testing.assert_allclose(theirs[side], ours, rtol=0, atol=TOLERANCE)
        lengths = np.linalg.norm(theirs[side].astype(np.float64), axis=1)
        unit = bool(np.allclose(lengths, 1.0, atol=1e-6))
        assert unit is (model.score.gamma(side) == 1.0)
    # Queries are not documents: prompts, lengths or weights differ in every layout.
    assert np.abs(theirs["query"] - theirs["document"]).max() > 1e-3


@pytest.mark.parametrize("preset", PRESETS)
def test_similarity_of_the_library_is_the_trained_score(library, exported, preset):
    model, folder = exported(Score.of(preset))
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    assert theirs.similarity_fn_name == ("cosine" if preset == "cosine" else "dot")
    assert theirs.max_seq_length == 24
    found = theirs.similarity(theirs.encode_query(TEXTS), theirs.encode_document(TEXTS)).numpy()
    raw = {
        side: trained_embeddings(dataclasses.replace(model, score=Score.of("dot")), side)
        for side in ("query", "document")
    }
    expected = raw["query"].astype(np.float64) @ raw["document"].astype(np.float64).T
    for side, axis in (("query", 1), ("document", 0)):
        power = PRESETS[preset][side == "document"]
        norms = np.linalg.norm(raw[side].astype(np.float64), axis=1) ** power
        expected /= np.expand_dims(norms, axis)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_one_tower_with_two_projections_is_stored_once(library, tmp_path):
    model = own_projections(Score.of("dnorm"))
    save_sentence_transformers(model, tmp_path / "model")
    assert kinds(tmp_path / "model") == ["Transformer", "Pooling", "Router"]
    assert_same(load(tmp_path / "model"), model)
    assert max(differences(tmp_path / "model").values()) <= TOLERANCE


@pytest.mark.parametrize(
    ("preset", "settings", "expected"),
    [
        ("cosine", {}, ["Transformer", "Pooling", "Normalize"]),
        ("dot", {}, ["Transformer", "Pooling"]),
        ("qnorm", {}, ["Transformer", "Pooling", "Router"]),
        ("dnorm", LAYOUTS["projection"], ["Transformer", "Pooling", "Dense", "Router"]),
        ("cosine", LAYOUTS["projection"], ["Transformer", "Pooling", "Dense", "Normalize"]),
        ("dot", LAYOUTS["separate"], ["Router"]),
        ("cosine", LAYOUTS["two_lengths"], ["Router"]),
    ],
)
def test_modules(exported, preset, settings, expected):
    _, folder = exported(Score.of(preset), **settings)
    assert kinds(folder) == expected
    listed = json.loads((folder / "modules.json").read_text())
    assert all(m["type"].startswith("sentence_transformers.models.") for m in listed)
    # Folders without a file are lost by git and by uploads.
    for part in folder.rglob("*"):
        assert part.is_file() or any(part.iterdir()), part


def test_router_of_a_one_sided_score(exported):
    for preset, query, document in (
        ("qnorm", "Normalize", "Dropout"),
        ("dnorm", "Dropout", "Normalize"),
    ):
        _, folder = exported(Score.of(preset), preset)
        config = json.loads((folder / "2_Router" / "router_config.json").read_text())
        assert config["structure"] == {
            "query": [f"query_0_{query}"],
            "document": [f"document_0_{document}"],
        }
        assert config["parameters"]["default_route"] == "document"
        idle = folder / "2_Router" / next(n for n in config["types"] if "Dropout" in n)
        assert json.loads((idle / "config.json").read_text()) == {"dropout": 0.0}


@pytest.mark.parametrize(
    "score",
    [
        Score.of("dnorm", 0.05),
        Score("learnable", 0.625, 1.0, 0.07),
        Score.power(0.25, 0.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ALL_LAYOUTS)
def test_reloads_bitwise(exported, tmp_path, score, layout):
    model, folder = exported(score, **ALL_LAYOUTS[layout])
    loaded = load(folder)
    assert_same(loaded, model)
    save_sentence_transformers(loaded, tmp_path / "again" / "model")
    files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    for file in files:
        assert (tmp_path / "again/model" / file).read_bytes() == (folder / file).read_bytes()


def test_own_folder_and_back(exported, tmp_path):
    model, folder = exported(Score.of("qnorm", 0.05), **LAYOUTS["separate_projections"])
    save(load(folder), tmp_path / "own")
    assert_same(load(tmp_path / "own"), model)


def test_without_the_statement_the_modules_say_the_preset(exported):
    _, folder = exported(Score.of("qnorm", 0.05), **LAYOUTS["two_lengths"])
    (folder / "magjax.json").unlink()
    read = load(folder)
    assert read.score == Score.of("qnorm")
    assert (read.text.query_max_length, read.text.document_max_length) == (12, 24)
    assert (read.text.query_prompt, read.text.document_prompt) == ("find: ", "text: ")
    # What was one tower with two lengths is two towers to anyone who is not told.
    assert read.encoder.document_tower is not None


def test_lengths_above_the_tokenizers_are_written_as_they_work(exported, tmp_path):
    model = tiny_model(Score.of("dot"))
    text = TextSettings(query_max_length=40, document_max_length=36)
    save_sentence_transformers(dataclasses.replace(model, text=text), tmp_path / "long")
    # 32 is the tokenizer's limit: both sides have the same in effect, so one tower does.
    assert kinds(tmp_path / "long") == ["Transformer", "Pooling"]
    assert load(tmp_path / "long").text == text.limited(32)


def test_a_querys_power_between_is_rewritten_without_changing_a_ranking(library, tmp_path, caplog):
    score = Score("learnable", 0.7, 0.0, 0.05)
    model = tiny_model(score)
    with caplog.at_level(logging.INFO, "magjax.hub"):
        save_sentence_transformers(model, tmp_path / "model")
    assert "gamma_query=0.7 is written as 1" in caplog.text
    assert "to the power -0.3" in caplog.text
    theirs = library_embeddings(tmp_path / "model")
    written = theirs["query"].astype(np.float64) @ theirs["document"].T
    raw = trained_embeddings(dataclasses.replace(model, score=Score.of("dot")), "query")
    trained = trained_embeddings(model, "query").astype(np.float64) @ theirs["document"].T
    shift = np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True) ** (0.7 - 1.0)
    np.testing.assert_allclose(written, trained * shift, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(written.argsort(axis=1), trained.argsort(axis=1))
    assert load(tmp_path / "model").score == score


@pytest.mark.parametrize(
    ("powers", "normalizing"),
    [((0.4, 0.0), []), ((0.5, 0.0), ["query"]), ((0.4, 1.0), ["document"]), ((0.6, 1.0), ["all"])],
)
def test_a_querys_power_goes_to_the_nearer_end(exported, powers, normalizing):
    _, folder = exported(Score.power(*powers))
    if normalizing in ([], ["all"]):
        assert ("Normalize" in kinds(folder)) is bool(normalizing)
        assert "Router" not in kinds(folder)
    else:
        config = json.loads((folder / "2_Router" / "router_config.json").read_text())
        assert config["structure"][normalizing[0]] == [f"{normalizing[0]}_0_Normalize"]


def test_a_documents_power_between_is_refused_or_written_raw(library, tmp_path, caplog):
    model = tiny_model(Score.power(1.0, 0.3, 0.05))
    with pytest.raises(InputError, match=r"gamma_document=0.3 cannot .*export.py vectors"):
        save_sentence_transformers(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with caplog.at_level(logging.WARNING, "magjax.hub"):
        save_sentence_transformers(model, tmp_path / "model", allow_inexact=True)
    assert "encode_document gives raw embeddings" in caplog.text
    theirs = library_embeddings(tmp_path / "model")
    lengths = np.linalg.norm(theirs["document"].astype(np.float64), axis=1, keepdims=True)
    assert np.ptp(lengths) > 0.1
    np.testing.assert_allclose(
        theirs["document"] / lengths**0.3, trained_embeddings(model, "document"), rtol=0, atol=1e-5
    )
    np.testing.assert_allclose(
        theirs["query"], trained_embeddings(model, "query"), rtol=0, atol=1e-5
    )
    assert_same(load(tmp_path / "model"), model)


def test_plain_encode_is_the_document_side_without_its_prompt(library, exported):
    model, folder = exported(Score.of("qnorm"))
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    text = dataclasses.replace(model.text, document_prompt="")
    expected = trained_embeddings(dataclasses.replace(model, text=text), "document")
    np.testing.assert_allclose(theirs.encode(TEXTS), expected, rtol=0, atol=TOLERANCE)


def edit(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("modules.json", lambda c: c.pop(), r"states score \(1.0, 1.0\).* say None"),
        (
            "config_sentence_transformers.json",
            lambda c: c["prompts"].update(query="other: "),
            "states query_prompt 'find: '.* say 'other: '",
        ),
        (
            "config_sentence_transformers.json",
            lambda c: c["prompts"].pop("document"),
            "states document_prompt 'text: '.* say ''",
        ),
        (
            "sentence_bert_config.json",
            lambda c: c.update(max_seq_length=16),
            "states query_max_length 24.* say 16",
        ),
        (
            "1_Pooling/config.json",
            lambda c: c.update(pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True),
            "states pooling 'mean'.* say 'max'",
        ),
        ("magjax.json", lambda c: c.update(pooling="cls"), "states pooling 'cls'"),
        ("magjax.json", lambda c: c.update(towers="separate"), "states towers 'separate'"),
        ("magjax.json", lambda c: c.update(projections="shared"), "states projections 'shared'"),
        ("magjax.json", lambda c: c.update(written=[1.0, 0.0]), r"states powers \[1.0, 0.0\]"),
        (
            "magjax.json",
            lambda c: c["score"].update(variant="dnorm", gamma_query=0.0),
            r"states powers \[1.0, 1.0\]",
        ),
        ("magjax.json", lambda c: c.update(format=2), "format 2; this version of magjax reads 1"),
        ("magjax.json", lambda c: c.pop("text"), "needs exactly the fields"),
        ("magjax.json", lambda c: c["score"].pop("temperature"), "a score needs exactly"),
    ],
)
def test_an_edited_folder_is_refused(exported, file, change, message):
    _, folder = exported(Score.of("cosine", 0.05))
    if file == "modules.json":
        # Without Normalize and with similarity left open, no score is stated any more.
        edit(folder / "config_sentence_transformers.json", lambda c: c.pop("similarity_fn_name"))
    edit(folder / file, change)
    with pytest.raises(InputError, match=message):
        load(folder)


def test_another_similarity_contradicts_the_statement(exported):
    _, folder = exported(Score.of("dot"))
    edit(
        folder / "config_sentence_transformers.json",
        lambda c: c.update(similarity_fn_name="cosine"),
    )
    with pytest.raises(InputError, match=r"states score \(0.0, 0.0\).* say \(1.0, 1.0\)"):
        load(folder)


def test_a_changed_copy_of_a_shared_tower_is_refused(exported):
    _, folder = exported(Score.of("dot"), **LAYOUTS["two_lengths"])
    weights = folder / "document_0_Transformer" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"states towers 'shared'.* say 'separate'"):
        load(folder)


def test_equal_towers_of_two_sides_stay_two(tmp_path):
    model = tiny_model(Score.of("dot"), shared=False, query_max_length=12)
    graph, state = nnx.split(model.encoder.query_tower)
    model.encoder.document_tower = nnx.merge(graph, state)
    save_sentence_transformers(model, tmp_path / "model")
    assert load(tmp_path / "model").encoder.document_tower is not None


def test_targets_that_are_no_export_are_never_replaced(exported, tmp_path):
    model, folder = exported(Score.of("dot"))
    save_sentence_transformers(dataclasses.replace(model, score=Score.of("cosine")), folder)
    assert load(folder).score == Score.of("cosine")
    (tmp_path / "note.txt").write_text("years of work")
    with pytest.raises(InputError, match="holds other files"):
        save_sentence_transformers(model, tmp_path)
    with pytest.raises(InputError, match="is a file"):
        save_sentence_transformers(model, tmp_path / "note.txt")
    with pytest.raises(InputError, match="states no score"):
        save_sentence_transformers(dataclasses.replace(model, score=None), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_failure_leaves_the_older_export(exported, monkeypatch, tmp_path):
    model, folder = exported(Score.of("dot"))
    monkeypatch.setattr(type(model.tokenizer), "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_sentence_transformers(dataclasses.replace(model, score=Score.of("cosine")), folder)
    monkeypatch.undo()
    assert load(folder).score == Score.of("dot")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def word_pieces(*, lowercase: bool, config: dict) -> TextTokenizer:
    """A BERT tokenizer whose settings file may say something else than its tokenizer.json."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyzABCXYZ"] + list("ABCXYZ:,")
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return TextTokenizer(tokenizer, {"pad_token": "[PAD]", "unk_token": "[UNK]", **config})


def byte_pieces() -> TextTokenizer:
    """A RoBERTa tokenizer: spaces are part of tokens, and none is put in front."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(special + alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    config = {"tokenizer_class": "RobertaTokenizer", "model_max_length": 60}
    return TextTokenizer(
        tokenizer, {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", **config}
    )


def model_of(tokenizer, model_type="bert"):
    config = EncoderConfig(
        model_type,
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=66,
    )
    text = TextSettings(query_max_length=20, document_max_length=20, query_prompt="find: ")
    return Model(DualEncoder.create(config), Score.of("qnorm"), tokenizer, text)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("stated", [{}, {"do_lower_case": True}, {"do_lower_case": False}])
def test_tokens_are_those_of_tokenizer_json(library, tmp_path, lowercase, stated):
    tokenizer = word_pieces(
        lowercase=lowercase,
        config={"tokenizer_class": "BertTokenizer", "padding_side": "left", **stated},
    )
    capitals, small = tokenizer.encode(["ABC", "abc"], 9)
    assert (capitals.tolist() == small.tolist()) is lowercase
    save_sentence_transformers(model_of(tokenizer), tmp_path / "model")
    theirs = library.SentenceTransformer(str(tmp_path / "model"), device="cpu").tokenizer
    texts = [*TEXTS, "ABC abc XYZ"]
    expected = [ids.tolist() for ids in tokenizer.encode(texts, 200)]
    assert [theirs(text)["input_ids"] for text in texts] == expected
    assert theirs.padding_side == "right"


@pytest.mark.parametrize("model_type", ["roberta", "distilbert"])
def test_other_families(library, tmp_path, model_type):
    save_sentence_transformers(model_of(byte_pieces(), model_type), tmp_path / "model")
    assert max(differences(tmp_path / "model").values()) <= TOLERANCE
    card = (tmp_path / "model" / "README.md").read_text()
    # Here spaces are part of tokens.
    assert "5.0 to 5.3 strip the white space" in card
    assert ("`pooler` weights" in card) is (model_type == "roberta")


def test_a_published_checkpoint_made_one_sided(library, minilm, tmp_path):
    model = dataclasses.replace(load(minilm), score=Score.of("qnorm", 0.05))
    save_sentence_transformers(model, tmp_path / "model")
    assert_same(load(tmp_path / "model"), model)
    found = differences(tmp_path / "model")
    # Raw embeddings of documents are about 6 long.
    assert found["query"] <= 1e-6
    assert found["document"] <= TOLERANCE
