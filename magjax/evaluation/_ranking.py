"""A ranking: per query the best documents, best first, in one order that never depends on luck."""

import dataclasses
import itertools
import json
import os
from collections.abc import Mapping, Sequence

import numpy as np

from magjax.checks import InputError
from magjax.files import write_text

__all__ = ["Ranking", "rank"]


def rank(scores: np.ndarray, ids: Sequence[str]) -> np.ndarray:
    """The order of the documents: score descending, then id descending as trec_eval has it.

    Ids compare by code point, which is the order of their UTF-8 bytes.

    Args:
        scores: float64 ``[n]``, no NaN.
        ids: one id a score.

    Returns:
        int64 ``[n]``, positions in ``scores``.

    >>> rank(np.array([0.5, 0.9, 0.5]), ["a", "b", "c"]).tolist()
    [1, 2, 0]
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not tied.size:
        return order
    # Ids are compared inside runs of equal scores only: sorting all ids costs more than the sums.
    starts = np.split(tied, np.flatnonzero(np.diff(tied) > 1) + 1)
    for run in starts:
        span = slice(run[0], run[-1] + 2)
        order[span] = sorted(order[span], key=ids.__getitem__, reverse=True)
    return order


@dataclasses.dataclass(frozen=True, eq=False)
class Ranking:
    """The best documents of each query, best first.

    Args:
        query_ids: one name a query.
        documents: per query the ids of its documents, best first.
        scores: per query float64 ``[n]``, descending; equal scores stand by id descending.
        rows: per query int64 ``[n]``, where each document stands in the corpus.

    >>> ranking = Ranking(("q",), (("d2", "d1"),), (np.array([0.9, 0.5]),), (np.array([1, 0]),))
    >>> ranking.to_run()
    {'q': {'d2': 0.9, 'd1': 0.5}}
    """

    query_ids: Sequence[str]
    documents: Sequence[Sequence[str]]
    scores: Sequence[np.ndarray]
    rows: Sequence[np.ndarray]

    def __post_init__(self) -> None:
        lengths = {len(self.query_ids), len(self.documents), len(self.scores), len(self.rows)}
        if len(lengths) > 1:
            raise InputError(
                f"a ranking needs documents, scores and rows of each query; got {len(self.query_ids)} "
                f"queries, {len(self.documents)} lists of documents, {len(self.scores)} of scores "
                f"and {len(self.rows)} of rows."
            )

    def __len__(self) -> int:
        return len(self.query_ids)

    @classmethod
    def from_run(cls, run: Mapping[str, Mapping[str, float]]) -> "Ranking":
        """The ranking of scores that another system gave, ordered as trec_eval orders them.

        There is no corpus here: ``rows`` number the documents as the run first names them.

        Raises:
            InputError: a score is NaN.

        >>> ranking = Ranking.from_run({"q": {"a": 0.5, "b": 0.9, "c": 0.5}})
        >>> ranking.documents, ranking.rows[0].tolist()
        ((('b', 'c', 'a'),), [1, 2, 0])
        """
        numbers: dict[str, int] = {}
        documents, scores, rows = [], [], []
        for query, found in run.items():
            ids = list(found)
            values = np.array([found[name] for name in ids], np.float64)
            if np.isnan(values).any():
                raise InputError(f"the run gives query {query!r} a score NaN; scores are numbers.")
            places = [numbers.setdefault(name, len(numbers)) for name in ids]
            order = rank(values, ids)
            documents.append(tuple(ids[i] for i in order))
            scores.append(values[order])
            rows.append(np.array([places[i] for i in order], np.int64))
        return cls(tuple(run), tuple(documents), tuple(scores), tuple(rows))

    def to_run(self) -> Mapping[str, Mapping[str, float]]:
        """The run that :func:`evaluate_run` takes: ``{query id: {document id: score}}``."""
        return {
            query: dict(zip(documents, scores.tolist(), strict=True))
            for query, documents, scores in zip(
                self.query_ids, self.documents, self.scores, strict=True
            )
        }

    def write_trec(self, path: str | os.PathLike[str], tag: str) -> None:
        r"""Writes a TREC run file, ``query Q0 document rank score tag``, in one rename.

        Scores have 17 digits, so that reading them back gives the same numbers. Readers that keep
        float32 scores, as trec_eval does, may still order near-ties their own way.

        Raises:
            InputError: an id or the tag is empty or holds white space, which the format cannot
                express.

        >>> import tempfile, pathlib
        >>> target = pathlib.Path(tempfile.mkdtemp(), "run.trec")
        >>> ranking = Ranking(("q",), (("d",),), (np.array([0.5]),), (np.array([0]),))
        >>> ranking.write_trec(target, "magjax")
        >>> target.read_text()
        'q Q0 d 1 0.5 magjax\n'
        """
        _check_words("tag", [tag])
        _check_words("query id", self.query_ids)
        lines = []
        for query, documents, scores in zip(
            self.query_ids, self.documents, self.scores, strict=True
        ):
            _check_words("document id", documents)
            lines += [
                f"{query} Q0 {document} {place} {score!r} {tag}\n"
                for place, (document, score) in enumerate(
                    zip(documents, scores.tolist(), strict=True), start=1
                )
            ]
        write_text(path, "".join(lines))

    def fits_trec(self) -> bool:
        """Whether every id can stand in a TREC run, which separates its fields by white space.

        >>> Ranking.from_run({"q": {"d 1": 0.5}}).fits_trec()
        False
        """
        ids = itertools.chain(self.query_ids, *self.documents)
        return all(map(_is_word, ids))

    def write_jsonl(self, path: str | os.PathLike[str]) -> None:
        r"""Writes ``{"query_id", "documents", "scores"}`` a line, which holds any id, in one rename.

        ``magjax.data.read_run`` reads it back as it reads a TREC run.

        >>> import tempfile, pathlib
        >>> target = pathlib.Path(tempfile.mkdtemp(), "run.jsonl")
        >>> Ranking.from_run({"q": {"d 1": 0.5}}).write_jsonl(target)
        >>> target.read_text()
        '{"query_id": "q", "documents": ["d 1"], "scores": [0.5]}\n'
        """
        lines = [
            json.dumps(
                {"query_id": query, "documents": list(documents), "scores": scores.tolist()},
                ensure_ascii=False,
            )
            for query, documents, scores in zip(
                self.query_ids, self.documents, self.scores, strict=True
            )
        ]
        write_text(path, "".join(line + "\n" for line in lines))


def _is_word(text: str) -> bool:
    return len(text.split()) == 1 and text == text.strip()


def _check_words(kind: str, words: Sequence[str]) -> None:
    for word in words:
        if not _is_word(word):
            raise InputError(
                f"{kind} {word!r} cannot stand in a TREC run file, whose fields are separated by "
                "white space; rename it, or use the JSON output."
            )
