"""What must hold for any texts with ids, and names for their content."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from magjax.checks import InputError

__all__ = [
    "check_excluded",
    "check_ids",
    "check_judgements",
    "check_queries",
    "content_fingerprint",
    "text_key",
]


def text_key(text: str) -> str:
    """The text by which duplicates are found: white space collapsed.

    >>> text_key("a  b ") == text_key("a b")
    True
    """
    return " ".join(text.split())


def content_fingerprint(*parts: Iterable) -> str:
    """16 hexadecimal digits that name the values of ``parts``, which JSON must know.

    >>> content_fingerprint(["a"], ["b"]) == content_fingerprint(["a", "b"])
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        for value in part:
            digest.update(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            digest.update(b"\n")
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def check_ids(kind: str, ids: Sequence[str], texts: Sequence[str], source: str) -> None:
    """Refuses ids that are no strings, repeat, cannot stand in a file, or are not one a text."""
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


def check_queries(ids: Sequence[str], texts: Sequence[str], source: str) -> None:
    """Refuses an empty query."""
    for name, text in zip(ids, texts, strict=True):
        if not text.strip():
            raise InputError(f"{source}: query {name!r} is empty; remove it or give its text.")


def check_judgements(
    source: str,
    qrels: Mapping[str, Mapping[str, int]],
    queries: Collection[str],
    documents: Collection[str],
) -> None:
    """Refuses judgements of an unknown query or document, and grades that are no whole number."""
    for query, row in qrels.items():
        if query not in queries:
            raise InputError(
                f"{source}: the judgements name query {query!r}, which is not among the queries; "
                "use the qrels of these queries."
            )
        for document, grade in row.items():
            if document not in documents:
                raise InputError(
                    f"{source}: the judgements of query {query!r} name document {document!r}, which "
                    "the corpus does not hold; use the qrels of this corpus."
                )
            if not isinstance(grade, int):
                raise InputError(
                    f"{source}: query {query!r} grades document {document!r} as {grade!r}; grades "
                    "are whole numbers."
                )


def check_excluded(
    source: str,
    excluded: Mapping[str, Collection[str]],
    qrels: Mapping[str, Mapping[str, int]],
    queries: Collection[str],
    documents: Collection[str],
) -> None:
    """Refuses the exclusion of a relevant document, or of an unknown one."""
    for query, ids in excluded.items():
        for document in ids:
            if query not in queries or document not in documents:
                raise InputError(
                    f"{source}: query {query!r} excludes document {document!r}, but "
                    f"{'the corpus does not hold it' if query in queries else 'there is no such query'}."
                )
            if qrels.get(query, {}).get(document, 0) > 0:
                raise InputError(
                    f"{source}: document {document!r} is relevant to query {query!r} and excluded "
                    "for it; one of the two is wrong."
                )
