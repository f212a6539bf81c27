"""The benchmarks that a command line names."""

from collections.abc import Iterable

from magjax.data._beir import read_beir
from magjax.data._code_search import code_search
from magjax.data._records import Benchmark

__all__ = ["read_benchmarks"]


def read_benchmarks(sources: Iterable[str], split: str = "test") -> list[Benchmark]:
    """Reads BEIR folders, and for ``"code"`` both domains of the embedded code search.

    Args:
        sources: a BEIR folder each, or ``"code"``.
        split: judgements of BEIR folders.

    Raises:
        InputError: a folder that cannot be read.

    >>> read_benchmarks(["/nowhere"])
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere is no folder; name one with corpus.jsonl, queries.jsonl and qrels/.
    """
    found: list[Benchmark] = []
    for source in sources:
        if source == "code":
            corpora = code_search()
            found += [corpora.in_domain, corpora.out_of_domain]
        else:
            found.append(read_beir(source, split))
    return found
