"""Products with a Fisher matrix as pure functions: push forward, weigh, pull back."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from magjax.fisher._candidate_model import (
    FisherModel,
    Head,
    draw_labels,
    probabilities,
    root_pull,
    root_push,
)
from magjax.fisher._sets import Embed, Embedded

__all__ = ["Arguments", "Program"]

Arguments = dict[str, Any]
"""The arrays of one matrix: parameters, rows, embeddings, masks, labels, score."""


def _in_full_precision(method: Callable[..., Any]) -> Callable[..., Any]:
    """Traces with float32 products in full: TF32, a GPU's default, keeps 11 bits of 24."""

    @functools.wraps(method)
    def traced(*arguments: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return method(*arguments)

    return traced


@dataclasses.dataclass(frozen=True)
class Program:
    """The static half of an operator: equal programs share their compiled code."""

    embed: Embed
    structure: Any
    names: tuple[str, ...]
    chosen: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    model: FisherModel
    sets: int
    size: int
    keeps_residuals: bool

    def unravel(self, vector: jax.Array) -> dict[str, jax.Array]:
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = jnp.split(vector, np.cumsum(sizes)[:-1].tolist())
        return {
            name: part.reshape(shape)
            for name, part, shape in zip(self.chosen, parts, self.shapes, strict=True)
        }

    def ravel(self, parts: dict[str, jax.Array]) -> jax.Array:
        return jnp.concatenate([parts[name].reshape(-1) for name in self.chosen])

    def embed_chunk(self, varying: Any, fixed: Any, rows: Any) -> Embedded:
        merged = {**fixed, **varying}
        tree = jax.tree.unflatten(self.structure, [merged[name] for name in self.names])
        return self.embed(tree, rows)

    def unchunk(self, chunks: Embedded) -> Embedded:
        """[chunks, rows, ...] to [sets, size, ...], the padding at the end left out."""

        def reshape(leaf: jax.Array) -> jax.Array:
            flat = leaf.reshape(-1, *leaf.shape[2:])[: self.sets * self.size]
            return flat.reshape(self.sets, self.size, *flat.shape[1:])

        return jax.tree.map(reshape, chunks)

    def chunk(self, embedded: Embedded, shape: tuple[int, int]) -> Embedded:
        """[sets, size, ...] to [chunks, rows, ...], with zeros for the padding."""

        def reshape(leaf: jax.Array) -> jax.Array:
            flat = leaf.reshape(-1, *leaf.shape[2:])
            missing = shape[0] * shape[1] - flat.shape[0]
            flat = jnp.pad(flat, [(0, missing)] + [(0, 0)] * (flat.ndim - 1))
            return flat.reshape(*shape, *flat.shape[1:])

        return jax.tree.map(reshape, embedded)

    @_in_full_precision
    def embed_all(self, varying: Any, fixed: Any, rows: Any) -> Embedded:
        return self.unchunk(lax.map(lambda part: self.embed_chunk(varying, fixed, part), rows))

    @_in_full_precision
    def linearize(self, varying: Any, fixed: Any, rows: Any) -> Any:
        """The pullback of the one chunk's embeddings, with the residuals that it needs."""
        part = jax.tree.map(lambda leaf: leaf[0], rows)
        return jax.vjp(lambda some: self.embed_chunk(some, fixed, part), varying)[1]

    @_in_full_precision
    def labels(self, embedded: Embedded, masks: Any, head: Head, key: jax.Array) -> Any:
        """One set of labels a way: [sets, size, samples], or None where the kind needs none."""

        def of_set(number: jax.Array, part: Embedded, mask: Any) -> list[Any]:
            return [
                draw_labels(
                    self.model,
                    self.model.candidates(part, mask, head, way),
                    jax.random.fold_in(jax.random.fold_in(key, number), place),
                )
                for place, way in enumerate(self.model.ways)
            ]

        return lax.map(lambda item: of_set(*item), (jnp.arange(self.sets), embedded, masks))

    @_in_full_precision
    def push(self, vector: jax.Array, arguments: Arguments) -> list[jax.Array]:
        """Parameters to outcomes: ``A v``, where the Fisher is ``A^T A / examples``."""
        tangents = self.unravel(vector)
        varying, fixed, rows = (arguments[name] for name in ("varying", "fixed", "rows"))
        if self.keeps_residuals:
            # The transpose of the pullback is the forward product, from the same residuals.
            shapes = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype),
                self.chunk_shapes(arguments),
            )
            backward = arguments["pullback"]
            transposed = jax.linear_transpose(lambda ct: backward(ct)[0], shapes)
            found = jax.tree.map(lambda leaf: leaf[None], transposed(tangents)[0])
        else:
            found = lax.map(
                lambda part: jax.jvp(
                    lambda some: self.embed_chunk(some, fixed, part), (varying,), (tangents,)
                )[1],
                rows,
            )

        def of_set(part: Embedded, tangent: Embedded, mask: Any, labels: Any) -> list[jax.Array]:
            outcomes = []
            for way, drawn in zip(self.model.ways, labels, strict=True):
                logits = self.logits_of(mask, arguments["head"], way)
                p = probabilities(self.model.candidates(part, mask, arguments["head"], way))
                moved = jax.jvp(logits, (part,), (tangent,))[1]
                outcomes.append(root_push(p, drawn, moved))
            return outcomes

        return lax.map(
            lambda item: of_set(*item),
            (
                arguments["embedded"],
                self.unchunk(found),
                arguments["masks"],
                arguments["labels"],
            ),
        )

    @_in_full_precision
    def pull(self, outcomes: list[jax.Array], arguments: Arguments) -> jax.Array:
        """Outcomes to parameters: ``A^T z``."""

        def of_set(part: Embedded, some: Any, mask: Any, labels: Any) -> Embedded:
            total = None
            for way, outcome, drawn in zip(self.model.ways, some, labels, strict=True):
                logits = self.logits_of(mask, arguments["head"], way)
                p = probabilities(self.model.candidates(part, mask, arguments["head"], way))
                (found,) = jax.vjp(logits, part)[1](root_pull(p, drawn, outcome))
                total = found if total is None else jax.tree.map(jnp.add, total, found)
            assert total is not None
            return total

        cotangents = lax.map(
            lambda item: of_set(*item),
            (arguments["embedded"], outcomes, arguments["masks"], arguments["labels"]),
        )
        varying, fixed, rows = (arguments[name] for name in ("varying", "fixed", "rows"))
        shape = jax.tree.leaves(rows)[0].shape[:2]
        chunks = self.chunk(cotangents, shape)
        if self.keeps_residuals:
            (parts,) = arguments["pullback"](jax.tree.map(lambda leaf: leaf[0], chunks))
            return self.ravel(parts)

        def add(total: Any, item: Any) -> tuple[Any, None]:
            part, cotangent = item
            backward = jax.vjp(lambda some: self.embed_chunk(some, fixed, part), varying)[1]
            return jax.tree.map(jnp.add, total, backward(cotangent)[0]), None

        zeros = jax.tree.map(jnp.zeros_like, varying)
        return self.ravel(lax.scan(add, zeros, (rows, chunks))[0])

    def logits_of(self, mask: Any, head: Head, way: str) -> Any:
        return lambda part: self.model.candidates(part, mask, head, way).logits

    def chunk_shapes(self, arguments: Arguments) -> Any:
        rows = arguments["rows"]
        shape = jax.tree.leaves(rows)[0].shape[:2]
        return jax.eval_shape(lambda e: self.chunk(e, shape), arguments["embedded"])

    def __call__(self, vector: jax.Array, arguments: Arguments) -> jax.Array:
        """The Fisher matrix times a flat vector."""
        outcomes = self.push(vector, arguments)
        return self.pull(outcomes, arguments) / arguments["weight"]
