import jax
import numpy as np
import pytest
from flax import nnx

from magjax.checks import InputError
from magjax.encoders import DualEncoder, Projection, TextEncoder, VisionEncoder


@pytest.fixture
def batches(pixels):
    ids = np.array([[2, 7, 50], [2, 50, 0]], np.int32)
    mask = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
    return {
        "text": {"input_ids": ids, "attention_mask": mask},
        "image": {"pixel_values": pixels},
    }


@pytest.mark.parametrize("query", ["text", "image"])
def test_either_side_may_be_the_query(clip_text, vision, batches, query):
    encoder = DualEncoder.create_image_text(vision(), clip_text(), dim=6, query_modality=query)
    document = "image" if query == "text" else "text"
    assert (encoder.modality("query"), encoder.modality("document")) == (query, document)
    assert (encoder.dim, encoder.max_length, encoder.pooling) == (6, 10, None)
    assert encoder.side_pooling("query") == {"text": "end_of_text", "image": "class_token"}[query]
    for side, modality in (("query", query), ("document", document)):
        found = encoder.embed(batches[modality], side)
        np.testing.assert_array_equal(found, encoder.tower(side).embed(batches[modality]))
        assert found.shape == (len(next(iter(batches[modality].values()))), 6)


def test_the_sides_do_not_change_the_random_start(clip_text, vision):
    def parameters(query):
        encoder = DualEncoder.create_image_text(vision(), clip_text(), query_modality=query, seed=3)
        towers = sorted((encoder.tower(s) for s in ("query", "document")), key=lambda t: t.modality)
        return [v[...] for tower in towers for _, v in nnx.to_flat_state(nnx.state(tower))]

    for one, other in zip(parameters("text"), parameters("image"), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("query", ["text", "image"])
def test_a_bert_text_tower_beside_images(tiny, vision, batches, query):
    batches["text"]["input_ids"] %= 50
    encoder = DualEncoder.create_image_text(
        vision(), tiny(), dim=6, query_modality=query, pooling="cls"
    )
    text = "query" if query == "text" else "document"
    image = "document" if query == "text" else "query"
    assert isinstance(encoder.tower(text), TextEncoder)
    assert isinstance(encoder.tower(image), VisionEncoder)
    # Text has a projection of its own; images never share it.
    assert encoder.side_projection(image) is None
    assert encoder.side_projection(text).linear.bias is None
    assert encoder.side_pooling(text) == encoder.pooling == "cls"
    found = encoder.embed(batches["text"], text)
    states = encoder.tower(text)(*batches["text"].values())
    expected = states[:, 0] @ encoder.side_projection(text).linear.kernel[...]
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)
    assert encoder.embed(batches["image"], image).shape == (3, 6)
    assert not encoder.is_shared


def test_siglip_towers_have_the_vision_towers_width(clip_text, vision):
    image, text = vision("siglip_vision_model"), clip_text("siglip_text_model")
    encoder = DualEncoder.create_image_text(image, text)
    assert (encoder.dim, encoder.side_pooling("document")) == (16, "attention")
    assert encoder.side_pooling("query") == "last_position"
    with pytest.raises(InputError, match="projection_dim=8 does not fit siglip_vision_model"):
        DualEncoder.create_image_text(image, text, dim=8)


def test_gradients_reach_both_towers(clip_text, vision, batches):
    graph, state = nnx.split(DualEncoder.create_image_text(vision(), clip_text(), remat=True))
    batches["image"]["pixel_values"] = batches["image"]["pixel_values"][:2]

    def loss(state):
        encoder = nnx.merge(graph, state)
        texts, images = (
            encoder.embed(batches[name], side)
            for name, side in (("text", "query"), ("image", "document"))
        )
        return jax.numpy.sum((texts - images) ** 2)

    gradient = nnx.to_flat_state(jax.jit(jax.grad(loss))(state))
    silent = [
        path for path, value in gradient if not np.any(value[...]) and path[-2:] != ("key", "bias")
    ]
    assert not silent, "softmax does not see a shift of all keys, but every other parameter counts"


def test_the_wrong_entries_are_named(clip_text, vision, batches):
    encoder = DualEncoder.create_image_text(vision(), clip_text())
    with pytest.raises(InputError, match="query side embeds text, which needs input_ids"):
        encoder.embed(batches["image"], "query")
    with pytest.raises(InputError, match="document side embeds image, which needs pixel_values"):
        encoder.embed(batches["text"], "document")


def test_sides_that_do_not_fit(clip_text, vision, tiny, build):
    text, image = build(clip_text()), build(vision())
    with pytest.raises(InputError, match="pooling='mean' does not apply"):
        DualEncoder(text, image, pooling="mean")
    with pytest.raises(InputError, match="queries have 32 dimensions and documents 8"):
        DualEncoder(build(tiny()), image)
    with pytest.raises(InputError, match="embeds no texts"):
        _ = DualEncoder(image).max_length
    with pytest.raises(InputError, match="unknown query_modality 'images'"):
        DualEncoder.create_image_text(vision(), clip_text(), query_modality="images")
    fitting = Projection(32, 8, rngs=nnx.Rngs(0))
    assert DualEncoder(image, build(tiny()), document_projection=fitting).dim == 8
