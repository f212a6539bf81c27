"""Search through an index of vectors: exact, or approximate by faiss."""

import contextlib
import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError, need, positive_integer
from magjax.evaluation._exact import exact_scores, length_factors
from magjax.evaluation._ranking import Ranking, rank
from magjax.evaluation._search import search
from magjax.evaluation._search_inputs import checked_embeddings, excluded_rows, finite_squares
from magjax.similarity import Score

__all__ = ["VectorIndex", "check_index", "search_index"]

_BLOCK = 65_536  # vectors normalized and added at a time
_TRAINING = 262_144  # vectors that an index learns its cells from, at most
# Built by several threads, these differ from run to run (faiss issues 983 and 2548).
_UNORDERED = re.compile("HNSW|NSG|OPQ|PCA")
_NORMALIZING = re.compile("L2norm|ITQ")


def check_index(index: str, index_search: str = "") -> str | None:
    """Faiss's factory string in ``index``, or None for exact search.

    Args:
        index: ``"exact"`` or ``"faiss:FACTORY"``, such as ``faiss:HNSW32`` or ``faiss:IVF64,Flat``.
        index_search: faiss's search parameters, such as ``efSearch=64`` or ``nprobe=8``.

    Raises:
        InputError: another name, a factory that normalizes vectors, parameters for exact search,
            or faiss is not installed.

    >>> check_index("exact") is None
    True
    >>> check_index("hnsw")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: index 'hnsw' is neither exact nor faiss:FACTORY; write for example \
faiss:HNSW32.
    """
    kind, _, factory = index.partition(":")
    if index == "exact":
        if index_search:
            raise InputError(
                f"index_search={index_search!r} is for an approximate index, but index is exact; "
                "leave it out."
            )
        return None
    if kind != "faiss" or not re.fullmatch(r"\S+", factory):
        raise InputError(
            f"index {index!r} is neither exact nor faiss:FACTORY; write for example faiss:HNSW32."
        )
    if _NORMALIZING.search(factory):
        raise InputError(
            f"index {index!r} normalizes every vector, which makes any score a cosine; leave "
            "L2norm and ITQ out: vectors are stored under the trained score already."
        )
    need("faiss", "faiss")
    return factory


def search_index(
    query_embeddings: Any,
    document_embeddings: Any,
    *,
    index: str,
    index_search: str = "",
    score: Score,
    k: int,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    exclude: Mapping[str, Collection[str]] | None = None,
    rescore: bool = False,
    block_size: int = 65_536,
    mesh: Mesh | None = None,
) -> Ranking:
    """As :func:`search`, but through an index: what it misses is missing.

    The index holds ``d / ‖d‖^gamma_document`` and is asked for the largest inner products with
    ``q / ‖q‖^gamma_query``, which are the scores. A query may have fewer than ``k`` documents,
    where the index finds no more. The same vectors give the same index: graphs are built by one
    thread.

    faiss's HNSW visits at least as many documents as it is asked for, whatever ``efSearch`` says:
    with ``k`` = 100 the first ten are better than a search for ten would find.

    Args:
        query_embeddings: raw ``[queries, dim]``.
        document_embeddings: raw ``[documents, dim]``.
        index: ``"exact"`` or ``"faiss:FACTORY"``, such as ``faiss:HNSW32`` or ``faiss:IVF64,Flat``.
        index_search: faiss's search parameters, such as ``efSearch=64`` or ``nprobe=8``.
        score: the powers to rank by.
        k: documents a query.
        query_ids: one name a query, unique.
        document_ids: one name a document, unique.
        exclude: documents never to return, per query id.
        rescore: rank what the index finds by the exact score instead of by the index's own
            numbers, which are rounded (and with quantized vectors coarse).
        block_size: as in :func:`search`, for an exact index.
        mesh: as in :func:`search`, for an exact index.

    Raises:
        InputError: as :func:`search` and :func:`check_index`; or faiss refuses the factory, the
            parameters or the number of documents.

    >>> documents = np.array([[1.0, 0.0], [10.0, 0.0]], np.float32)
    >>> query = np.array([[3.0, 4.0]], np.float32)
    >>> found = search_index(query, documents, index="exact", score=Score.of("qnorm"), k=1,
    ...     query_ids=["q"], document_ids=["d1", "d2"])
    >>> found.documents
    (('d2',),)
    """
    built = VectorIndex.build(
        document_embeddings,
        document_ids,
        index=index,
        index_search=index_search,
        score=score,
        block_size=block_size,
        mesh=mesh,
    )
    return built.search(
        query_embeddings, query_ids=query_ids, k=k, exclude=exclude, rescore=rescore
    )


@dataclasses.dataclass(frozen=True, eq=False)
class VectorIndex:
    """Documents ready to be searched many times, and their exact scores."""

    array: np.ndarray  # raw [documents, dim]
    ids: Sequence[str]
    factors: np.ndarray  # float64 [documents]
    score: Score
    faiss_index: Any  # None: exact
    block_size: int
    mesh: Mesh | None

    @classmethod
    def build(
        cls,
        document_embeddings: Any,
        document_ids: Sequence[str],
        *,
        index: str,
        index_search: str = "",
        score: Score,
        block_size: int = 65_536,
        mesh: Mesh | None = None,
    ) -> "VectorIndex":
        """As :func:`search_index` takes them."""
        factory = check_index(index, index_search)
        array = checked_embeddings("document", document_embeddings, document_ids)
        squares = finite_squares("document", array, document_ids)
        factors = length_factors(squares, score.gamma_document)
        found = None if factory is None else _faiss_index(array, factors, factory, index_search)
        return cls(array, document_ids, factors, score, found, block_size, mesh)

    def search(
        self,
        query_embeddings: Any,
        *,
        query_ids: Sequence[str],
        k: int,
        exclude: Mapping[str, Collection[str]] | None = None,
        rescore: bool = False,
    ) -> Ranking:
        """As :func:`search_index`."""
        if self.faiss_index is None:
            return search(
                query_embeddings,
                self.array,
                score=self.score,
                k=k,
                query_ids=query_ids,
                document_ids=self.ids,
                exclude=exclude,
                block_size=self.block_size,
                mesh=self.mesh,
            )
        k = positive_integer("k", k)
        queries, factors = self._queries(query_embeddings, query_ids)
        excluded = excluded_rows(exclude, query_ids, self.ids)
        count = min(k + max(map(len, excluded)), len(self.ids))
        values, places = self.faiss_index.search(_scaled(queries, factors), count)
        rows, scores = [], []
        for i, left_out in enumerate(excluded):
            found = (places[i] >= 0) & ~np.isin(places[i], left_out)  # -1: nothing more was found
            mine, numbers = places[i][found], values[i][found].astype(np.float64)
            if rescore:
                numbers = self._scores(queries[i], factors[i], mine)
            order = rank(numbers, [self.ids[row] for row in mine.tolist()])[:k]
            rows.append(mine[order])
            scores.append(numbers[order])
        documents = tuple(tuple(self.ids[row] for row in mine.tolist()) for mine in rows)
        return Ranking(tuple(query_ids), documents, tuple(scores), tuple(rows))

    def scores(
        self,
        query_embeddings: Any,
        query_ids: Sequence[str],
        rows: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        """The exact scores, float64, of each query's ``rows`` of the corpus."""
        queries, factors = self._queries(query_embeddings, query_ids)
        return [self._scores(queries[i], factors[i], mine) for i, mine in enumerate(rows)]

    def _queries(
        self, query_embeddings: Any, query_ids: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        array = checked_embeddings("query", query_embeddings, query_ids)
        if array.shape[1] != self.array.shape[1]:
            raise InputError(
                f"queries have {array.shape[1]} dimensions and documents {self.array.shape[1]}; "
                "embed both with the same model."
            )
        squares = finite_squares("query", array, query_ids)
        return array, length_factors(squares, self.score.gamma_query)

    def _scores(self, query: np.ndarray, factor: float, rows: np.ndarray) -> np.ndarray:
        # The sum and the order of its factors are those of search(): equal to the last bit.
        raw = exact_scores(query.astype(np.float64), self.array, rows) * self.factors[rows]
        return raw * factor + 0.0


def _scaled(array: np.ndarray, factors: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.astype(np.float64) * factors[:, None], np.float32)


def _faiss_index(array: np.ndarray, factors: np.ndarray, factory: str, index_search: str) -> Any:
    faiss = need("faiss", "faiss")
    count, dim = array.shape
    threads = _one_thread(faiss) if _UNORDERED.search(factory) else contextlib.nullcontext()
    try:
        index = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
        with threads:
            if not index.is_trained:
                # Evenly spaced: corpora are often sorted by source or length.
                some = np.linspace(0, count - 1, min(count, _TRAINING)).astype(np.int64)
                index.train(_scaled(array[some], factors[some]))
            for start in range(0, count, _BLOCK):
                part = slice(start, start + _BLOCK)
                index.add(_scaled(array[part], factors[part]))
        if index_search:
            faiss.ParameterSpace().set_index_parameters(index, index_search)
    except RuntimeError as error:
        search_with = f" with {index_search}" if index_search else ""
        raise InputError(
            f"faiss refuses {factory!r}{search_with} by inner product for {count} vectors of {dim} "
            f"dimensions ({_reason(error)})."
        ) from error
    return index


@contextlib.contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def _reason(error: RuntimeError) -> str:
    """Faiss's message without the place in its C++ source."""
    return str(error).rpartition("Error: ")[2].strip().splitlines()[-1].rstrip(".")
