import jax.numpy as jnp
import numpy as np
import pytest
from numpy_towers import parameters, resize, vision_embedding, vision_states

from magjax.checks import InputError
from magjax.encoders import VisionConfig, interpolate_positions
from magjax.encoders._position_interpolation import bicubic_weights


def test_layers_and_embedding_equal_numpy(vision, build, layers, embed, pixels):
    tower = build(vision(num_hidden_layers=2))
    p = parameters(tower)
    found, embeddings = layers(tower, pixels), embed(tower, {"pixel_values": pixels})
    assert embeddings.dtype == jnp.float32
    for row, image in enumerate(pixels):
        expected = vision_states(p, image, tower.config)
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine[row], other, atol=2e-5, rtol=1e-5)
        other = vision_embedding(p, expected[-1], tower.config)
        np.testing.assert_allclose(embeddings[row], other, atol=2e-5, rtol=1e-5)


def test_without_a_projection_the_class_token_is_the_embedding(vision, build, embed, pixels):
    tower = build(vision(projection_dim=None))
    p = parameters(tower)
    expected = vision_embedding(p, vision_states(p, pixels[0], tower.config)[-1], tower.config)
    embedding = embed(tower, {"pixel_values": pixels[:1]})[0]
    assert (tower.dim, embedding.shape) == (16, (16,))
    np.testing.assert_allclose(embedding, expected, atol=2e-5, rtol=1e-5)


def test_what_fills_no_patch_is_left_out(vision, build, embed, pixels):
    tower = build(vision(image_size=11))
    assert tower.config.grid == 2
    edge = pixels[:1, :11, :11].copy()
    plain = embed(tower, {"pixel_values": edge})
    edge[:, 8:], edge[:, :, 8:] = 9.0, 9.0
    np.testing.assert_array_equal(embed(tower, {"pixel_values": edge}), plain)


def test_positions_interpolate_as_the_definition_says():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(1 + 16, 6)).astype(np.float32)
    for height, width in ((7, 7), (3, 5), (4, 4)):
        expected = resize(table[1:].reshape(4, 4, 6).astype(np.float64), height, width)
        found = interpolate_positions(table, height, width, class_rows=1)
        np.testing.assert_array_equal(found[0], table[0])
        np.testing.assert_allclose(found[1:], expected.reshape(-1, 6), atol=2e-6, rtol=0)


@pytest.mark.parametrize(("inputs", "outputs"), [(4, 7), (7, 4), (14, 24), (2, 9), (1, 3)])
def test_bicubic_weights_equal_torch(inputs, outputs):
    torch = pytest.importorskip("torch")
    eye = torch.eye(inputs)[:, None, :, None].expand(inputs, 1, inputs, 1)
    theirs = torch.nn.functional.interpolate(
        eye, size=(outputs, 1), mode="bicubic", align_corners=False
    )[:, 0, :, 0].T
    np.testing.assert_allclose(bicubic_weights(inputs, outputs), theirs, atol=1e-6, rtol=0)


def test_a_resized_tower_reads_images_of_another_size(vision, build, embed, pixels):
    tower = build(vision())
    bigger = tower.resized(20)
    assert (bigger.config.image_size, bigger.config.positions) == (20, 26)
    large = np.random.default_rng(4).normal(size=(2, 20, 20, 3)).astype(np.float32)
    p = parameters(tower)
    table = p["embeddings/position/embedding"]
    grid = resize(table[1:].reshape(3, 3, 16), 5, 5).reshape(25, 16)
    positions = np.concatenate([table[:1], grid])
    expected = vision_embedding(
        p, vision_states(p, large[0], tower.config, positions)[-1], tower.config
    )
    found = embed(bigger, {"pixel_values": large})
    np.testing.assert_allclose(found[0], expected, atol=2e-5, rtol=1e-5)
    on_the_fly = tower.embed({"pixel_values": large}, interpolate_positions=True)
    np.testing.assert_allclose(on_the_fly, found, atol=2e-6, rtol=1e-5)
    same = tower.resized(12)
    np.testing.assert_array_equal(
        embed(same, {"pixel_values": pixels}), embed(tower, {"pixel_values": pixels})
    )


def test_bfloat16_follows_float32(vision, build, embed, pixels):
    exact, rough = (
        embed(build(vision(), dtype=dtype), {"pixel_values": pixels})
        for dtype in ("float32", "bfloat16")
    )
    assert rough.dtype == jnp.float32
    assert float(jnp.max(jnp.abs(rough - exact)) / jnp.max(jnp.abs(exact))) < 0.05


def test_images_of_another_shape(vision, build, pixels):
    tower = build(vision())
    with pytest.raises(InputError, match="images of 8 x 12 pixels do not fit image_size=12"):
        tower(pixels[:, :8])
    with pytest.raises(InputError, match=r"\(3, 3, 12, 12\) must be .* channels last"):
        tower(pixels.transpose(0, 3, 1, 2))
    with pytest.raises(InputError, match="hold no patch of 4 x 4"):
        tower(pixels[:, :3], interpolate_positions=True)
    with pytest.raises(InputError, match="7 patch positions form no square grid"):
        interpolate_positions(np.zeros((7, 2), np.float32), 2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch_size": 16}, "patch_size=16 is larger than image_size=12"),
        ({"model_type": "siglip_vision_model", "projection_dim": 8}, "projection_dim=8 does not"),
        ({"model_type": "vit"}, "unknown model_type 'vit'"),
    ],
)
def test_settings_that_do_not_fit(vision, changes, message):
    with pytest.raises(InputError, match=message):
        vision(**changes)


@pytest.mark.parametrize("setting", [{"num_channels": 1}, {"vision_use_head": False}])
def test_settings_that_change_the_computation_are_refused(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        VisionConfig.from_hf({"model_type": "siglip_vision_model", **setting})


def test_a_file_says_whether_there_is_a_projection(vision):
    for dim in (8, None):
        config = vision(projection_dim=dim)
        assert VisionConfig.from_hf(config.to_hf()) == config
    # The published defaults where the file is silent.
    silent = VisionConfig.from_hf({"model_type": "clip_vision_model"})
    assert (silent.image_size, silent.patch_size, silent.projection_dim) == (224, 32, 512)
