"""One optimizer step as a pure function of state and batch, jitted once per batch shape."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from magjax.checks import InputError, choose, fraction
from magjax.losses import (
    LOSSES,
    Direction,
    MultiplePositives,
    batch_mean,
    candidate_logits,
    info_nce,
    logit_statistics,
    sigmoid_loss,
)
from magjax.mesh import DATA_AXIS
from magjax.similarity import norm
from magjax.training._state import Trainee, TrainState
from magjax.typing import Array, Float

__all__ = ["LossSettings", "batch_loss", "make_train_step", "place_batch"]

Batch = Mapping[str, Any]
Metrics = dict[str, Float[jax.Array, ""]]
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


@dataclasses.dataclass(frozen=True)
class LossSettings:
    """Which contrastive loss, and what counts as a negative.

    Attributes:
        name: ``"info_nce"`` or ``"sigmoid"``.
        direction: of InfoNCE: ``"query_to_document"``, ``"document_to_query"`` or ``"both"``.
        direction_weights: of ``"both"``: the factor of query to document, and of the reverse.
        share_negatives: whether a query's hard negatives serve the whole batch.
        multiple_positives: ``"mask"`` leaves further known positives out, ``"average"`` adds them.
        label_smoothing: of InfoNCE, in [0, 1].

    >>> LossSettings().name
    'info_nce'
    """

    name: str = "info_nce"
    direction: str = "query_to_document"
    direction_weights: Sequence[float | int] = (0.5, 0.5)
    share_negatives: bool = True
    multiple_positives: str = "mask"
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        """Refuses unknown names, and settings that the loss would not read."""
        choose("loss.name", self.name, LOSSES)
        choose("loss.direction", self.direction, get_args(Direction))
        choose("loss.multiple_positives", self.multiple_positives, get_args(MultiplePositives))
        fraction("loss.label_smoothing", self.label_smoothing)
        object.__setattr__(self, "direction_weights", _weights(self.direction_weights))
        if self.direction != "both" and self.direction_weights != (0.5, 0.5):
            raise InputError(
                f"loss.direction_weights={self.direction_weights} weigh the two directions of "
                f"loss.direction='both', not of {self.direction!r}; leave them at 0.5, 0.5."
            )
        if self.name == "sigmoid" and self.label_smoothing:
            raise InputError("loss.label_smoothing has no part in the sigmoid loss; set it to 0.")
        if self.name == "sigmoid" and self.direction != "query_to_document":
            raise InputError(
                f"loss.direction={self.direction!r} has no part in the sigmoid loss, which sums "
                "over all pairs; leave it at 'query_to_document'."
            )


def _weights(values: Any) -> tuple[float, float]:
    numbers = tuple(values) if isinstance(values, list | tuple) else ()
    known = all(isinstance(v, int | float) and not isinstance(v, bool) for v in numbers)
    if len(numbers) != 2 or not known or min(numbers) < 0 or not 0 < sum(numbers) < math.inf:
        raise InputError(
            f"loss.direction_weights={values!r} must be two numbers of at least 0, one of them "
            "above it: query to document, document to query."
        )
    first, second = map(float, numbers)
    return first, second


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


def batch_loss(
    model: Trainee, batch: Batch, loss: LossSettings, dropout_key: jax.Array | None
) -> tuple[Float[Array, ""], Metrics]:
    """Mean loss of a batch, and sums that :func:`magjax.training.window_means` reduces.

    Args:
        model: encoder and head.
        batch: arrays as :class:`magjax.data.TrainingBatches` gives them.
        loss: the loss and its masks.
        dropout_key: random key of the dropout masks, or None for none.

    Returns:
        The loss averaged over real rows, and the batch's metrics.

    >>> from magjax.training import tiny_trainee
    >>> tokens = {"input_ids": jnp.array([[1, 5, 2], [1, 9, 2]]),
    ...           "attention_mask": jnp.ones((2, 3), jnp.int32)}
    >>> value, metrics = batch_loss(
    ...     tiny_trainee("cosine"), {"query": tokens, "document": tokens}, LossSettings(), None)
    >>> value.shape, float(metrics["accuracy_count"])
    ((), 2.0)
    """
    keys = [None] * 3 if dropout_key is None else list(jax.random.split(dropout_key, 3))
    queries = model.encoder.embed(batch["query"], "query", dropout_key=keys[0])
    documents = model.encoder.embed(batch["document"], "document", dropout_key=keys[1])
    negatives = None
    if "negatives" in batch:
        flat = model.encoder.embed(batch["negatives"], "document", dropout_key=keys[2])
        negatives = flat.reshape(queries.shape[0], -1, flat.shape[-1])
    gamma_query, gamma_document = model.head.gammas()
    where = batch.get("where")
    masks = {name: batch.get(name) for name in ("query_ids", "document_ids", "positive_ids")}
    hard = {name: batch.get(name) for name in ("negative_ids", "negatives_where")}
    arguments: dict[str, Any] = {
        "gamma_query": gamma_query,
        "gamma_document": gamma_document,
        "temperature": model.head.temperature(),
        "share_negatives": loss.share_negatives,
        "multiple_positives": loss.multiple_positives,
        "where": where,
        **masks,
        **(hard if negatives is not None else {}),
    }
    if loss.name == "sigmoid":
        values = sigmoid_loss(queries, documents, negatives, bias=model.head.bias(), **arguments)
    else:
        forward, backward = loss.direction_weights
        values = info_nce(
            queries,
            documents,
            negatives,
            direction=loss.direction,
            direction_weights=(forward, backward),
            label_smoothing=loss.label_smoothing,
            **arguments,
        )
    # The same products as inside the loss: the compiler computes them once.
    if loss.direction == "document_to_query":
        arguments = {k: v for k, v in arguments.items() if k not in hard}
        found = candidate_logits(queries, documents, direction="document_to_query", **arguments)
    else:
        found = candidate_logits(queries, documents, negatives, **arguments)
    statistics = logit_statistics(*found)
    present = jnp.ones(values.shape) if where is None else where.astype(values.dtype)
    mean = batch_mean(values, where=where)
    metrics = {
        "loss_sum": jnp.sum(values * present),
        "count": jnp.sum(present),
        "accuracy_sum": statistics["correct"],
        "accuracy_count": statistics["queries"],
        "entropy_sum": statistics["entropy"],
        "entropy_count": statistics["queries"],
        "relative_entropy_sum": statistics["entropy"],
        "relative_entropy_count": statistics["uniform_entropy"],
        "logit_variance_sum": statistics["logit_squares"],
        "logit_variance_count": statistics["logits"],
    }
    for side, embeddings in (("query", queries), ("document", documents)):
        lengths = norm(embeddings)
        total = jnp.sum(lengths * present)
        deviations = (lengths - total / jnp.maximum(metrics["count"], 1.0)) * present
        metrics[f"{side}_norm_sum"] = total
        metrics[f"{side}_norm_variance_sum"] = jnp.sum(jnp.square(deviations))
    return mean, jax.lax.stop_gradient(metrics)


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
