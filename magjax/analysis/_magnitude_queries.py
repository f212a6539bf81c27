"""What a query's norm has to do with its loss and gradient."""

import functools

import jax
import numpy as np

from magjax.analysis._magnitude_negatives import Judgements
from magjax.checks import InputError
from magjax.losses import info_nce_from_logits
from magjax.similarity import Score, calibrate_temperature, norm, scores
from magjax.typing import Array, Float

__all__ = ["choose_candidates", "query_losses", "temperature_of"]

_LOGITS = 2**22  # of a block: 16 MiB in float32, and a few times that in the backward pass
_QUERIES = 64
_CALIBRATION = 1024  # rows of either side that calibrate a temperature: 8 MiB of float64 scores


def temperature_of(
    score: Score, queries: Float[Array, "queries dim"], documents: Float[Array, "documents dim"]
) -> tuple[float, str]:
    """The score's temperature, or the calibrated one where it states none; and which it is.

    >>> temperature_of(Score.of("dot", 0.5), np.eye(2), np.eye(2))
    (0.5, "the model's")
    """
    if score.temperature is not None:
        return score.temperature, "the model's"
    parts = [
        np.asarray(side)[np.linspace(0, len(side) - 1, min(len(side), _CALIBRATION)).astype(int)]
        for side in (queries, documents)
    ]
    found = calibrate_temperature(
        *parts, gamma_query=score.gamma_query, gamma_document=score.gamma_document
    )
    return found, "calibrated to the deviation of cosine's logits at 0.05: the model states none"


def choose_candidates(judgements: Judgements, count: int | None, seed: int) -> np.ndarray:
    """Rows of the documents that losses run over: all, or every relevant one and a draw of others.

    Args:
        judgements: what is relevant.
        count: how many; ``None`` or at least as many as there are: all documents.
        seed: of the draw.

    Returns:
        int64, ascending.

    Raises:
        InputError: fewer than there are relevant documents.

    >>> judgements = Judgements.of({"q": {"b": 1}}, ["q"], ["a", "b", "c"])
    >>> choose_candidates(judgements, 1, seed=0)
    array([1])
    """
    if count is None or count >= judgements.documents:
        return np.arange(judgements.documents)
    answers = judgements.relevant_queries() > 0
    relevant, others = np.flatnonzero(answers), np.flatnonzero(~answers)
    if count < relevant.size:
        raise InputError(
            f"candidates={count} cannot hold the {relevant.size} relevant documents; give more, or "
            "none for all documents."
        )
    drawn = np.random.default_rng(seed).choice(others, count - relevant.size, replace=False)
    return np.sort(np.concatenate([relevant, drawn]))


def query_losses(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    judgements: Judgements,
    candidates: np.ndarray,
    *,
    score: Score,
    temperature: float,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Each query's InfoNCE over the candidates, and the norm of its gradient.

    .. math:: \ell_q = \frac{1}{|P|} \sum_{p \in P}
              -\log \frac{e^{s_{qp} / \tau}}{e^{s_{qp} / \tau} + \sum_{n \notin P} e^{s_{qn} / \tau}}

    and :math:`\lVert \partial \ell_q / \partial q \rVert` by ``jax.grad`` with respect to the raw
    embedding, in float32, some queries at a time.

    Args:
        queries: raw embeddings.
        documents: raw embeddings.
        judgements: what is relevant; excluded documents are no candidates of their query.
        candidates: rows of the documents that take part.
        score: powers of both sides.
        temperature: what scores are divided by.

    Returns:
        float64 ``[queries]`` each; NaN for a query without a relevant document.

    >>> judgements = Judgements.of({"q": {"a": 1}}, ["q"], ["a", "b"])
    >>> losses, _ = query_losses(np.zeros((1, 2), np.float32), np.eye(2, dtype=np.float32),
    ...     judgements, np.arange(2), score=Score.of("dot"), temperature=1.0)
    >>> losses.round(4)  # log 2
    array([0.6931])
    """
    usable = np.array([q for q, rows in enumerate(judgements.relevant) if rows.size])
    column = np.full(judgements.documents, -1)
    column[candidates] = np.arange(candidates.size)
    block = int(np.clip(_LOGITS // candidates.size, 1, min(_QUERIES, usable.size)))
    chosen = jax.device_put(np.asarray(documents, np.float32)[candidates])
    losses, gradients = (np.full(len(judgements.relevant), np.nan) for _ in range(2))
    for start in range(0, usable.size, block):
        rows = usable[start : start + block]
        # The last block repeats a query rather than compiling another shape.
        filled = np.concatenate([rows, np.repeat(rows[:1], block - rows.size)])
        positives, where = np.zeros((2, block, candidates.size), bool)
        where[:] = True
        for i, query in enumerate(filled):
            positives[i, column[judgements.relevant[query]]] = True
            never = column[judgements.excluded[query]]
            where[i, never[never >= 0]] = False
        found = _losses(
            np.asarray(queries, np.float32)[filled],
            chosen,
            positives,
            where,
            np.float32(temperature),
            gammas=score.gammas,
        )
        losses[rows], gradients[rows] = (np.asarray(part)[: rows.size] for part in found)
    return losses, gradients


@functools.partial(jax.jit, static_argnames="gammas")
def _losses(
    queries: jax.Array,
    documents: jax.Array,
    positives: jax.Array,
    where: jax.Array,
    temperature: jax.Array,
    *,
    gammas: tuple[float, float],
) -> tuple[jax.Array, jax.Array]:
    def total(q: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits = scores(q, documents, gamma_query=gammas[0], gamma_document=gammas[1]) / temperature
        losses = info_nce_from_logits(logits, positives, where)
        return losses.sum(), losses  # documents are fixed: each loss depends on its own query only

    gradient, losses = jax.grad(total, has_aux=True)(queries)
    return losses, norm(gradient)
