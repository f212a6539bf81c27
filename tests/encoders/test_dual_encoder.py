import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jaxtyping import TypeCheckError

from magjax.checks import InputError
from magjax.encoders import DualEncoder, Projection, TextEncoder, pool


@functools.partial(jax.jit, static_argnums=(0, 3))
def _embed(graph, state, batch, side, key):
    return nnx.merge(graph, state).embed(batch, side, dropout_key=key)


def embed(encoder, batch, side="query", key=None):
    return _embed(*nnx.split(encoder), batch, side, key)


@pytest.fixture
def config(tiny):
    return tiny(num_hidden_layers=1, initializer_range=0.3)


def parameters(module) -> dict:
    return {path: value[...] for path, value in nnx.to_flat_state(nnx.state(module))}


def test_embeddings_are_pooled_states_in_float32(config, forward, padded):
    encoder = DualEncoder.create(config, pooling="max", dtype="bfloat16")
    hidden = forward(encoder.query_tower, padded["input_ids"], padded["attention_mask"])
    out = embed(encoder, padded, "query")
    assert out.shape == (4, encoder.dim)
    assert out.dtype == jnp.float32
    np.testing.assert_array_equal(out, pool(hidden, padded["attention_mask"], "max"))


def test_shared_towers_are_stored_once(config, padded):
    encoder = DualEncoder.create(config)
    assert encoder.is_shared
    assert encoder.document_tower is None
    paths = parameters(encoder)
    assert {path[0] for path in paths} == {"query_tower"}
    np.testing.assert_array_equal(
        embed(encoder, padded, "query"), embed(encoder, padded, "document")
    )


def test_separate_towers_differ_and_learn_apart(config, padded):
    encoder = DualEncoder.create(config, shared=False, projection_dim=6)
    assert not encoder.is_shared
    assert encoder.dim == 6
    query, document = embed(encoder, padded, "query"), embed(encoder, padded, "document")
    assert query.shape == document.shape == (4, 6)
    assert not np.allclose(query, document)
    graph, state = nnx.split(encoder)
    loss = jax.jit(lambda s: jnp.sum(nnx.merge(graph, s).embed(padded, "query") ** 2))
    gradient = jax.grad(loss)(state)
    moved = {path[0] for path, v in nnx.to_flat_state(gradient) if np.any(np.asarray(v[...]))}
    assert moved == {"query_tower", "projection"}


def test_one_projection_may_serve_both_towers(config, padded):
    rngs = nnx.Rngs(0)
    towers = (
        TextEncoder(config, rngs=rngs),
        TextEncoder(dataclasses.replace(config, hidden_dropout=0.0), rngs=rngs),
    )
    encoder = DualEncoder(*towers, projection=Projection(32, 5, rngs=rngs))
    assert encoder.dim == 5
    assert encoder.side_projection("document") is encoder.projection


@pytest.mark.parametrize("activation", ["identity", "tanh"])
@pytest.mark.parametrize("use_bias", [True, False])
def test_projection(activation, use_bias):
    projection = Projection(3, 2, use_bias=use_bias, activation=activation, rngs=nnx.Rngs(1))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = x.astype(np.float64) @ np.asarray(projection.linear.kernel[...], np.float64)
    if use_bias:
        projection.linear.bias[...] = jnp.array([1.0, -2.0])
        expected += [1.0, -2.0]
    expected = np.tanh(expected) if activation == "tanh" else expected
    np.testing.assert_allclose(projection(jnp.asarray(x)), expected, rtol=1e-5, atol=1e-6)


def test_the_seed_decides_the_start(config):
    first, again = parameters(DualEncoder.create(config)), parameters(DualEncoder.create(config))
    other = parameters(DualEncoder.create(config, seed=1))
    path = ("query_tower", "embeddings", "word", "embedding")
    assert all(np.array_equal(first[p], again[p]) for p in first)
    assert not np.array_equal(first[path], other[path])
    # 1,920 numbers: the standard error of their deviation is 0.005.
    assert float(jnp.std(first[path])) == pytest.approx(0.3, abs=0.02)


def test_rows_sharded_over_devices_give_the_same(config, padded):
    from magjax.mesh import data_mesh, replicate, rows

    encoder = DualEncoder.create(config)
    graph, state = nnx.split(encoder)
    batch = {name: np.concatenate([value, value]) for name, value in padded.items()}
    mesh = data_mesh()
    sharded = _embed(
        graph, replicate(state, mesh), jax.device_put(batch, rows(mesh)), "query", None
    )
    np.testing.assert_allclose(sharded, embed(encoder, batch), rtol=1e-5, atol=1e-6)


def test_dropout_key_reaches_the_tower(config, padded):
    encoder = DualEncoder.create(config)
    first = embed(encoder, padded, "query", jax.random.key(0))
    np.testing.assert_array_equal(first, embed(encoder, padded, "query", jax.random.key(0)))
    assert not np.allclose(first, embed(encoder, padded, "query"))


def test_token_types_of_the_batch_are_used(config, padded):
    encoder = DualEncoder.create(config)
    types = {**padded, "token_type_ids": np.ones_like(padded["input_ids"])}
    assert not np.allclose(embed(encoder, types, "query"), embed(encoder, padded, "query"))


def test_max_length_is_the_smaller_table(config):
    rngs = nnx.Rngs(0)
    towers = (
        TextEncoder(config, rngs=rngs),
        TextEncoder(
            dataclasses.replace(config, model_type="roberta", type_vocab_size=1, pad_token_id=1),
            rngs=rngs,
        ),
    )
    assert DualEncoder(*towers).max_length == 38


def test_wrong_arguments(config):
    rngs = nnx.Rngs(0)
    tower, wide = (
        TextEncoder(config, rngs=rngs),
        TextEncoder(dataclasses.replace(config, hidden_size=64), rngs=rngs),
    )
    projection = Projection(32, 5, rngs=rngs)
    with pytest.raises(InputError, match="same object"):
        DualEncoder(tower, tower)
    with pytest.raises(InputError, match="same object"):
        DualEncoder(tower, projection=projection, document_projection=projection)
    with pytest.raises(InputError, match="without projection"):
        DualEncoder(tower, document_projection=projection)
    with pytest.raises(InputError, match="queries have 32 dimensions and documents 64"):
        DualEncoder(tower, wide)
    with pytest.raises(InputError, match="unknown pooling 'avg'"):
        DualEncoder(tower, pooling="avg")
    with pytest.raises(InputError, match="unknown projection activation 'gelu'"):
        Projection(2, 2, activation="gelu", rngs=rngs)
    with pytest.raises((InputError, TypeCheckError)):
        DualEncoder(tower).tower("image")
