"""Which candidates belong to a query, so that they must not count as its negatives."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["Links", "among", "link"]


def _sides_match(left: jax.Array, right: jax.Array) -> jax.Array:
    """Equality of ids, where a negative id (padding, unknown) equals nothing."""
    return (left == right) & (left >= 0)


def among(ids: jax.Array, known: jax.Array) -> jax.Array:
    """Whether ``ids`` ([C], or [B, C] with a list per row) occur in the rows of ``known`` [B, P].

    >>> among(jnp.array([4, 9]), jnp.array([[9, -1], [7, 4]]))
    Array([[False,  True],
           [ True, False]], dtype=bool)
    """
    lists = jnp.broadcast_to(ids, (known.shape[0], ids.shape[-1]))
    return jnp.any(_sides_match(known[:, :, None], lists[:, None, :]), axis=1)


class Links(NamedTuple):
    """What a batch says about the partners of each local row.

    A row with key ``a`` on its own side and ``b`` on the other links ``a`` to ``b``.

    Attributes:
      same: [rows, batch] rows of the batch that share the local row's own key.
      table: [rows, batch] whether the row's key is linked to the key at that rank of ``keys``.
      keys: [batch] the other side's keys, sorted.
    """

    same: jax.Array
    table: jax.Array
    keys: jax.Array

    def to_ids(self, ids: jax.Array) -> jax.Array:
        """Whether rows are linked to ``ids`` [C] (each to all) or [rows, C] (each to its own)."""
        rank, found = _rank(self.keys, ids)
        if ids.ndim == 1:
            return self.table[:, rank] & found[None, :]
        return jnp.take_along_axis(self.table, rank, axis=1) & found


def _rank(keys: jax.Array, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    rank = jnp.minimum(jnp.searchsorted(keys, ids), keys.shape[0] - 1)
    return rank, _sides_match(ids, keys[rank])


def link(
    rows: jax.Array,
    own: jax.Array | None,
    other: jax.Array | None,
    valid: jax.Array,
) -> Links:
    """Finds the links of the local rows in the whole batch.

    Costs rows * batch entries, not batch * batch, and no comparison of all pairs of candidates.

    Args:
      rows: [rows] positions of the local rows in the batch.
      own: [batch] keys of the rows' own side; None if each row is its own.
      other: [batch] keys of the other side; None if each row is its own.
      valid: [batch] False for padding rows, which link nothing.

    >>> links = link(jnp.arange(3), jnp.array([1, 1, 2]), jnp.array([5, 6, 6]), jnp.ones(3, bool))
    >>> links.to_ids(jnp.array([5, 6]))  # the first query owns document 6 through its second row
    Array([[ True,  True],
           [ True,  True],
           [False,  True]], dtype=bool)
    """
    batch = jnp.arange(valid.shape[0])
    same = rows[:, None] == batch[None, :]
    if own is not None:
        same = same | _sides_match(own[rows][:, None], own[None, :])
    same = same & valid[None, :]
    ids = batch if other is None else other
    keys = jnp.sort(ids)
    rank, found = _rank(keys, ids)
    linked = same & found[None, :]
    # Rows of one key meet at one rank: the scatter takes their maximum, which is "any".
    table = jnp.zeros_like(linked.T).at[rank].max(linked.T).T
    return Links(same, table, keys)
