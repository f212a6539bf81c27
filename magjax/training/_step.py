"""One optimizer step as a pure function of state and batch, jitted once per batch shape."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from magjax.mesh import DATA_AXIS
from magjax.training._loss import LossSettings, Metrics, batch_loss
from magjax.training._state import Trainee, TrainState
from magjax.typing import Array

__all__ = ["make_train_step", "place_batch"]

Batch = Mapping[str, Any]
# What of a batch the devices need; the rest (row numbers) serves messages on the host.
_ON_DEVICE = (
    "query",
    "document",
    "negatives",
    "query_ids",
    "document_ids",
    "negative_ids",
    "negatives_where",
    "positive_ids",
    "where",
)


def place_batch(batch: Batch, mesh: Mesh, *, accumulation: int = 1) -> dict[str, Any]:
    """Puts this process's rows of a batch on the devices, split over the mesh.

    Args:
        batch: NumPy arrays; leading axis rows, or ``[accumulation, rows, ...]``.
        mesh: from :func:`magjax.mesh.data_mesh`.
        accumulation: micro-batches per optimizer step.

    >>> import numpy as np
    >>> from magjax.mesh import data_mesh
    >>> placed = place_batch({"where": np.ones(8, bool), "row": np.arange(8)}, data_mesh())
    >>> list(placed), placed["where"].shape
    (['where'], (8,))
    """
    spec = PartitionSpec(DATA_AXIS) if accumulation == 1 else PartitionSpec(None, DATA_AXIS)
    sharding = NamedSharding(mesh, spec)
    chosen = {key: batch[key] for key in _ON_DEVICE if key in batch}
    return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(sharding, leaf), chosen)


def make_train_step(
    graph: nnx.GraphDef[Trainee],
    optimizer: optax.GradientTransformation,
    loss: LossSettings,
    *,
    learning_rate: Callable[[Array], Array | float] | None = None,
    accumulation: int = 1,
) -> Callable[[TrainState, Batch], tuple[TrainState, Metrics]]:
    """The jitted step ``(state, batch) -> (state, metrics)``; it consumes (donates) the state.

    With ``accumulation`` micro-batches the gradient is the mean of theirs. That saves memory but
    adds no negatives: each micro-batch is contrasted only with itself, which is another (easier)
    objective than one batch of the total size.

    Args:
        graph: static part of the model, from :func:`magjax.training.initial_state`.
        optimizer: maps gradients to updates.
        loss: the loss and its masks.
        learning_rate: schedule whose value the metrics show.
        accumulation: micro-batches per step; batches then have a leading axis of that length.

    >>> from magjax.training import initial_state, tiny_trainee
    >>> graph, state = initial_state(tiny_trainee("qnorm"), optax.sgd(0.1), seed=0)
    >>> step = make_train_step(graph, optax.sgd(0.1), LossSettings())
    >>> tokens = {"input_ids": jnp.array([[1, 5, 2], [1, 9, 2]]),
    ...           "attention_mask": jnp.ones((2, 3), jnp.int32)}
    >>> state, metrics = step(state, {"query": tokens, "document": tokens})
    >>> int(state.step), bool(metrics["gradient_norm"] > 0)
    (1, True)
    """

    def objective(params: Any, rest: Any, batch: Batch, key: jax.Array) -> Any:
        return batch_loss(nnx.merge(graph, params, rest), batch, loss, key)

    differentiate = jax.value_and_grad(objective, has_aux=True)

    def gradients(state: TrainState, batch: Batch) -> tuple[Any, Metrics]:
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)
        if accumulation == 1:
            (_, metrics), found = differentiate(state.params, state.rest, batch, key)
            return found, metrics

        def add(total: Any, micro: Any) -> tuple[Any, None]:
            number, part = micro
            micro_key = jax.random.fold_in(key, number)
            (_, metrics), found = differentiate(state.params, state.rest, part, micro_key)
            return jax.tree.map(jnp.add, total, (found, metrics)), None

        first = jax.tree.map(lambda leaf: leaf[0], batch)
        shapes = jax.eval_shape(differentiate, state.params, state.rest, first, key)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), (shapes[1], shapes[0][1]))
        (total, metrics), _ = jax.lax.scan(add, zeros, (jnp.arange(accumulation), batch))
        return jax.tree.map(lambda g: g / accumulation, total), metrics

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        found, metrics = gradients(state, batch)
        updates, opt_state = optimizer.update(found, state.opt_state, state.params)
        model = nnx.merge(graph, optax.apply_updates(state.params, updates), state.rest)
        model.head.project()
        _, *parts = nnx.split(model, nnx.Param, ...)
        params, rest = (nnx.as_pure(part) for part in parts)
        gamma_query, gamma_document = model.head.gammas()
        metrics |= {
            "gradient_norm": optax.tree.norm(found),
            "temperature": model.head.temperature(),
            "gamma_query": jnp.asarray(gamma_query, jnp.float32),
            "gamma_document": jnp.asarray(gamma_document, jnp.float32),
        }
        if learning_rate is not None:
            metrics["learning_rate"] = jnp.asarray(learning_rate(state.step), jnp.float32)
        new = TrainState(state.step + 1, params, rest, opt_state, state.key)
        return new, metrics

    return jax.jit(step, donate_argnums=0)
