"""Losses over 1, 2, 4 and 8 devices: value, gradients and a clipped step equal one device's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import AxisType, PartitionSpec

from magjax.losses import batch_mean, info_nce, kl_distillation, margin_mse, sigmoid_loss
from magjax.mesh import DATA_AXIS, data_mesh, replicate, rows

ROWS = 16
DEVICES = (1, 2, 4, 8)
# 0.05 is far below the gradients' norms, so that the step depends on the norm of all of them.
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.05), optax.sgd(1.0))


def _info_nce(**settings):
    def values(params, arrays, masks, axis_name):
        return info_nce(*arrays, **_head(params), **masks, **settings, axis_name=axis_name)

    return values


def _sigmoid(params, arrays, masks, axis_name):
    return sigmoid_loss(*arrays, **_head(params), **masks, bias=params["bias"], axis_name=axis_name)


def _head(params):
    gammas = jax.nn.sigmoid(params["gamma_logits"])
    temperature = jnp.exp(params["log_temperature"])
    return {"gamma_query": gammas[0], "gamma_document": gammas[1], "temperature": temperature}


LOSSES = {
    "both": _info_nce(direction="both"),
    "own": _info_nce(share_negatives=False, multiple_positives="average", label_smoothing=0.1),
    "sigmoid": _sigmoid,
}


@functools.cache
def problem():
    """Parameters, and a batch whose last three rows are padding (all of the eighth device's)."""
    rng = np.random.default_rng(0)
    batch = {
        "queries": rng.normal(size=(ROWS, 5)),
        "documents": rng.normal(size=(ROWS, 5)),
        "negatives": rng.normal(size=(ROWS, 2, 5)),
        "query_ids": rng.integers(0, 12, ROWS),
        "document_ids": rng.integers(0, 12, ROWS),
        "negative_ids": rng.integers(0, 30, (ROWS, 2)),
        "positive_ids": rng.integers(-1, 30, (ROWS, 2)),
        "where": np.arange(ROWS) < ROWS - 3,
        "negatives_where": rng.random((ROWS, 2)) < 0.8,
        "weights": rng.uniform(0.5, 2.0, ROWS),
    }
    for name in ("queries", "documents", "negatives"):
        batch[name][ROWS - 3 :] = 1e3
    params = {
        "weight": rng.normal(size=(5, 4)),
        "gamma_logits": np.array([0.4, -0.7]),
        "log_temperature": np.array(-0.5),
        "bias": np.array(-1.0),
    }
    single = jax.tree.map(lambda x: np.float32(x) if x.dtype == float else np.int32(x), params)
    batch = {k: np.float32(v) if v.dtype == float else v for k, v in batch.items()}
    return single, {k: np.int32(v) if k.endswith("ids") else v for k, v in batch.items()}


def loss(params, batch, name, axis_name=None):
    """The mean over the whole batch of embeddings that a shared matrix makes."""
    arrays = [batch[k] @ params["weight"] for k in ("queries", "documents", "negatives")]
    masks = {k: v for k, v in batch.items() if k not in ("queries", "documents", "negatives")}
    values = LOSSES[name](params, arrays, masks, axis_name)
    return batch_mean(values, where=batch["where"], axis_name=axis_name)


def step(params, batch, name, axis_name=None, *, average=False):
    """Value, gradient, and the parameters after one clipped step."""
    value, grads = jax.value_and_grad(loss)(params, batch, name, axis_name)
    if average:
        grads = lax.pmean(grads, axis_name)
    updates, _ = OPTIMIZER.update(grads, OPTIMIZER.init(params), params)
    return value, grads, optax.apply_updates(params, updates)


def by_jit(name, count):
    """Shardings alone; the compiler places the exchange."""
    params, batch = problem()
    mesh = data_mesh(jax.devices()[:count])
    run = jax.jit(step, static_argnames="name")
    return run(replicate(params, mesh), jax.device_put(batch, rows(mesh)), name=name)


def by_shard_map(name, count, *, check_vma):
    """Explicit exchange; what is replicated is tracked by the types if ``check_vma``."""
    params, batch = problem()
    mesh = data_mesh(jax.devices()[:count])
    run = jax.shard_map(
        functools.partial(step, name=name, axis_name=DATA_AXIS, average=not check_vma),
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(DATA_AXIS)),
        out_specs=PartitionSpec(),
        check_vma=check_vma,
    )
    return jax.jit(run)(replicate(params, mesh), jax.device_put(batch, rows(mesh)))


def by_pmap(name, count):
    """One program a device; every device must end up with the same numbers."""
    params, batch = problem()
    split = {k: v.reshape(count, ROWS // count, *v.shape[1:]) for k, v in batch.items()}
    run = jax.pmap(
        functools.partial(step, name=name, axis_name="devices", average=True),
        axis_name="devices",
        in_axes=(None, 0),
        devices=jax.devices()[:count],
    )
    found = jax.tree.map(np.asarray, run(params, split))
    jax.tree.map(lambda x: np.testing.assert_array_equal(x, np.broadcast_to(x[:1], x.shape)), found)
    return jax.tree.map(lambda x: x[0], found)


WAYS = {
    "jit": by_jit,
    "shard_map checked": functools.partial(by_shard_map, check_vma=True),
    "shard_map unchecked": functools.partial(by_shard_map, check_vma=False),
    "pmap": by_pmap,
}


@functools.cache
def on_one_device(name):
    """The same step without any mesh."""
    return jax.tree.map(np.asarray, jax.jit(step, static_argnames="name")(*problem(), name=name))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("both", count) for count in DEVICES),
        ("own", 2),
        ("own", 8),
        ("sigmoid", 4),
        ("sigmoid", 8),
    ],
)
def test_value_gradients_and_clipped_step_equal_one_device(name, count, way):
    value, grads, stepped = on_one_device(name)
    squares = sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(grads))
    assert squares > 0.2**2  # so the clipping does something
    if name != "sigmoid":
        np.testing.assert_array_equal(grads["bias"], 0.0)
    found = jax.tree.map(np.asarray, WAYS[way](name, count))
    np.testing.assert_allclose(found[0], value, rtol=1e-5)
    for key in grads:
        np.testing.assert_allclose(found[1][key], grads[key], rtol=1e-5, atol=1e-6, err_msg=key)
        np.testing.assert_allclose(found[2][key], stepped[key], rtol=1e-5, atol=1e-6, err_msg=key)


def test_the_ragged_batch_equals_the_smaller_one_without_a_mask():
    params, batch = problem()
    small = {k: v[: ROWS - 3] for k, v in batch.items()}
    found = jax.jit(step, static_argnames="name")(params, small, name="both")
    for left, right in zip(
        jax.tree.leaves(found), jax.tree.leaves(on_one_device("both")), strict=True
    ):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_the_embeddings_stay_on_their_device(name):
    params, batch = problem()
    keys = ("queries", "documents", "negatives")
    arrays, rest = {k: batch[k] for k in keys}, {k: v for k, v in batch.items() if k not in keys}

    def by_arrays(arrays, rest, params, axis_name=None):
        return jax.grad(lambda arrays: loss(params, arrays | rest, name, axis_name))(arrays)

    expected = jax.jit(by_arrays)(arrays, rest, params)
    mesh = data_mesh()
    run = jax.shard_map(
        functools.partial(by_arrays, axis_name=DATA_AXIS),
        mesh=mesh,
        in_specs=(PartitionSpec(DATA_AXIS), PartitionSpec(DATA_AXIS), PartitionSpec()),
        out_specs=PartitionSpec(DATA_AXIS),
    )
    split = jax.device_put((arrays, rest), rows(mesh))
    found = jax.jit(run)(*split, replicate(params, mesh))
    for key in keys:
        assert np.abs(expected[key]).max() > 1e-3
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-5, atol=1e-6, err_msg=key)


def test_two_mesh_axes_and_a_vmapped_axis_split_the_batch_alike():
    params, batch = problem()
    expected = on_one_device("both")[0]
    mesh = jax.make_mesh((2, 4), ("host", "chip"), axis_types=(AxisType.Auto,) * 2)
    names = ("host", "chip")
    run = jax.shard_map(
        functools.partial(loss, name="both", axis_name=names),
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(names)),
        out_specs=PartitionSpec(),
    )
    np.testing.assert_allclose(jax.jit(run)(params, batch), expected, rtol=1e-5)
    split = {k: v.reshape(4, 4, *v.shape[1:]) for k, v in batch.items()}
    run = jax.vmap(
        functools.partial(loss, name="both", axis_name="shards"),
        in_axes=(None, 0),
        axis_name="shards",
    )
    np.testing.assert_allclose(jax.jit(run)(params, split), np.full(4, expected), rtol=1e-5)


def test_one_document_on_two_devices_is_no_negative():
    # One pair a device, both with the same text: ln 2 unless the ids meet across devices.
    x = jnp.array([[1.0, 0.0], [1.0, 0.0]])
    mesh = data_mesh(jax.devices()[:2])

    def run(ids):
        return jax.jit(
            jax.shard_map(
                lambda x, ids: info_nce(
                    x,
                    x,
                    gamma_query=1.0,
                    gamma_document=1.0,
                    temperature=1 / 20,
                    direction="both",
                    document_ids=ids,
                    axis_name=DATA_AXIS,
                ),
                mesh=mesh,
                in_specs=PartitionSpec(DATA_AXIS),
                out_specs=PartitionSpec(DATA_AXIS),
            )
        )(*jax.device_put((x, ids), rows(mesh)))

    np.testing.assert_allclose(run(jnp.array([1, 2])), np.log(2.0), rtol=1e-6)
    np.testing.assert_array_equal(run(jnp.array([7, 7])), 0.0)


@pytest.mark.parametrize("function", [margin_mse, kl_distillation])
@pytest.mark.parametrize("count", [2, 8])
def test_distillation_needs_no_exchange(function, count):
    params, batch = problem()
    teacher = np.random.default_rng(1).normal(size=(ROWS, 3)).astype(np.float32)
    batch = {
        k: batch[k] for k in ("queries", "documents", "negatives", "where", "negatives_where")
    } | {"teacher_scores": teacher}

    def total(params, batch, axis_name=None):
        arrays = {k: batch[k] @ params["weight"] for k in ("queries", "documents", "negatives")}
        values = function(**batch | arrays, **_head(params))
        return batch_mean(values, where=batch["where"], axis_name=axis_name)

    expected = jax.jit(jax.value_and_grad(total))(params, batch)
    mesh = data_mesh(jax.devices()[:count])
    run = jax.shard_map(
        jax.value_and_grad(functools.partial(total, axis_name=DATA_AXIS)),
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(DATA_AXIS)),
        out_specs=PartitionSpec(),
    )
    found = jax.jit(run)(replicate(params, mesh), jax.device_put(batch, rows(mesh)))
    for left, right in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
