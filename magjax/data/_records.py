"""What every reader returns: texts with ids, and who answers whom."""

import dataclasses
import logging
from collections.abc import Collection, Mapping, Sequence

from magjax.checks import InputError, positive_integer
from magjax.data._record_checks import (
    check_excluded,
    check_ids,
    check_judgements,
    check_queries,
    content_fingerprint,
    text_key,
)

__all__ = [
    "Benchmark",
    "TrainingSet",
    "check_ids",
    "check_queries",
    "content_fingerprint",
    "text_key",
]

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainingSet:
    """Queries, the documents that answer each, and documents known not to.

    Args:
        query_ids: one name a query, unique.
        queries: the texts; none empty.
        positives: per query, indices into ``documents`` of its answers, at least one.
        negatives: per query, indices of its hard negatives; may be empty.
        document_ids: one name a document, unique.
        documents: the texts; an answer may not be empty.
        source: where the records come from, for messages.
        fingerprint: names this content; made from it when left out.

    Raises:
        InputError: lengths disagree, an id repeats, an index is out of range, a query is empty or
            has no answer, an answer is empty or also a negative of the same query.

    >>> data = TrainingSet(["q"], ["what adds"], [(0,)], [(1,)], ["d", "e"], ["a + b", "a - b"])
    >>> len(data), data.documents[data.positives[0][0]]
    (1, 'a + b')
    """

    query_ids: Sequence[str]
    queries: Sequence[str]
    positives: Sequence[tuple[int, ...]]
    negatives: Sequence[tuple[int, ...]]
    document_ids: Sequence[str]
    documents: Sequence[str]
    source: str = "training set"
    fingerprint: str = ""

    def __post_init__(self):
        check_ids("query", self.query_ids, self.queries, self.source)
        check_ids("document", self.document_ids, self.documents, self.source)
        check_queries(self.query_ids, self.queries, self.source)
        if not self.queries:
            raise InputError(f"{self.source} holds no query; training needs at least one pair.")
        for field in ("positives", "negatives"):
            if len(getattr(self, field)) != len(self.queries):
                raise InputError(
                    f"{self.source}: {len(getattr(self, field))} rows of {field} for "
                    f"{len(self.queries)} queries; give one a query."
                )
        for name, positives, negatives in zip(
            self.query_ids, self.positives, self.negatives, strict=True
        ):
            self._check_row(name, positives, negatives)
        if not self.fingerprint:
            object.__setattr__(
                self,
                "fingerprint",
                content_fingerprint(
                    self.query_ids,
                    self.queries,
                    self.positives,
                    self.negatives,
                    self.document_ids,
                    self.documents,
                ),
            )

    def _check_row(self, name: str, positives: tuple[int, ...], negatives: tuple[int, ...]) -> None:
        if not positives:
            raise InputError(
                f"{self.source}: query {name!r} has no positive document; remove the query or "
                "give an answer."
            )
        for index in (*positives, *negatives):
            if not 0 <= index < len(self.documents):
                raise InputError(
                    f"{self.source}: query {name!r} names document number {index}, but there are "
                    f"{len(self.documents)}."
                )
        for index in positives:
            if not self.documents[index].strip():
                raise InputError(
                    f"{self.source}: document {self.document_ids[index]!r}, an answer to query "
                    f"{name!r}, is empty; remove the pair or give its text."
                )
            if index in negatives:
                raise InputError(
                    f"{self.source}: document {self.document_ids[index]!r} is a positive and a "
                    f"negative of query {name!r}; keep one."
                )

    def __len__(self) -> int:
        return len(self.queries)

    @classmethod
    def from_benchmark(cls, benchmark: "Benchmark") -> "TrainingSet":
        """Training pairs from judgements: the answers are the documents judged relevant.

        Queries without such a document are left out, and so are empty documents as answers (old
        collections have some); both are counted in the log. Documents below
        ``relevance_level`` are no hard negatives: most are merely unjudged by another name.

        Raises:
            InputError: no query has an answer.

        >>> benchmark = Benchmark("b", ["q"], ["what adds"], ["d"], ["a + b"], {"q": {"d": 1}})
        >>> TrainingSet.from_benchmark(benchmark).positives
        [(0,)]
        """
        index = {name: i for i, name in enumerate(benchmark.document_ids)}
        ids, queries, positives, empty = [], [], [], 0
        for name, query in zip(benchmark.query_ids, benchmark.queries, strict=True):
            row = benchmark.qrels.get(name, {})
            answers = [index[d] for d, grade in row.items() if grade >= benchmark.relevance_level]
            kept = tuple(sorted(i for i in answers if benchmark.documents[i].strip()))
            empty += len(answers) - len(kept)
            if kept:
                ids.append(name)
                queries.append(query)
                positives.append(kept)
        left_out = len(benchmark.queries) - len(queries)
        if left_out or empty:
            _log.warning(
                "%s: left out %d queries without an answer and %d empty documents as answers.",
                benchmark.name,
                left_out,
                empty,
            )
        if not queries:
            raise InputError(
                f"{benchmark.name}: no query has a document judged above "
                f"{benchmark.relevance_level - 1}; nothing to train on."
            )
        return cls(
            query_ids=ids,
            queries=queries,
            positives=positives,
            negatives=[()] * len(queries),
            document_ids=benchmark.document_ids,
            documents=benchmark.documents,
            source=benchmark.name,
        )


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A retrieval test: queries, the corpus to search, and graded judgements.

    Args:
        name: what results call it.
        query_ids: one name a query, unique.
        queries: the texts; none empty.
        document_ids: one name a document, unique.
        documents: the texts; may be empty, as in old collections.
        qrels: per query id, the grade of each judged document id; a query may have none.
        fingerprint: names this content; made from it when left out.
        excluded: per query id, ids of documents never to return, as BRIGHT has them.
        relevance_level: the least grade that counts as relevant where relevance is yes or no (2 in
            TREC's passage task); graded measures see every grade above 0.

    Raises:
        InputError: lengths disagree, an id repeats, a query is empty, a judgement or an exclusion
            names an unknown query or document, a relevant document is excluded, a grade is no whole
            number, or nothing is to be searched.

    >>> benchmark = Benchmark("b", ["q"], ["what adds"], ["d"], ["a + b"], {"q": {"e": 1}})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: b: the judgements of query 'q' name document 'e', which the corpus \
does not hold; use the qrels of this corpus.
    """

    name: str
    query_ids: Sequence[str]
    queries: Sequence[str]
    document_ids: Sequence[str]
    documents: Sequence[str]
    qrels: Mapping[str, Mapping[str, int]]
    fingerprint: str = ""
    excluded: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)
    relevance_level: int = 1

    def __post_init__(self):
        positive_integer("relevance_level", self.relevance_level)
        check_ids("query", self.query_ids, self.queries, self.name)
        check_ids("document", self.document_ids, self.documents, self.name)
        check_queries(self.query_ids, self.queries, self.name)
        for kind, texts in (("query", self.queries), ("document", self.documents)):
            if not texts:
                raise InputError(f"{self.name} holds no {kind}; a benchmark needs at least one.")
        queries, documents = set(self.query_ids), set(self.document_ids)
        check_judgements(self.name, self.qrels, queries, documents)
        check_excluded(self.name, self.excluded, self.qrels, queries, documents)
        if not self.fingerprint:
            judged = sorted((q, sorted(row.items())) for q, row in self.qrels.items())
            rules: list = sorted((q, sorted(ids)) for q, ids in self.excluded.items() if ids)
            if self.relevance_level > 1:
                rules.append(self.relevance_level)
            object.__setattr__(
                self,
                "fingerprint",
                content_fingerprint(
                    self.query_ids,
                    self.queries,
                    self.document_ids,
                    self.documents,
                    judged,
                    # Only where there are any: older results keep their fingerprint.
                    *([rules] if rules else []),
                ),
            )

    def never_returned(
        self, ignore_identical_ids: bool = False
    ) -> Mapping[str, Collection[str]] | None:
        """What ``magjax.evaluation.search`` takes as ``exclude``.

        Args:
            ignore_identical_ids: also the document whose id is the query's, for collections whose
                queries are documents of the corpus.

        Returns:
            document ids by query id, or None where nothing is left out.

        >>> benchmark = Benchmark("b", ["q"], ["what adds"], ["d"], ["a + b"], {}, excluded={"q": ["d"]})
        >>> benchmark.never_returned(), benchmark.never_returned(ignore_identical_ids=True)
        ({'q': ['d']}, {'q': ('d', 'q')})
        """
        if not ignore_identical_ids:
            return self.excluded or None
        return {name: (*self.excluded.get(name, ()), name) for name in self.query_ids}
