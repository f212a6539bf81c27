"""Examples in candidate sets: what the encoder embeds, and what says who is whose negative."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx

from magjax.checks import InputError
from magjax.encoders import DualEncoder
from magjax.typing import Array, Float

__all__ = ["CandidateSets", "DualEmbedding", "Embed", "Embedded", "Parameters", "dual_embedding"]

Parameters = Any
"""A tree of arrays."""

# What says which candidates count; every other entry of a batch but "row" goes to the encoder.
_MASKS = (
    "query_ids",
    "document_ids",
    "negative_ids",
    "negatives_where",
    "positive_ids",
    "where",
)


class Embedded(NamedTuple):
    """Raw embeddings of examples.

    Attributes:
        queries: ``[*examples, dim]``.
        documents: ``[*examples, dim]``, each query's positive.
        negatives: ``[*examples, hard, dim]``, or None.

    >>> Embedded._fields
    ('queries', 'documents', 'negatives')
    """

    queries: Float[Array, "*examples dim"]
    documents: Float[Array, "*examples dim"]
    negatives: Float[Array, "*examples hard dim"] | None = None


Embed = Callable[[Parameters, Mapping[str, Any]], Embedded]
"""``embed(parameters, rows)``: rows are examples; what one row holds changes no other row."""


@dataclasses.dataclass(frozen=True)
class CandidateSets:
    """Examples in sets of equal size; the softmax of a query runs over its set's documents.

    Attributes:
        rows: what ``embed`` takes, each leaf ``[examples, ...]``.
        masks: ids and masks as :func:`magjax.losses.candidate_logits` names them, each leaf
            ``[sets, size, ...]``; may be empty.
        sets: number of sets.
        size: examples of a set.

    >>> batch = {"query": np.zeros((2, 4, 3)), "document": np.ones((2, 4, 3)),
    ...          "where": np.ones((2, 4), bool)}
    >>> sets = CandidateSets.from_batch(batch)
    >>> sets.sets, sets.size, sets.examples, sets.rows["query"].shape
    (2, 4, 8, (8, 3))
    """

    rows: dict[str, Any]
    masks: dict[str, Any]
    sets: int
    size: int

    @classmethod
    def from_batch(cls, batch: Mapping[str, Any]) -> "CandidateSets":
        """Reads a batch of :class:`magjax.data.TrainingBatches` with ``accumulation`` sets.

        Args:
            batch: ``query`` and ``document``, optionally ``negatives``, ids and masks; every leaf
                ``[sets, size, ...]`` (``negatives`` ``[sets, size * hard, ...]``).

        Raises:
            InputError: a side is missing, leaves disagree, or a set has fewer than two examples.

        >>> CandidateSets.from_batch({"query": np.zeros((1, 1, 3)), "document": np.ones((1, 1, 3))})
        Traceback (most recent call last):
            ...
        magjax.checks.InputError: a candidate set of 1 example leaves nothing to choose from; give sets of at least 2.
        """
        for side in ("query", "document"):
            if side not in batch:
                raise InputError(f"the batch has no {side!r}; it has {', '.join(batch)}.")
        masks = {name: np.asarray(batch[name]) for name in _MASKS if name in batch}
        rows = {name: value for name, value in batch.items() if name not in (*_MASKS, "row")}
        sets, size = np.shape(jax.tree.leaves(rows["query"])[0])[:2]
        hard = 1
        if "negatives" in rows:
            hard = np.shape(jax.tree.leaves(rows["negatives"])[0])[1] // size
        for name, leaf in _named_leaves({**rows, **masks}):
            wanted = (sets, size * hard) if name == "negatives" else (sets, size)
            if np.shape(leaf)[:2] != wanted:
                raise InputError(
                    f"{name} of the batch has leading axes {np.shape(leaf)[:2]}, not {wanted}: "
                    "[sets, size, ...] as the queries have."
                )
        if size < 2 and hard == 1:
            raise InputError(
                f"a candidate set of {size} example leaves nothing to choose from; give sets of at "
                "least 2."
            )
        flat = {
            name: jax.tree.map(lambda leaf, name=name: _flatten(leaf, name, hard), value)
            for name, value in rows.items()
        }
        return cls(flat, masks, sets, size)

    @property
    def examples(self) -> int:
        """Examples of all sets, padding included."""
        return self.sets * self.size

    @property
    def real_examples(self) -> int:
        """Examples that are no padding: what means are divided by."""
        where = self.masks.get("where")
        return self.examples if where is None else int(np.sum(where))

    def in_sets(self, x: Any) -> Any:
        """Reshapes leaves ``[examples, ...]`` to ``[sets, size, ...]``."""
        return jax.tree.map(lambda leaf: leaf.reshape(self.sets, self.size, *leaf.shape[1:]), x)


def _named_leaves(tree: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, leaf) for name, value in tree.items() for leaf in jax.tree.leaves(value)]


def _flatten(leaf: Any, name: str, hard: int) -> np.ndarray:
    array = np.asarray(leaf)
    if name == "negatives":
        return array.reshape(-1, hard, *array.shape[2:])
    return array.reshape(-1, *array.shape[2:])


@dataclasses.dataclass(frozen=True)
class DualEmbedding:
    """``embed(parameters, rows)`` of a dual encoder, equal for equal architectures.

    Attributes:
        graph: the encoder without its arrays.

    >>> from magjax.encoders import EncoderConfig
    >>> config = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> embed, parameters = dual_embedding(DualEncoder.create(config))
    >>> import jax.numpy as jnp
    >>> tokens = {"input_ids": jnp.array([[2, 7, 3]]), "attention_mask": jnp.array([[1, 1, 1]])}
    >>> embed(parameters, {"query": tokens, "document": tokens}).queries.shape
    (1, 16)
    """

    graph: nnx.GraphDef[DualEncoder]

    def __call__(self, parameters: Parameters, rows: Mapping[str, Any]) -> Embedded:
        """Embeds both sides of some rows, without dropout."""
        encoder = nnx.merge(self.graph, parameters)
        negatives = None
        if "negatives" in rows:
            count, hard = jax.tree.leaves(rows["negatives"])[0].shape[:2]
            flat = jax.tree.map(
                lambda leaf: leaf.reshape(count * hard, *leaf.shape[2:]), dict(rows["negatives"])
            )
            negatives = encoder.embed(flat, "document").reshape(count, hard, -1)
        return Embedded(
            encoder.embed(rows["query"], "query"),
            encoder.embed(rows["document"], "document"),
            negatives,
        )


def dual_embedding(encoder: DualEncoder) -> tuple[DualEmbedding, Parameters]:
    """The embedding function of ``encoder`` and its parameters.

    >>> from magjax.encoders import EncoderConfig
    >>> config = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> dual_embedding(DualEncoder.create(config))[0] == dual_embedding(DualEncoder.create(config))[0]
    True
    """
    graph, state = nnx.split(encoder)
    return DualEmbedding(graph), nnx.as_pure(state)
