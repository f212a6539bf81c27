"""From one value per query to numbers about the batch: the mean, and training metrics."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import lax

from magjax.losses._candidates import AxisName
from magjax.similarity import widen
from magjax.typing import Array, Bool, Float, Scalar

__all__ = ["batch_mean", "logit_statistics", "logit_summary"]


def batch_mean(
    values: Float[Array, " batch"],
    *,
    where: Bool[Array, " batch"] | None = None,
    axis_name: AxisName | None = None,
) -> Float[jax.Array, ""]:
    """Mean of a loss over the real rows of the whole batch, on all devices.

    Dividing the sum of all devices by the count of all devices keeps a ragged last batch right,
    where a mean of the devices' means is not.

    Args:
      values: one value per local row.
      where: False for padding rows.
      axis_name: axis (or axes) that splits the batch over devices.

    Returns:
      a scalar, equal on all devices; 0 if there are no rows.

    >>> batch_mean(jnp.array([1.0, 3.0, 100.0]), where=jnp.array([True, True, False]))
    Array(2., dtype=float32)
    """
    present = jnp.ones(values.shape, bool) if where is None else jnp.asarray(where)
    total = jnp.sum(jnp.where(present, values, 0.0))
    count = jnp.sum(present, dtype=total.dtype)
    if axis_name is not None:
        total, count = lax.psum((total, count), axis_name)
    return total / jnp.maximum(count, 1.0)


def logit_statistics(
    logits: Float[Array, "queries candidates"],
    positives: Bool[Array, "queries candidates"],
    where: Bool[Array, "queries candidates"] | None = None,
    *,
    axis_name: AxisName | None = None,
) -> dict[str, Float[jax.Array, ""]]:
    """Sums and counts that say how saturated or flat a batch's softmax is, and how often right.

    They can be added over steps and then divided once by :func:`logit_summary`. Queries without
    a positive (padding rows) count nowhere.

    Args:
      logits: scores divided by the temperature.
      positives: the right candidates.
      where: False marks absent candidates.
      axis_name: axis (or axes) that splits the batch over devices; sums are then global.

    Returns:
      ``queries``: how many; ``correct``: those whose best positive is above every negative (a
      tie is no success); ``entropy``: sum over queries of their softmax's entropy in nats;
      ``uniform_entropy``: the same sum if all candidates were equal; ``logits``: how many;
      ``logit_squares``: their squared deviations from the batch's mean.

    >>> found = logit_statistics(jnp.array([[9.0, 1.0]]), jnp.array([[True, False]]))
    >>> float(found["correct"]), float(found["logit_squares"])
    (1.0, 32.0)
    """
    (wide,) = lax.stop_gradient(widen(logits))
    present = jnp.ones_like(wide, bool) if where is None else jnp.asarray(where)
    right = jnp.asarray(positives) & present
    counted = jnp.any(right, axis=-1)
    present = present & counted[:, None]
    wide = jnp.where(present, wide, 0.0)

    def total(x: jax.Array) -> jax.Array:
        found = jnp.sum(x, dtype=wide.dtype)
        return found if axis_name is None else lax.psum(found, axis_name)

    best = jnp.max(wide, axis=-1, where=right, initial=-jnp.inf)
    rival = jnp.max(wide, axis=-1, where=present & ~right, initial=-jnp.inf)
    kept = present | ~counted[:, None]  # a row of padding: any finite softmax, not counted
    log_p = jax.nn.log_softmax(wide, axis=-1, where=kept)
    terms = jnp.where(present, jnp.exp(jnp.where(present, log_p, 0.0)) * log_p, 0.0)
    candidates = jnp.sum(present, axis=-1, dtype=wide.dtype)
    count = total(candidates)
    # About the mean and not about 0: the logits of a dot product may be 1,000 ± 1.
    mean = total(wide) / jnp.maximum(count, 1.0)
    return {
        "queries": total(counted),
        "correct": total(counted & (best > rival)),
        "entropy": -total(terms),
        "uniform_entropy": total(jnp.log(jnp.maximum(candidates, 1.0))),
        "logits": count,
        "logit_squares": total(jnp.where(present, (wide - mean) ** 2, 0.0)),
    }


def logit_summary(statistics: Mapping[str, Scalar]) -> dict[str, float]:
    """Divides the sums of :func:`logit_statistics`, once, on the host.

    Args:
      statistics: one result, or the entry-wise sum of several.

    Returns:
      ``accuracy``; ``entropy`` in nats per query; ``relative_entropy``, 1 for a flat softmax and
      0 for a saturated one; ``logit_std``, within batches. All 0 if nothing was counted.

    >>> logits, positives = jnp.array([[9.0, 1.0]]), jnp.array([[True, False]])
    >>> logit_summary(logit_statistics(logits, positives))["logit_std"]
    4.0
    """
    sums = {name: float(value) for name, value in statistics.items()}

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else 0.0

    return {
        "accuracy": ratio(sums["correct"], sums["queries"]),
        "entropy": ratio(sums["entropy"], sums["queries"]),
        "relative_entropy": ratio(sums["entropy"], sums["uniform_entropy"]),
        "logit_std": ratio(sums["logit_squares"], sums["logits"]) ** 0.5,
    }
