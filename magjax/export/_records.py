"""The texts that a user names for export: a benchmark, or a file of documents."""

import dataclasses
import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magjax.checks import InputError, choose
from magjax.data import Benchmark, code_search, read_beir, read_pairs_jsonl
from magjax.typing import Side

__all__ = ["Texts", "read_texts"]

_CODE = ("code", "code/in_domain", "code/out_of_domain")


@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts of each side that a source holds.

    Attributes:
        name: of the source.
        fingerprint: of its content.
        sides: per side, ids and texts.

    >>> texts = Texts("b", "0", {"document": (["d1", "d2", "d3"], ["a", "b", "c"])})
    >>> texts.thinned(document=2).sides["document"]
    (['d1', 'd3'], ['a', 'c'])
    """

    name: str
    fingerprint: str
    sides: Mapping[Side, tuple[Sequence[str], Sequence[str]]]

    def side(self, side: Side) -> tuple[Sequence[str], Sequence[str]]:
        """Ids and texts of one side.

        Raises:
            InputError: the source does not hold it.
        """
        if side not in self.sides:
            raise InputError(
                f"{self.name} holds no texts of side {side!r}; it holds: {', '.join(self.sides)}."
            )
        return self.sides[side]

    def thinned(self, **most: int) -> "Texts":
        """At most so many texts a side, evenly spread over those there are."""
        sides = {}
        for side, (ids, texts) in self.sides.items():
            count = min(len(ids), most.get(side, len(ids)))
            rows = np.linspace(0, len(ids) - 1, count).astype(int).tolist()
            sides[side] = [ids[row] for row in rows], [texts[row] for row in rows]
        return dataclasses.replace(self, sides=sides)


def read_texts(source: str | os.PathLike[str], split: str = "test") -> Texts:
    """Reads the texts to export.

    Args:
        source: a BEIR folder; ``code``, ``code/in_domain`` or ``code/out_of_domain`` (``code``
            alone is the in-domain one); or a JSONL file, plain or gzipped: documents as
            ``{"_id", "title", "text"}`` (``title`` may be missing) or pairs as
            :func:`magjax.data.read_pairs_jsonl` takes them.
        split: judgements of a BEIR folder, which choose its queries.

    Raises:
        InputError: no such source, or a record that cannot be used.

    >>> read_texts("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere is no folder; name one with corpus.jsonl, queries.jsonl and qrels/.
    """
    name = os.fspath(source)
    if name == "code" or name.startswith("code/"):
        corpora = code_search()
        inside = choose("data", name, _CODE) != "code/out_of_domain"
        return _of_benchmark(corpora.in_domain if inside else corpora.out_of_domain)
    path = Path(name)
    if path.is_file() or name.endswith((".jsonl", ".jsonl.gz")):
        return _of_file(path)
    return _of_benchmark(read_beir(path, split=split))


def _of_benchmark(benchmark: Benchmark) -> Texts:
    return Texts(
        benchmark.name,
        benchmark.fingerprint,
        {
            "document": (benchmark.document_ids, benchmark.documents),
            "query": (benchmark.query_ids, benchmark.queries),
        },
    )


def _of_file(path: Path) -> Texts:
    first = next(_rows(path), None)
    if first is None:
        raise InputError(f"{path} holds no record.")
    if "query" in first[1]:
        pairs = read_pairs_jsonl(path)
        return Texts(
            path.name,
            pairs.fingerprint,
            {
                "document": (pairs.document_ids, pairs.documents),
                "query": (pairs.query_ids, pairs.queries),
            },
        )
    ids: list[str] = []
    texts: list[str] = []
    digest = hashlib.sha256()
    for line, row in _rows(path):
        name, text, title = row.get("_id", row.get("id")), row.get("text"), row.get("title")
        if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
            raise InputError(f"{path}:{line}: '_id' is {name!r}, but must be a string or number.")
        if not isinstance(text, str) or not isinstance(title, str | None):
            raise InputError(
                f"{path}:{line}: 'text' must be a string, and 'title' a string or null."
            )
        ids.append(str(name))
        texts.append(f"{title or ''} {text}".strip())
        digest.update(json.dumps([ids[-1], texts[-1]]).encode())
    return Texts(path.name, digest.hexdigest()[:16], {"document": (ids, texts)})


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbered JSON objects, one a line; blank lines are skipped."""
    if not path.is_file():
        raise InputError(f"{path} does not exist.")
    with path.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if zipped else path.open("rb") as file:
        line = 0
        try:
            for line, raw in enumerate(file, start=1):
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
                if not text.strip():
                    continue
                row = json.loads(text)
                if not isinstance(row, dict):
                    raise InputError(f"{path}:{line}: an object was needed, one a line.")
                yield line, row
        except (ValueError, EOFError, OSError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}:{line}: not readable as JSON lines ({error}).") from error
