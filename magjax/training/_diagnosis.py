"""Before the first step: a calibrated temperature, and a warning when logits cannot teach."""

import math
from typing import Any

import jax
import numpy as np
from flax import nnx

from magjax.encoders import DualEncoder
from magjax.similarity import calibrate_temperature
from magjax.training._loss import LossSettings, batch_loss
from magjax.training._report import window_means
from magjax.training._state import Trainee

__all__ = ["diagnose", "start_temperature"]

# Below this share of the largest possible entropy nearly every query puts all its weight on one
# candidate; where that is a wrong one, the gradient is that of a few pairs.
_SATURATED = 0.05
# Logits that vary by less than this leave the softmax within 5 % of even: gradients average out.
_FLAT = 0.05


def start_temperature(
    encoder: DualEncoder,
    batch: Any,
    *,
    gamma_query: float,
    gamma_document: float,
    reference_temperature: float = 0.05,
) -> float:
    """The temperature at which the first batch's logits spread as cosine's do at a reference.

    See :func:`magjax.similarity.calibrate_temperature`; embeddings are made without dropout.

    Raises:
        InputError: the scores of the batch do not vary.

    >>> import jax.numpy as jnp
    >>> from magjax.training import tiny_trainee
    >>> tokens = {"input_ids": jnp.array([[1, 5, 2], [1, 9, 2]]),
    ...           "attention_mask": jnp.ones((2, 3), jnp.int32)}
    >>> batch = {"query": tokens, "document": tokens}
    >>> start_temperature(tiny_trainee("dot").encoder, batch, gamma_query=1.0, gamma_document=1.0)
    0.05
    """
    graph, state = nnx.split(encoder)
    first = _first_batch(batch)

    @jax.jit
    def embed(state: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
        model = nnx.merge(graph, state)
        return model.embed(batch["query"], "query"), model.embed(batch["document"], "document")

    sides = {side: first[side] for side in ("query", "document")}
    queries, documents = embed(state, sides)
    return calibrate_temperature(
        queries,
        documents,
        gamma_query=gamma_query,
        gamma_document=gamma_document,
        reference_temperature=reference_temperature,
    )


def _first_batch(batch: Any) -> Any:
    """A batch as it is; of the micro-batches of a step the first."""
    side = batch["query"]
    axes = (
        np.ndim(side["input_ids"]) - 1 if "input_ids" in side else np.ndim(side["pixel_values"]) - 3
    )
    return batch if axes == 1 else jax.tree.map(lambda leaf: leaf[0], batch)


def diagnose(model: Trainee, batch: Any, loss: LossSettings, *, suggestion: float) -> str | None:
    """A warning when the first batch's logits are saturated or flat, else None.

    Args:
        model: the model before its first step.
        batch: the first batch.
        loss: the loss and its masks.
        suggestion: the calibrated temperature to name.

    >>> import jax.numpy as jnp
    >>> from magjax.training import tiny_trainee
    >>> tokens = {"input_ids": jnp.array([[1, 5, 2], [1, 9, 2]]),
    ...           "attention_mask": jnp.ones((2, 3), jnp.int32)}
    >>> model = tiny_trainee("dot")
    >>> model.head.log_temperature[...] = jnp.log(1e4)
    >>> diagnose(model, {"query": tokens, "document": tokens}, LossSettings(),
    ...          suggestion=2.5)  # doctest: +ELLIPSIS
    'logits are flat at the start ... try --config.temperature.initial=2.5.'
    """
    first = _first_batch(batch)
    first = {key: value for key, value in first.items() if key != "row"}
    graph, state = nnx.split(model)
    _, metrics = jax.jit(
        lambda state, batch: batch_loss(nnx.merge(graph, state), batch, loss, None)
    )(state, first)
    means = window_means([metrics])
    score = model.head.score()
    found = (
        f"(relative entropy {means['relative_entropy']:.3f}, logit standard deviation "
        f"{means['logit_std']:.3g}, accuracy {means['accuracy']:.2f}) for {score.variant} at "
        f"temperature {math.exp(float(model.head.log_temperature[...])):.3g}; "
        f"try --config.temperature.initial={suggestion:.3g}."
    )
    # A start that already answers well is rightly sure of itself.
    if means["relative_entropy"] < _SATURATED and means["accuracy"] < 0.9:
        return f"logits are saturated at the start {found}"
    if means["logit_std"] < _FLAT:
        return f"logits are flat at the start {found}"
    return None
