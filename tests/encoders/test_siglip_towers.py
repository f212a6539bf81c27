import numpy as np
import pytest
from numpy_towers import (
    parameters,
    text_embedding,
    text_states,
    vision_embedding,
    vision_states,
)

from magjax.checks import InputError
from magjax.encoders import ClipTextConfig


def test_vision_layers_and_pooling_head_equal_numpy(vision, build, layers, embed, pixels):
    tower = build(vision("siglip_vision_model", num_hidden_layers=2))
    p = parameters(tower)
    found, embeddings = layers(tower, pixels), embed(tower, {"pixel_values": pixels})
    assert embeddings.shape == (3, 16)
    for row, image in enumerate(pixels):
        expected = vision_states(p, image, tower.config)
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine[row], other, atol=2e-5, rtol=1e-5)
        other = vision_embedding(p, expected[-1], tower.config)
        np.testing.assert_allclose(embeddings[row], other, atol=3e-5, rtol=1e-5)


def test_text_is_padded_to_all_positions_and_reads_the_padding(clip_text, build, layers, embed):
    tower = build(clip_text("siglip_text_model", pad_token_id=1, projection_dim=6))
    rng = np.random.default_rng(0)
    ids = rng.integers(2, 60, (2, 6)).astype(np.int32)
    mask = (np.arange(6)[None] < np.array([[6], [3]])).astype(np.int32)
    batch = {"input_ids": ids, "attention_mask": mask}
    p = parameters(tower)
    found, embeddings = layers(tower, ids, mask), embed(tower, batch)
    assert found[-1].shape == (2, 10, 16)
    for row, length in enumerate((6, 3)):
        whole = np.concatenate([ids[row, :length], np.ones(10 - length, int)])
        expected = text_states(p, whole, tower.config, causal=False)
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine[row], other, atol=2e-5, rtol=1e-5)
        other = text_embedding(p, expected[-1][-1], tower.config)
        np.testing.assert_allclose(embeddings[row], other, atol=2e-5, rtol=1e-5)
    # So the batch's own padding, its length and its ids, does not matter.
    other = {"input_ids": np.where(mask == 1, ids, 9)[1:, :4], "attention_mask": mask[1:, :4]}
    np.testing.assert_allclose(embed(tower, other)[0], embeddings[1], atol=2e-6, rtol=1e-5)


def test_a_row_of_padding_is_the_empty_text(clip_text, build, embed):
    tower = build(clip_text("siglip_text_model", pad_token_id=1))
    ids = np.ones((2, 4), np.int32)
    batch = {"input_ids": ids, "attention_mask": np.array([[1] * 4, [0] * 4], np.int32)}
    first, second = embed(tower, batch)
    np.testing.assert_array_equal(first, second)
    assert np.all(np.isfinite(first))


def test_published_sizes_fill_what_a_file_leaves_out():
    config = ClipTextConfig.from_hf({"model_type": "siglip_text_model"})
    assert (config.vocab_size, config.max_length, config.dim) == (32000, 64, 768)
    assert (config.hidden_act, config.layer_norm_eps) == ("gelu_pytorch_tanh", 1e-6)
    narrow = ClipTextConfig.from_hf({"model_type": "siglip_text_model", "projection_size": 96})
    assert narrow.dim == 96
    assert ClipTextConfig.from_hf(narrow.to_hf()) == narrow


def test_a_text_tower_needs_a_padding_token(clip_text):
    with pytest.raises(InputError, match="pad_token_id=None of siglip_text_model"):
        clip_text("siglip_text_model", pad_token_id=None)
