"""Powers of length: values, gradients, zero vectors, and lengths from 1e-25 to 1e25."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.similarity import norm, normalize

GAMMAS = (0.0, 0.25, 0.5, 1.0)


def traced(gamma):
    """The gamma as an array, which takes the general path instead of the one for numbers."""
    return jnp.asarray(gamma, jnp.float32)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(5, 7)) * np.logspace(-2, 2, 5)[:, None]


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", [float, traced])
def test_value_and_gradients_equal_the_reference(x, gamma, kind):
    expected = np.array([reference.normalize(row, gamma) for row in x])
    result = normalize(jnp.float32(x), kind(gamma))
    assert result.shape == x.shape
    assert result.dtype == jnp.float32
    np.testing.assert_allclose(result, expected, rtol=2e-6)

    weights = np.random.default_rng(1).normal(size=x.shape)

    def total(rows):
        return sum(
            float(w @ reference.normalize(row, gamma)) for w, row in zip(weights, rows, strict=True)
        )

    with jax.enable_x64(True):
        found = jax.grad(lambda y: jnp.sum(weights * normalize(y, kind(gamma))))(jnp.asarray(x))
        assert found.dtype == jnp.float64
        np.testing.assert_allclose(found, reference.gradient(total, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_gradient_in_gamma_is_right_also_at_both_ends(x, gamma):
    rows = np.concatenate([x, np.zeros((1, 7))])
    expected = np.array(
        [-np.log(max(reference.norm(r), 1e-300)) * reference.normalize(r, gamma) for r in rows]
    )
    found = jax.jacobian(lambda g: normalize(jnp.float32(rows), g))(jnp.float32(gamma))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_gamma_zero_is_the_identity_and_the_number_returns_the_array_itself(x):
    array = jnp.float32(x)
    assert normalize(array, 0.0) is array
    assert normalize(array, 0) is array
    jacobian = jax.jacobian(lambda v: normalize(v, jnp.float32(0.0)))(jnp.zeros(3))
    np.testing.assert_array_equal(jacobian, np.eye(3))


@pytest.mark.parametrize("gamma", [0.3, 1.0])
@pytest.mark.parametrize("kind", [float, traced])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_a_zero_vector_gives_zero_and_a_zero_gradient(gamma, kind, dtype):
    rows = jnp.zeros((2, 3), dtype).at[0].set(1)
    value, pull = jax.vjp(lambda v, g: normalize(v, g), rows, jnp.float32(gamma))
    np.testing.assert_array_equal(value[1], 0)
    by_rows, by_gamma = pull(jnp.ones_like(value))
    np.testing.assert_array_equal(by_rows[1], 0)
    assert np.isfinite(by_gamma)
    number = jax.grad(lambda v: normalize(v, kind(gamma)).astype(jnp.float32).sum())(rows)
    np.testing.assert_array_equal(number[1], 0)


def test_second_derivatives_are_finite_at_zero_and_right_elsewhere():
    def total(v):
        return jnp.sum(normalize(v, 1.0) * jnp.arange(1.0, 4.0))

    np.testing.assert_array_equal(jax.hessian(total)(jnp.zeros(3)), 0)
    point = jnp.array([0.3, -2.0, 1.0])
    with jax.enable_x64(True):
        expected = jax.hessian(
            lambda v: jnp.sum(v / jnp.sqrt(jnp.sum(v * v)) * jnp.arange(1.0, 4.0))
        )(jnp.asarray(point, jnp.float64))
    np.testing.assert_allclose(jax.hessian(total)(point), expected, atol=1e-6)


def test_norm_of_zero_has_a_zero_gradient():
    np.testing.assert_array_equal(jax.grad(norm)(jnp.zeros(4)), 0)
    np.testing.assert_allclose(jax.grad(norm)(jnp.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("length", [1e-25, 1e-12, 1.0, 1e12, 1e25])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", [float, traced])
def test_lengths_from_1e_25_to_1e25_work_in_float32(length, gamma, kind):
    direction = np.array([[0.6, -0.8, 0.0], [1.0, 0.0, 0.0]])
    rows = jnp.float32(direction * length)
    np.testing.assert_allclose(norm(rows), [length, length], rtol=1e-6)
    # 2e-5: float32 holds log(1e25) = 57.6 to 4e-6, and the power passes through it.
    expected = direction * length ** (1.0 - gamma)
    np.testing.assert_allclose(normalize(rows, kind(gamma)), expected, rtol=2e-5)

    cotangent = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    along = (cotangent * direction).sum(1, keepdims=True) * direction
    slope = (cotangent - gamma * along) / length**gamma
    found = jax.grad(lambda v: jnp.sum(jnp.float32(cotangent) * normalize(v, kind(gamma))))(rows)
    np.testing.assert_allclose(found, slope, rtol=5e-5, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize("length", [1e-25, 1e25])
def test_very_short_and_long_entries_side_by_side(length):
    rows = jnp.float32([[length, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(normalize(rows, 1.0), [[1.0, 0.0], [0.0, 0.0]])
    jacobian = jax.jacobian(lambda v: normalize(v, 1.0))(rows)
    assert np.isfinite(jacobian).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_summed_in_float32_and_keeps_its_type(dtype):
    rows = jnp.ones((1, 768), dtype)
    assert norm(rows).dtype == jnp.float32
    np.testing.assert_allclose(norm(rows), 768**0.5, rtol=1e-6)
    result = normalize(rows, 1.0)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, jnp.full((1, 768), 768**-0.5, dtype))
    # 300^2 * 768 is beyond float16, and the sum of 300 equal squares is lost in bfloat16.
    np.testing.assert_allclose(norm(300 * rows), 300 * 768**0.5, rtol=5e-3)


def test_nan_and_infinity_are_not_hidden():
    rows = jnp.array([[jnp.nan, 1.0], [jnp.inf, 1.0], [3.0, 4.0]])
    result = normalize(rows, 1.0)
    assert np.isnan(result[:2]).any(axis=1).all()
    np.testing.assert_allclose(result[2], [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_a_number_outside_0_to_1_is_refused(gamma):
    with pytest.raises(InputError, match=r"gamma=.* must be a number from 0 to 1"):
        normalize(jnp.ones((1, 2)), gamma)


def test_transformations_agree(x):
    rows = jnp.float32(x)
    expected = normalize(rows, 0.5)
    np.testing.assert_allclose(jax.jit(normalize)(rows, 0.5), expected, rtol=1e-6)
    by_row = jax.vmap(normalize, in_axes=(0, None))(rows, jnp.float32(0.5))
    np.testing.assert_allclose(by_row, expected, rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(-3.0, 3.0, width=32), min_size=4, max_size=4),
    st.floats(-20.0, 20.0),
    st.floats(0.0, 1.0),
)
def test_a_longer_vector_is_longer_by_the_remaining_power(entries, exponent, gamma):
    # normalize(c x, gamma) = c^(1 - gamma) normalize(x, gamma); at gamma = 1 length is forgotten.
    factor = 10.0**exponent
    x = np.array([entries]) + 0.01
    left = normalize(jnp.float32(x * factor), jnp.float32(gamma))
    right = np.float64(normalize(jnp.float32(x), jnp.float32(gamma))) * factor ** (1.0 - gamma)
    np.testing.assert_allclose(left, right, rtol=3e-5, atol=1e-6 * np.abs(right).max())
