import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.encoders import attention
from magjax.encoders._attention import distance_buckets
from magjax.encoders._dropout import dropout


def reference(qkv: np.ndarray, where: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Softmax attention in float64, one query token at a time."""
    queries, keys, values = qkv.astype(np.float64)
    batch, heads, length, dim = queries.shape
    out = np.zeros((batch, length, heads, dim))
    for b in range(batch):
        admitted = np.flatnonzero(where[b])
        for h in range(heads):
            for i in range(length):
                logits = []
                for j in admitted:
                    shift = 0.0 if bias is None else float(bias[h, i, j])
                    logits.append(queries[b, h, i] @ keys[b, h, j] / math.sqrt(dim) + shift)
                weights = np.exp(np.array(logits) - max(logits))
                out[b, i, h] = weights / weights.sum() @ values[b, h, admitted]
    return out.reshape(batch, length, heads * dim)


def random_inputs(scale: float = 1.0):
    rng = np.random.default_rng(0)
    qkv = (scale * rng.normal(size=(3, 2, 3, 7, 4))).astype(np.float32)
    where = np.arange(7)[None] < np.array([7, 4])[:, None]
    bias = rng.normal(size=(3, 7, 7)).astype(np.float32)
    return qkv, where, bias


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_equals_float64_loops(scale, with_bias):
    qkv, where, bias = random_inputs(scale)
    bias = bias if with_bias else None
    out = attention(
        jnp.asarray(qkv), jnp.asarray(where), bias=None if bias is None else jnp.asarray(bias)
    )
    assert out.shape == (2, 7, 12)
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, reference(qkv, where, bias), rtol=2e-5, atol=2e-5 * scale)


def test_masked_means_absent_in_value_and_gradient():
    qkv, where, _ = random_inputs()

    def energy(qkv, where):
        return jnp.sum(attention(qkv, where)[1, :4] ** 2)

    small = jnp.asarray(qkv[:, :, :, :4])
    step = jax.jit(jax.value_and_grad(energy))
    value, gradient = step(jnp.asarray(qkv), jnp.asarray(where))
    small_value, small_gradient = step(small, jnp.asarray(where[:, :4]))
    np.testing.assert_allclose(value, small_value, rtol=1e-6)
    np.testing.assert_allclose(gradient[:, 1, :, :4], small_gradient[:, 1], rtol=1e-5, atol=1e-6)
    assert not np.any(np.asarray(gradient[1:, 1, :, 4:]))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_row_of_padding_is_finite_and_changes_no_other(dtype):
    qkv, where, bias = random_inputs()
    where[1] = False
    qkv, bias = jnp.asarray(qkv, dtype), jnp.asarray(bias)
    call = jax.jit(attention)
    out = call(qkv, jnp.asarray(where), bias=bias)
    assert out.dtype == dtype
    assert bool(jnp.all(jnp.isfinite(out)))
    alone = call(qkv[:, :1], jnp.asarray(where[:1]), bias=bias)
    np.testing.assert_array_equal(np.asarray(out[:1], np.float32), np.asarray(alone, np.float32))
    total = jax.jit(jax.grad(lambda x, where: jnp.sum(attention(x, where).astype(jnp.float32))))
    assert bool(jnp.all(jnp.isfinite(total(qkv, jnp.asarray(where)))))


def test_large_scores_do_not_overflow():
    qkv, where, _ = random_inputs(1e10)
    assert bool(jnp.all(jnp.isfinite(attention(jnp.asarray(qkv), jnp.asarray(where)))))


def test_dropout_keeps_the_mean_and_follows_its_key():
    qkv, where = jnp.ones((3, 64, 4, 16, 2)), jnp.ones((64, 16), bool)
    call = jax.jit(functools.partial(attention, dropout_rate=0.25))
    first = call(qkv, where, dropout_key=jax.random.key(0))
    again = call(qkv, where, dropout_key=jax.random.key(0))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, call(qkv, where, dropout_key=jax.random.key(1)))
    # 65,536 weights a head dimension: one standard error is 0.002.
    assert float(jnp.mean(first)) == pytest.approx(1.0, abs=0.01)
    np.testing.assert_array_equal(attention(qkv, where, dropout_rate=0.25), attention(qkv, where))


def test_dropout_drops_its_share_and_rescales():
    x = jnp.full((1000, 100), 3.0)
    out = np.asarray(dropout(x, 0.2, jax.random.key(3)))
    assert np.mean(out == 0) == pytest.approx(0.2, abs=0.006)
    np.testing.assert_allclose(out[out != 0], 3.0 / 0.8, rtol=1e-6)
    assert dropout(x.astype(jnp.bfloat16), 0.2, jax.random.key(3)).dtype == jnp.bfloat16


@pytest.mark.parametrize("length", [1, 2, 40, 700])
def test_distance_buckets_equal_torch(length):
    torch = pytest.importorskip("torch")
    modeling = pytest.importorskip("transformers.models.mpnet.modeling_mpnet")
    distance = torch.arange(1 - length, length)
    expected = modeling.MPNetEncoder.relative_position_bucket(distance).numpy()
    np.testing.assert_array_equal(distance_buckets(length), expected)


def test_distance_buckets_are_pinned_at_their_edges():
    bucket = distance_buckets(600)[599:]
    assert bucket[[0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 599]].tolist() == [
        *(0, 17, 23, 24, 25, 26, 27, 28, 29, 30, 31, 31, 31),
    ]
