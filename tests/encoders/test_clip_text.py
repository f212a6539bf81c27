import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from numpy_towers import parameters, text_embedding, text_states

from magjax.checks import InputError
from magjax.encoders import ClipTextConfig

EOS = 50


@pytest.fixture
def captions():
    """Rows of 8, 5, 3 and 0 tokens, each closed by the end-of-text id, padded with it as CLIP does."""
    rng = np.random.default_rng(1)
    lengths = np.array([8, 5, 3, 0])
    place = np.arange(8)[None]
    mask = (place < lengths[:, None]).astype(np.int32)
    ids = rng.integers(3, EOS, (4, 8)).astype(np.int32)
    ids = np.where(place < lengths[:, None] - 1, ids, EOS).astype(np.int32)
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("act", ["quick_gelu", "gelu"])
def test_layers_and_embedding_equal_numpy(clip_text, build, layers, embed, captions, act):
    captions["input_ids"][0, 2] = EOS + 5  # an added token above the end of text is no end
    tower = build(clip_text(num_hidden_layers=2, hidden_act=act))
    p = parameters(tower)
    found = layers(tower, *captions.values())
    embeddings = embed(tower, captions)
    assert embeddings.dtype == jnp.float32
    assert embeddings.shape == (4, 8)
    for row, length in enumerate([8, 5, 3]):
        expected = text_states(p, captions["input_ids"][row, :length], tower.config, causal=True)
        assert len(found) == len(expected) == 3
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine[row, :length], other, atol=2e-5, rtol=1e-5)
        other = text_embedding(p, expected[-1][-1], tower.config)
        np.testing.assert_allclose(embeddings[row], other, atol=2e-5, rtol=1e-5)


def test_a_row_of_padding_is_zero_and_changes_no_other(clip_text, build, embed, captions):
    tower = build(clip_text())
    embeddings = embed(tower, captions)
    np.testing.assert_array_equal(embeddings[3], np.zeros(8))
    captions["input_ids"][3], captions["attention_mask"][3] = captions["input_ids"][0], 1
    np.testing.assert_array_equal(embed(tower, captions)[:3], embeddings[:3])


def test_longer_padding_of_another_id_changes_nothing(clip_text, build, embed, captions):
    tower = build(clip_text())
    short = {name: value[1:3, :5] for name, value in captions.items()}
    long = {name: np.pad(value, ((0, 0), (0, 5))) for name, value in short.items()}
    long["input_ids"][long["attention_mask"] == 0] = 7
    np.testing.assert_allclose(embed(tower, long), embed(tower, short), atol=2e-6, rtol=1e-5)


def test_the_older_rule_pools_at_the_first_largest_id(clip_text, build, layers, embed, captions):
    tower = build(clip_text(eos_token_id=2))
    assert tower.config.pools_at_largest_id
    captions["input_ids"][0, 3] = EOS  # as the end of text, but earlier
    p, hidden = parameters(tower), layers(tower, *captions.values())[-1]
    expected = [text_embedding(p, np.asarray(hidden)[row, at], tower.config) for row, at in
                enumerate([3, 4, 2])]  # fmt: skip
    np.testing.assert_allclose(embed(tower, captions)[:3], expected, atol=2e-5, rtol=1e-5)


def test_a_text_without_its_end_is_not_hidden(clip_text, build, embed, captions):
    tower = build(clip_text())
    captions["input_ids"][1, 4] = 7  # row 1 ends without the token, and its padding is no end
    embeddings = embed(tower, captions)
    assert bool(jnp.all(jnp.isnan(embeddings[1])))
    assert bool(jnp.all(jnp.isfinite(embeddings[jnp.array([0, 2, 3])])))


def test_remat_and_bfloat16_follow_float32(clip_text, build, captions):
    # The row of padding has no direction to compare.
    captions = {name: value[:3] for name, value in captions.items()}

    def loss(state, graph):
        embeddings = nnx.merge(graph, state).embed(captions)
        return jnp.mean(embeddings[:, 0] ** 2), embeddings

    step = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)
    config = clip_text()
    plain, again, rough = (
        step(*reversed(nnx.split(build(config, **settings))))
        for settings in ({}, {"remat": True}, {"dtype": "bfloat16"})
    )
    for mine, other in zip(*map(jax.tree.leaves, (plain, again)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)
    assert rough[0][1].dtype == jnp.float32
    exact = plain[0][1]
    assert float(jnp.max(jnp.abs(rough[0][1] - exact)) / jnp.max(jnp.abs(exact))) < 0.05


def test_dropout_comes_from_the_key_alone(clip_text, build, captions):
    tower = build(clip_text(attention_dropout=0.5))
    run = jax.jit(lambda key: tower.embed(captions, dropout_key=key))
    first, again, other = (run(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_too_many_tokens(clip_text, build):
    ids = np.full((1, 11), 5, np.int32)
    with pytest.raises(InputError, match="length 11 does not fit the 10 positions"):
        build(clip_text())(ids, np.ones_like(ids))


def test_published_sizes_fill_what_a_file_leaves_out():
    config = ClipTextConfig.from_hf({"model_type": "clip_text_model", "hidden_size": 768,
                                     "num_attention_heads": 12})  # fmt: skip
    assert (config.vocab_size, config.max_length, config.eos_token_id) == (49408, 77, 49407)
    assert (config.hidden_act, config.layer_norm_eps, config.dim) == ("quick_gelu", 1e-5, 512)
    assert ClipTextConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "quickgelu"}, "unknown hidden_act 'quickgelu'.*Did you mean 'quick_gelu'"),
        ({"eos_token_id": 60}, "eos_token_id=60 lies outside vocab_size=60"),
        ({"eos_token_id": [49407]}, r"eos_token_id=\[49407\] .* must be one token id"),
        ({"num_attention_heads": 3}, "hidden_size=16 is not a multiple of num_attention_heads=3"),
        ({"attention_dropout": 1.0}, "attention_dropout=1.0 must be at least 0 and below 1"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps=0.0 must be"),
        ({"projection_size": 8}, "unknown setting of clip_text_model 'projection_size'"),
    ],
)
def test_settings_that_do_not_fit(clip_text, changes, message):
    with pytest.raises(InputError, match=message):
        clip_text(**changes)


def test_a_decoder_is_refused():
    with pytest.raises(InputError, match="is_decoder=True"):
        ClipTextConfig.from_hf({"model_type": "clip_text_model", "is_decoder": True})
