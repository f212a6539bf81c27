"""MarginMSE and KL towards a teacher: values, gradients, masks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from magjax.checks import InputError
from magjax.losses import (
    kl_distillation,
    kl_distillation_from_logits,
    margin_mse,
    margin_mse_from_logits,
)

GAMMAS = (0.4, 0.8)
SETTINGS = {"gamma_query": 0.4, "gamma_document": 0.8}


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    arrays = {
        "queries": rng.normal(size=(4, 3)),
        "documents": rng.normal(size=(4, 3)),
        "negatives": rng.normal(size=(4, 3, 3)),
    }
    return arrays, 3.0 * rng.normal(size=(4, 4))


def present():
    where = np.array([True, True, False, True])
    negatives_where = np.array([[1, 1, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0]], bool)
    return where, negatives_where


def expected_logits(arrays, temperature):
    return np.array(
        [
            [reference.score(q, x, *GAMMAS) / temperature for x in (d, *n)]
            for q, d, n in zip(*arrays.values(), strict=True)
        ]
    )


@pytest.mark.parametrize("name", ["margin_mse", "kl_distillation"])
def test_value_and_gradients_equal_the_reference(batch, name):
    arrays, teacher = batch
    where, negatives_where = present()
    mask = np.concatenate([where[:, None], negatives_where & where[:, None]], axis=1)
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    function = {"margin_mse": margin_mse, "kl_distillation": kl_distillation}[name]
    extra = {} if name == "margin_mse" else {"teacher_temperature": 2.0}

    def ours(arrays, temperature):
        values = function(
            **arrays,
            **SETTINGS,
            **extra,
            teacher_scores=teacher,
            temperature=temperature,
            where=where,
            negatives_where=negatives_where,
            weights=weights,
        )
        return values.sum(), values

    def theirs(temperature=0.6, **changes):
        logits = expected_logits(arrays | changes, temperature)
        if name == "margin_mse":
            return reference.margin_mse(logits, teacher, mask) * weights
        return reference.kl_divergence(logits, teacher / 2.0, mask) * weights

    with jax.enable_x64(True):
        inputs = {key: jnp.asarray(x) for key, x in arrays.items()}
        slopes, values = jax.jit(jax.grad(ours, argnums=(0, 1), has_aux=True))(
            inputs, jnp.asarray(0.6)
        )
        values, slopes = jax.tree.map(np.asarray, (values, slopes))
    np.testing.assert_allclose(values, theirs(), rtol=1e-10, atol=1e-12)
    assert values[2] == 0.0
    assert values[3] == pytest.approx(0.0, abs=1e-12)  # nothing to compare the positive with
    for key in arrays:
        expected = reference.gradient(lambda x, key=key: theirs(**{key: x}).sum(), arrays[key])
        np.testing.assert_allclose(slopes[0][key], expected, atol=1e-6, err_msg=key)
    expected = reference.gradient(lambda x: theirs(float(x)).sum(), 0.6)
    np.testing.assert_allclose(slopes[1], expected, atol=1e-6)


@pytest.mark.parametrize("function", [margin_mse, kl_distillation])
def test_absent_entries_may_hold_anything(batch, function):
    arrays, teacher = ({k: np.float32(v) for k, v in batch[0].items()}, np.float32(batch[1]))
    where, negatives_where = present()
    usable = negatives_where & where[:, None]

    def total(arrays, teacher):
        values = function(
            **arrays,
            **SETTINGS,
            temperature=0.6,
            teacher_scores=teacher,
            where=where,
            negatives_where=negatives_where,
        )
        return values.sum(), values

    run = jax.jit(jax.value_and_grad(total, has_aux=True))
    (_, expected), clean = run(arrays, teacher)
    dirty = {k: v.copy() for k, v in arrays.items()}
    dirty["queries"][~where], dirty["documents"][~where] = np.nan, np.inf
    dirty["negatives"][~usable] = np.nan
    spoilt = teacher.copy()
    spoilt[:, 1:][~usable] = np.nan
    (_, found), slopes = run(dirty, spoilt)
    np.testing.assert_array_equal(found, expected)
    jax.tree.map(np.testing.assert_array_equal, slopes, clean)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_logits_give_finite_float32_values(dtype):
    logits = jnp.array([[1.0, -2.0, 0.5]] * 2, dtype)
    teacher = jnp.array([[2.0, 0.0, 1.0]] * 2)
    where = jnp.array([[True] * 3, [False] * 3])
    for function in (margin_mse_from_logits, kl_distillation_from_logits):
        values, slopes = jax.value_and_grad(lambda x, f=function: f(x, teacher, where).sum())(
            logits
        )
        assert values.dtype == jnp.float32
        assert values > 0.0
        assert np.isfinite(np.float32(slopes)).all()
        np.testing.assert_array_equal(np.float32(slopes)[1], 0.0)


def test_margins_ignore_a_shift_and_divergence_is_zero_at_the_teacher():
    teacher = jnp.array([[3.0, 1.0, -2.0]])
    np.testing.assert_allclose(margin_mse_from_logits(teacher + 7.0, teacher), 0.0, atol=1e-10)
    np.testing.assert_allclose(kl_distillation_from_logits(teacher + 7.0, teacher), 0.0, atol=1e-6)
    slope = jax.grad(lambda x: kl_distillation_from_logits(x, teacher).sum())(teacher)
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)


def test_vmap_equals_a_loop(batch):
    arrays, teacher = batch
    call = {**SETTINGS, "temperature": 0.5}
    for function in (margin_mse, kl_distillation):
        stacked = {k: jnp.stack([jnp.float32(v), jnp.float32(2 * v)]) for k, v in arrays.items()}
        once = jax.jit(lambda a, f=function: f(**a, teacher_scores=teacher, **call))
        found = jax.jit(jax.vmap(once))(stacked)
        for i in range(2):
            expected = once({k: v[i] for k, v in stacked.items()})
            np.testing.assert_allclose(found[i], expected, rtol=1e-5, atol=1e-6)


def test_wrong_temperatures_are_refused(batch):
    arrays, teacher = batch
    for name in ("temperature", "teacher_temperature"):
        wrong = {"temperature": 1.0, name: 0.0}
        with pytest.raises(InputError, match=name):
            kl_distillation(**arrays, **SETTINGS, **wrong, teacher_scores=teacher)
    with pytest.raises(InputError, match="temperature"):
        margin_mse(**arrays, **SETTINGS, temperature=-1.0, teacher_scores=teacher)
