"""Fisher matrices of the embeddings themselves: d x d, one a side."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from magjax.checks import choose
from magjax.fisher._candidate_model import (
    FisherModel,
    Head,
    draw_labels,
    probabilities,
    root_pull,
)
from magjax.fisher._sets import CandidateSets, Embedded
from magjax.similarity import Score

__all__ = ["SIDES", "embedding_fisher", "embedding_rank_bound"]

SIDES = ("query", "document")

_BLOCK_BYTES = 32 * 2**20


def embedding_fisher(
    embedded: Embedded,
    sets: CandidateSets,
    score: Score,
    side: str,
    *,
    model: FisherModel | None = None,
    seed: int = 0,
) -> np.ndarray:
    r"""The Fisher matrix of one side's embeddings, pooled over examples.

    A query's own embedding moves all of its logits, a document's only one logit of each query.
    With :math:`u_{ij} = \partial \text{logit}_{ij} / \partial q_i`, :math:`v_{ij}` the same for
    :math:`d_j`, and H of :func:`root_push`, both through the normalization,

    .. math:: F_q = \frac 1 N \sum_i U_i^\top H_i U_i, \qquad
              F_d = \frac 1 N \sum_i \sum_j (H_i)_{jj} \, v_{ij} v_{ij}^\top

    From document to query the sides change places; ``both`` is the mean. At power 1 each example's
    block is singular in the radial direction; the pooled matrix need not be. Sums are made in
    float64, whatever the width of the embeddings.

    Args:
        embedded: ``[examples, dim]`` as ``embed`` gives them.
        sets: the examples' sets and masks.
        score: powers and temperature.
        side: ``"query"`` or ``"document"``.
        model: probabilities and kind; default: the true Fisher from query to document.
        seed: of the labels of ``monte_carlo``.

    Returns:
        float64 ``[dim, dim]``.

    Raises:
        InputError: an unknown side, or a score without a temperature.

    >>> q, d = np.eye(2), np.eye(2)
    >>> sets = CandidateSets.from_batch({"query": q[None], "document": d[None]})
    >>> embedding_fisher(Embedded(q, d), sets, Score.of("dot", temperature=1.0), "query").round(4)
    array([[ 0.1966, -0.1966],
           [-0.1966,  0.1966]])
    """
    choose("side", side, SIDES)
    model = model or FisherModel()
    dim = int(np.shape(embedded.queries)[-1])
    total = np.zeros((dim, dim))
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), embedded)
        parts = sets.in_sets(wide)
        head = Head(*(jnp.asarray(float(x), jnp.float64) for x in Head.of(score)))
        for number in range(sets.sets):
            part, mask = jax.tree.map(lambda leaf: jnp.asarray(leaf[number]), (parts, sets.masks))  # noqa: B023
            for place, way in enumerate(model.ways):
                key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), place)
                for rows in _blocks(model, side, way, part, mask, head, key):
                    total += rows.T @ rows  # NumPy's A^T A is a symmetric product: half the work
    return total / (sets.real_examples * len(model.ways))


def embedding_rank_bound(sets: CandidateSets, model: FisherModel, side: str, dim: int) -> int:
    """The largest rank that counting allows: of one side's matrix of ``dim`` rows.

    >>> sets = CandidateSets.from_batch({"query": np.ones((1, 4, 8)), "document": np.ones((1, 4, 8))})
    >>> [embedding_rank_bound(sets, FisherModel(), side, 384) for side in SIDES]
    [12, 16]
    """
    own = sum(
        model.rank_bound(sets)
        if _is_own(way, side)
        else sets.real_examples * model.candidate_count(sets, way)
        for way in model.ways
    )
    return min(dim, own)


def _is_own(way: str, side: str) -> bool:
    """Whether ``side`` holds the rows whose softmax it is."""
    return (way == "query_to_document") == (side == "query")


def _blocks(
    model: FisherModel,
    side: str,
    way: str,
    part: Embedded,
    mask: Any,
    head: Head,
    key: jax.Array,
) -> Iterator[np.ndarray]:
    """Rows [.., dim] of one set whose outer products sum to its matrix, some 32 MiB at a time."""
    size, dim = part.queries.shape
    if not _is_own(way, side):
        count = size
    elif model.kind == "ggn":
        count = jax.eval_shape(lambda: model.candidates(part, mask, head, way)).logits.shape[1]
    else:
        count = 1 if model.kind == "empirical" else model.samples
    block = max(1, min(count, _BLOCK_BYTES // (8 * size * dim)))
    for start in range(0, count, block):
        # The last block is filled up by numbers past the end, whose rows are zero.
        numbers = start + np.arange(block)
        yield np.asarray(_rows(model, side, way, part, mask, head, key, numbers))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _rows(
    model: FisherModel,
    side: str,
    way: str,
    part: Embedded,
    mask: Any,
    head: Head,
    key: jax.Array,
    numbers: jax.Array,
) -> jax.Array:
    candidates = model.candidates(part, mask, head, way)
    p = probabilities(candidates)
    labels = draw_labels(model, candidates, key)
    varies = ("queries",) if side == "query" else ("documents", "negatives")

    def logits(some: dict[str, Any]) -> jax.Array:
        return model.candidates(part._replace(**some), mask, head, way).logits

    chosen = {name: getattr(part, name) for name in varies if getattr(part, name) is not None}
    backward = jax.vjp(logits, chosen)[1]

    def cotangent(number: jax.Array) -> jax.Array:
        if _is_own(way, side):
            # One column of every row's root at once: a row's logits depend on no other row's
            # embedding of this side.
            outcomes = p.shape[1] if labels is None else labels.shape[-1]
            chosen_column = (jnp.arange(outcomes) == number).astype(p.dtype)
            return root_pull(p, labels, jnp.broadcast_to(chosen_column, (len(p), outcomes)))
        # One row at a time: each candidate then gets the gradient of that row's logit alone.
        here = (jnp.arange(len(p)) == number).astype(p.dtype)
        return here[:, None] * jnp.sqrt(_diagonal(p, labels))

    def gradients(number: jax.Array) -> jax.Array:
        (found,) = backward(cotangent(number))
        return jnp.concatenate([leaf.reshape(-1, leaf.shape[-1]) for leaf in found.values()])

    found = jax.vmap(gradients)(numbers)
    return found.reshape(-1, found.shape[-1])


def _diagonal(p: jax.Array, labels: jax.Array | None) -> jax.Array:
    """The diagonal of H, row by row."""
    if labels is None:
        return p * (1.0 - p)
    hits = jax.nn.one_hot(labels, p.shape[-1], dtype=p.dtype, axis=-1)
    present = jnp.any(p > 0.0, axis=-1, keepdims=True)
    return present * jnp.mean((p[:, None, :] - hits) ** 2, axis=1)
