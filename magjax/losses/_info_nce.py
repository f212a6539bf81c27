"""InfoNCE with in-batch and hard negatives, in one direction or both."""

from typing import Literal, get_args

import jax

from magjax.checks import choose
from magjax.losses._candidates import ONE_WAY, AxisName, candidate_logits
from magjax.losses._softmax import info_nce_from_logits
from magjax.typing import Array, Bool, Float, Int, Scalar

__all__ = ["Direction", "info_nce"]

Direction = Literal["query_to_document", "document_to_query", "both"]


def info_nce(
    queries: Float[Array, "batch dim"],
    documents: Float[Array, "batch dim"],
    negatives: Float[Array, "batch hard dim"] | None = None,
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
    temperature: Scalar,
    direction: str = "query_to_document",
    direction_weights: tuple[float, float] = (0.5, 0.5),
    share_negatives: bool = True,
    query_ids: Int[Array, " batch"] | None = None,
    document_ids: Int[Array, " batch"] | None = None,
    negative_ids: Int[Array, "batch hard"] | None = None,
    positive_ids: Int[Array, "batch known"] | None = None,
    multiple_positives: str = "mask",
    where: Bool[Array, " batch"] | None = None,
    negatives_where: Bool[Array, "batch hard"] | None = None,
    weights: Float[Array, " batch"] | None = None,
    label_smoothing: float = 0.0,
    axis_name: AxisName | None = None,
) -> Float[jax.Array, " batch"]:
    r"""Cross-entropy of each query's document among the batch's documents and hard negatives.

    .. math:: \ell_i = -\log \frac{e^{s_{ii} / \tau}}{\sum_j e^{s_{ij} / \tau}}

    with the score of :func:`magjax.similarity.scores` and the sum over the candidates that
    :func:`candidate_logits` describes, false negatives and padding left out (van den Oord et
    al., arXiv 1807.03748). ``direction="both"`` adds the same for each document among the
    queries, as CLIP does; hard negatives count from query to document only.

    Over several devices, the callers' mean is that of the whole batch (:func:`batch_mean`). Its
    gradient is complete under ``jit`` and under ``shard_map(check_vma=True)``; under ``pmap``
    and ``check_vma=False`` average the gradients with ``lax.pmean``.

    Args:
      queries: raw embeddings; row ``i`` belongs to row ``i`` of ``documents``.
      documents: raw embeddings of the positives.
      negatives: raw embeddings of hard negatives.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.
      temperature: what scores are divided by, above 0.
      direction: ``"query_to_document"``, ``"document_to_query"`` or ``"both"``.
      direction_weights: weights of the two directions in ``"both"``.
      share_negatives: whether hard negatives serve every query or only their own.
      query_ids: equal for equal queries.
      document_ids: equal for equal documents.
      negative_ids: ids of the hard negatives.
      positive_ids: known positives of each query, padded with -1.
      multiple_positives: ``"mask"`` leaves other known positives out, ``"average"`` takes the
        mean over them (:func:`softmax_cross_entropy`).
      where: False for padding rows: their value is 0 and they are nobody's negatives.
      negatives_where: False for absent hard negatives.
      weights: factor of each row's value.
      label_smoothing: share of the target spread evenly over the candidates, in [0, 1].
      axis_name: axis (or axes) of ``shard_map``, ``pmap`` or ``vmap`` that splits the batch.

    Returns:
      one value per local row, float32 (float64 if an input is).

    Raises:
      InputError: see :func:`candidate_logits`; or a ``label_smoothing`` outside [0, 1].

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[1.0, 0.0], [1.0, 0.0]])
    >>> settings = dict(gamma_query=1.0, gamma_document=1.0, temperature=0.05)
    >>> info_nce(x, x, **settings)
    Array([0.6931472, 0.6931472], dtype=float32)
    >>> info_nce(x, x, document_ids=jnp.array([7, 7]), **settings)  # one document, twice
    Array([0., 0.], dtype=float32)
    """
    choose("direction", direction, get_args(Direction))

    def one_way(one: str, hard: bool) -> jax.Array:
        candidates = candidate_logits(
            queries,
            documents,
            negatives if hard else None,
            gamma_query=gamma_query,
            gamma_document=gamma_document,
            temperature=temperature,
            direction=one,
            share_negatives=share_negatives,
            query_ids=query_ids,
            document_ids=document_ids,
            negative_ids=negative_ids if hard else None,
            positive_ids=positive_ids,
            multiple_positives=multiple_positives,
            where=where,
            negatives_where=negatives_where if hard else None,
            axis_name=axis_name,
        )
        return info_nce_from_logits(*candidates, weights=weights, label_smoothing=label_smoothing)

    if direction != "both":
        return one_way(direction, hard=True)
    forward, backward = direction_weights
    there, back = ONE_WAY
    return forward * one_way(there, hard=True) + backward * one_way(back, hard=False)
