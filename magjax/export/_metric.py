r"""Which distance a database may use so that it ranks as the model was trained to.

Documents are stored as :math:`\tilde d = d\lVert d\rVert^{-\gamma_d}` and queries are asked as
:math:`\tilde q = q\lVert q\rVert^{-\gamma_q}`, so the inner product is the trained score. Cosine
and Euclidean distance throw the stored length away or count it against a document; they rank
alike only where all stored documents have one length: at :math:`\gamma_d = 1`, or after
:func:`magjax.export.augment_documents`.
"""

import numpy as np

from magjax.checks import InputError, choose
from magjax.similarity import Score
from magjax.typing import Float

__all__ = ["AUGMENTATIONS", "METRICS", "UNIT_NORM", "choose_metric", "trained_scores"]

METRICS: tuple[str, ...] = ("inner_product", "cosine", "euclidean")
"""What a database may be told to compare vectors by."""

AUGMENTATIONS: tuple[str, ...] = ("none", "euclidean", "cosine")
"""What inner product may be turned into by one more coordinate."""

# Documents on the unit sphere have float32 lengths of 1 +- 1e-7; a bound above all of them.
UNIT_NORM = 1.0 + 1e-6


def choose_metric(score: Score, metric: str | None = None, augment: str = "none") -> str:
    """The metric that ranks stored vectors by ``score``, or an error that says why none does.

    Args:
        score: the trained score.
        metric: a name in :data:`METRICS`; None takes the right one.
        augment: a name in :data:`AUGMENTATIONS`.

    Returns:
        A name in :data:`METRICS`.

    Raises:
        InputError: an unknown name, or a metric that would rank otherwise than ``score``.

    >>> choose_metric(Score.of("qnorm")), choose_metric(Score.of("dnorm"), "cosine")
    ('inner_product', 'cosine')
    >>> choose_metric(Score.of("qnorm"), "cosine")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: metric 'cosine' ignores how long a stored document is, but the score \
qnorm (gamma_query=1, gamma_document=0, temperature=unknown) counts on it; leave the metric out \
(inner_product), or turn the vectors with augment='cosine'.
    """
    choose("augment", augment, AUGMENTATIONS)
    right = "inner_product" if augment == "none" else augment
    if metric is None or choose("metric", metric, METRICS) == right:
        return right
    if augment != "none":
        raise InputError(
            f"metric {metric!r} does not fit augment={augment!r}, whose vectors are compared by "
            f"{augment}; leave the metric out."
        )
    if score.gamma_document != 1.0:
        fault = "ignores" if metric == "cosine" else "counts against it"
        raise InputError(
            f"metric {metric!r} {fault} how long a stored document is, but the score {score} "
            f"counts on it; leave the metric out (inner_product), or turn the vectors with "
            f"augment={metric!r}."
        )
    return metric


def trained_scores(
    values: Float[np.ndarray, "..."],
    metric: str,
    *,
    query_norm: float,
    document_norm: float,
) -> Float[np.ndarray, "..."]:
    r"""Inner products from what an engine returns, float64.

    With stored documents of one length M and a query of length :math:`\lVert q\rVert`,

    .. math:: \langle q, d\rangle = \lVert q\rVert M \cos = (\lVert q\rVert^2 + M^2 - \delta^2) / 2

    Args:
        values: inner products, cosines, or squared Euclidean distances.
        metric: a name in :data:`METRICS`.
        query_norm: length of the query as it was asked.
        document_norm: M; of no account for inner products.

    >>> trained_scores(np.array([0.5]), "cosine", query_norm=4.0, document_norm=3.0)
    array([6.])
    >>> trained_scores(np.array([13.0]), "euclidean", query_norm=4.0, document_norm=3.0)
    array([6.])
    """
    wide = np.asarray(values, np.float64)
    if metric == "cosine":
        return wide * (query_norm * document_norm)
    if metric == "euclidean":
        return 0.5 * (query_norm**2 + document_norm**2 - wide)
    return wide
