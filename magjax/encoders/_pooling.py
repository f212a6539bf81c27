"""From the states of all tokens to one vector per text."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from magjax.checks import choose
from magjax.typing import Array, Bool, Float, Int

__all__ = ["POOLINGS", "pool", "token_at"]


def pool(
    hidden: Float[Array, "batch length hidden"],
    attention_mask: Int[Array, "batch length"] | Bool[Array, "batch length"],
    mode: str,
) -> Float[jax.Array, "batch hidden"]:
    r"""One float32 vector per row from the tokens that ``attention_mask`` admits.

    ``mean``, ``max`` over the tokens; ``cls`` the first token; ``last`` the last one;
    ``weighted_mean`` with weights 1, 2, 3, ... from the first token on (Muennighoff,
    arXiv 2202.08904). Masked tokens never matter, sums are float32 whatever the input's dtype, and
    a row without tokens gives zeros.

    Raises:
        InputError: an unknown mode.

    >>> states = jnp.array([[[1.0, 4.0], [3.0, 2.0], [9.0, 9.0]]])
    >>> pool(states, jnp.array([[1, 1, 0]]), "mean")
    Array([[2., 3.]], dtype=float32)
    >>> pool(states, jnp.array([[1, 1, 0]]), "last")
    Array([[3., 2.]], dtype=float32)
    """
    reduce = POOLINGS[choose("pooling", mode, POOLINGS)]
    where = jnp.asarray(attention_mask).astype(bool)
    # float32: counts and sums in bfloat16 stop at 256.
    pooled = reduce(jnp.asarray(hidden).astype(jnp.float32), where)
    return jnp.where(jnp.any(where, axis=1)[:, None], pooled, 0.0)


def _mean(
    hidden: Float[jax.Array, "batch length hidden"], where: Bool[jax.Array, "batch length"]
) -> Float[jax.Array, "batch hidden"]:
    total = jnp.sum(jnp.where(where[:, :, None], hidden, 0.0), axis=1)
    count = jnp.sum(where, axis=1, dtype=jnp.float32)
    return total / jnp.maximum(count, 1.0)[:, None]


def _cls(
    hidden: Float[jax.Array, "batch length hidden"], where: Bool[jax.Array, "batch length"]
) -> Float[jax.Array, "batch hidden"]:
    return token_at(hidden, jnp.argmax(where, axis=1))


def _last(
    hidden: Float[jax.Array, "batch length hidden"], where: Bool[jax.Array, "batch length"]
) -> Float[jax.Array, "batch hidden"]:
    return token_at(hidden, where.shape[1] - 1 - jnp.argmax(where[:, ::-1], axis=1))


def _max(
    hidden: Float[jax.Array, "batch length hidden"], where: Bool[jax.Array, "batch length"]
) -> Float[jax.Array, "batch hidden"]:
    lowest = jnp.finfo(hidden.dtype).min
    return jnp.max(jnp.where(where[:, :, None], hidden, lowest), axis=1)


def _weighted_mean(
    hidden: Float[jax.Array, "batch length hidden"], where: Bool[jax.Array, "batch length"]
) -> Float[jax.Array, "batch hidden"]:
    position = jnp.arange(1, where.shape[1] + 1)[None] - jnp.argmax(where, axis=1)[:, None]
    weights = jnp.where(where, position, 0).astype(hidden.dtype)
    total = jnp.sum(jnp.where(where[:, :, None], hidden, 0.0) * weights[:, :, None], axis=1)
    return total / jnp.maximum(jnp.sum(weights, axis=1), 1.0)[:, None]


def token_at(
    hidden: Float[jax.Array, "batch length hidden"], index: Int[jax.Array, "batch"]
) -> Float[jax.Array, "batch hidden"]:
    """The state at one position of each row.

    >>> token_at(jnp.array([[[1.0], [2.0]]]), jnp.array([1]))
    Array([[2.]], dtype=float32)
    """
    return jnp.take_along_axis(hidden, index[:, None, None], axis=1)[:, 0]


POOLINGS: dict[str, Callable[..., Float[jax.Array, "batch hidden"]]] = {
    "mean": _mean,
    "cls": _cls,
    "max": _max,
    "last": _last,
    "weighted_mean": _weighted_mean,
}
