import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from magjax.checks import InputError
from magjax.mesh import data_mesh, replicate
from magjax.training import (
    LossSettings,
    batch_loss,
    initial_state,
    leaf_names,
    make_train_step,
    place_batch,
    tiny_trainee,
    window_means,
)

# Compiling is what these tests cost; the losses are tested over devices for every variant.
VARIANTS = ["dnorm", "learnable"]


def make_batch(seed=0, rows=8, hard=2, length=6):
    rng = np.random.default_rng(seed)

    def tokens(count):
        ids = rng.integers(5, 64, (count, length)).astype(np.int32)
        lengths = rng.integers(2, length + 1, count)
        mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
        return {"input_ids": ids * mask, "attention_mask": mask}

    where = np.ones(rows, bool)
    where[-1] = False
    return {
        "query": tokens(rows),
        "document": tokens(rows),
        "negatives": tokens(rows * hard),
        "query_ids": np.arange(rows, dtype=np.int32),
        "document_ids": np.arange(rows, dtype=np.int32),
        "negative_ids": np.arange(rows, rows + rows * hard, dtype=np.int32).reshape(rows, hard),
        "negatives_where": rng.random((rows, hard)) > 0.2,
        "positive_ids": np.stack([np.arange(rows), np.full(rows, 3)], 1).astype(np.int32),
        "where": where,
        "row": np.arange(rows, dtype=np.int32),
    }


def run(variant, devices, *, steps=3):
    optimizer = optax.chain(optax.clip_by_global_norm(0.05), optax.sgd(0.5))
    graph, state = initial_state(tiny_trainee(variant, dropout=0.1), optimizer, seed=0)
    mesh = data_mesh(jax.devices()[:devices])
    state = replicate(state, mesh)
    step = make_train_step(graph, optimizer, LossSettings())
    losses = []
    for number in range(steps):
        state, metrics = step(state, place_batch(make_batch(number), mesh))
        losses.append(window_means([metrics]))
    return jax.device_get(state), losses


@pytest.mark.parametrize("variant", VARIANTS)
def test_eight_devices_equal_one(variant):
    """Loss, metrics and parameters (temperature and gammas too) after three clipped SGD steps."""
    one, losses_one = run(variant, 1)
    eight, losses_eight = run(variant, 8)
    for a, b in zip(losses_one, losses_eight, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_allclose(b[key], a[key], rtol=2e-5, atol=1e-6, err_msg=key)
    for name, a, b in zip(
        leaf_names(one), jax.tree.leaves(one), jax.tree.leaves(eight), strict=True
    ):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_learns_that_can(variant):
    """After one step all moves, but gammas of presets and rows of tokens never seen."""
    optimizer = optax.sgd(0.1)
    graph, state = initial_state(tiny_trainee(variant), optimizer, seed=0)
    before = jax.device_get(state.params)
    step = make_train_step(graph, optimizer, LossSettings())
    state, metrics = step(state, place_batch(make_batch(), data_mesh(jax.devices()[:1])))
    moved = {
        name
        for name, a, b in zip(
            leaf_names(before), jax.tree.leaves(before), jax.tree.leaves(state.params), strict=True
        )
        if np.abs(a - np.asarray(b)).max() > 0
    }
    assert moved == set(leaf_names(before))
    assert ("head/gamma_logits" in moved) == (variant == "learnable")
    assert metrics["gradient_norm"] > 0


@pytest.mark.parametrize(
    "loss",
    [
        LossSettings(),
        LossSettings(direction="both"),
        LossSettings(direction="document_to_query"),
        LossSettings(share_negatives=False, label_smoothing=0.1),
        LossSettings(multiple_positives="average"),
        LossSettings(name="sigmoid"),
    ],
    ids=lambda loss: f"{loss.name}-{loss.direction}-{loss.multiple_positives}",
)
def test_each_loss_goes_down(loss):
    """The same batch forty times over: the model must be able to learn it by heart."""
    optimizer = optax.adam(3e-3)
    bias = -1.0 if loss.name == "sigmoid" else None
    graph, state = initial_state(tiny_trainee("dnorm", loss_bias=bias), optimizer, seed=0)
    step = make_train_step(graph, optimizer, loss)
    batch = make_batch()
    if loss.direction != "query_to_document":
        batch.pop("negatives" if loss.direction == "document_to_query" else "row")
    placed = place_batch(batch, data_mesh(jax.devices()[:1]))
    first = last = None
    for _ in range(40):
        state, metrics = step(state, placed)
        last = window_means([metrics])
        first = first or last
    assert last["loss"] < 0.7 * first["loss"]


def test_padding_rows_change_nothing():
    """A padding row full of other tokens: same loss, same step."""
    base, other = make_batch(), make_batch()
    other["query"]["input_ids"][-1] = 60
    other["document"]["input_ids"][-1] = 61
    other["negatives"]["input_ids"][-2:] = 62
    model = tiny_trainee("dot")
    value, metrics = batch_loss(model, base, LossSettings(), None)
    changed, _ = batch_loss(model, other, LossSettings(), None)
    np.testing.assert_allclose(value, changed, rtol=1e-6)
    assert metrics["count"] == 7


def test_accumulation_is_the_mean_of_its_parts_and_another_objective():
    """Two micro-batches of 8 differ from one batch of 16: they add no negatives."""
    parts = [make_batch(seed, hard=1) for seed in (0, 1)]
    for part in parts:
        part["where"][:] = True
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
    optimizer = optax.sgd(0.1)
    mesh = data_mesh(jax.devices()[:2])

    def fresh():
        return initial_state(tiny_trainee("cosine"), optimizer, seed=0)

    graph, state = fresh()
    step = make_train_step(graph, optimizer, LossSettings(), accumulation=2)
    after, metrics = step(state, place_batch(stacked, mesh, accumulation=2))
    assert int(after.step) == 1

    model = nnx.merge(graph, *(getattr(fresh()[1], part) for part in ("params", "rest")))
    values, grads = [], []
    for part in parts:

        def objective(params, part=part):
            merged = nnx.merge(graph, params, fresh()[1].rest)
            return batch_loss(merged, part, LossSettings(), None)[0]

        value, grad = jax.value_and_grad(objective)(fresh()[1].params)
        values.append(value)
        grads.append(grad)
    np.testing.assert_allclose(window_means([metrics])["loss"], np.mean(values), rtol=1e-5)
    mean_norm = optax.tree.norm(jax.tree.map(lambda a, b: (a + b) / 2, *grads))
    np.testing.assert_allclose(metrics["gradient_norm"], mean_norm, rtol=1e-5)

    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    whole |= {"query_ids": np.arange(16), "document_ids": np.arange(16)}
    whole = {k: v for k, v in whole.items() if k not in ("negative_ids", "positive_ids")}
    together, _ = batch_loss(model, whole, LossSettings(), None)
    assert together > np.mean(values) + 0.3


def test_temperature_stays_in_its_range_and_can_leave_the_edge():
    """Log temperature beyond the bound is projected after the step and moves again later."""
    optimizer = optax.sgd(50.0)
    graph, state = initial_state(tiny_trainee("cosine"), optimizer, seed=0)
    step = make_train_step(graph, optimizer, LossSettings())
    mesh = data_mesh(jax.devices()[:1])
    seen = []
    for number in range(6):
        state, metrics = step(state, place_batch(make_batch(number), mesh))
        seen.append(float(metrics["temperature"]))
    assert all(0.01 * 0.999 <= value <= 10.0 * 1.001 for value in seen)
    assert len(set(seen)) > 1


def test_dropout_follows_the_step_and_the_seed():
    """The key is folded with the step: same step same masks, next step other masks."""
    model = tiny_trainee("cosine", dropout=0.1)
    batch = make_batch()
    key = jax.random.key(0)
    once, _ = batch_loss(model, batch, LossSettings(), jax.random.fold_in(key, 3))
    again, _ = batch_loss(model, batch, LossSettings(), jax.random.fold_in(key, 3))
    later, _ = batch_loss(model, batch, LossSettings(), jax.random.fold_in(key, 4))
    none, _ = batch_loss(model, batch, LossSettings(), None)
    assert float(once) == float(again)
    assert float(once) != float(later)
    assert float(once) != float(none)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "infonce"}, "Did you mean 'info_nce'"),
        ({"direction": "forward"}, "loss.direction"),
        ({"multiple_positives": "sum"}, "known: mask, average"),
        ({"label_smoothing": 1.5}, "label_smoothing"),
        ({"name": "sigmoid", "label_smoothing": 0.1}, "no part in the sigmoid loss"),
        ({"name": "sigmoid", "direction": "both"}, "no part in the sigmoid loss"),
    ],
)
def test_settings_that_would_not_be_read_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        LossSettings(**settings)


def test_metrics_are_those_of_the_embeddings():
    """Norm statistics against a direct computation over real rows."""
    model, batch = tiny_trainee("dot"), make_batch()
    _, metrics = batch_loss(model, batch, LossSettings(), None)
    means = window_means([metrics])
    queries = np.asarray(model.encoder.embed(batch["query"], "query"), np.float64)[:-1]
    lengths = np.linalg.norm(queries, axis=1)
    np.testing.assert_allclose(means["query_norm"], lengths.mean(), rtol=1e-5)
    np.testing.assert_allclose(means["query_norm_std"], lengths.std(), rtol=1e-4)
    assert 0 <= means["accuracy"] <= 1
    assert means["entropy"] <= np.log(8 + 16) + 1e-6
    assert jnp.isfinite(jnp.asarray(list(means.values()))).all()
