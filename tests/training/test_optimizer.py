import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.training import (
    OptimizerSettings,
    decay_mask,
    initial_state,
    leaf_names,
    make_optimizer,
    make_schedule,
    tiny_trainee,
)


def test_only_kernels_and_tables_decay():
    """Zero gradients: whatever moves, moves by weight decay alone."""
    settings = OptimizerSettings(0.1, weight_decay=0.1, warmup_fraction=0.0, schedule="constant")
    optimizer = make_optimizer(settings, steps=10)
    _, state = initial_state(tiny_trainee("learnable", loss_bias=-10.0), optimizer, seed=0)
    updates, _ = optimizer.update(
        jax.tree.map(jnp.zeros_like, state.params), state.opt_state, state.params
    )
    moved = {
        name
        for name, update in zip(leaf_names(updates), jax.tree.leaves(updates), strict=True)
        if float(jnp.abs(update).max()) > 0
    }
    everything = set(leaf_names(state.params))
    assert moved == {n for n in everything if n.endswith(("kernel", "embedding"))}
    still = everything - moved
    assert {n for n in still if n.startswith("head/")} == {
        "head/log_temperature",
        "head/gamma_logits",
        "head/logit_bias",
    }
    assert any(n.endswith("scale") for n in still)
    assert any(n.endswith("bias") for n in still)


def test_stacked_layer_norms_do_not_decay():
    params = {
        "encoder": {"norm": {"scale": jnp.ones((4, 8))}, "up": {"kernel": jnp.ones((4, 8, 8))}}
    }
    assert decay_mask(params) == {"encoder": {"norm": {"scale": False}, "up": {"kernel": True}}}


def test_first_adam_step_is_the_closed_form():
    """One step from zero moments: rate * (sign(g) + decay * w), gradients below the clip norm."""
    settings = OptimizerSettings(0.01, weight_decay=0.5, warmup_fraction=0.0, clip_norm=10.0)
    optimizer = make_optimizer(settings, steps=100)
    params = {"encoder": {"kernel": jnp.array([2.0, -1.0])}}
    gradient = {"encoder": {"kernel": jnp.array([0.3, -0.4])}}
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    expected = -0.01 * (np.sign([0.3, -0.4]) + 0.5 * np.array([2.0, -1.0]))
    np.testing.assert_allclose(updates["encoder"]["kernel"], expected, rtol=1e-5)


def test_head_has_its_own_rate():
    settings = OptimizerSettings(0.1, head_learning_rate_scale=0.1, warmup_fraction=0.0)
    optimizer = make_optimizer(settings, steps=10)
    params = {"encoder": {"bias": jnp.ones(1)}, "head": {"log_temperature": jnp.ones(1)}}
    updates, _ = optimizer.update(
        jax.tree.map(jnp.ones_like, params), optimizer.init(params), params
    )
    ratio = updates["head"]["log_temperature"] / updates["encoder"]["bias"]
    np.testing.assert_allclose(ratio, 0.1, rtol=1e-5)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("steps", [1, 2, 7, 100])
def test_schedule_never_starts_at_zero_and_peaks_once_warm(schedule, steps):
    rate = make_schedule(OptimizerSettings(2.0, schedule=schedule, warmup_fraction=0.3), steps)
    values = np.array([float(rate(step)) for step in range(steps)])
    assert values.min() > 0
    assert values.max() <= 2.0 + 1e-6
    warmup = min(int(0.3 * steps), steps - 1)
    np.testing.assert_allclose(values[warmup], 2.0, rtol=1e-6)
    assert np.all(np.diff(values[: warmup + 1]) >= 0)
    assert np.all(np.diff(values[warmup:]) <= 1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"clip_norm": float("nan")}, "clip_norm"),
        ({"b1": 1.0}, "b1"),
        ({"warmup_fraction": 2.0}, "warmup_fraction"),
    ],
)
def test_settings_out_of_range_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        OptimizerSettings(**({"learning_rate": 1e-3} | change))
