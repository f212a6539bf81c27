"""Exact top-k search: float32 candidates, float64 scores, a certificate that nothing is missing."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError, positive_integer
from magjax.evaluation._candidates import GROUP, merge_block, score_bounds
from magjax.evaluation._exact import (
    exact_scores,
    length_factors,
    upper_bound_terms,
)
from magjax.evaluation._ranking import Ranking, rank
from magjax.evaluation._search_inputs import checked_embeddings, excluded_rows, finite_squares
from magjax.mesh import data_mesh, replicate, rows
from magjax.similarity import Score

__all__ = ["search"]

_MARGIN = 28  # candidates beyond k: near-ties at the k-th place seldom outnumber them
_QUERIES = 256  # queries a block of bounds: 64 MiB with 65,536 documents


def search(
    query_embeddings: Any,
    document_embeddings: Any,
    *,
    score: Score,
    k: int,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    exclude: Mapping[str, Collection[str]] | None = None,
    block_size: int = 65_536,
    mesh: Mesh | None = None,
) -> Ranking:
    r"""The k documents of largest score for each query: exact, and the same however it is run.

    Scores are :math:`\langle q, d\rangle \lVert q\rVert^{-\gamma_q} \lVert d\rVert^{-\gamma_d}`,
    summed in float64 in a fixed order; equal scores stand by document id descending, as trec_eval
    ranks them. Neither ``block_size``, the number of devices nor ``k`` changes a score or an order:
    float32 products (at highest precision) only choose candidates, by an upper bound on each exact
    score. Where the k-th exact score found does not exceed every bound left out, all documents
    whose bound reaches it are scored too.

    Time is that of one float32 matrix product plus k + 28 float64 sums a query; working memory is
    one block of 256 x ``block_size`` bounds. Queries with many documents nearly tied at the k-th
    place cost one more product and the float64 sums of those documents.

    Args:
        query_embeddings: raw ``[queries, dim]``, float32 (float16 and bfloat16 are widened).
        document_embeddings: raw ``[documents, dim]``; a memory map works, blocks are read in turn.
        score: the powers to rank by; the temperature does not matter.
        k: documents a query; all of them if there are fewer.
        query_ids: one name a query, unique.
        document_ids: one name a document, unique.
        exclude: documents never to return, per query id; others take their place. Ids that do not
            occur are ignored.
        block_size: documents a block.
        mesh: devices to use; default: all of this process.

    Raises:
        InputError: shapes or ids disagree, an id repeats, another dtype, or an embedding that is
            not finite (its id is named).

    >>> documents = np.array([[1.0, 0.0], [10.0, 0.0]], np.float32)
    >>> query = np.array([[3.0, 4.0]], np.float32)
    >>> found = search(query, documents, score=Score.of("qnorm"), k=2, query_ids=["q"],
    ...     document_ids=["d1", "d2"])
    >>> {name: round(value, 9) for name, value in found.to_run()["q"].items()}
    {'d2': 6.0, 'd1': 0.6}
    """
    k = positive_integer("k", k)
    query_array = checked_embeddings("query", query_embeddings, query_ids)
    document_array = checked_embeddings("document", document_embeddings, document_ids)
    if query_array.shape[1] != document_array.shape[1]:
        raise InputError(
            f"queries have {query_array.shape[1]} dimensions and documents "
            f"{document_array.shape[1]}; embed both with the same model."
        )
    queries = _Queries.of(query_array, query_ids, score.gamma_query)
    corpus = _Corpus.of(
        document_array,
        document_ids,
        score.gamma_document,
        positive_integer("block_size", block_size),
        mesh or data_mesh(jax.local_devices()),
    )
    excluded = excluded_rows(exclude, query_ids, document_ids)

    most_excluded = max((len(left_out) for left_out in excluded), default=0)
    count = min(k + _MARGIN + most_excluded, len(corpus))
    bounds, candidates = corpus.candidates(queries.unit, count)
    found = [
        _best(queries, i, corpus, candidates[i], left_out, k) for i, left_out in enumerate(excluded)
    ]
    if count < len(corpus):
        # Every document left out has an exact score of at most the least bound taken.
        open_queries = [i for i, best in enumerate(found) if not bounds[i, -1] < best.floor]
        floors = np.array([found[i].floor for i in open_queries])
        for i, reaching in zip(
            open_queries, corpus.reaching(queries.unit[open_queries], floors), strict=True
        ):
            found[i] = _best(queries, i, corpus, reaching, excluded[i], k)
    return Ranking(
        tuple(query_ids),
        tuple(tuple(document_ids[row] for row in best.rows) for best in found),
        tuple(best.scores for best in found),
        tuple(best.rows for best in found),
    )


@dataclasses.dataclass(frozen=True)
class _Queries:
    """Queries widened for exact sums, and as float32 unit vectors for the bounds."""

    wide: np.ndarray  # float64 [queries, dim]
    unit: np.ndarray  # float32 [queries, dim]; a zero query stays zero
    norms: np.ndarray  # float64 [queries]
    factors: np.ndarray  # float64 [queries]

    @classmethod
    def of(cls, array: np.ndarray, ids: Sequence[str], gamma: float) -> "_Queries":
        squares = finite_squares("query", array, ids)
        wide = array.astype(np.float64)
        unit = wide * length_factors(squares, 1.0)[:, None]
        return cls(wide, unit.astype(np.float32), np.sqrt(squares), length_factors(squares, gamma))


@dataclasses.dataclass(frozen=True)
class _Corpus:
    """Documents with what their exact scores and bounds need, read in blocks."""

    array: np.ndarray
    ids: Sequence[str]
    factors: np.ndarray  # float64 [documents]
    scale: np.ndarray  # float32 [documents]
    slack: np.ndarray
    block_size: int
    mesh: Mesh

    @classmethod
    def of(
        cls, array: np.ndarray, ids: Sequence[str], gamma: float, block_size: int, mesh: Mesh
    ) -> "_Corpus":
        squares = finite_squares("document", array, ids)
        factors = length_factors(squares, gamma)
        scale, slack = upper_bound_terms(squares, factors, array.shape[1])
        # Equal blocks, so one shape and little padding; whole groups on each device.
        block, step = -(-len(array) // -(-len(array) // block_size)), GROUP * mesh.size
        block = -(-block // step) * step
        return cls(array, ids, factors, scale, slack, block, mesh)

    def __len__(self) -> int:
        return len(self.array)

    def blocks(self) -> Iterator[tuple[int, jax.Array, jax.Array, jax.Array]]:
        """Offset, documents, scale and slack of each block; padding has a bound of -inf."""
        split = rows(self.mesh)
        for start in range(0, len(self), self.block_size):
            part = slice(start, start + self.block_size)
            documents = np.asarray(self.array[part], np.float32)
            missing = (0, self.block_size - len(documents))
            padded = (
                np.pad(documents, (missing, (0, 0))) if missing[1] else documents,
                np.pad(self.scale[part], missing),
                np.pad(self.slack[part], missing, constant_values=-np.inf),
            )
            yield start, *jax.device_put(padded, split)

    def candidates(self, unit: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``count`` largest bounds of each query, descending, and their rows."""
        blocks = _query_blocks(unit)
        queries = [replicate(block, self.mesh) for block in blocks]
        best = [
            replicate(
                (
                    np.full((len(block), count), -np.inf, np.float32),
                    np.zeros((len(block), count), np.int32),
                ),
                self.mesh,
            )
            for block in blocks
        ]
        for start, documents, scale, slack in self.blocks():
            offset = jnp.int32(start)
            for i, block in enumerate(queries):
                best[i] = merge_block(
                    *best[i], block, documents, scale, slack, offset, mesh=self.mesh
                )
        host = [jax.device_get(pair) for pair in best]
        bounds, found = (np.concatenate(parts)[: len(unit)] for parts in zip(*host, strict=True))
        return bounds, found

    def reaching(self, unit: np.ndarray, floors: np.ndarray) -> list[np.ndarray]:
        """Per query the rows of all documents whose bound is at least its floor."""
        found: list[list[np.ndarray]] = [[] for _ in unit]
        if not len(unit):
            return []
        blocks = _query_blocks(unit)
        for start, documents, scale, slack in self.blocks():
            for j, block in enumerate(blocks):
                first = j * len(block)
                bounds = score_bounds(replicate(block, self.mesh), documents, scale, slack)
                for i, row in enumerate(bounds[: len(unit) - first], start=first):
                    reaches = row[: len(self) - start] >= floors[i]
                    found[i].append(np.flatnonzero(reaches) + start)
        return [np.concatenate(parts) for parts in found]


@dataclasses.dataclass(frozen=True)
class _Best:
    """The best documents among some rows, and the bound that any document missing must reach."""

    rows: np.ndarray
    scores: np.ndarray
    floor: float


def _best(
    queries: _Queries,
    i: int,
    corpus: _Corpus,
    candidates: np.ndarray,
    left_out: np.ndarray,
    k: int,
) -> _Best:
    if left_out.size:
        candidates = candidates[~np.isin(candidates, left_out)]
    scores = exact_scores(queries.wide[i], corpus.array, candidates) * corpus.factors[candidates]
    final = scores * queries.factors[i] + 0.0  # + 0.0: no negative zero
    ids = _Picked(corpus.ids, candidates)
    order = rank(final, ids)[:k]
    floor = -np.inf
    if len(order) == min(k, len(corpus) - len(left_out)):
        last = scores[order[-1]] if len(order) else np.inf
        # In units of the bounds, which belong to a query of length 1. The factor covers the
        # roundings between these float64 numbers, some 1e-16 each.
        floor = last / queries.norms[i] if queries.norms[i] else last
        floor -= 1e-12 * abs(floor) if np.isfinite(floor) else 0.0
    return _Best(candidates[order].astype(np.int64), final[order], floor)


class _Picked(Sequence):
    """Ids of some rows, looked up only when ties ask for them."""

    def __init__(self, ids: Sequence[str], picked: np.ndarray) -> None:
        self._ids, self._picked = ids, picked

    def __getitem__(self, index: Any) -> Any:
        return self._ids[self._picked[index]]

    def __len__(self) -> int:
        return len(self._picked)


def _query_blocks(unit: np.ndarray) -> list[np.ndarray]:
    """Equal blocks of at most 256 rows, the last filled with zeros: one shape to compile."""
    number = -(-len(unit) // _QUERIES)
    size = -(-len(unit) // number)
    padded = np.pad(unit, ((0, number * size - len(unit)), (0, 0)))
    return np.split(padded, number)
