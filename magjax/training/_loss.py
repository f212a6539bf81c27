"""The loss of a batch: embeddings of both sides, then what contrasts them."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp

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
from magjax.similarity import SimilarityHead, norm
from magjax.training._state import Trainee
from magjax.typing import Array, Float

__all__ = ["Embeddings", "LossSettings", "Metrics", "batch_loss", "embed_batch", "embedding_loss"]

Batch = Mapping[str, Any]
Metrics = dict[str, Float[jax.Array, ""]]


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
    embeddings = embed_batch(model, batch, dropout_key)
    return embedding_loss(model.head, embeddings, batch, loss)


class Embeddings(NamedTuple):
    """Raw embeddings of a batch: what the encoders hand to the loss.

    Attributes:
        queries: [rows, dim].
        documents: [rows, dim] of the positives.
        negatives: [rows, hard, dim] of the hard negatives, or None.

    >>> Embeddings._fields
    ('queries', 'documents', 'negatives')
    """

    queries: Float[Array, "rows dim"]
    documents: Float[Array, "rows dim"]
    negatives: Float[Array, "rows hard dim"] | None


def embed_batch(model: Trainee, batch: Batch, dropout_key: jax.Array | None) -> Embeddings:
    """Embeds both sides of a batch, and its hard negatives where it has them.

    Args:
        model: encoder and head.
        batch: arrays as :class:`magjax.data.TrainingBatches` gives them.
        dropout_key: random key of the dropout masks, or None for none.

    >>> from magjax.training import tiny_trainee
    >>> tokens = {"input_ids": jnp.array([[1, 5, 2], [1, 9, 2]]),
    ...           "attention_mask": jnp.ones((2, 3), jnp.int32)}
    >>> found = embed_batch(tiny_trainee("cosine"), {"query": tokens, "document": tokens}, None)
    >>> found.queries.shape, found.negatives
    ((2, 16), None)
    """
    keys = [None] * 3 if dropout_key is None else list(jax.random.split(dropout_key, 3))
    queries = model.encoder.embed(batch["query"], "query", dropout_key=keys[0])
    documents = model.encoder.embed(batch["document"], "document", dropout_key=keys[1])
    negatives = None
    if "negatives" in batch:
        flat = model.encoder.embed(batch["negatives"], "document", dropout_key=keys[2])
        negatives = flat.reshape(queries.shape[0], -1, flat.shape[-1])
    return Embeddings(queries, documents, negatives)


def embedding_loss(
    head: SimilarityHead, embeddings: Embeddings, batch: Batch, loss: LossSettings
) -> tuple[Float[Array, ""], Metrics]:
    """What :func:`batch_loss` is of embeddings that are there already.

    Args:
        head: normalization powers and temperature.
        embeddings: of the batch's rows.
        batch: ids and masks as :class:`magjax.data.TrainingBatches` gives them.
        loss: the loss and its masks.

    >>> from magjax.training import tiny_trainee
    >>> found = Embeddings(jnp.eye(2), jnp.eye(2), None)
    >>> value, metrics = embedding_loss(tiny_trainee("cosine").head, found, {}, LossSettings())
    >>> value.shape, float(metrics["count"])
    ((), 2.0)
    """
    queries, documents, negatives = embeddings
    gamma_query, gamma_document = head.gammas()
    where = batch.get("where")
    masks = {name: batch.get(name) for name in ("query_ids", "document_ids", "positive_ids")}
    hard = {name: batch.get(name) for name in ("negative_ids", "negatives_where")}
    arguments: dict[str, Any] = {
        "gamma_query": gamma_query,
        "gamma_document": gamma_document,
        "temperature": head.temperature(),
        "share_negatives": loss.share_negatives,
        "multiple_positives": loss.multiple_positives,
        "where": where,
        **masks,
        **(hard if negatives is not None else {}),
    }
    if loss.name == "sigmoid":
        values = sigmoid_loss(queries, documents, negatives, bias=head.bias(), **arguments)
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
    for side, raw in (("query", queries), ("document", documents)):
        lengths = norm(raw)
        total = jnp.sum(lengths * present)
        deviations = (lengths - total / jnp.maximum(metrics["count"], 1.0)) * present
        metrics[f"{side}_norm_sum"] = total
        metrics[f"{side}_norm_variance_sum"] = jnp.sum(jnp.square(deviations))
    return mean, jax.lax.stop_gradient(metrics)
