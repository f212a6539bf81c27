import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.encoders import POOLINGS, pool


def reference(hidden: np.ndarray, mask: np.ndarray, mode: str) -> np.ndarray:
    rows = []
    for states, row in zip(hidden.astype(np.float64), mask, strict=True):
        tokens = [state for state, kept in zip(states, row, strict=True) if kept]
        if not tokens:
            rows.append(np.zeros(hidden.shape[2]))
        elif mode == "mean":
            rows.append(sum(tokens) / len(tokens))
        elif mode == "cls":
            rows.append(tokens[0])
        elif mode == "last":
            rows.append(tokens[-1])
        elif mode == "max":
            rows.append(np.max(tokens, axis=0))
        else:
            weights = range(1, len(tokens) + 1)
            rows.append(sum(w * t for w, t in zip(weights, tokens, strict=True)) / sum(weights))
    return np.stack(rows)


@pytest.mark.parametrize("mode", POOLINGS)
@pytest.mark.parametrize("left", [False, True])
def test_equals_loops(mode, left):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(4, 6, 5)).astype(np.float32)
    mask = (np.arange(6)[None] < np.array([6, 4, 1, 0])[:, None]).astype(np.int32)
    mask = mask[:, ::-1].copy() if left else mask
    out = pool(hidden, mask, mode)
    assert out.shape == (4, 5)
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, reference(hidden, mask, mode), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", POOLINGS)
def test_padding_has_no_say_whatever_it_holds(mode):
    hidden = np.ones((2, 4, 3), np.float32)
    hidden[:, 2:] = np.nan
    mask = np.array([[1, 1, 0, 0], [0, 0, 0, 0]])
    out = pool(hidden, mask, mode)
    np.testing.assert_array_equal(out, [[1, 1, 1], [0, 0, 0]])

    def total(x):
        return jnp.sum(pool(jnp.where(jnp.isnan(x), 0.0, x), mask, mode))

    gradient = jax.grad(total)(jnp.asarray(hidden))
    assert bool(jnp.all(jnp.isfinite(gradient)))
    assert not np.any(np.asarray(gradient)[1])
    assert not np.any(np.asarray(gradient)[:, 2:])


@pytest.mark.parametrize("mode", ["mean", "weighted_mean"])
def test_bfloat16_is_summed_in_float32(mode):
    # 257 ones summed in bfloat16 are 256.
    hidden = jnp.ones((1, 257, 2), jnp.bfloat16)
    out = pool(hidden, jnp.ones((1, 257), jnp.int32), mode)
    assert out.dtype == jnp.float32
    np.testing.assert_array_equal(out, np.ones((1, 2)))


def test_unknown_mode():
    with pytest.raises(InputError, match="unknown pooling 'avg'; known: mean, cls"):
        pool(jnp.ones((1, 1, 1)), jnp.ones((1, 1), jnp.int32), "avg")
