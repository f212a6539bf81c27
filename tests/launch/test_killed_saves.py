"""SIGKILL at random moments of a run that saves at every step."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

CHILD = """
import sys, pathlib, jax, jax.numpy as jnp, numpy as np
from magjax.training import Checkpoints
folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
store = Checkpoints(folder / "checkpoints")
state, first = {"w": jnp.zeros(50_000)}, 0
if store.steps():
    state, record = store.restore(state)
    first = record["step"]
forward = jax.jit(lambda s, i: {"w": s["w"] * 0.9 + i}, donate_argnums=0)
for step in range(first + 1, steps + 1):
    state = forward(state, step)
    store.save(step, state, {"step": step}, wait=False)
    print(step, flush=True)
store.close()
np.save(folder / "end.npy", state["w"])
"""


def start(folder, steps):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_run_killed_while_it_saves_ends_the_same(tmp_path, kills):
    steps, draw = 8 * kills, random.Random(0)
    folder = tmp_path / "killed"
    folder.mkdir()
    for _ in range(kills):
        process = start(folder, steps)
        assert process.stdout.readline(), process.stderr.read()
        time.sleep(draw.uniform(0, 0.1))
        process.kill()
        process.communicate()
    process = start(folder, steps)
    assert process.wait(timeout=120) == 0, process.communicate()[1]
    process.communicate()
    whole = tmp_path / "whole"
    whole.mkdir()
    process = start(whole, steps)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    np.testing.assert_array_equal(np.load(folder / "end.npy"), np.load(whole / "end.npy"))
