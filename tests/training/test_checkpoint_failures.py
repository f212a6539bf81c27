import dataclasses
import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError, RunError
from magjax.training import Checkpoints, LoopSettings, TrainState


def array(step):
    return {"w": jnp.full(2000, float(step))}


def test_background_saves_hold_their_own_step(tmp_path):
    """The state is donated right after each save, and the record goes on changing."""
    forward = jax.jit(lambda s: jax.tree.map(lambda a: a + 1, s), donate_argnums=0)
    store = Checkpoints(tmp_path, keep=9)
    state, window = {"w": jnp.zeros(200_000)}, []
    for step in range(1, 7):
        state = forward(state)
        window.append(step)
        store.save(step, state, {"window": window}, wait=False)
    window.clear()
    assert store.steps() == [1, 2, 3, 4, 5, 6]
    for step in range(1, 7):
        restored, record = store.restore(state, step)
        np.testing.assert_array_equal(restored["w"], np.full(200_000, step, np.float32))
        assert record["window"] == list(range(1, step + 1))
    store.close()


def test_newest_best_and_regular_steps_stay(tmp_path):
    values = {1: 0.1, 2: 0.9, 3: None, 4: 0.9, 5: 0.2, 6: 0.3, 7: None}
    for step, value in values.items():  # a new process each time
        store = Checkpoints(tmp_path, keep=1, keep_best=1, keep_every=5)
        store.save(step, array(step), {"value": value})
        store.close()
    assert Checkpoints(tmp_path, read_only=True).steps() == [2, 5, 7]


def test_steps_with_damaged_data_are_skipped_and_written_anew(tmp_path, caplog):
    store = Checkpoints(tmp_path)
    for step in (1, 2):
        store.save(step, array(step), {})
    store.close()
    for file in (tmp_path / "2" / "state").rglob("d/*"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    fresh = Checkpoints(tmp_path)
    with pytest.raises(InputError, match=r"2 is damaged .* of \[1\]"):
        fresh.restore(array(0), 2)
    assert fresh.restore(array(0))[0]["w"][0] == 1
    assert "step 2 is damaged and skipped" in caplog.text
    fresh.save(2, array(5), {})
    assert fresh.restore(array(0))[0]["w"][0] == 5
    fresh.close()


def test_a_save_that_cannot_be_written_says_so_and_the_last_step_stays(tmp_path):
    """A limit on the size of files stands for a full disk: the writes themselves fail."""
    noise = {"w": jax.random.normal(jax.random.key(0), (100_000,))}
    store = Checkpoints(tmp_path)
    store.save(1, noise, {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(RunError, match=r"step 2 cannot be saved .* step 1 is whole"):
            store.save(2, noise, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.steps() == [1]
    restored, _ = store.restore({"w": jnp.zeros(100_000)})
    np.testing.assert_array_equal(restored["w"], noise["w"])
    store.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": 0}, "keep"),
        ({"keep_best": -1}, "keep_best=-1"),
        ({"keep_every": 15}, "keep_every=15 is not a multiple of save_every=10"),
        ({"keep_best": 1, "evaluate_every": 99}, "no step before the last"),
    ],
)
def test_contradictory_retention_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        LoopSettings(**({"steps": 100, "evaluate_every": 10, "save_every": 10} | settings))


def test_the_fields_of_a_state_are_known():
    """A new field must be given to the tests of restoring, then added here."""
    names = [field.name for field in dataclasses.fields(TrainState)]
    assert names == ["step", "params", "rest", "opt_state", "key"]
