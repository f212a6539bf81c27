"""What every reader returns: texts with ids, and who answers whom."""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from magjax.checks import InputError

__all__ = ["Benchmark", "TrainingSet", "text_key"]

_log = logging.getLogger(__name__)


def text_key(text: str) -> str:
    """The text by which duplicates are found: white space collapsed.

    >>> text_key("a  b ") == text_key("a b")
    True
    """
    return " ".join(text.split())


def _fingerprint(*parts: Iterable) -> str:
    digest = hashlib.sha256()
    for part in parts:
        for value in part:
            digest.update(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            digest.update(b"\n")
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def _check_ids(kind: str, ids: Sequence[str], texts: Sequence[str], source: str) -> None:
    if len(ids) != len(texts):
        raise InputError(f"{source}: {len(ids)} {kind} ids for {len(texts)} texts; give one each.")
    seen = set()
    for name in ids:
        if not isinstance(name, str) or not name.strip() or any(c in name for c in "\t\n\r"):
            raise InputError(
                f"{source}: {kind} id {name!r} must be a string that is not empty and has no tab "
                "or line break."
            )
        if name in seen:
            raise InputError(f"{source}: {kind} id {name!r} occurs twice; ids must be unique.")
        seen.add(name)


def _check_queries(ids: Sequence[str], texts: Sequence[str], source: str) -> None:
    for name, text in zip(ids, texts, strict=True):
        if not text.strip():
            raise InputError(f"{source}: query {name!r} is empty; remove it or give its text.")


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
        _check_ids("query", self.query_ids, self.queries, self.source)
        _check_ids("document", self.document_ids, self.documents, self.source)
        _check_queries(self.query_ids, self.queries, self.source)
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
                _fingerprint(
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
        """Training pairs from judgements: the answers are the documents judged above 0.

        Queries without such a document are left out, and so are empty documents as answers (old
        collections have some); both are counted in the log. Documents judged 0 or below are no
        hard negatives: most are merely unjudged by another name.

        Raises:
            InputError: no query has an answer.

        >>> benchmark = Benchmark("b", ["q"], ["what adds"], ["d"], ["a + b"], {"q": {"d": 1}})
        >>> TrainingSet.from_benchmark(benchmark).positives
        [(0,)]
        """
        index = {name: i for i, name in enumerate(benchmark.document_ids)}
        ids, queries, positives, empty = [], [], [], 0
        for name, query in zip(benchmark.query_ids, benchmark.queries, strict=True):
            answers = [index[d] for d, grade in benchmark.qrels.get(name, {}).items() if grade > 0]
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
                f"{benchmark.name}: no query has a document judged above 0; nothing to train on."
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

    Raises:
        InputError: lengths disagree, an id repeats, a query is empty, a judgement names an
            unknown query or document, a grade is no whole number, or nothing is to be searched.

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

    def __post_init__(self):
        _check_ids("query", self.query_ids, self.queries, self.name)
        _check_ids("document", self.document_ids, self.documents, self.name)
        _check_queries(self.query_ids, self.queries, self.name)
        for kind, texts in (("query", self.queries), ("document", self.documents)):
            if not texts:
                raise InputError(f"{self.name} holds no {kind}; a benchmark needs at least one.")
        queries, documents = set(self.query_ids), set(self.document_ids)
        for query, row in self.qrels.items():
            if query not in queries:
                raise InputError(
                    f"{self.name}: the judgements name query {query!r}, which is not among the "
                    "queries; use the qrels of these queries."
                )
            for document, grade in row.items():
                if document not in documents:
                    raise InputError(
                        f"{self.name}: the judgements of query {query!r} name document "
                        f"{document!r}, which the corpus does not hold; use the qrels of this "
                        "corpus."
                    )
                if not isinstance(grade, int):
                    raise InputError(
                        f"{self.name}: query {query!r} grades document {document!r} as {grade!r}; "
                        "grades are whole numbers."
                    )
        if not self.fingerprint:
            judged = sorted((q, sorted(row.items())) for q, row in self.qrels.items())
            object.__setattr__(
                self,
                "fingerprint",
                _fingerprint(
                    self.query_ids, self.queries, self.document_ids, self.documents, judged
                ),
            )
