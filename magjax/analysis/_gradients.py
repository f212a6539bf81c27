"""Gradients of each query's loss as the length of its embedding changes, by ``jax.grad``."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from magjax.checks import InputError, fraction, positive_number
from magjax.losses import softmax_cross_entropy
from magjax.similarity import scores
from magjax.typing import Array, Bool, Float, Int, Scalar

__all__ = ["GradientSweep", "checked_problem", "query_length_sweep", "query_loss"]

_CHUNK = 2**23  # numbers of document gradients held at a time, 64 MiB in float64


@dataclasses.dataclass(frozen=True, eq=False)
class GradientSweep:
    r"""The gradients of every query's loss at every length.

    At scale :math:`c` the query is :math:`x = c\,q`, and derivatives are taken at that :math:`x`.
    Every field but the first four is float64 ``[scales, queries]``.

    Attributes:
        gammas: powers of the query's and the documents' lengths.
        temperature: what scores are divided by.
        scales: ``[scales]``, the factors :math:`c`.
        lengths: ``[queries]``, the lengths :math:`\lVert q\rVert` at :math:`c = 1`.
        loss: InfoNCE, in nats.
        query: :math:`\lVert\partial\ell/\partial x\rVert`.
        radial: :math:`\langle x / \lVert x\rVert, \partial\ell/\partial x\rangle`; below 0 where a
            longer query has a lower loss.
        tangential: length of the rest of the gradient, which turns the query.
        documents: :math:`(\sum_j \lVert\partial\ell/\partial d_j\rVert^2)^{1/2}` over its candidates.
        documents_radial: :math:`\sum_j \langle d_j, \partial\ell/\partial d_j\rangle`.
        log_temperature: :math:`\partial\ell/\partial\log\tau`.

    >>> sweep = query_length_sweep(np.array([[2.0, 0.0]]), np.eye(2), [0], gammas=(1.0, 0.0),
    ...                            temperature=1.0, scales=[1.0, 2.0])
    >>> sweep.query.round(4).tolist()  # a normalized query: half the gradient at twice the length
    [[0.1345], [0.0672]]
    """

    gammas: tuple[float, float]
    temperature: float
    scales: np.ndarray
    lengths: np.ndarray
    loss: np.ndarray
    query: np.ndarray
    radial: np.ndarray
    tangential: np.ndarray
    documents: np.ndarray
    documents_radial: np.ndarray
    log_temperature: np.ndarray

    @property
    def log_length(self) -> np.ndarray:
        r""":math:`\partial\ell/\partial\log\lVert x\rVert`, in nats ``[scales, queries]``."""
        return self.radial * self._lengths_now

    @property
    def direction(self) -> np.ndarray:
        r"""Length of :math:`\partial\ell/\partial(x/\lVert x\rVert)` along the sphere ``[scales, queries]``.

        How steeply the loss falls when the query turns by a radian, whatever its length.
        """
        return self.tangential * self._lengths_now

    @property
    def _lengths_now(self) -> np.ndarray:
        return self.scales[:, None] * self.lengths[None, :]

    def euler_residuals(self) -> dict[str, float]:
        r"""How far Euler's identity is from holding, per side, relative to its largest term.

        .. math:: \langle x, \partial\ell/\partial x\rangle
                  = (1 - \gamma_q)\,(-\tau\,\partial\ell/\partial\tau)

        and likewise summed over a query's documents with :math:`\gamma_d`: the loss sees lengths
        and the temperature only through :math:`\lVert q\rVert^{1-\gamma_q}
        \lVert d\rVert^{1-\gamma_d} / \tau`.

        >>> sweep = query_length_sweep(np.eye(2), np.eye(2), [0, 1], gammas=(0.5, 0.0),
        ...                            temperature=0.5, scales=[0.5, 1.0, 2.0])
        >>> max(sweep.euler_residuals().values()) < 1e-12
        True
        """
        sharpening = -self.log_temperature
        # At power 1 both sides vanish: what is left is compared with the terms that cancel.
        scale = np.max(np.abs(sharpening), initial=1e-300)
        left = {"query": self.log_length, "document": self.documents_radial}
        return {
            side: float(np.max(np.abs(found - (1.0 - gamma) * sharpening)) / scale)
            for (side, found), gamma in zip(left.items(), self.gammas, strict=True)
        }


def query_length_sweep(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    positives: Int[Array, " queries"] | Sequence[int],
    *,
    gammas: tuple[float | int, float | int],
    temperature: float | int,
    scales: Float[Array, " scales"] | Sequence[float | int],
    where: Bool[Array, "queries documents"] | None = None,
) -> GradientSweep:
    r"""Measures each query's gradients with its embedding made ``c`` times as long, by ``jax.grad``.

    The loss of a query is

    .. math:: \ell(x) = -\log \frac{e^{s(x, d^+)/\tau}}{\sum_j e^{s(x, d_j)/\tau}}, \quad
              s(x, d) = \langle x\lVert x\rVert^{-\gamma_q}, d\lVert d\rVert^{-\gamma_d}\rangle

    over its candidates. Nothing of the closed forms is used (they are
    :func:`closed_form_sweep`), everything is computed in float64, and scales, powers and
    temperature are arguments of one compiled program. Claim 6 of arXiv 2602.09229: a query's
    length changes no ranking but modulates gradients.

    Args:
        queries: raw embeddings, none of length 0.
        documents: raw embeddings of all candidates.
        positives: row in ``documents`` of each query's answer.
        gammas: powers of the query's and of the documents' lengths, in [0, 1].
        temperature: above 0.
        scales: factors :math:`c`, above 0.
        where: False for documents that are no candidates of a query, such as its other known
            answers; default: all are.

    Raises:
        InputError: shapes disagree, a query of length 0, a positive that is no candidate, a query
            without a negative, or a number out of range.

    >>> q, d = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> sweep = query_length_sweep(q, d, [0], gammas=(0, 0), temperature=1, scales=[1.0, 8.0])
    >>> sweep.query.round(4).tolist()  # an easy query saturates: longer is not steeper
    [[0.3803], [0.0005]]
    """
    problem = checked_problem(queries, documents, positives, gammas, temperature, scales, where)
    with jax.enable_x64(True):
        count, dim = documents.shape
        found = jax.device_get(
            _sweep(
                *(jnp.asarray(part) for part in problem.arrays),
                chunk=max(1, min(_CHUNK // (count * dim), len(problem.queries))),
            )
        )
    return problem.sweep(**found)


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """The arguments of a sweep, checked and in float64."""

    queries: np.ndarray
    documents: np.ndarray
    positives: np.ndarray
    where: np.ndarray
    gammas: tuple[float, float]
    temperature: float
    scales: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What the compiled program takes."""
        head = np.array([*self.gammas, np.log(self.temperature)])
        return self.queries, self.documents, self.positives, self.where, head, self.scales

    def sweep(self, **fields: np.ndarray) -> GradientSweep:
        """The result, with what was given."""
        lengths = np.linalg.norm(self.queries, axis=1)
        return GradientSweep(self.gammas, self.temperature, self.scales, lengths, **fields)


def checked_problem(
    queries: Array,
    documents: Array,
    positives: Array | Sequence[int],
    gammas: tuple[float | int, float | int],
    temperature: float | int,
    scales: Array | Sequence[float | int],
    where: Array | None,
) -> Problem:
    """The arguments of :func:`query_length_sweep` in float64, or what is wrong with them."""
    q, d = (np.asarray(side, np.float64) for side in (queries, documents))
    rows, factors = np.asarray(positives, np.int64), np.asarray(scales, np.float64)
    if q.ndim != 2 or d.ndim != 2 or q.shape[1:] != d.shape[1:] or rows.shape != q.shape[:1]:
        raise InputError(
            f"queries have shape {q.shape}, documents {d.shape} and positives {rows.shape}; they "
            "must be [queries, dim], [documents, dim] and [queries]."
        )
    if not (np.isfinite(q).all() and np.isfinite(d).all()):
        raise InputError("an embedding is not finite (NaN or infinity); check the model.")
    if factors.ndim != 1 or not factors.size or not (np.isfinite(factors) & (factors > 0)).all():
        raise InputError(f"scales={scales!r} must be one or more finite numbers above 0.")
    present = np.ones((len(q), len(d)), bool) if where is None else np.asarray(where, bool)
    if present.shape != (len(q), len(d)):
        raise InputError(f"where has shape {present.shape}, not [queries, documents].")
    short = np.flatnonzero(~q.any(axis=1))
    if short.size:
        raise InputError(
            f"query number {short[0]} has length 0, which no factor changes; leave it out."
        )
    if rows.size and not (rows.min() >= 0 and rows.max() < len(d)):
        raise InputError(f"positives name documents from {rows.min()} to {rows.max()} of {len(d)}.")
    if not present[np.arange(len(q)), rows].all():
        raise InputError("where leaves out a query's own positive; keep it among the candidates.")
    alone = np.flatnonzero(present.sum(axis=1) < 2)
    if alone.size:
        raise InputError(
            f"query number {alone[0]} has no negative, so that its loss is always 0; give more "
            "candidates."
        )
    powers = (fraction("gamma_query", gammas[0]), fraction("gamma_document", gammas[1]))
    tau = positive_number("temperature", temperature)
    return Problem(q, d, rows, present, powers, tau, factors)


def query_loss(
    x: Float[jax.Array, " dim"],
    documents: Float[jax.Array, "documents dim"],
    log_temperature: Scalar,
    positive: Int[jax.Array, ""],
    present: Bool[jax.Array, " documents"],
    gamma_query: Scalar,
    gamma_document: Scalar,
) -> Float[jax.Array, ""]:
    """InfoNCE of one query over its candidates."""
    found = scores(x[None], documents, gamma_query=gamma_query, gamma_document=gamma_document)
    own = jnp.arange(documents.shape[0]) == positive
    values = softmax_cross_entropy(
        found / jnp.exp(log_temperature), positives=own[None], where=present[None]
    )
    return values[0]


@functools.partial(jax.jit, static_argnames="chunk")
def _sweep(
    queries: jax.Array,
    documents: jax.Array,
    positives: jax.Array,
    where: jax.Array,
    head: jax.Array,
    scales: jax.Array,
    *,
    chunk: int,
) -> dict[str, jax.Array]:
    gamma_query, gamma_document, log_temperature = head
    derive = jax.value_and_grad(query_loss, argnums=(0, 1, 2))

    def of_query(item: tuple[jax.Array, ...]) -> dict[str, jax.Array]:
        x, positive, present = item
        loss, (by_query, by_documents, by_temperature) = derive(
            x, documents, log_temperature, positive, present, gamma_query, gamma_document
        )
        unit = x / jnp.linalg.norm(x)
        radial = jnp.sum(unit * by_query)
        return {
            "loss": loss,
            "query": jnp.linalg.norm(by_query),
            "radial": radial,
            "tangential": jnp.linalg.norm(by_query - radial * unit),
            "documents": jnp.linalg.norm(by_documents),
            "documents_radial": jnp.sum(documents * by_documents),
            "log_temperature": by_temperature,
        }

    def of_scale(scale: jax.Array) -> dict[str, jax.Array]:
        return lax.map(of_query, (scale * queries, positives, where), batch_size=chunk)

    return lax.map(of_scale, scales)
