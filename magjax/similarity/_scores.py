"""Scores of queries against documents: dense, paired, and block by block."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from magjax.checks import positive_integer
from magjax.similarity._normalize import normalize, widen
from magjax.typing import Array, Float, Scalar

__all__ = ["blockwise_scores", "fold_score_blocks", "list_scores", "paired_scores", "scores"]

Carry = TypeVar("Carry")

# GPUs would else multiply float32 in TF32 (10 bits), which reorders near ties.
_PRECISION = lax.Precision.HIGHEST


def scores(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
) -> Float[jax.Array, "queries documents"]:
    r"""Scores of every query against every document.

    .. math:: s_{ij} = \langle q_i \lVert q_i \rVert^{-\gamma_q},
                               d_j \lVert d_j \rVert^{-\gamma_d} \rangle

    ``(gamma_query, gamma_document)`` is (1, 1) for cosine, (0, 0) for the dot product, and
    (1, 0) or (0, 1) when one side alone is normalized (arXiv 2602.09229).

    Args:
      queries: raw embeddings of any floating type.
      documents: raw embeddings of any floating type.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.

    Returns:
      float32 (float64 if an input is): half-precision inputs are widened before they are
      normalized, and products are made at the highest precision.

    Raises:
      InputError: if a gamma is a number outside [0, 1].

    >>> q, d = jnp.array([[3.0, 4.0]]), jnp.array([[1.0, 0.0], [10.0, 0.0]])
    >>> scores(q, d, gamma_query=1.0, gamma_document=0.0)
    Array([[0.6, 6. ]], dtype=float32)
    """
    q, d = widen(queries, documents)
    return jnp.einsum(
        "qd,kd->qk",
        normalize(q, gamma_query),
        normalize(d, gamma_document),
        precision=_PRECISION,
    )


def paired_scores(
    queries: Float[Array, "pairs dim"],
    documents: Float[Array, "pairs dim"],
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
) -> Float[jax.Array, " pairs"]:
    """Scores of query ``i`` against document ``i``: the diagonal of :func:`scores`.

    Args:
      queries: raw embeddings of any floating type.
      documents: raw embeddings, one per query.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.

    Returns:
      float32 (float64 if an input is), one score per pair.

    Raises:
      InputError: if a gamma is a number outside [0, 1].

    >>> q, d = jnp.array([[3.0, 4.0]]), jnp.array([[10.0, 0.0]])
    >>> paired_scores(q, d, gamma_query=1.0, gamma_document=1.0)
    Array([0.6], dtype=float32)
    """
    q, d = widen(queries, documents)
    return jnp.einsum(
        "nd,nd->n",
        normalize(q, gamma_query),
        normalize(d, gamma_document),
        precision=_PRECISION,
    )


def list_scores(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "queries list dim"],
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
) -> Float[jax.Array, "queries list"]:
    """Scores of each query against a list of its own, such as its hard negatives.

    Args:
      queries: raw embeddings of any floating type.
      documents: raw embeddings, one list per query.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.

    Returns:
      float32 (float64 if an input is).

    Raises:
      InputError: if a gamma is a number outside [0, 1].

    >>> q, d = jnp.array([[3.0, 4.0]]), jnp.array([[[1.0, 0.0], [0.0, 10.0]]])
    >>> list_scores(q, d, gamma_query=1.0, gamma_document=0.0)
    Array([[0.6, 8. ]], dtype=float32)
    """
    q, d = widen(queries, documents)
    return jnp.einsum(
        "qd,qld->ql",
        normalize(q, gamma_query),
        normalize(d, gamma_document),
        precision=_PRECISION,
    )


def fold_score_blocks(
    function: Callable[[Carry, jax.Array, jax.Array, jax.Array], Carry],
    initial: Carry,
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
    block_size: int,
) -> Carry:
    """Folds ``function`` over the scores of consecutive blocks of documents.

    Only one block of scores, and of widened documents, exists at a time. When ``block_size``
    does not divide the number of documents, the last block starts earlier, so that all have one
    shape; documents that an earlier block has shown are marked as not fresh.

    Args:
      function: maps ``(carry, scores [queries, block], positions [block], fresh [block])`` to
        the next carry (same shapes and types), where ``positions`` are the documents' indices.
      initial: the first carry, any pytree of arrays.
      queries: raw embeddings of any floating type.
      documents: raw embeddings of any floating type.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.
      block_size: documents per block; more than there are means one block.

    Returns:
      the last carry.

    Raises:
      InputError: if ``block_size`` is no positive whole number or a gamma is out of range.

    The best score of each query, without the matrix of scores:

    >>> q, d = jnp.eye(2), jnp.array([[1.0, 2.0], [5.0, 0.0], [3.0, 4.0]])
    >>> best = lambda carry, block, positions, fresh: jnp.maximum(carry, block.max(axis=1))
    >>> fold_score_blocks(best, jnp.full(2, -jnp.inf), q, d,
    ...                   gamma_query=0.0, gamma_document=0.0, block_size=2)
    Array([5., 4.], dtype=float32)
    """
    size = positive_integer("block_size", block_size)
    documents = jnp.asarray(documents)
    count = documents.shape[0]
    if count == 0:
        return initial
    size = min(size, count)
    (wide,) = widen(queries)
    q = normalize(wide, gamma_query)

    def step(index: jax.Array, carry: Carry) -> Carry:
        start = jnp.minimum(index * size, count - size)
        # Tied to the step, so that XLA's CPU compiler does not widen all bfloat16 documents before
        # the loop (8,192 x 64 in blocks of 128: 2.1 MB of working memory instead of 45 kB).
        whole, start = lax.optimization_barrier((documents, start))
        block = lax.dynamic_slice_in_dim(whole, start, size)
        part = scores(q, block, gamma_query=0.0, gamma_document=gamma_document)
        positions = start + jnp.arange(size)
        return function(carry, part, positions, positions >= index * size)

    return lax.fori_loop(0, -(-count // size), step, initial)


def blockwise_scores(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
    block_size: int,
) -> Float[jax.Array, "queries documents"]:
    """Equal to :func:`scores`, computed for ``block_size`` documents at a time.

    Beside the result it needs the memory of one block: the documents are never widened or
    normalized as a whole, which matters for half-precision documents in large numbers.

    Args:
      queries: raw embeddings of any floating type.
      documents: raw embeddings of any floating type.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.
      block_size: documents per block; it need not divide their number.

    Returns:
      float32 (float64 if an input is).

    Raises:
      InputError: if ``block_size`` is no positive whole number or a gamma is out of range.

    >>> q, d = jnp.array([[3.0, 4.0]]), jnp.array([[1.0, 0.0], [10.0, 0.0], [0.0, 1.0]])
    >>> blockwise_scores(q, d, gamma_query=1.0, gamma_document=0.0, block_size=2)
    Array([[0.6, 6. , 0.8]], dtype=float32)
    """
    queries, documents = jnp.asarray(queries), jnp.asarray(documents)
    dtype = jnp.promote_types(widen(queries)[0].dtype, widen(documents[:0])[0].dtype)
    empty = jnp.zeros((queries.shape[0], documents.shape[0]), dtype)

    def write(result: jax.Array, block: jax.Array, positions: jax.Array, _: jax.Array) -> jax.Array:
        return lax.dynamic_update_slice_in_dim(result, block, positions[0], axis=1)

    return fold_score_blocks(
        write,
        empty,
        queries,
        documents,
        gamma_query=gamma_query,
        gamma_document=gamma_document,
        block_size=block_size,
    )
