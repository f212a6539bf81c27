"""CLIP folders of Hugging Face in and out, against torch."""

import dataclasses
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
from safetensors.numpy import load_file, save_file

from magjax.checks import InputError
from magjax.data import ImageSettings, TextSettings, TextTokenizer
from magjax.encoders import ClipTextConfig, DualEncoder, VisionConfig
from magjax.hub import Model, load, save
from magjax.similarity import Score


@pytest.fixture(scope="module")
def torch_clip(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("clip")
    return make_folder("clip", folder, tokenizer), folder


@pytest.fixture
def copy(torch_clip, tmp_path):
    """The folder again, to be changed."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in torch_clip[1].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def edit(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def towers(model, folder, embed, atol=1e-5):
    """Both sides of what ``folder`` holds, every layer, against a torch model."""
    ours = load(folder)
    text, vision = ours.encoder.query_tower, ours.encoder.document_tower
    batch, pictures = captions(), images()
    theirs = torch_text(model.text_model, batch)
    seen = batch["attention_mask"][:, :, None]  # what padding computes is seen by nobody
    for mine, other in zip(states(text, *batch.values()), theirs.hidden_states, strict=True):
        np.testing.assert_allclose(mine * seen, array(other) * seen, atol=atol, rtol=0)
    expected = array(model.text_projection(theirs.pooler_output))
    np.testing.assert_allclose(embed(ours.encoder, batch, "query"), expected, atol=atol, rtol=0)
    theirs = torch_images(model.vision_model, pictures)
    for mine, other in zip(
        states(vision, pictures["pixel_values"]), theirs.hidden_states, strict=True
    ):
        np.testing.assert_allclose(mine, array(other), atol=atol, rtol=0)
    expected = array(model.visual_projection(theirs.pooler_output))
    found = embed(ours.encoder, pictures, "document")
    np.testing.assert_allclose(found, expected, atol=atol, rtol=0)
    return ours


def states(tower, *inputs):
    graph, state = nnx.split(tower)
    return jax.jit(lambda state: nnx.merge(graph, state)(*inputs, output_layers=True))(state)


def test_every_layer_and_embedding_equals_torch(torch_clip, embed):
    model, folder = torch_clip
    ours = towers(model, folder, embed)
    scale = math.exp(model.logit_scale.item())
    assert ours.score.agrees_with(Score.of("cosine", 1 / scale))
    assert ours.text == TextSettings(query_max_length=POSITIONS, document_max_length=POSITIONS)
    assert ours.images == ImageSettings(size=16, crop_size=12)
    # The logits are cosine's.
    with pytest.importorskip("torch").no_grad():
        batch, pictures = captions(), images()
        text = torch_text(model.text_model, batch).pooler_output
        image = torch_images(model.vision_model, pictures).pooler_output
        text, image = model.text_projection(text), model.visual_projection(image)
        text, image = (x / x.norm(dim=-1, keepdim=True) for x in (text, image))
        expected = array(model.logit_scale.exp() * text @ image.T)
    q, d = (
        ours.score.normalize(embed(ours.encoder, part, side), side)
        for part, side in ((batch, "query"), (pictures, "document"))
    )
    np.testing.assert_allclose(q @ d.T / ours.score.temperature, expected, atol=1e-5, rtol=1e-5)


def test_torch_reads_what_is_written(torch_clip, embed, tmp_path):
    transformers = pytest.importorskip("transformers")
    model, folder = torch_clip
    save(load(folder), tmp_path / "written")
    again = transformers.CLIPModel.from_pretrained(tmp_path / "written").eval()
    held = dict(again.named_parameters())
    assert held.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        # Only the scale went through its exponential.
        tolerance = 1e-6 if name == "logit_scale" else 0.0
        np.testing.assert_allclose(array(held[name]), array(parameter), atol=tolerance, rtol=0)
    towers(model, tmp_path / "written", embed)
    processor = transformers.CLIPImageProcessorPil.from_pretrained(tmp_path / "written")
    assert processor.crop_size == {"height": 12, "width": 12}


@pytest.mark.parametrize("query", ["text", "image"])
@pytest.mark.parametrize("score", [Score("learnable", 0.25, 0.75, 0.03), None])
def test_a_saved_model_comes_back_bitwise(tokenizer, tmp_path, query, score):
    encoder = DualEncoder.create_image_text(
        VisionConfig.preset("tiny", num_hidden_layers=1),
        ClipTextConfig.preset("tiny", vocab_size=310, eos_token_id=3, num_hidden_layers=1),
        dim=24,
        query_modality=query,
    )
    prompt = {f"{'query' if query == 'text' else 'document'}_prompt": "an icon of "}
    text = TextSettings(query_max_length=16, document_max_length=16, **prompt)
    model = Model(encoder, score, tokenizer, text, ImageSettings(size=40, crop_size=32))
    save(model, tmp_path / "model")
    names = {file.name for file in (tmp_path / "model").iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "score.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    again = load(tmp_path / "model")
    assert again.encoder.modality("query") == query
    assert (again.score, again.text, again.images) == (score, text, model.images)
    for (path, one), (other_path, other) in zip(
        *(nnx.to_flat_state(nnx.state(m.encoder)) for m in (model, again)), strict=True
    ):
        assert path == other_path
        np.testing.assert_array_equal(one[...], other[...])
    assert [t.config for t in (encoder.query_tower, encoder.document_tower)] == [
        t.config for t in (again.encoder.query_tower, again.encoder.document_tower)
    ]


def test_the_older_end_of_text_rule_equals_torch(tokenizer, tmp_path, embed):
    # Special tokens above all others, as in CLIP's own vocabulary.
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {"<pad>": 0, "a": 1, "b": 2, "<bos>": 3, "<eos>": 4}
    inner = Tokenizer(models.WordLevel(words, unk_token="a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 3), ("<eos>", 4)]
    )
    own = TextTokenizer(inner, {"pad_token": "<pad>"})
    model = make_folder("clip", tmp_path / "clip", own, text={"vocab_size": 5, "eos_token_id": 2})
    ours = load(tmp_path / "clip")
    assert ours.encoder.query_tower.config.pools_at_largest_id
    # A "b" (id 2) before the end: the newer rule would pool there.
    batch = {
        "input_ids": np.array([[3, 2, 1, 4], [3, 1, 4, 0]], np.int32),
        "attention_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
    }
    expected = array(model.text_projection(torch_text(model.text_model, batch).pooler_output))
    np.testing.assert_allclose(embed(ours.encoder, batch), expected, atol=1e-5, rtol=0)
    # Where another id is larger, the older rule would pool at it.
    make_folder("clip", tmp_path / "added", tokenizer, text={"eos_token_id": 2})
    with pytest.raises(InputError, match="eos_token_id=2 stands for the older rule"):
        load(tmp_path / "added")


def test_another_image_size_equals_torch(torch_clip, embed):
    model, folder = torch_clip
    ours = load(folder, image_size=20)
    assert ours.images == ImageSettings(size=27, crop_size=20)
    pictures = images(20)
    theirs = torch_images(model.vision_model, pictures, interpolate_pos_encoding=True)
    expected = array(model.visual_projection(theirs.pooler_output))
    found = embed(ours.encoder, pictures, "document")
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_older_files_are_read_as_transformers_reads_them(copy, torch_clip, embed):
    transformers = pytest.importorskip("transformers")
    settings = json.loads((copy / "config.json").read_text())
    older = {**settings["text_config"], "hidden_act": "gelu"}
    # text_config_dict outdoes text_config, with the defaults of what it leaves out.
    edit(
        copy,
        text_config={**older, "layer_norm_eps": 0.5},
        text_config_dict={k: v for k, v in older.items() if k != "layer_norm_eps"},
        vision_config_dict=None,
    )
    tensors = load_file(copy / "model.safetensors")
    tensors["text_model.embeddings.position_ids"] = np.arange(POSITIONS)[None]
    tensors["vision_model.embeddings.position_ids"] = np.arange(10, dtype=np.float32)[None]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    ours = towers(transformers.CLIPModel.from_pretrained(copy).eval(), copy, embed)
    config = ours.encoder.query_tower.config
    assert (config.hidden_act, config.layer_norm_eps) == ("gelu", 1e-5)


def test_missing_and_left_over_tensors_are_named(copy):
    tensors = load_file(copy / "model.safetensors")
    moved = tensors.pop("vision_model.pre_layrnorm.bias")
    save_file({**tensors, "vision_model.neck.bias": moved}, copy / "model.safetensors")
    message = r"1 missing \(vision_model.pre_layrnorm.bias\); 1 unknown \(vision_model.neck.bias\)"
    with pytest.raises(InputError, match=message):
        load(copy)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("vision_model.embeddings.patch_embedding.weight", (16, 3, 4, 3), r"not \[hidden, 3"),
        ("text_projection.weight", (8, 16), "text_projection.weight has shape"),
        ("logit_scale", (2,), "logit_scale must be one finite number"),
    ],
)
def test_tensors_of_another_shape(copy, name, shape, message):
    tensors = load_file(copy / "model.safetensors")
    save_file({**tensors, name: np.ones(shape, np.float32)}, copy / "model.safetensors")
    with pytest.raises(InputError, match=message):
        load(copy)


def test_a_text_side_that_does_not_fit(torch_clip, tokenizer):
    model = load(torch_clip[1])
    for changes, message in (
        ({"images": None}, "nothing states how they are resized"),
        ({"images": ImageSettings(size=16)}, "cut to 16 pixels .* reads 12"),
        (
            {"text": dataclasses.replace(model.text, document_prompt="a photo of ")},
            "document side embeds images",
        ),
        (
            {"text": dataclasses.replace(model.text, query_max_length=13)},
            "does not fit the 12 positions",
        ),
    ):
        with pytest.raises(InputError, match=message):
            dataclasses.replace(model, **changes)
    model.encoder.query_tower.config = dataclasses.replace(
        model.encoder.query_tower.config, eos_token_id=4
    )
    with pytest.raises(InputError, match=r"ends texts with id 3, but .* eos_token_id=4"):
        dataclasses.replace(model)


def test_arguments_against_the_folder(torch_clip, copy, tmp_path):
    folder = torch_clip[1]
    with pytest.raises(InputError, match="pooling='mean' does not apply"):
        load(folder, pooling="mean")
    with pytest.raises(InputError, match="unknown query_modality 'picture'"):
        load(folder, query_modality="picture")
    with pytest.raises(InputError, match=r"images=.* contradicts"):
        load(folder, images=ImageSettings(size=12))
    other = load(folder, images=ImageSettings(size=12), cross_evaluation=True)
    assert other.images == ImageSettings(size=12)
    swapped = load(folder, query_modality="image")
    assert swapped.encoder.modality("document") == "text"
    save(swapped, tmp_path / "model")
    with pytest.raises(InputError, match=r"query_modality='text' contradicts .* 'image'"):
        load(tmp_path / "model", query_modality="text")
    (copy / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=r"copy preprocessor_config.json"):
        load(copy)
    assert load(copy, images=ImageSettings(size=12)).images == ImageSettings(size=12)
    # transformers 5 saves a processor's parts in one file.
    inner = json.loads((folder / "preprocessor_config.json").read_text())
    (copy / "processor_config.json").write_text(json.dumps({"image_processor": inner}))
    assert load(copy).images == ImageSettings(size=16, crop_size=12)


def test_an_edited_score_file_is_named(torch_clip, tmp_path):
    save(load(torch_clip[1]), tmp_path / "model")
    file = tmp_path / "model" / "score.json"
    content = json.loads(file.read_text())
    for change, message in (
        ({"towers": "shared"}, "towers is 'shared', which .*config.json contradicts"),
        ({"query_modality": "picture"}, "unknown query_modality"),
        ({"towers": "both"}, "towers is 'both', not one of shared, separate, pair"),
    ):
        file.write_text(json.dumps(content | change))
        with pytest.raises(InputError, match=message):
            load(tmp_path / "model")


def test_vocabulary_and_merges_make_clips_tokenizer(copy):
    transformers = pytest.importorskip("transformers")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copy / name).unlink()
    # CLIP's layout in small: bytes, bytes that end a word, merges, start and end of text.
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    merges = ["c a", "ca t</w>", "d o", "do g</w>"]
    words = [*letters, *(f"{c}</w>" for c in letters), *(m.replace(" ", "") for m in merges)]
    words += ["<|startoftext|>", "<|endoftext|>"]
    (copy / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (copy / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    settings = json.loads((copy / "config.json").read_text())
    end = len(words) - 1
    edit(
        copy, text_config={**settings["text_config"], "eos_token_id": end, "bos_token_id": end - 1}
    )
    ours = load(copy).tokenizer
    assert ours.pad_id == end
    theirs = transformers.CLIPTokenizer.from_pretrained(copy)
    for text in ("a cat", "Dog  dogs", ""):
        expected = theirs(text)["input_ids"]
        assert ours.encode([text], POSITIONS)[0].tolist() == expected
    # Cut texts keep their end.
    assert ours.encode(["cat " * 40], POSITIONS)[0].tolist()[-1] == end


def test_a_sentence_transformers_folder_is_refused(torch_clip, tmp_path):
    from magjax.hub import save_sentence_transformers

    with pytest.raises(InputError, match="the query side of this model is a clip_text_model"):
        save_sentence_transformers(load(torch_clip[1]), tmp_path / "st")
