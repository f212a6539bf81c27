"""Cross-entropy on logits: values, gradients, masks, several positives, smoothing, extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.losses import info_nce_from_logits, softmax_cross_entropy


def expected_values(logits, positives, where, smoothing):
    """The reference on one list of positives and one of negatives per query."""
    return np.array(
        [
            reference.softmax_cross_entropy(
                [float(v) for v, p, w in zip(*row, strict=True) if w and p],
                [float(v) for v, p, w in zip(*row, strict=True) if w and not p],
                smoothing,
            )
            for row in zip(logits, positives, where, strict=True)
        ]
    )


loss = jax.jit(softmax_cross_entropy, static_argnames="label_smoothing")


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([1.0, 30.0]))
def test_any_pattern_of_masks_equals_the_reference(seed, smoothing, scale):
    rng = np.random.default_rng(seed)
    logits = np.float32(scale * rng.normal(size=(4, 6)))
    positives, where = rng.random((2, 4, 6)) < rng.random((2, 4, 1))
    garbage = np.where(where, logits, rng.choice([np.nan, np.inf, -np.inf, 1e38], size=(4, 6)))
    found = loss(np.float32(garbage), positives=positives, where=where, label_smoothing=smoothing)
    assert found.shape == (4,)
    expected = expected_values(logits, positives, where, smoothing)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradient_equals_the_reference_and_is_zero_at_absent_entries(smoothing):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 7))
    positives, where = rng.random((5, 7)) < 0.4, rng.random((5, 7)) < 0.7
    positives[0], where[1] = False, False  # no positive; nothing at all
    positives[2], where[2] = True, True  # no negative
    expected = reference.gradient(
        lambda x: expected_values(x, positives, where, smoothing).sum(), logits
    )

    def total(x):
        values = softmax_cross_entropy(
            x, positives=positives, where=where, label_smoothing=smoothing
        )
        return values.sum()

    garbage = np.where(where, logits, np.nan)
    found = jax.jit(jax.grad(total))(jnp.float32(garbage))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(found)[~where], 0.0)
    np.testing.assert_array_equal(found[0], 0.0)


def test_a_masked_problem_equals_the_smaller_one():
    rng = np.random.default_rng(1)
    logits = np.float32(rng.normal(size=(3, 6)))
    positives = np.zeros((3, 6), bool)
    positives[:, 0] = True
    where = np.ones((3, 6), bool)
    where[:, [2, 5]] = False
    kept = [0, 1, 3, 4]

    def total(x, positives, where):
        values = softmax_cross_entropy(x, positives=positives, where=where, label_smoothing=0.1)
        return values.sum(), values

    run = jax.jit(jax.value_and_grad(total, has_aux=True))
    (_, values), slope = run(logits, positives, where)
    (_, small), small_slope = run(logits[:, kept], positives[:, kept], None)
    np.testing.assert_allclose(values, small, rtol=1e-6)
    np.testing.assert_allclose(slope[:, np.array(kept)], small_slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_logits_give_float32_losses_also_for_an_absent_row(dtype):
    logits = jnp.zeros((2, 3), dtype).at[:, 0].set(jnp.finfo(dtype).min)
    where = jnp.array([[True, True, True], [False, False, False]])
    positives = jnp.array([[False, True, False]] * 2)
    values, slopes = jax.jit(
        jax.value_and_grad(
            lambda x: softmax_cross_entropy(x, positives=positives, where=where).sum()
        )
    )(logits)
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values, np.log(2.0), rtol=1e-6)
    assert np.isfinite(np.float32(slopes)).all()


def test_small_losses_are_not_rounded_away():
    logits = jnp.array([[20.0, 0.0, 0.0]])
    positives = jnp.array([[True, False, False]])
    found = softmax_cross_entropy(logits, positives=positives)
    np.testing.assert_allclose(found, np.log1p(2 * np.exp(-20.0)), rtol=1e-5)
    far = softmax_cross_entropy(50 * logits, positives=positives)
    assert far == 0.0
    wrong = softmax_cross_entropy(50 * logits[:, ::-1], positives=positives)
    np.testing.assert_allclose(wrong, 1000.0, rtol=1e-6)


def test_several_positives_do_not_compete():
    # Both positives far above the negative: 0, where a shared softmax would leave ln 2.
    logits = jnp.array([[50.0, 50.0, 0.0]])
    positives = jnp.array([[True, True, False]])
    np.testing.assert_allclose(softmax_cross_entropy(logits, positives=positives), 0.0, atol=1e-6)


def test_weights_scale_each_query():
    logits, positives = jnp.zeros((3, 2)), jnp.array([[True, False]] * 3)
    found = info_nce_from_logits(logits, positives, weights=jnp.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(found, np.log(2.0) * np.arange(3), rtol=1e-6)


def test_smoothing_outside_its_range_is_refused():
    with pytest.raises(InputError, match="label_smoothing"):
        softmax_cross_entropy(
            jnp.zeros((1, 2)), positives=jnp.ones((1, 2), bool), label_smoothing=1.5
        )
