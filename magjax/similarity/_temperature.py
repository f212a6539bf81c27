"""The one calibration of temperature, which configs, studies and the adviser all call."""

import numpy as np

from magjax.checks import InputError, positive_number
from magjax.similarity._scores import scores
from magjax.typing import Array, Float

__all__ = ["calibrate_temperature"]


def _deviation(
    queries: Array, documents: Array, gamma_query: float, gamma_document: float, name: str
) -> float:
    matrix = np.asarray(
        scores(queries, documents, gamma_query=gamma_query, gamma_document=gamma_document),
        np.float64,
    )
    usable = matrix.size > 0 and bool(np.isfinite(matrix).all())
    deviation = float(matrix.std()) if usable else float("nan")
    # Equal embeddings still give scores that differ in float32's last bits (6e-8).
    if not usable or deviation <= 1e-6 * np.abs(matrix).max():
        raise InputError(
            f"the {name} scores of {matrix.shape[0]} queries and {matrix.shape[1]} documents have "
            f"deviation {deviation:g}, so no temperature can be calibrated; give embeddings that "
            "are finite and differ, or set the temperature by hand."
        )
    return deviation


def calibrate_temperature(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    *,
    gamma_query: float,
    gamma_document: float,
    reference_temperature: float = 0.05,
) -> float:
    r"""The temperature whose logits deviate as those of cosine at ``reference_temperature`` do.

    .. math:: \tau = \tau_\text{cos} \,
              \frac{\operatorname{std}_{ij} s_{ij}}{\operatorname{std}_{ij} \cos(q_i, d_j)}

    Deviations are taken over all pairs. A score that grows with length needs a higher
    temperature to start from the same softmax; without this, training of one variant starts
    saturated and of another flat, and a comparison compares temperatures.

    Args:
      queries: raw embeddings, for example of the first batch.
      documents: raw embeddings.
      gamma_query: power of the query's length, in [0, 1].
      gamma_document: power of the document's length, in [0, 1].
      reference_temperature: the temperature of cosine to be matched.

    Returns:
      a number above 0 (computed on the host: not for use under ``jit``).

    Raises:
      InputError: if either kind of scores does not vary or is not finite.

    >>> q, d = 3.0 * np.eye(2, dtype="float32"), 5.0 * np.eye(2, dtype="float32")
    >>> round(calibrate_temperature(q, d, gamma_query=0.0, gamma_document=0.0), 6)
    0.75
    """
    reference = positive_number("reference_temperature", reference_temperature)
    own = _deviation(queries, documents, gamma_query, gamma_document, "model's")
    cosine = _deviation(queries, documents, 1.0, 1.0, "cosine")
    return reference * (own / cosine)  # exactly the reference for cosine itself
