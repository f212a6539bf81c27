"""p(document | query) of a candidate set, and the root of its Fisher matrix at the logits."""

import dataclasses
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import lax

from magjax.checks import InputError, choose, positive_integer
from magjax.fisher._sets import CandidateSets, Embedded
from magjax.losses import Candidates, Direction, candidate_logits
from magjax.similarity import Score, widen
from magjax.typing import Array, Bool, Float, Int, Scalar

__all__ = ["KINDS", "FisherModel", "Head", "draw_labels", "probabilities", "root_pull", "root_push"]

KINDS: dict[str, str] = {
    "ggn": "generalized Gauss-Newton, which at softmax logits is the true Fisher (exact)",
    "monte_carlo": "true Fisher estimated from labels that the model itself draws",
    "empirical": "outer products of the gradients at the data's labels: another matrix",
}
"""What the Fisher's expectation runs over, by the name that reports carry."""


class Head(NamedTuple):
    """The score's numbers as arrays, so that every variant runs the same compiled program.

    >>> Head.of(Score.of("qnorm", temperature=0.5))
    Head(gamma_query=Array(1., dtype=float32, weak_type=True), gamma_document=Array(0., dtype=float32, weak_type=True), temperature=Array(0.5, dtype=float32, weak_type=True))
    """

    gamma_query: Scalar
    gamma_document: Scalar
    temperature: Scalar

    @classmethod
    def of(cls, score: Score) -> "Head":
        """The numbers of ``score``.

        Raises:
            InputError: the score has no temperature, on which every entry of a Fisher depends.
        """
        if score.temperature is None:
            raise InputError(
                f"the score {score.variant!r} has no temperature; give one, for example by "
                "magjax.similarity.calibrate_temperature."
            )
        return cls(*(jnp.asarray(x) for x in (*score.gammas, score.temperature)))


@dataclasses.dataclass(frozen=True)
class FisherModel:
    """Which probabilities and which expectation: the model whose Fisher matrix is asked for.

    Attributes:
        kind: a name in :data:`KINDS`.
        direction: ``"query_to_document"``, ``"document_to_query"``, or ``"both"`` (their mean).
        samples: labels a query of ``monte_carlo``.
        share_negatives: whether hard negatives are candidates of all queries of their set.

    Raises:
        InputError: an unknown kind or direction, or no samples.

    >>> FisherModel(kind="gnn")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown Fisher kind 'gnn'; known: ggn, monte_carlo, empirical. Did you mean 'ggn'?
    """

    kind: str = "ggn"
    direction: str = "query_to_document"
    samples: int = 8
    share_negatives: bool = True

    def __post_init__(self) -> None:
        choose("Fisher kind", self.kind, KINDS)
        choose("direction", self.direction, get_args(Direction))
        positive_integer("samples", self.samples)

    @property
    def ways(self) -> tuple[str, ...]:
        """The directions whose mean is meant."""
        if self.direction == "both":
            return ("query_to_document", "document_to_query")
        return (self.direction,)

    @property
    def label(self) -> str:
        """The kind as reports write it, with what else it depends on."""
        return f"monte_carlo({self.samples})" if self.kind == "monte_carlo" else self.kind

    def candidates(
        self, embedded: Embedded, masks: dict[str, Any], head: Head, way: str
    ) -> Candidates:
        """Logits of one set in one direction; hard negatives have no part from document to query."""
        forward = way == "query_to_document"
        kept = {
            name: value
            for name, value in masks.items()
            if forward or name not in ("negative_ids", "negatives_where")
        }
        return candidate_logits(
            embedded.queries,
            embedded.documents,
            embedded.negatives if forward else None,
            gamma_query=head.gamma_query,
            gamma_document=head.gamma_document,
            temperature=head.temperature,
            direction=way,
            share_negatives=self.share_negatives,
            **kept,
        )

    def candidate_count(self, sets: CandidateSets, way: str) -> int:
        """Candidates of a query, masked ones included."""
        rows = sets.rows.get("negatives")
        if rows is None or way == "document_to_query":
            return sets.size
        hard = jax.tree.leaves(rows)[0].shape[1]
        return sets.size + hard * (sets.size if self.share_negatives else 1)

    def rank_bound(self, sets: CandidateSets) -> int:
        """The largest rank that counting allows: independent outcomes over all examples."""
        total = 0
        for way in self.ways:
            outcomes = self.candidate_count(sets, way) - 1
            if self.kind == "empirical":
                outcomes = 1
            elif self.kind == "monte_carlo":
                outcomes = min(outcomes, self.samples)
            total += sets.real_examples * outcomes
        return total


def probabilities(candidates: Candidates) -> Float[jax.Array, "rows candidates"]:
    """Softmax over the present candidates; a row without any has all zeros.

    >>> full, empty = jnp.array([True, True]), jnp.array([False, False])
    >>> where = jnp.stack([full, empty])
    >>> probabilities(Candidates(jnp.zeros((2, 2)), where, where))
    Array([[0.5, 0.5],
           [0. , 0. ]], dtype=float32)
    """
    (logits,) = widen(candidates.logits)
    masked = jnp.where(candidates.where, logits, -jnp.inf)
    largest = jnp.max(masked, axis=-1, keepdims=True)
    raised = jnp.exp(masked - jnp.where(jnp.isfinite(largest), largest, 0.0))
    total = jnp.sum(raised, axis=-1, keepdims=True)
    return raised / jnp.where(total == 0.0, 1.0, total)


def draw_labels(
    model: FisherModel, candidates: Candidates, key: jax.Array
) -> Int[jax.Array, "rows samples"] | None:
    """Which candidates stand for the label: none for ``ggn``, drawn ones, or the data's own.

    >>> own = jnp.eye(2, dtype=bool)
    >>> draw_labels(FisherModel("empirical"), Candidates(jnp.zeros((2, 2)), own, own | True),
    ...             jax.random.key(0))
    Array([[0],
           [1]], dtype=int32)
    """
    if model.kind == "ggn":
        return None
    if model.kind == "empirical":
        return jnp.argmax(candidates.positives, axis=-1, keepdims=True).astype(jnp.int32)
    # float32 draws whatever the width, so that float64 checks see the same labels.
    masked = jnp.where(candidates.where, candidates.logits, -jnp.inf).astype(jnp.float32)
    shape = (model.samples, masked.shape[0])
    return jax.random.categorical(key, masked, axis=-1, shape=shape).T.astype(jnp.int32)


def root_push(
    p: Float[Array, "rows candidates"],
    labels: Int[Array, "rows samples"] | None,
    tangent: Float[Array, "rows candidates"],
) -> Float[jax.Array, "rows outcomes"]:
    r"""Multiplies each row of ``tangent`` by :math:`R^\top`, where :math:`H = R R^\top`.

    At the logits :math:`H = \operatorname{diag}(p) - p p^\top` for the true Fisher, whose root is
    :math:`R = \operatorname{diag}(\sqrt p) - p \sqrt p^\top`; with labels :math:`y_s` it is
    :math:`\frac 1 k \sum_s (p - y_s)(p - y_s)^\top`.

    >>> p = jnp.array([[0.5, 0.5]])
    >>> float(jnp.sum(root_push(p, None, jnp.array([[1.0, 0.0]])) ** 2).round(4))  # the variance
    0.25
    """
    mean = jnp.sum(p * tangent, axis=-1, keepdims=True)
    if labels is None:
        return jnp.sqrt(p) * (tangent - mean)
    found = jnp.take_along_axis(tangent, labels, axis=-1)
    return _present(p) * (mean - found) / jnp.sqrt(float(labels.shape[-1]))


def root_pull(
    p: Float[Array, "rows candidates"],
    labels: Int[Array, "rows samples"] | None,
    outcomes: Float[Array, "rows outcomes"],
) -> Float[jax.Array, "rows candidates"]:
    """Multiplies each row of ``outcomes`` by ``R``: the transpose of :func:`root_push`.

    >>> p = jnp.array([[0.5, 0.5]])
    >>> root_pull(p, None, root_push(p, None, jnp.array([[1.0, 0.0]]))).round(4)
    Array([[ 0.25, -0.25]], dtype=float32)
    """
    if labels is None:
        root = jnp.sqrt(p)
        return root * outcomes - p * jnp.sum(root * outcomes, axis=-1, keepdims=True)
    outcomes = _present(p) * outcomes / jnp.sqrt(float(labels.shape[-1]))
    rows = lax.broadcasted_iota(jnp.int32, labels.shape, 0)
    spread = jnp.asarray(p * jnp.sum(outcomes, axis=-1, keepdims=True))
    return spread.at[rows, labels].add(-outcomes)


def _present(p: jax.Array | Any) -> Bool[jax.Array, "rows 1"]:
    """Rows that are no padding: the label of a padding row is nobody's."""
    return jnp.any(p > 0.0, axis=-1, keepdims=True)
