"""The sigmoid loss: every pair of query and candidate is a yes-or-no question."""

import jax
import jax.numpy as jnp

from magjax.losses._candidates import AxisName, candidate_logits
from magjax.similarity import widen
from magjax.typing import Array, Bool, Float, Int, Scalar

__all__ = ["sigmoid_from_logits", "sigmoid_loss"]


def sigmoid_from_logits(
    logits: Float[Array, "queries candidates"],
    positives: Bool[Array, "queries candidates"],
    where: Bool[Array, "queries candidates"] | None = None,
    *,
    bias: Scalar,
    weights: Float[Array, " queries"] | None = None,
) -> Float[jax.Array, " queries"]:
    """The sigmoid loss of logits that are there already (without the bias).

    Args:
      logits: scores divided by the temperature; masked entries may hold anything.
      positives: the right candidates.
      where: False marks absent candidates.
      bias: added to every logit.
      weights: factor of each query's value.

    Returns:
      one value per query: the sum over its candidates, as :func:`sigmoid_loss` defines it.

    >>> logits, positives = jnp.zeros((1, 2)), jnp.array([[True, False]])
    >>> sigmoid_from_logits(logits, positives, bias=0.0)
    Array([1.3862944], dtype=float32)
    """
    (wide,) = widen(logits)
    present = jnp.ones_like(wide, bool) if where is None else jnp.asarray(where)
    shifted = jnp.where(present, wide, 0.0) + jnp.asarray(bias, wide.dtype)
    losses = jax.nn.softplus(jnp.where(positives, -shifted, shifted))
    values = jnp.sum(jnp.where(present, losses, 0.0), axis=-1)
    return values if weights is None else values * weights


def sigmoid_loss(
    queries: Float[Array, "batch dim"],
    documents: Float[Array, "batch dim"],
    negatives: Float[Array, "batch hard dim"] | None = None,
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
    temperature: Scalar,
    bias: Scalar,
    share_negatives: bool = True,
    query_ids: Int[Array, " batch"] | None = None,
    document_ids: Int[Array, " batch"] | None = None,
    negative_ids: Int[Array, "batch hard"] | None = None,
    positive_ids: Int[Array, "batch known"] | None = None,
    multiple_positives: str = "mask",
    where: Bool[Array, " batch"] | None = None,
    negatives_where: Bool[Array, "batch hard"] | None = None,
    weights: Float[Array, " batch"] | None = None,
    axis_name: AxisName | None = None,
) -> Float[jax.Array, " batch"]:
    r"""Sigmoid loss of each query over the batch's documents and hard negatives.

    .. math:: \ell_i = \sum_j \log\bigl(1 + e^{-z_{ij} (s_{ij} / \tau + b)}\bigr),
              \quad z_{ij} = \pm 1

    with :math:`z = 1` for positives (SigLIP, arXiv 2303.15343, whose loss is the mean of these
    values). The bias :math:`b` is learned; since almost all pairs are negative, it starts at
    -10 there, with a temperature of 0.1. The sum runs over all pairs, so there is one direction.

    Args:
      queries: raw embeddings; row ``i`` belongs to row ``i`` of ``documents``.
      documents: raw embeddings of the positives.
      negatives: raw embeddings of hard negatives.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.
      temperature: what scores are divided by, above 0.
      bias: added to every logit.
      share_negatives: whether hard negatives serve every query or only their own.
      query_ids: equal for equal queries.
      document_ids: equal for equal documents.
      negative_ids: ids of the hard negatives.
      positive_ids: known positives of each query, padded with -1.
      multiple_positives: ``"mask"`` leaves other known positives out; ``"average"`` makes them
        positive pairs too (here a sum, like all pairs).
      where: False for padding rows.
      negatives_where: False for absent hard negatives.
      weights: factor of each row's value.
      axis_name: axis (or axes) of ``shard_map``, ``pmap`` or ``vmap`` that splits the batch.

    Returns:
      one value per local row, float32 (float64 if an input is).

    Raises:
      InputError: see :func:`candidate_logits`.

    >>> x = jnp.eye(2)
    >>> sigmoid_loss(x, x, gamma_query=1.0, gamma_document=1.0, temperature=0.1, bias=-5.0).round(4)
    Array([0.0134, 0.0134], dtype=float32)
    """
    candidates = candidate_logits(
        queries,
        documents,
        negatives,
        gamma_query=gamma_query,
        gamma_document=gamma_document,
        temperature=temperature,
        share_negatives=share_negatives,
        query_ids=query_ids,
        document_ids=document_ids,
        negative_ids=negative_ids,
        positive_ids=positive_ids,
        multiple_positives=multiple_positives,
        where=where,
        negatives_where=negatives_where,
        axis_name=axis_name,
    )
    return sigmoid_from_logits(*candidates, bias=bias, weights=weights)
