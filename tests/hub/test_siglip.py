"""SigLIP folders of Hugging Face in and out, against torch."""

import json
import math

import jax
import numpy as np
import pytest
from clip_cases import (
    POSITIONS,
    array,
    captions,
    images,
    make_folder,
    torch_images,
    torch_text,
)
from flax import nnx

from magjax.checks import InputError
from magjax.data import ImageSettings
from magjax.hub import load, save
from magjax.similarity import Score


@pytest.fixture(scope="module")
def torch_siglip(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("siglip")
    return make_folder("siglip", folder, tokenizer), folder


def states(tower, *inputs):
    graph, state = nnx.split(tower)
    return jax.jit(lambda state: nnx.merge(graph, state)(*inputs, output_layers=True))(state)


def filled(batch):
    """As SigLIP was trained: padded to all positions, and no mask."""
    missing = POSITIONS - batch["input_ids"].shape[1]
    return {"input_ids": np.pad(batch["input_ids"], ((0, 0), (0, missing)))}


def check_both_sides(model, folder, embed, atol=1e-5):
    ours = load(folder)
    text, vision = ours.encoder.query_tower, ours.encoder.document_tower
    batch, pictures = captions(), images()
    theirs = torch_text(model.text_model, filled(batch))
    for mine, other in zip(states(text, *batch.values()), theirs.hidden_states, strict=True):
        np.testing.assert_allclose(mine, array(other), atol=atol, rtol=0)
    found = embed(ours.encoder, batch, "query")
    np.testing.assert_allclose(found, array(theirs.pooler_output), atol=atol, rtol=0)
    theirs = torch_images(model.vision_model, pictures)
    layers = states(vision, pictures["pixel_values"])
    for mine, other in zip(layers, theirs.hidden_states, strict=True):
        np.testing.assert_allclose(mine, array(other), atol=atol, rtol=0)
    found = embed(ours.encoder, pictures, "document")
    np.testing.assert_allclose(found, array(theirs.pooler_output), atol=atol, rtol=0)
    return ours


def test_every_layer_and_embedding_equals_torch(torch_siglip, embed):
    model, folder = torch_siglip
    ours = check_both_sides(model, folder, embed)
    assert ours.score.variant == "cosine"
    assert ours.score.temperature == pytest.approx(math.exp(-model.logit_scale.item()), rel=1e-6)
    assert ours.score.bias == pytest.approx(model.logit_bias.item(), rel=1e-6)
    assert ours.images == ImageSettings.siglip(12)
    # The logits, bias included.
    batch, pictures = captions(), images()
    q, d = (
        ours.score.normalize(embed(ours.encoder, part, side), side)
        for part, side in ((batch, "query"), (pictures, "document"))
    )
    theirs = [
        torch_text(model.text_model, filled(batch)).pooler_output,
        torch_images(model.vision_model, pictures).pooler_output,
    ]
    text, image = (x / x.norm(dim=-1, keepdim=True) for x in theirs)
    expected = array(text @ image.T * model.logit_scale.exp() + model.logit_bias)
    found = q @ d.T / ours.score.temperature + ours.score.bias
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def test_torch_reads_what_is_written(torch_siglip, embed, tmp_path):
    transformers = pytest.importorskip("transformers")
    model, folder = torch_siglip
    ours = load(folder)
    save(ours, tmp_path / "written")
    again = transformers.SiglipModel.from_pretrained(tmp_path / "written").eval()
    held = dict(again.named_parameters())
    assert held.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        tolerance = 1e-6 if name == "logit_scale" else 0.0
        np.testing.assert_allclose(array(held[name]), array(parameter), atol=tolerance, rtol=0)
    check_both_sides(model, tmp_path / "written", embed)
    reread = load(tmp_path / "written")
    assert (reread.score, reread.images) == (ours.score, ours.images)
    state, other = (nnx.to_flat_state(nnx.state(m.encoder)) for m in (ours, reread))
    for (_, one), (_, two) in zip(state, other, strict=True):
        np.testing.assert_array_equal(one[...], two[...])


def test_another_image_size_equals_torch(torch_siglip, embed):
    model, folder = torch_siglip
    ours = load(folder, image_size=20)
    pictures = images(20)
    theirs = torch_images(model.vision_model, pictures, interpolate_pos_encoding=True)
    found = embed(ours.encoder, pictures, "document")
    np.testing.assert_allclose(found, array(theirs.pooler_output), atol=1e-5, rtol=0)


def test_padding_is_the_tokenizers(torch_siglip, tmp_path, caplog):
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in torch_siglip[1].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    settings = json.loads((folder / "config.json").read_text())
    settings["text_config"]["pad_token_id"] = 1
    (folder / "config.json").write_text(json.dumps(settings))
    with caplog.at_level("INFO"):
        ours = load(folder)
    assert ours.encoder.query_tower.config.pad_token_id == ours.tokenizer.pad_id == 0
    assert "pad_token_id=1 of its config.json is replaced by 0" in caplog.text


def test_a_sentencepiece_file_alone_is_refused(torch_siglip, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in torch_siglip[1].iterdir():
        if not file.name.startswith("tokenizer"):
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "spiece.model").write_bytes(b"no model")
    with pytest.raises(InputError, match=r"add the checkpoint's tokenizer.json"):
        load(folder)


def test_a_unigram_tokenizer_file_serves(tmp_path, embed):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    from magjax.data import TextTokenizer

    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), ("▁cat", -1.0), ("s", -2.0)]
    inner = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    own = TextTokenizer(inner, {"pad_token": "</s>", "model_max_length": POSITIONS})
    text = {"vocab_size": 5, "pad_token_id": 1, "eos_token_id": 1, "bos_token_id": None}
    model = make_folder("siglip", tmp_path / "siglip", own, text=text)
    ours = load(tmp_path / "siglip")
    assert ours.tokenizer.encode(["Cats"], 12)[0].tolist() == [3, 4, 1]
    batch = {"input_ids": np.array([[3, 4, 1]], np.int32), "attention_mask": np.ones((1, 3), int)}
    whole = {"input_ids": np.array([[3, 4, *[1] * 10]])}
    expected = array(torch_text(model.text_model, whole).pooler_output)
    np.testing.assert_allclose(embed(ours.encoder, batch), expected, atol=1e-5, rtol=0)


def test_a_head_that_is_left_out_is_refused(torch_siglip, tmp_path):
    settings = json.loads((torch_siglip[1] / "config.json").read_text())
    settings["vision_config"]["vision_use_head"] = False
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="vision_use_head=False"):
        load(tmp_path)


def test_a_bias_stays_with_the_score():
    score = Score("cosine", 1.0, 1.0, 0.1, -10.0)
    assert Score.from_json(score.to_json()) == score
    assert "bias" not in Score.of("dot").to_json()
    assert not score.agrees_with(Score("cosine", 1.0, 1.0, 0.1, -9.0))
    assert score.agrees_with(Score.of("cosine"))
    assert str(score).endswith("temperature=0.1, bias=-10)")
    with pytest.raises(InputError, match="bias='-10' must be a finite number"):
        Score.from_json(score.to_json() | {"bias": "-10"})
