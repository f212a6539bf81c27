"""Cross-entropy over candidates when some are absent and several may be right."""

import jax
import jax.numpy as jnp
from jax import lax

from magjax.checks import fraction
from magjax.similarity import widen
from magjax.typing import Array, Bool, Float

__all__ = ["info_nce_from_logits", "softmax_cross_entropy"]


def softmax_cross_entropy(
    logits: Float[Array, "queries candidates"],
    *,
    positives: Bool[Array, "queries candidates"],
    where: Bool[Array, "queries candidates"] | None = None,
    label_smoothing: float = 0.0,
) -> Float[jax.Array, " queries"]:
    r"""Cross-entropy of picking a positive among the negatives, averaged over the positives.

    For query :math:`i` with positives :math:`P_i` and negatives :math:`N_i`

    .. math:: \ell_i = \frac{1}{|P_i|} \sum_{p \in P_i}
              \log\Bigl(1 + \sum_{n \in N_i} e^{l_{in} - l_{ip}}\Bigr)

    Each positive competes with the negatives only, never with another positive, so the loss can
    reach 0 (arXiv 1807.03748 for one positive). Label smoothing :math:`\epsilon` replaces the
    target of each positive by :math:`1 - \epsilon` on it plus :math:`\epsilon` spread evenly
    over it and the negatives.

    Args:
      logits: scores divided by the temperature, any floating type (computed in float32 at
        least); masked entries may hold anything, NaN included.
      positives: the right candidates; all others are negatives.
      where: False marks absent candidates, which count as neither.
      label_smoothing: :math:`\epsilon` in [0, 1].

    Returns:
      one value per query; 0, with zero gradient, if no positive is present.

    Raises:
      InputError: if ``label_smoothing`` is not in [0, 1].

    >>> logits = jnp.array([[0.0, 0.0, 50.0]])
    >>> positives = jnp.array([[True, False, False]])
    >>> softmax_cross_entropy(logits, positives=positives, where=jnp.array([[True, True, False]]))
    Array([0.6931472], dtype=float32)
    """
    smoothing = fraction("label_smoothing", label_smoothing)
    (wide,) = widen(logits)
    present = jnp.ones_like(wide, bool) if where is None else jnp.asarray(where)
    right = jnp.asarray(positives) & present
    wrong = ~jnp.asarray(positives) & present
    wide = jnp.where(present, wide, 0.0)

    # log sum exp over the negatives; a query without any has no maximum and no logarithm.
    contested = jnp.any(wrong, axis=-1)
    largest = lax.stop_gradient(jnp.max(wide, axis=-1, where=wrong, initial=-jnp.inf))
    largest = jnp.where(contested, largest, 0.0)
    rest = jnp.where(wrong, wide - largest[:, None], -jnp.inf)
    total = jnp.sum(jnp.exp(rest), axis=-1)
    pooled = largest + jnp.log(jnp.where(contested, total, 1.0))

    # softplus(pooled - l) instead of logsumexp(all) - l: it keeps losses of 1e-9 that the
    # difference of two numbers near 20 rounds to 0 or to 2e-6.
    values = jnp.where(contested[:, None], jax.nn.softplus(pooled[:, None] - wide), 0.0)
    if smoothing > 0.0:
        count = 1.0 + jnp.sum(wrong, axis=-1, dtype=wide.dtype)
        others = jnp.sum(jnp.where(wrong, wide, 0.0), axis=-1)
        average = (wide + others[:, None]) / count[:, None]
        values = values + smoothing * (wide - average)
    found = jnp.sum(right, axis=-1, dtype=wide.dtype)
    return jnp.sum(jnp.where(right, values, 0.0), axis=-1) / jnp.maximum(found, 1.0)


def info_nce_from_logits(
    logits: Float[Array, "queries candidates"],
    positives: Bool[Array, "queries candidates"],
    where: Bool[Array, "queries candidates"] | None = None,
    *,
    weights: Float[Array, " queries"] | None = None,
    label_smoothing: float = 0.0,
) -> Float[jax.Array, " queries"]:
    """InfoNCE of logits that are there already, as :func:`candidate_logits` returns them.

    Args:
      logits: scores divided by the temperature.
      positives: the right candidates.
      where: False marks absent candidates.
      weights: factor of each query's value.
      label_smoothing: share of the target spread evenly, in [0, 1].

    Returns:
      one value per query; see :func:`softmax_cross_entropy`.

    Raises:
      InputError: if ``label_smoothing`` is not in [0, 1].

    >>> info_nce_from_logits(jnp.zeros((1, 4)), jnp.array([[True, False, False, False]]))
    Array([1.3862944], dtype=float32)
    """
    values = softmax_cross_entropy(
        logits, positives=positives, where=where, label_smoothing=label_smoothing
    )
    return values if weights is None else values * weights
