"""The sigmoid loss: values and gradients, the bias, masks and half precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from magjax.losses import sigmoid_from_logits, sigmoid_loss

GAMMAS = (0.4, 0.8)
SETTINGS = {"gamma_query": 0.4, "gamma_document": 0.8}


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    return {
        "queries": rng.normal(size=(5, 4)),
        "documents": rng.normal(size=(5, 4)),
        "negatives": rng.normal(size=(5, 2, 4)),
        "query_ids": np.array([0, 1, 0, 2, 3]),
        "document_ids": np.array([0, 1, 2, 1, 3]),
        "negative_ids": np.array([[1, 2], [9, -1], [0, 8], [3, 7], [5, 6]]),
        "positive_ids": np.array([[-1], [3], [7], [-1], [0]]),
        "where": np.array([True, True, True, True, False]),
        "negatives_where": np.array([[1, 1], [1, 0], [1, 1], [1, 1], [1, 1]], bool),
    }


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_value_and_gradients_equal_the_reference(batch, share, average):
    weights = np.arange(1.0, 6.0)

    def ours(queries, bias, temperature):
        values = sigmoid_loss(
            **batch | {"queries": queries},
            **SETTINGS,
            temperature=temperature,
            bias=bias,
            share_negatives=share,
            multiple_positives="average" if average else "mask",
            weights=weights,
        )
        return values.sum(), values

    def theirs(queries=batch["queries"], bias=-2.0, temperature=0.5):
        full = reference.full_batch(**batch | {"queries": queries})
        return reference.sigmoid_loss(full, GAMMAS, temperature, bias, share, average) * weights

    with jax.enable_x64(True):
        slopes, values = jax.jit(jax.grad(ours, argnums=(0, 1, 2), has_aux=True))(
            jnp.asarray(batch["queries"]), jnp.asarray(-2.0), jnp.asarray(0.5)
        )
        slopes, values = jax.tree.map(np.asarray, (slopes, values))
    np.testing.assert_allclose(values, theirs(), rtol=1e-12)
    assert values[4] == 0.0
    expected = reference.gradient(lambda x: theirs(queries=x).sum(), batch["queries"])
    np.testing.assert_allclose(slopes[0], expected, atol=1e-7)
    expected = reference.gradient(lambda x: theirs(bias=float(x)).sum(), -2.0)
    np.testing.assert_allclose(slopes[1], expected, atol=1e-7)
    expected = reference.gradient(lambda x: theirs(temperature=float(x)).sum(), 0.5)
    np.testing.assert_allclose(slopes[2], expected, atol=1e-7)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_and_absent_rows_stay_finite(dtype):
    logits = jnp.full((2, 3), jnp.finfo(dtype).min, dtype)
    positives = jnp.eye(2, 3, dtype=bool)
    where = jnp.array([[True] * 3, [False] * 3])
    values, slopes = jax.jit(
        jax.value_and_grad(lambda x: sigmoid_from_logits(x, positives, where, bias=0.0).sum())
    )(logits)
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values, -float(jnp.finfo(dtype).min), rtol=1e-6)
    assert np.isfinite(np.float32(slopes)).all()


def test_absent_candidates_may_hold_nan():
    logits = jnp.array([[1.0, 2.0, jnp.nan]])
    positives, where = jnp.array([[True, False, True]]), jnp.array([[True, True, False]])
    value, slope = jax.value_and_grad(
        lambda x: sigmoid_from_logits(x, positives, where, bias=-1.0).sum()
    )(logits)
    expected = sigmoid_from_logits(logits[:, :2], positives[:, :2], bias=-1.0)
    np.testing.assert_allclose(value, expected[0], rtol=1e-6)
    assert slope[0, 2] == 0.0


def test_the_first_bias_makes_an_untrained_model_say_no():
    # With almost all pairs negative, a bias of -10 starts near the right answer: 15 negatives
    # cost 7e-4 and the positive 10, where a bias of 0 costs 16 ln 2 = 11.1 and pushes all apart.
    logits = jnp.zeros((1, 16))
    positives = jnp.eye(1, 16, dtype=bool)
    slopes = [
        jax.grad(lambda x, b=bias: sigmoid_from_logits(x, positives, bias=b).sum())(logits)[0]
        for bias in (-10.0, 0.0)
    ]
    np.testing.assert_allclose(slopes[0][0], -1.0, atol=1e-4)
    assert float(jnp.sum(slopes[0][1:])) < 1e-3
    np.testing.assert_allclose(jnp.sum(slopes[1][1:]), 7.5, rtol=1e-5)
