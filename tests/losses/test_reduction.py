"""The batch's mean and the statistics of its logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from magjax.losses import batch_mean, logit_statistics, logit_summary


def test_mean_is_over_present_rows():
    values, where = jnp.array([1.0, 3.0, jnp.nan]), jnp.array([True, True, False])
    assert batch_mean(values, where=where) == 2.0
    assert batch_mean(values[:2]) == 2.0
    assert batch_mean(values, where=jnp.zeros(3, bool)) == 0.0
    slope = jax.grad(lambda v: batch_mean(v, where=where))(values)
    np.testing.assert_array_equal(slope, [0.5, 0.5, 0.0])


def test_mean_over_an_axis_divides_once():
    values = jnp.array([[1.0, 3.0], [8.0, 0.0]])
    where = jnp.array([[True, True], [True, False]])
    found = jax.vmap(lambda v, w: batch_mean(v, where=w, axis_name="i"), axis_name="i")(
        values, where
    )
    np.testing.assert_array_equal(found, [4.0, 4.0])  # a mean of means would be 5


@pytest.fixture(scope="module")
def logits():
    rng = np.random.default_rng(0)
    values = 1000.0 + rng.normal(size=(5, 6))
    positives, where = np.eye(5, 6, dtype=bool), rng.random((5, 6)) < 0.7
    where |= positives
    where[4], positives[4] = False, False  # a padding row
    return values, positives, where


def test_statistics_equal_the_reference(logits):
    values, positives, where = logits
    found = jax.jit(logit_statistics)(np.float32(np.where(where, values, np.nan)), positives, where)
    lists = [[float(v) for v in row[kept]] for row, kept in zip(values, where, strict=True)]
    entropy = 0.0
    for row in lists[:4]:
        log_p = [v - reference.log_sum_exp(row) for v in row]
        entropy -= sum(np.exp(p) * p for p in log_p)
    correct = sum(values[i, i] == max(lists[i]) for i in range(4))
    every = np.concatenate(lists)
    assert found["queries"] == 4
    assert found["correct"] == correct
    np.testing.assert_allclose(found["entropy"], entropy, rtol=1e-4)
    np.testing.assert_allclose(
        found["uniform_entropy"], sum(np.log(len(r)) for r in lists[:4]), rtol=1e-6
    )
    assert found["logits"] == len(every)
    # Sums of squares about 0 would lose this deviation of 1 on logits of 1,000 in float32.
    np.testing.assert_allclose(
        found["logit_squares"], ((every - every.mean()) ** 2).sum(), rtol=1e-3
    )
    summary = logit_summary(found)
    np.testing.assert_allclose(summary["logit_std"], every.std(), rtol=1e-3)
    assert summary["accuracy"] == correct / 4


def test_saturated_and_flat():
    positives = jnp.eye(3, dtype=bool)
    flat = logit_summary(logit_statistics(jnp.zeros((3, 3)), positives))
    np.testing.assert_allclose(flat["relative_entropy"], 1.0, rtol=1e-6)
    assert flat["accuracy"] == 0.0  # a tie with every negative is no success
    assert flat["logit_std"] == 0.0
    sharp = logit_summary(logit_statistics(1000.0 * jnp.eye(3), positives))
    assert sharp["relative_entropy"] == 0.0
    assert sharp["accuracy"] == 1.0


def test_sums_of_several_batches_divide_once():
    positives = jnp.eye(2, dtype=bool)
    parts = [logit_statistics(x, positives) for x in (jnp.eye(2), -jnp.eye(2))]
    total = jax.tree.map(lambda a, b: a + b, *parts)
    assert logit_summary(total)["accuracy"] == 0.5


def test_nothing_counted_and_no_gradient():
    empty = logit_statistics(jnp.zeros((2, 2)), jnp.zeros((2, 2), bool))
    assert set(logit_summary(empty).values()) == {0.0}
    slope = jax.grad(lambda x: logit_statistics(x, jnp.eye(2, dtype=bool))["entropy"])(jnp.eye(2))
    np.testing.assert_array_equal(slope, 0.0)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_counted_in_float32(dtype):
    found = logit_statistics(jnp.zeros((1, 400), dtype), jnp.eye(1, 400, dtype=bool))
    assert found["logits"] == 400  # 256 in bfloat16
    assert {value.dtype for value in found.values()} == {jnp.dtype(jnp.float32)}


def test_over_an_axis_the_statistics_are_those_of_the_whole():
    rng = np.random.default_rng(1)
    logits, positives = np.float32(rng.normal(size=(4, 6))), np.eye(4, 6, dtype=bool)
    whole = jax.jit(logit_statistics)(logits, positives)
    split = jax.vmap(lambda x, p: logit_statistics(x, p, axis_name="i"), axis_name="i")
    parts = jax.jit(split)(logits.reshape(2, 2, 6), positives.reshape(2, 2, 6))
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], [value, value], rtol=1e-5, err_msg=name)
