import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from magjax.checks import InputError
from magjax.mesh import data_mesh, replicate
from magjax.training import Checkpoints, initial_state, leaf_names, tiny_trainee


def state_of(seed, optimizer=None):
    optimizer = optimizer or optax.adam(0.1)
    _, state = initial_state(tiny_trainee("learnable"), optimizer, seed=seed)
    key = jax.random.key(seed)
    leaves, structure = jax.tree.flatten(state)
    filled = [
        jax.random.normal(jax.random.fold_in(key, i), leaf.shape).astype(leaf.dtype)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
        else jnp.full_like(leaf, i + 1)
        for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, filled)


def assert_equal(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for name, a, b in zip(
        leaf_names(left), jax.tree.leaves(left), jax.tree.leaves(right), strict=True
    ):
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)


def test_every_leaf_comes_back(tmp_path):
    """All leaves differ between the two states, so one that is not restored shows."""
    saved, target = state_of(1), state_of(2)
    store = Checkpoints(tmp_path)
    store.save(7, saved, {"input": {"next": 7}, "best_value": 0.1 + 0.2})
    restored, record = store.restore(target)
    assert_equal(restored, saved)
    assert record == {"input": {"next": 7}, "best_value": 0.1 + 0.2}


@pytest.mark.parametrize(("writers", "readers"), [(8, 1), (1, 8), (8, 2), (2, 4)])
def test_another_number_of_devices(tmp_path, writers, readers):
    saved = replicate(state_of(1), data_mesh(jax.devices()[:writers]))
    Checkpoints(tmp_path).save(1, saved, {})
    mesh = data_mesh(jax.devices()[:readers])
    restored, _ = Checkpoints(tmp_path).restore(replicate(state_of(2), mesh))
    assert_equal(jax.device_get(restored), jax.device_get(saved))
    assert restored.step.sharding.device_set == set(jax.devices()[:readers])


def test_only_the_newest_stay(tmp_path):
    store = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        store.save(step, {"w": jnp.full(2, float(step))}, {})
    assert store.steps() == [2, 3]


def test_a_damaged_newest_step_is_skipped_with_a_warning(tmp_path, caplog):
    store = Checkpoints(tmp_path)
    for step in (1, 2):
        store.save(step, {"w": jnp.full(2, float(step))}, {"at": step})
    shutil.rmtree(tmp_path / "2" / "state")
    fresh = Checkpoints(tmp_path)
    restored, record = fresh.restore({"w": jnp.zeros(2)})
    assert record == {"at": 1}
    assert restored["w"].tolist() == [1.0, 1.0]
    assert "[2] are incomplete" in caplog.text
    fresh.save(2, {"w": jnp.full(2, 5.0)}, {"at": 2})
    assert fresh.restore({"w": jnp.zeros(2)})[0]["w"].tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"w": jnp.zeros(2, jnp.bfloat16)}, r"w is float32\[2\], not bfloat16\[2\]"),
        ({"w": jnp.zeros(3)}, r"w is float32\[2\], not float32\[3\]"),
        ({"w": jnp.zeros(2), "gamma": jnp.zeros(1)}, "gamma is missing"),
        ({"v": jnp.zeros(2)}, "v is missing; w is unexpected"),
    ],
)
def test_another_model_is_refused(tmp_path, target, message):
    store = Checkpoints(tmp_path)
    store.save(1, {"w": jnp.zeros(2)}, {})
    with pytest.raises(InputError, match=message):
        store.restore(target)


def test_nothing_to_restore(tmp_path):
    with pytest.raises(InputError, match="holds no complete checkpoint"):
        Checkpoints(tmp_path).restore({"w": jnp.zeros(2)})
    store = Checkpoints(tmp_path)
    store.save(1, {"w": jnp.zeros(2)}, {})
    with pytest.raises(InputError, match=r"no complete step 9; it has: \[1\]"):
        store.restore({"w": jnp.zeros(2)}, 9)
