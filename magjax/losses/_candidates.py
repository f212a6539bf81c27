"""The candidates that each query is compared with, on one device or many."""

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import lax

from magjax.checks import InputError, choose, positive_number
from magjax.losses._links import among, link
from magjax.similarity import list_scores, normalize, scores, widen
from magjax.typing import Array, Bool, Float, Int, Scalar

__all__ = ["ONE_WAY", "AxisName", "Candidates", "MultiplePositives", "candidate_logits"]

ONE_WAY = ("query_to_document", "document_to_query")
MultiplePositives = Literal["mask", "average"]
AxisName = str | tuple[str, ...]


class Candidates(NamedTuple):
    """Logits of each local row's candidates, and what each candidate is.

    Attributes:
      logits: [rows, candidates] scores divided by the temperature.
      positives: [rows, candidates] the right ones.
      where: [rows, candidates] False where a candidate is absent (padding, a false negative).

    >>> Candidates._fields
    ('logits', 'positives', 'where')
    """

    logits: Float[jax.Array, "rows candidates"]
    positives: Bool[jax.Array, "rows candidates"]
    where: Bool[jax.Array, "rows candidates"]


def candidate_logits(
    queries: Float[Array, "batch dim"],
    documents: Float[Array, "batch dim"],
    negatives: Float[Array, "batch hard dim"] | None = None,
    *,
    gamma_query: Scalar,
    gamma_document: Scalar,
    temperature: Scalar,
    direction: str = "query_to_document",
    share_negatives: bool = True,
    query_ids: Int[Array, " batch"] | None = None,
    document_ids: Int[Array, " batch"] | None = None,
    negative_ids: Int[Array, "batch hard"] | None = None,
    positive_ids: Int[Array, "batch known"] | None = None,
    multiple_positives: str = "mask",
    where: Bool[Array, " batch"] | None = None,
    negatives_where: Bool[Array, "batch hard"] | None = None,
    axis_name: AxisName | None = None,
) -> Candidates:
    """Logits of each query against all candidates, from which the contrastive losses are made.

    Candidates of a query are the documents of the batch in order, then the hard negatives: all
    of the batch's, row by row (``share_negatives``), or its own. In the direction from document
    to query they are the batch's queries. With ``axis_name`` the batch is that of all devices:
    each device normalizes its rows, and the other side is gathered.

    A candidate is no negative of a query if the query is known to own it: it has the id of the
    query's document, or of a document in another row of the same query id, or is listed in
    ``positive_ids``. Such candidates are masked or, with ``multiple_positives="average"``, are
    further positives. Ids below 0 equal nothing. Padding rows link nothing and are nobody's
    candidates; what they hold, NaN included, reaches neither values nor gradients.

    Args:
      queries: raw embeddings; row ``i`` belongs to row ``i`` of ``documents``.
      documents: raw embeddings of the positives.
      negatives: raw embeddings of hard negatives.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.
      temperature: what scores are divided by, above 0.
      direction: ``"query_to_document"`` or ``"document_to_query"``.
      share_negatives: whether hard negatives serve every query or only their own.
      query_ids: equal for equal queries.
      document_ids: equal for equal documents.
      negative_ids: ids of the hard negatives; without them a hard negative is never masked.
      positive_ids: known positives of each query, padded with -1.
      multiple_positives: ``"mask"`` or ``"average"``.
      where: False for padding rows.
      negatives_where: False for absent hard negatives.
      axis_name: axis (or axes) of ``shard_map``, ``pmap`` or ``vmap`` that splits the batch.

    Returns:
      :class:`Candidates` of the local rows, logits in float32 (float64 if an input is).

    Raises:
      InputError: for an unknown choice, a temperature that is not above 0, hard negatives in
        the direction from document to query, or ids without what they name.

    >>> x = jnp.eye(2)
    >>> found = candidate_logits(x, 3.0 * x, gamma_query=1.0, gamma_document=0.0, temperature=0.5)
    >>> found.logits
    Array([[6., 0.],
           [0., 6.]], dtype=float32)
    """
    choose("direction", direction, ONE_WAY)
    choose("multiple_positives", multiple_positives, get_args(MultiplePositives))
    if isinstance(temperature, int | float):
        positive_number("temperature", temperature)
    _check_parts(direction, negatives, negative_ids, negatives_where, positive_ids, document_ids)
    forward = direction == "query_to_document"

    def gather(x: jax.Array) -> jax.Array:
        return x if axis_name is None else lax.all_gather(x, axis_name, tiled=True)

    size = queries.shape[0]
    start = 0 if axis_name is None else lax.axis_index(axis_name) * size
    rows = start + jnp.arange(size)
    present = jnp.ones(size, bool) if where is None else jnp.asarray(where)
    valid = gather(present)

    # Padding may hold anything: 0 * NaN in the backward pass of a product is NaN, so it goes first.
    q, d = widen(queries, documents)
    q = normalize(jnp.where(present[:, None], q, 0.0), gamma_query)
    d = normalize(jnp.where(present[:, None], d, 0.0), gamma_document)
    own_side, other_side = (q, d) if forward else (d, q)
    parts = [scores(own_side, gather(other_side), gamma_query=0.0, gamma_document=0.0)]

    all_queries, all_documents, all_known = (
        None if ids is None else gather(jnp.asarray(ids))
        for ids in (query_ids, document_ids, positive_ids)
    )
    keys = (all_queries, all_documents) if forward else (all_documents, all_queries)
    links = link(rows, *keys, valid)
    owned = links.same
    if all_queries is not None or all_documents is not None:
        ids = jnp.arange(valid.shape[0]) if keys[1] is None else keys[1]
        owned = owned | links.to_ids(ids)
    if all_known is not None and all_documents is not None:
        found = (
            among(all_documents, all_known[rows])
            if forward
            else among(all_documents[rows], all_known).T
        )
        owned = owned | found
    own_row = rows[:, None] == jnp.arange(valid.shape[0])[None, :]
    exists = jnp.broadcast_to(valid[None, :], own_row.shape)

    if negatives is not None:
        usable = jnp.broadcast_to(present[:, None], negatives.shape[:2])
        if negatives_where is not None:
            usable = usable & jnp.asarray(negatives_where)
        (n,) = widen(negatives)
        n = normalize(jnp.where(usable[:, :, None], n, 0.0), gamma_document)
        listed = None if negative_ids is None else jnp.asarray(negative_ids)
        if share_negatives:
            shared = gather(n).reshape(-1, n.shape[-1])
            parts.append(scores(q, shared, gamma_query=0.0, gamma_document=0.0))
            usable = gather(usable).reshape(1, -1)
            listed = None if listed is None else gather(listed).reshape(-1)
        else:
            parts.append(list_scores(q, n, gamma_query=0.0, gamma_document=0.0))
        shape = parts[1].shape
        known = jnp.zeros(shape, bool)
        if listed is not None and all_documents is not None:
            known = known | links.to_ids(listed)
            if all_known is not None:
                known = known | among(listed, all_known[rows])
        owned = jnp.concatenate([owned, known], axis=1)
        exists = jnp.concatenate([exists, jnp.broadcast_to(usable, shape)], axis=1)
        own_row = jnp.concatenate([own_row, jnp.zeros(shape, bool)], axis=1)

    exists = exists & present[:, None]
    logits = jnp.concatenate(parts, axis=1) / jnp.asarray(temperature, parts[0].dtype)
    if multiple_positives == "average":
        return Candidates(logits, (own_row | owned) & exists, exists)
    return Candidates(logits, own_row & exists, exists & (own_row | ~owned))


def _check_parts(
    direction: str,
    negatives: Array | None,
    negative_ids: Array | None,
    negatives_where: Array | None,
    positive_ids: Array | None,
    document_ids: Array | None,
) -> None:
    if negatives is None and not (negative_ids is None and negatives_where is None):
        raise InputError("negative_ids or negatives_where came without negatives; give both.")
    if negatives is not None and direction == "document_to_query":
        raise InputError(
            "hard negatives have no part in direction='document_to_query'; leave them out or use "
            "direction='both'."
        )
    if document_ids is None and not (positive_ids is None and negative_ids is None):
        raise InputError(
            "positive_ids and negative_ids are compared with document_ids, which did not come."
        )
