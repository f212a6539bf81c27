r"""Multi-head attention as plain batched matmuls, and the distance buckets of MPNet."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from magjax.encoders._dropout import dropout
from magjax.typing import Bool, Float

__all__ = ["attend", "attention", "distance_buckets"]


def attention(
    query_key_value: Float[jax.Array, "3 batch heads length head_dim"],
    where: Bool[jax.Array, "batch length"] | None,
    *,
    bias: Float[jax.Array, "heads length length"] | None = None,
    causal: bool = False,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> Float[jax.Array, "batch length width"]:
    r"""Softmax attention of every token over the tokens that ``where`` admits.

    .. math:: o_i = \sum_j p_{ij} v_j, \quad
       p_{ij} = \mathrm{softmax}_j(q_i \cdot k_j / \sqrt{d} + b_{j-i})

    Scores and weights are float32 whatever the input's dtype. Masked tokens get weight exactly 0;
    a row without any admitted token is finite (the plain mean of its values).

    Args:
        query_key_value: queries, keys and values, one batched layout for all three.
        where: True at real tokens; None: all are.
        bias: added to the scaled scores of every row, or None.
        causal: admit to a token only itself and the tokens before it.
        dropout_rate: share of attention weights set to zero when ``dropout_key`` is given.
        dropout_key: PRNG key, or None for no dropout.

    Returns:
        The heads side by side (``width = heads * head_dim``), in the input's dtype.

    Source: Vaswani et al., arXiv 1706.03762, section 3.2.

    >>> values = jnp.ones((3, 1, 2, 4, 8))
    >>> attention(values, jnp.array([[True, True, False, False]])).shape
    (1, 4, 16)
    """
    queries, keys, values = query_key_value
    admitted = None if where is None else where[:, None, None, :]
    if causal:
        earlier = jnp.tril(jnp.ones((queries.shape[2],) * 2, bool))[None, None]
        admitted = earlier if admitted is None else jnp.logical_and(admitted, earlier)
    return attend(
        queries,
        keys,
        values,
        admitted,
        bias=bias,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
    )


def attend(
    queries: Float[jax.Array, "batch heads queries head_dim"],
    keys: Float[jax.Array, "batch heads length head_dim"],
    values: Float[jax.Array, "batch heads length head_dim"],
    admitted: Bool[jax.Array, "#batch 1 #queries length"] | None,
    *,
    bias: Float[jax.Array, "heads queries length"] | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> Float[jax.Array, "batch queries width"]:
    """The attention of ``attention`` for any number of queries over other tokens' values.

    >>> one, many = jnp.ones((2, 4, 1, 8)), jnp.ones((2, 4, 9, 8))
    >>> attend(one, many, many, None).shape
    (2, 1, 32)
    """
    batch, heads, length, head_dim = queries.shape
    scores = jnp.matmul(queries, keys.swapaxes(-1, -2), preferred_element_type=jnp.float32)
    scores = scores * head_dim**-0.5
    if bias is not None:
        scores = scores + bias[None].astype(scores.dtype)
    if admitted is not None:
        # where, not addition of a large negative number: two masks added overflow to -inf in half
        # precision, and an all-padding row would then be 0/0.
        scores = jnp.where(admitted, scores, jnp.finfo(scores.dtype).min)
    largest = lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
    weights = jnp.exp(scores - largest)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    weights = dropout(weights, dropout_rate, dropout_key)
    mixed = jnp.matmul(weights.astype(values.dtype), values, preferred_element_type=jnp.float32)
    # Dividing after the product touches head_dim numbers a token instead of length.
    mixed = (mixed / total).astype(values.dtype)
    return mixed.swapaxes(1, 2).reshape(batch, length, heads * head_dim)


def distance_buckets(length: int, *, buckets: int = 32, furthest: int = 128) -> np.ndarray:
    r"""MPNet's bucket of each key-minus-query distance from ``1 - length`` to ``length - 1``.

    Half of the buckets serve each sign; within one, distances below a quarter of ``buckets`` have
    their own and longer ones share logarithmic ones up to ``furthest``.

    Returns:
        int32 ``[2 * length - 1]``.

    Source: Raffel et al., arXiv 1910.10683, section 2.1; Song et al., arXiv 2004.09297.

    >>> distance_buckets(3).tolist()
    [2, 1, 0, 17, 18]
    """
    distance = np.arange(1 - length, length)
    half = buckets // 2
    exact = half // 2
    near = np.abs(distance)
    # float32 throughout: bucket edges fall on whole logarithms, where float64 and float32 disagree
    # and the published weights were trained with float32's choice.
    ratio = np.log(np.maximum(near, 1).astype(np.float32) / np.float32(exact))
    ratio = ratio / np.float32(math.log(furthest / exact)) * np.float32(half - exact)
    far = np.minimum(exact + ratio.astype(np.int32), half - 1)
    bucket = np.where(near < exact, near, far)
    return (bucket + half * (distance > 0)).astype(np.int32)
