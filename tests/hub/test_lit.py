"""A text tower of the BERT family beside a vision tower, and vision towers alone."""

import dataclasses
import json

import numpy as np
import pytest
from clip_cases import array, configuration, images, make_folder, randomized, torch_images
from flax import nnx

from magjax.checks import InputError
from magjax.data import ImageSettings, TextSettings
from magjax.encoders import ClipTextConfig, DualEncoder, EncoderConfig, VisionConfig
from magjax.hub import Model, combine, load, save
from magjax.hub._tower import read_tower, write_tower
from magjax.similarity import Score

VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "image_size": 12,
    "patch_size": 4,
}


@pytest.fixture
def make_lit(tokenizer):
    """A BERT text tower beside an image tower, with everything that a folder can state."""

    def make(vision_type="clip_vision_model", query="text", **changes) -> Model:
        width = {"projection_dim": 8} if vision_type == "clip_vision_model" else {}
        encoder = DualEncoder.create_image_text(
            VisionConfig.of(vision_type, **VISION, **width, **changes),
            EncoderConfig(
                vocab_size=310, hidden_size=24, num_hidden_layers=1, intermediate_size=24
            ),
            query_modality=query,
            pooling="cls",
        )
        prompt = {f"{'query' if query == 'text' else 'document'}_prompt": "find: "}
        text = TextSettings(query_max_length=16, document_max_length=16, **prompt)
        images = ImageSettings(size=16, crop_size=12)
        return Model(encoder, Score.of("qnorm", 0.05), tokenizer, text, images)

    return make


def parameters(model):
    return [(path, v[...]) for path, v in nnx.to_flat_state(nnx.state(model.encoder))]


@pytest.mark.parametrize(
    ("vision_type", "query"), [("clip_vision_model", "text"), ("siglip_vision_model", "image")]
)
def test_a_mixed_model_comes_back_bitwise(make_lit, tmp_path, vision_type, query):
    model = make_lit(vision_type, query)
    save(model, tmp_path / "model")
    image, text = ("document", "query") if query == "text" else ("query", "document")
    assert {f.name for f in (tmp_path / "model" / image).iterdir()} == {
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    }
    assert {f.name for f in (tmp_path / "model" / text).iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    again = load(tmp_path / "model")
    assert again.encoder.modality("query") == query
    assert again.encoder.pooling == "cls"
    assert (again.score, again.text, again.images) == (model.score, model.text, model.images)
    for (path, one), (other_path, other) in zip(parameters(model), parameters(again), strict=True):
        assert path == other_path
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InputError, match=r"query_modality=.* contradicts"):
        load(tmp_path / "model", query_modality="image" if query == "text" else "text")


def test_torch_reads_the_vision_folder(make_lit, embed, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    for vision_type, name in (
        ("clip_vision_model", "CLIPVisionModelWithProjection"),
        ("siglip_vision_model", "SiglipVisionModel"),
    ):
        model = make_lit(vision_type)
        folder = tmp_path / vision_type
        save(model, folder)
        cls = getattr(transformers, name)
        theirs = torch_images(cls.from_pretrained(folder / "document").eval(), images())
        expected = theirs.image_embeds if "WithProjection" in name else theirs.pooler_output
        found = embed(model.encoder, images(), "document")
        np.testing.assert_allclose(found, array(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["CLIPVisionModelWithProjection", "CLIPVisionModel"])
def test_vision_towers_of_torch_are_read(name, embed, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    config = configuration("clip").vision_config
    model = randomized(getattr(transformers, name)(config))
    model.save_pretrained(tmp_path)
    tower = read_tower(tmp_path)
    theirs = torch_images(model, images())
    bare = name == "CLIPVisionModel"
    expected = array(theirs.pooler_output if bare else theirs.image_embeds)
    assert (tower.projection is None) is bare
    np.testing.assert_allclose(tower.embed(images()), expected, atol=1e-5, rtol=0)
    # As releases before 5 named the tensors, and back.
    (tmp_path / "written").mkdir()
    write_tower(tower, tmp_path / "written")
    again = type(model).from_pretrained(tmp_path / "written")
    held = dict(again.named_parameters())
    for key, value in model.named_parameters():
        np.testing.assert_array_equal(array(held[key]), array(value))


def test_two_checkpoints_make_one_model(make_model, tokenizer, embed, tmp_path):
    save(make_model(Score.of("dot"), pooling="cls"), tmp_path / "text")
    make_folder("clip", tmp_path / "clip", tokenizer)
    model = combine(tmp_path / "text", tmp_path / "clip", prompt="an icon of ", max_length=20)
    assert (model.encoder.dim, model.encoder.pooling, model.score) == (16, "cls", None)
    assert model.text.to_json() == {
        "query_max_length": 20,
        "document_max_length": 20,
        "query_prompt": "an icon of ",
        "document_prompt": "",
    }
    assert model.images == ImageSettings(size=16, crop_size=12)
    clip = load(tmp_path / "clip")
    np.testing.assert_array_equal(
        embed(model.encoder, images(), "document"), embed(clip.encoder, images(), "document")
    )
    narrow = combine(
        tmp_path / "text", tmp_path / "clip", dim=4, query_modality="image", image_size=8
    )
    assert narrow.encoder.modality("query") == "image"
    assert embed(narrow.encoder, images(8), "query").shape == (3, 4)
    assert narrow.encoder.side_projection("query").linear.bias is None
    save(narrow, tmp_path / "narrow")
    again = load(tmp_path / "narrow")
    for (_, one), (_, other) in zip(parameters(narrow), parameters(again), strict=True):
        np.testing.assert_array_equal(one, other)
    # CLIP's own text tower beside images of the same width needs no projection.
    both = combine(tmp_path / "clip", tmp_path / "narrow", image_size=12)
    assert both.encoder.side_projection("query") is None
    with pytest.raises(InputError, match="has no vision tower"):
        combine(tmp_path / "clip", tmp_path / "text")
    with pytest.raises(InputError, match=r"image_size=8 was given, but .* embeds no images"):
        load(tmp_path / "text", image_size=8)


def test_mixed_families_lie_apart(tokenizer, tmp_path):
    encoder = DualEncoder.create_image_text(
        VisionConfig.of("siglip_vision_model", **VISION),
        ClipTextConfig.preset("tiny", vocab_size=310, eos_token_id=3, num_hidden_layers=1),
    )
    text = TextSettings(query_max_length=16, document_max_length=16)
    model = Model(encoder, None, tokenizer, text, ImageSettings.siglip(12))
    save(model, tmp_path / "model")
    assert json.loads((tmp_path / "model" / "score.json").read_text())["towers"] == "separate"
    again = load(tmp_path / "model")
    assert again.images == ImageSettings.siglip(12)
    for (_, one), (_, other) in zip(parameters(model), parameters(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_model_of_images_alone_has_no_tokenizer(make_lit):
    model = make_lit()
    with pytest.raises(InputError, match="both sides of this encoder embed images"):
        dataclasses.replace(model, encoder=DualEncoder(model.encoder.tower("document")))
