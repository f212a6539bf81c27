"""Which documents are relevant to which query, and which others they are compared with."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from magjax.checks import InputError, choose
from magjax.evaluation import Ranking

__all__ = ["NEGATIVES", "Judgements", "Negatives", "choose_negatives"]

NEGATIVES: tuple[str, ...] = ("random", "top_k", "all")
"""Kinds of documents that relevant ones are compared with."""


@dataclasses.dataclass(frozen=True, eq=False)
class Judgements:
    """Judgements as rows of the embeddings.

    Args:
        relevant: per query, the rows of the documents judged above 0, ascending.
        excluded: per query, the rows of documents that are never returned.
        documents: number of documents.

    >>> Judgements.of({"q": {"d2": 1, "d1": 0}}, ["q"], ["d1", "d2"]).relevant
    (array([1]),)
    """

    relevant: tuple[np.ndarray, ...]
    excluded: tuple[np.ndarray, ...]
    documents: int

    @classmethod
    def of(
        cls,
        qrels: Mapping[str, Mapping[str, int]],
        query_ids: Sequence[str],
        document_ids: Sequence[str],
        exclude: Mapping[str, Collection[str]] | None = None,
    ) -> "Judgements":
        """Finds the rows; a document without a judgement counts as not relevant.

        Raises:
            InputError: a judgement names an unknown query or document, or no document that may be
                returned is relevant.
        """
        row_of = {name: row for row, name in enumerate(document_ids)}
        for query in sorted(set(qrels) - set(query_ids)):
            raise InputError(
                f"the judgements name query {query!r}, which is not among the {len(query_ids)} "
                "queries; use the qrels of these queries."
            )

        def rows(names: Collection[str]) -> np.ndarray:
            return np.array(sorted({row_of[name] for name in names}), np.int64)

        relevant, excluded = [], []
        for query in query_ids:
            grades = qrels.get(query, {})
            for document in grades:
                if document not in row_of:
                    raise InputError(
                        f"the judgements of query {query!r} name document {document!r}, which is "
                        f"not among the {len(document_ids)} documents; use the qrels of these "
                        "documents."
                    )
            never = rows([name for name in (exclude or {}).get(query, ()) if name in row_of])
            found = rows([name for name, grade in grades.items() if grade > 0])
            relevant.append(np.setdiff1d(found, never))
            excluded.append(never)
        if not any(found.size for found in relevant):
            raise InputError(
                "no query has a document judged above 0, so there is nothing to compare; use qrels "
                "with at least one relevant document."
            )
        return cls(tuple(relevant), tuple(excluded), len(document_ids))

    def relevant_queries(self) -> np.ndarray:
        """Per document, the number of queries that it is relevant to: int64 ``[documents]``."""
        return np.bincount(np.concatenate(self.relevant), minlength=self.documents)


@dataclasses.dataclass(frozen=True, eq=False)
class Negatives:
    """The documents that a query's relevant ones are compared with.

    Args:
        kind: one of ``NEGATIVES``.
        description: what they are, for readers.
        pairs: per query their rows; where ``complement``, the rows that are left out.
        complement: whether they are all documents but ``pairs``.
        documents: number of documents.

    >>> Negatives("all", "", (np.array([1]),), True, 3).rows(0)
    array([0, 2])
    """

    kind: str
    description: str
    pairs: tuple[np.ndarray, ...]
    complement: bool
    documents: int

    def rows(self, query: int) -> np.ndarray:
        """The rows of one query, ascending."""
        if not self.complement:
            return self.pairs[query]
        kept = np.ones(self.documents, bool)
        kept[self.pairs[query]] = False
        return np.flatnonzero(kept)

    def counts(self) -> np.ndarray:
        """Per document, the queries that it is compared in: int64 ``[documents]``."""
        listed = np.bincount(np.concatenate(self.pairs), minlength=self.documents)
        return len(self.pairs) - listed if self.complement else listed


def choose_negatives(
    kind: str, judgements: Judgements, ranking: Ranking, *, random: int, top_k: int, seed: int
) -> Negatives:
    """The documents of one kind, for every query.

    Args:
        kind: ``"random"`` draws them without replacement among those that are not relevant,
            ``"top_k"`` takes those among the best that are not, ``"all"`` takes all that are not.
        judgements: what is relevant.
        ranking: documents retrieved, at least ``top_k`` a query.
        random: documents a query of ``"random"`` (all, where there are fewer).
        top_k: depth of the ranking for ``"top_k"``.
        seed: of the draws.

    Raises:
        InputError: an unknown kind.

    >>> judgements = Judgements.of({"q": {"b": 1}}, ["q"], ["a", "b", "c"])
    >>> ranking = Ranking(("q",), (("b", "c"),), (np.array([2.0, 1.0]),), (np.array([1, 2]),))
    >>> choose_negatives("top_k", judgements, ranking, random=1, top_k=2, seed=0).rows(0)
    array([2])
    """
    choose("negatives", kind, NEGATIVES)
    left_out = tuple(
        np.union1d(found, never)
        for found, never in zip(judgements.relevant, judgements.excluded, strict=True)
    )
    number = judgements.documents
    if kind == "all":
        return Negatives(kind, "every document that is not relevant", left_out, True, number)
    if kind == "random":
        draws = np.random.default_rng(seed)
        pairs = tuple(_draw(draws, number, random, never) for never in left_out)
        text = f"{random} documents a query that are not relevant, drawn with seed {seed}"
        return Negatives(kind, text, pairs, False, number)
    pairs = tuple(
        np.setdiff1d(rows[:top_k], found)
        for rows, found in zip(ranking.rows, judgements.relevant, strict=True)
    )
    text = f"those of the {top_k} documents ranked first that are not relevant"
    return Negatives(kind, text, pairs, False, number)


def _draw(draws: np.random.Generator, number: int, count: int, never: np.ndarray) -> np.ndarray:
    """``count`` rows other than ``never``, ascending: drawn among the rows that are left."""
    left = number - never.size
    chosen = np.sort(draws.choice(left, size=min(count, left), replace=False))
    # The i-th row that is left stands i plus the number of left-out rows before it.
    return chosen + np.searchsorted(never - np.arange(never.size), chosen, side="right")
