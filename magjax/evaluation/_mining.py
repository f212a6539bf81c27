"""Hard negatives: documents that the trained score ranks high and that answer nobody's query."""

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError, choose, positive_integer
from magjax.data import TrainingSet, text_key
from magjax.evaluation._index import VectorIndex
from magjax.similarity import Score

__all__ = [
    "SAMPLES",
    "MinedQuery",
    "MiningSettings",
    "NegativeMiner",
    "known_answers",
    "mine_negatives",
]

SAMPLES = ("top", "random")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MiningSettings:
    r"""Which of a query's candidates become its negatives.

    Candidates are the ``k`` best documents, without known answers. The first ``skip_top`` are
    passed over; then those that score too high to be safely wrong; of the rest ``negatives`` are
    taken.

    Args:
        k: candidates a query.
        negatives: how many to take, at most.
        skip_top: the best candidates to pass over, likely answers that nobody has judged.
        margin: leaves out candidates above :math:`s^+ - m\lvert s^+\rvert`, where :math:`s^+` is
            the score of the query's lowest answer: (1 - m) of it where it is positive, and below it
            where it is negative. None leaves out none.
        max_score: leaves out candidates above this score.
        sample: ``"top"``, the best of them, or ``"random"``, drawn by a hash of seed, query id and
            document id: whatever else is mined beside it, a query gets the same.
        seed: of that draw.

    Raises:
        InputError: a count below its least, ``k`` too small for what is skipped and taken, a
            margin below 0, or an unknown way to sample.

    >>> MiningSettings(negatives=4).margin
    0.05
    """

    k: int = 100
    negatives: int = 8
    skip_top: int = 0
    margin: float | None = 0.05
    max_score: float | None = None
    sample: str = "top"
    seed: int = 0

    def __post_init__(self) -> None:
        positive_integer("k", self.k)
        positive_integer("negatives", self.negatives)
        if self.skip_top < 0:
            raise InputError(f"skip_top={self.skip_top} must be 0 or more.")
        if self.skip_top + self.negatives > self.k:
            raise InputError(
                f"k={self.k} candidates cannot give {self.negatives} negatives after "
                f"skip_top={self.skip_top}; set k to {self.skip_top + self.negatives} or more."
            )
        for name, value in (("margin", self.margin), ("max_score", self.max_score)):
            if value is not None and not np.isfinite(value):
                raise InputError(f"{name}={value} must be a number.")
        if self.margin is not None and self.margin < 0.0:
            raise InputError(f"margin={self.margin} must be 0 or more; None is no margin.")
        choose("sample", self.sample, SAMPLES)


@dataclasses.dataclass(frozen=True, eq=False)
class MinedQuery:
    """One query with its answers and its negatives, both with scores.

    Args:
        row: of the training set.
        positives: rows of its answers in the corpus.
        positive_scores: float64, one an answer.
        negatives: rows of its negatives in the order of the candidates; may be empty.
        negative_scores: float64, one a negative.

    >>> data = TrainingSet(["q"], ["sum"], [(0,)], [()], ["d", "e"], ["a + b", "a - b"])
    >>> unit = np.eye(2, dtype=np.float32)
    >>> (found,) = mine_negatives(data, unit[:1], unit, score=Score.of("dot"))
    >>> found.to_json(data)["negatives"]
    ['a - b']
    """

    row: int
    positives: Sequence[int]
    positive_scores: np.ndarray
    negatives: np.ndarray
    negative_scores: np.ndarray

    def to_json(self, training_set: TrainingSet) -> dict[str, Any]:
        """The record that :func:`magjax.data.read_pairs_jsonl` reads; it passes over the scores."""
        record: dict[str, Any] = {
            "query_id": training_set.query_ids[self.row],
            "query": training_set.queries[self.row],
        }
        for kind, rows, scores in (
            ("positive", self.positives, self.positive_scores),
            ("negative", self.negatives.tolist(), self.negative_scores),
        ):
            record[f"{kind}s"] = [training_set.documents[row] for row in rows]
            record[f"{kind}_ids"] = [training_set.document_ids[row] for row in rows]
            record[f"{kind}_scores"] = scores.tolist()
        return record


def mine_negatives(
    training_set: TrainingSet,
    query_embeddings: Any,
    document_embeddings: Any,
    *,
    score: Score,
    settings: MiningSettings | None = None,
    index: str = "exact",
    index_search: str = "",
    candidates: Sequence[np.ndarray] | None = None,
) -> list[MinedQuery]:
    """Hard negatives of every query, from embeddings.

    Never a negative: the answers of the query, and of any other query of the same text; documents
    whose text is that of such an answer, of the query itself or of a negative taken already (white
    space aside); empty documents. Negatives that a training set brings are candidates like others.

    Args:
        training_set: queries, their answers, and the corpus to search.
        query_embeddings: raw ``[queries, dim]``, in the training set's order.
        document_embeddings: raw ``[documents, dim]``.
        score: the score that the model was trained under; ranks, sets the margin and is written.
        settings: what to take; default: ``MiningSettings()``.
        index: as :func:`search_index` takes it; scores are exact either way.
        index_search: faiss's search parameters.
        candidates: per query rows of the corpus, best first, from another source such as BM25;
            scored by ``score`` and not searched for.

    Returns:
        One entry a query, in order.

    Raises:
        InputError: as :func:`search_index`.

    >>> data = TrainingSet(["q"], ["sum"], [(0,)], [()], list("def"), ["a + b", "a - b", "a * b"])
    >>> documents = np.array([[1.0, 0.0], [0.99, 0.0], [0.5, 0.0]], np.float32)
    >>> (found,) = mine_negatives(data, documents[:1], documents, score=Score.of("dot"))
    >>> found.negatives.tolist(), found.negative_scores.tolist()  # 0.99 is within 5% of 1
    ([2], [0.5])
    """
    miner = NegativeMiner(
        training_set,
        document_embeddings,
        score=score,
        settings=settings or MiningSettings(),
        index=index,
        index_search=index_search,
    )
    return miner.mine(range(len(training_set)), query_embeddings, candidates)


class NegativeMiner:
    """Mines over one corpus, some queries at a time; arguments as :func:`mine_negatives`."""

    def __init__(
        self,
        training_set: TrainingSet,
        document_embeddings: Any,
        *,
        score: Score,
        settings: MiningSettings,
        index: str = "exact",
        index_search: str = "",
        mesh: Mesh | None = None,
    ) -> None:
        self._data = training_set
        self._settings = settings
        self._index = VectorIndex.build(
            document_embeddings,
            training_set.document_ids,
            index=index,
            index_search=index_search,
            score=score,
            mesh=mesh,
        )
        self._known = known_answers(training_set)

    def mine(
        self,
        rows: Sequence[int],
        query_embeddings: Any,
        candidates: Sequence[np.ndarray] | None = None,
    ) -> list[MinedQuery]:
        """The negatives of the queries ``rows``, whose embeddings and candidates are given."""
        data, settings = self._data, self._settings
        ids = [data.query_ids[row] for row in rows]
        known = [self._known[text_key(data.queries[row])] for row in rows]
        if candidates is None:
            ranking = self._index.search(
                query_embeddings,
                query_ids=ids,
                k=settings.k,
                exclude={
                    name: [data.document_ids[d] for d in answers]
                    for name, answers in zip(ids, known, strict=True)
                },
                rescore=True,
            )
            found, scores = list(ranking.rows), list(ranking.scores)
        else:
            found = [
                np.array([d for d in some.tolist() if d not in answers][: settings.k], np.int64)
                for some, answers in zip(candidates, known, strict=True)
            ]
            scores = self._index.scores(query_embeddings, ids, found)
        positives = [np.array(data.positives[row], np.int64) for row in rows]
        positive_scores = self._index.scores(query_embeddings, ids, positives)
        mined = []
        for i, row in enumerate(rows):
            taken = self._take(row, known[i], found[i], scores[i], float(positive_scores[i].min()))
            mined.append(
                MinedQuery(
                    row,
                    tuple(positives[i].tolist()),
                    positive_scores[i],
                    found[i][taken],
                    scores[i][taken],
                )
            )
        return mined

    def _take(
        self, row: int, known: set[int], found: np.ndarray, scores: np.ndarray, lowest: float
    ) -> list[int]:
        """Places in ``found`` of the negatives."""
        data, settings = self._data, self._settings
        seen = {text_key(data.documents[answer]) for answer in known}
        seen |= {"", text_key(data.queries[row])}
        places = []
        for place, document in enumerate(found.tolist()):
            key = text_key(data.documents[document])
            if key not in seen:
                seen.add(key)
                places.append(place)
        ceiling = np.inf if settings.max_score is None else settings.max_score
        if settings.margin is not None:
            # Not (1 - margin) * lowest, which lies above a negative score
            # (sentence-transformers issue 3819).
            ceiling = min(ceiling, lowest - settings.margin * abs(lowest))
        places = [place for place in places[settings.skip_top :] if scores[place] <= ceiling]
        if settings.sample == "random":
            start = f"{settings.seed}\0{data.query_ids[row]}\0"
            places.sort(key=lambda place: _draw(start + data.document_ids[int(found[place])]))
        return sorted(places[: settings.negatives])


def known_answers(training_set: TrainingSet) -> dict[str, set[int]]:
    """By the text of a query, rows of the answers of all queries that read so.

    >>> data = TrainingSet(["a", "b"], ["sum", "sum "], [(0,), (1,)], [()] * 2, ["d", "e"], "xy")
    >>> known_answers(data)
    {'sum': {0, 1}}
    """
    known: dict[str, set[int]] = defaultdict(set)
    for query, answers in zip(training_set.queries, training_set.positives, strict=True):
        known[text_key(query)].update(answers)
    return dict(known)


def _draw(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
