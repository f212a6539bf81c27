"""Dropout by a key that the caller passes: the same key, the same masks."""

import jax
import jax.numpy as jnp

from magjax.typing import Float

__all__ = ["dropout"]


def dropout(
    x: Float[jax.Array, "*shape"], rate: float, key: jax.Array | None
) -> Float[jax.Array, "*shape"]:
    """Zeroes a share ``rate`` of entries and scales the others by ``1 / (1 - rate)``.

    Without a key, or at rate 0, ``x`` comes back as it is. No generator state is kept anywhere, so
    a second pass with the same key (gradient cache, rematerialization, resume) sees the same masks.

    >>> dropout(jnp.ones(4), 0.5, None)
    Array([1., 1., 1., 1.], dtype=float32)
    """
    if key is None or rate == 0.0:
        return x
    kept = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(kept, x / (1.0 - rate), jnp.zeros((), x.dtype))
