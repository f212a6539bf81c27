"""Losses towards the scores of a teacher, over each query's own list of documents."""

import jax
import jax.numpy as jnp

from magjax.checks import positive_number
from magjax.similarity import list_scores, widen
from magjax.typing import Array, Bool, Float, Scalar

__all__ = [
    "kl_distillation",
    "kl_distillation_from_logits",
    "margin_mse",
    "margin_mse_from_logits",
]


def _parts(
    logits: Array, teacher: Array, where: Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    present = jnp.ones(logits.shape, bool) if where is None else jnp.asarray(where)
    student, scores = widen(logits, teacher)
    return jnp.where(present, student, 0.0), jnp.where(present, scores, 0.0), present


def margin_mse_from_logits(
    logits: Float[Array, "queries list"],
    teacher_scores: Float[Array, "queries list"],
    where: Bool[Array, "queries list"] | None = None,
    *,
    weights: Float[Array, " queries"] | None = None,
) -> Float[jax.Array, " queries"]:
    """MarginMSE of logits that are there already; column 0 is the positive.

    Args:
      logits: the student's scores.
      teacher_scores: the teacher's, on the scale that the student shall learn.
      where: False marks absent entries, which may hold anything.
      weights: factor of each query's value.

    Returns:
      one value per query, as :func:`margin_mse` defines it.

    >>> margin_mse_from_logits(jnp.array([[3.0, 1.0]]), jnp.array([[9.0, 6.0]]))
    Array([1.], dtype=float32)
    """
    student, teacher, present = _parts(logits, teacher_scores, where)
    counted = present[:, 1:] & present[:, :1]
    errors = (student[:, :1] - student[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])
    count = jnp.sum(counted, axis=-1, dtype=errors.dtype)
    squares = jnp.sum(jnp.where(counted, errors * errors, 0.0), axis=-1)
    values = squares / jnp.maximum(count, 1.0)
    return values if weights is None else values * weights


def kl_distillation_from_logits(
    logits: Float[Array, "queries list"],
    teacher_logits: Float[Array, "queries list"],
    where: Bool[Array, "queries list"] | None = None,
    *,
    weights: Float[Array, " queries"] | None = None,
) -> Float[jax.Array, " queries"]:
    """KL divergence from the teacher's softmax to the student's, of logits already there.

    Args:
      logits: the student's logits.
      teacher_logits: the teacher's.
      where: False marks absent entries, which may hold anything.
      weights: factor of each query's value.

    Returns:
      one value per query, 0 where all entries are absent.

    >>> kl_distillation_from_logits(jnp.array([[1.0, 3.0]]), jnp.array([[5.0, 7.0]]))
    Array([0.], dtype=float32)
    """
    student, teacher, present = _parts(logits, teacher_logits, where)

    def log_softmax(x: jax.Array) -> jax.Array:
        # Rows without an entry get one, so that their maximum and logarithm stay finite.
        kept = present | ~jnp.any(present, axis=-1, keepdims=True)
        return jax.nn.log_softmax(x, axis=-1, where=kept)

    log_teacher = jnp.where(present, log_softmax(teacher), 0.0)
    log_student = jnp.where(present, log_softmax(student), 0.0)
    terms = jnp.exp(log_teacher) * (log_teacher - log_student)
    values = jnp.sum(jnp.where(present, terms, 0.0), axis=-1)
    return values if weights is None else values * weights


def _own_lists(
    queries: Array,
    documents: Array,
    negatives: Array,
    where: Array | None,
    negatives_where: Array | None,
    gamma_query: Scalar,
    gamma_document: Scalar,
    temperature: Scalar,
) -> tuple[jax.Array, jax.Array]:
    if isinstance(temperature, int | float):
        positive_number("temperature", temperature)
    rows, hard = negatives.shape[:2]
    valid = jnp.ones(rows, bool) if where is None else jnp.asarray(where)
    usable = jnp.ones((rows, hard), bool) if negatives_where is None else negatives_where
    present = jnp.concatenate([valid[:, None], usable & valid[:, None]], axis=1)
    lists = jnp.concatenate([documents[:, None, :], negatives], axis=1)
    # As in candidate_logits: what padding holds must not meet a product.
    lists = jnp.where(present[:, :, None], lists, 0.0)
    kept = jnp.where(valid[:, None], queries, 0.0)
    found = list_scores(kept, lists, gamma_query=gamma_query, gamma_document=gamma_document)
    return found / jnp.asarray(temperature, found.dtype), present


def margin_mse(
    queries: Float[Array, "batch dim"],
    documents: Float[Array, "batch dim"],
    negatives: Float[Array, "batch hard dim"],
    *,
    teacher_scores: Float[Array, "batch list"],
    gamma_query: Scalar,
    gamma_document: Scalar,
    temperature: Scalar = 1.0,
    where: Bool[Array, " batch"] | None = None,
    negatives_where: Bool[Array, "batch hard"] | None = None,
    weights: Float[Array, " batch"] | None = None,
) -> Float[jax.Array, " batch"]:
    r"""Squared error of the margins between the positive and each hard negative.

    .. math:: \ell_i = \frac{1}{k} \sum_n
              \bigl((l_{i+} - l_{in}) - (t_{i+} - t_{in})\bigr)^2

    with the logits :math:`l = s / \tau` and the teacher's scores :math:`t` (Hofstätter et al.,
    arXiv 2010.02666). Rows depend on nothing else, so devices need no exchange.

    Args:
      queries: raw embeddings.
      documents: raw embeddings of the positives.
      negatives: raw embeddings of hard negatives.
      teacher_scores: [batch, 1 + hard], the positive first.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.
      temperature: what the student's scores are divided by, above 0.
      where: False for padding rows, whose value is 0.
      negatives_where: False for absent hard negatives.
      weights: factor of each row's value.

    Returns:
      one value per row, float32 (float64 if an input is); 0 without negatives.

    Raises:
      InputError: for a number outside its range.

    >>> q, d, n = jnp.ones((1, 2)), jnp.ones((1, 2)), jnp.zeros((1, 1, 2))
    >>> margin_mse(q, d, n, teacher_scores=jnp.array([[5.0, 2.0]]),
    ...            gamma_query=0.0, gamma_document=0.0)
    Array([1.], dtype=float32)
    """
    logits, present = _own_lists(
        queries,
        documents,
        negatives,
        where,
        negatives_where,
        gamma_query,
        gamma_document,
        temperature,
    )
    return margin_mse_from_logits(logits, teacher_scores, present, weights=weights)


def kl_distillation(
    queries: Float[Array, "batch dim"],
    documents: Float[Array, "batch dim"],
    negatives: Float[Array, "batch hard dim"],
    *,
    teacher_scores: Float[Array, "batch list"],
    gamma_query: Scalar,
    gamma_document: Scalar,
    temperature: Scalar,
    teacher_temperature: Scalar = 1.0,
    where: Bool[Array, " batch"] | None = None,
    negatives_where: Bool[Array, "batch hard"] | None = None,
    weights: Float[Array, " batch"] | None = None,
) -> Float[jax.Array, " batch"]:
    r"""KL divergence between the teacher's and the student's softmax over each query's list.

    .. math:: \ell_i = \sum_j p_{ij} \log \frac{p_{ij}}{r_{ij}}, \quad
              p_i = \operatorname{softmax}(t_i / \tau_t), \;
              r_i = \operatorname{softmax}(s_i / \tau)

    over the positive and the query's own hard negatives (arXiv 1503.02531, without its factor
    :math:`\tau^2`).

    Args:
      queries: raw embeddings.
      documents: raw embeddings of the positives.
      negatives: raw embeddings of hard negatives.
      teacher_scores: [batch, 1 + hard], the positive first.
      gamma_query: power in [0, 1] of the query's length.
      gamma_document: power in [0, 1] of the document's length.
      temperature: what the student's scores are divided by, above 0.
      teacher_temperature: what the teacher's scores are divided by, above 0.
      where: False for padding rows, whose value is 0.
      negatives_where: False for absent hard negatives.
      weights: factor of each row's value.

    Returns:
      one value per row, float32 (float64 if an input is).

    Raises:
      InputError: for a number outside its range.

    >>> q, d, n = jnp.ones((1, 2)), jnp.ones((1, 2)), jnp.zeros((1, 1, 2))
    >>> kl_distillation(q, d, n, teacher_scores=jnp.array([[5.0, 3.0]]),
    ...                 gamma_query=0.0, gamma_document=0.0, temperature=1.0)
    Array([0.], dtype=float32)
    """
    if isinstance(teacher_temperature, int | float):
        positive_number("teacher_temperature", teacher_temperature)
    logits, present = _own_lists(
        queries,
        documents,
        negatives,
        where,
        negatives_where,
        gamma_query,
        gamma_document,
        temperature,
    )
    teacher = jnp.where(present, teacher_scores, 0.0) / teacher_temperature
    return kl_distillation_from_logits(logits, teacher, present, weights=weights)
