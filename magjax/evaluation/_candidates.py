"""Float32 candidates on the devices: the documents of the largest score bounds, block by block."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from magjax.mesh import DATA_AXIS
from magjax.typing import Array, Float, Int

__all__ = ["GROUP", "merge_block", "score_bounds", "top_rows"]

GROUP = 32  # documents whose maximum stands for them in the first stage of the selection


def _bounds(
    queries: Float[jax.Array, "queries dim"],
    documents: Float[jax.Array, "documents dim"],
    scale: Float[jax.Array, "documents"],
    slack: Float[jax.Array, "documents"],
) -> Float[jax.Array, "queries documents"]:
    # HIGHEST: TF32 and bfloat16 products would break the bound by three digits.
    dots = jnp.matmul(queries, documents.T, precision=lax.Precision.HIGHEST)
    bounds = dots * scale[None, :] + slack[None, :]
    # Only documents with infinite slack can overflow: infinity is their bound.
    return jnp.where(jnp.isnan(bounds), jnp.inf, bounds)


def top_rows(
    values: Float[jax.Array, "queries n"], count: int
) -> tuple[Float[jax.Array, "queries count"], Int[jax.Array, "queries count"]]:
    """The ``count`` largest values of each row and their columns, exactly, in two stages.

    The largest values lie in the groups with the largest maxima, so only those are searched
    inside. Rows shorter than ``count`` are filled up with minus infinity.

    >>> values, columns = top_rows(jnp.array([[1.0, 5.0, 3.0]]), 2)
    >>> values.tolist(), columns.tolist()
    ([[5.0, 3.0]], [[1, 2]])
    """
    rows, n = values.shape
    if n % GROUP or n // GROUP < 2 * count:  # too few groups to save anything
        best, columns = lax.top_k(values, min(count, n))
        missing = ((0, 0), (0, count - min(count, n)))
        return jnp.pad(best, missing, constant_values=-jnp.inf), jnp.pad(columns, missing)
    grouped = values.reshape(rows, n // GROUP, GROUP)
    _, groups = lax.top_k(grouped.max(axis=-1), count)
    inside = jnp.take_along_axis(grouped, groups[:, :, None], axis=1).reshape(rows, count * GROUP)
    best, places = lax.top_k(inside, count)
    columns = jnp.take_along_axis(groups, places // GROUP, axis=1) * GROUP + places % GROUP
    return best, columns


@functools.partial(jax.jit, static_argnames=("mesh",), donate_argnames=("best", "best_rows"))
def merge_block(
    best: Float[jax.Array, "queries count"],
    best_rows: Int[jax.Array, "queries count"],
    queries: Float[jax.Array, "queries dim"],
    documents: Float[jax.Array, "documents dim"],
    scale: Float[jax.Array, "documents"],
    slack: Float[jax.Array, "documents"],
    offset: Int[jax.Array, ""],
    *,
    mesh: Mesh,
) -> tuple[Float[jax.Array, "queries count"], Int[jax.Array, "queries count"]]:
    """Brings one block of documents, its rows sharded over ``mesh``, into the best so far.

    Each device selects among its own rows; what they selected is merged. Working memory is one
    block of bounds.
    """
    count = best.shape[1]

    def local(queries, documents, scale, slack):
        values, columns = top_rows(_bounds(queries, documents, scale, slack), count)
        first = lax.axis_index(DATA_AXIS) * documents.shape[0]
        return values, columns + first.astype(columns.dtype)

    whole, split = PartitionSpec(), PartitionSpec(DATA_AXIS)
    by_column = PartitionSpec(None, DATA_AXIS)
    values, columns = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(whole, split, split, split),
        out_specs=(by_column, by_column),
    )(queries, documents, scale, slack)
    values = jnp.concatenate([best, values], axis=1)
    rows = jnp.concatenate([best_rows, columns + offset], axis=1)
    best, places = lax.top_k(values, count)
    return best, jnp.take_along_axis(rows, places, axis=1)


_bounds_on_mesh = jax.jit(_bounds)


def score_bounds(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    scale: Float[Array, "documents"],
    slack: Float[Array, "documents"],
) -> Float[np.ndarray, "queries documents"]:
    """The bounds themselves, float32 ``[queries, documents]`` on the host.

    >>> one = jnp.ones((1, 2))
    >>> score_bounds(one, one, jnp.ones(1), jnp.zeros(1))
    array([[2.]], dtype=float32)
    """
    return np.asarray(_bounds_on_mesh(queries, documents, scale, slack))
