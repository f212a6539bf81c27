"""Numbers that are equal exactly where texts are: what masks compare on the device."""

import dataclasses

import numpy as np

from magjax.data._records import TrainingSet, text_key

__all__ = ["TextNumbers"]


@dataclasses.dataclass(frozen=True)
class TextNumbers:
    """A training set's texts as numbers.

    - ``queries[Q]``, ``documents[D]``: ``int32``, a number per distinct text of the side;
    - ``known[distinct queries, P]``: the documents known to answer that query text, sorted and
      padded by -1;
    - ``negatives``: per query, its hard negatives (indices) without those whose text answers it.

    >>> data = TrainingSet(["q", "r"], ["x", "x"], [(0,), (1,)], [(1,), ()], ["d", "e"], ["y", "z"])
    >>> numbers = TextNumbers.of(data)
    >>> numbers.queries.tolist(), numbers.known.tolist(), numbers.negatives
    ([0, 0], [[0, 1]], [(), ()])
    """

    queries: np.ndarray
    documents: np.ndarray
    known: np.ndarray
    negatives: list[tuple[int, ...]]

    @classmethod
    def of(cls, data: TrainingSet) -> "TextNumbers":
        """Numbers in order of first appearance."""
        queries, documents = _number(data.queries), _number(data.documents)
        answers: list[set[int]] = [set() for _ in range(queries.max() + 1)]
        for query, positives in zip(queries, data.positives, strict=True):
            answers[query].update(documents[list(positives)].tolist())
        known = np.full((len(answers), max(map(len, answers))), -1, np.int32)
        for query, found in enumerate(answers):
            known[query, : len(found)] = sorted(found)
        # A negative whose text answers the same query text elsewhere would teach the opposite.
        negatives = [
            tuple(i for i in row if documents[i] not in answers[query])
            for query, row in zip(queries, data.negatives, strict=True)
        ]
        return cls(queries, documents, known, negatives)


def _number(texts) -> np.ndarray:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text_key(text), len(numbers)) for text in texts], np.int32)
