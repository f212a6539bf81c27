"""Text records written in the forms that the readers take, so that runs can name them by path."""

import os
from collections.abc import Iterable
from pathlib import Path

from magjax.checks import InputError
from magjax.data._lines import write_json_lines
from magjax.data._records import Benchmark, TrainingSet
from magjax.files import write_folder

__all__ = ["write_beir", "write_pairs_jsonl"]


def write_beir(
    folder: str | os.PathLike[str], benchmark: Benchmark, *, split: str = "test"
) -> None:
    """Writes a benchmark as a BEIR folder, in one rename; :func:`read_beir` reads it.

    The folder holds ``corpus.jsonl.gz``, ``queries.jsonl.gz`` and ``qrels/SPLIT.tsv``; documents
    have no title. Readers of this form drop queries without a judgement, and white space around
    a text.

    Args:
        folder: made new; its name is what results will call the benchmark.
        benchmark: what to write.
        split: the name of the judgements' file.

    Raises:
        InputError: the folder exists, or the benchmark has what the form cannot say: excluded
            documents, or another relevance level than 1.

    >>> import tempfile
    >>> from magjax.data import read_beir
    >>> benchmark = Benchmark("b", ["q"], ["what adds"], ["d"], ["a + b"], {"q": {"d": 1}})
    >>> folder = Path(tempfile.mkdtemp(), "sums")
    >>> write_beir(folder, benchmark)
    >>> read_beir(folder).fingerprint == benchmark.fingerprint
    True
    """
    target = Path(folder)
    if target.exists():
        raise InputError(f"{target} exists already; name a new folder.")
    if benchmark.excluded:
        raise InputError(
            f"{benchmark.name} excludes documents of some queries, which a BEIR folder cannot say; "
            "write a benchmark without excluded=."
        )
    if benchmark.relevance_level != 1:
        raise InputError(
            f"{benchmark.name} has relevance_level={benchmark.relevance_level}, but a BEIR folder "
            "is read with 1; write grades to fit."
        )
    judged = [
        f"{query}\t{document}\t{grade}\n"
        for query, row in benchmark.qrels.items()
        for document, grade in row.items()
    ]
    with write_folder(target) as unfinished:
        (unfinished / "qrels").mkdir()
        _write_texts(unfinished / "corpus.jsonl.gz", benchmark.document_ids, benchmark.documents)
        _write_texts(unfinished / "queries.jsonl.gz", benchmark.query_ids, benchmark.queries)
        (unfinished / "qrels" / f"{split}.tsv").write_text(
            "query-id\tcorpus-id\tscore\n" + "".join(judged), encoding="utf-8"
        )


def write_pairs_jsonl(path: str | os.PathLike[str], pairs: TrainingSet) -> None:
    """Writes training queries with their answers and hard negatives, gzipped JSON lines.

    :func:`read_pairs_jsonl` reads them, with the same ids. Documents that no query names are left
    out.

    Args:
        path: ends in ``.jsonl.gz``; an older file is replaced.
        pairs: what to write.

    Raises:
        InputError: the name of the file ends otherwise.

    >>> import tempfile
    >>> from magjax.data import read_pairs_jsonl
    >>> pairs = TrainingSet(["q"], ["what adds"], [(0,)], [(1,)], ["d", "e"], ["a + b", "a - b"])
    >>> file = Path(tempfile.mkdtemp(), "pairs.jsonl.gz")
    >>> write_pairs_jsonl(file, pairs)
    >>> read_pairs_jsonl(file).fingerprint == pairs.fingerprint
    True
    """
    target = Path(path)
    if not target.name.endswith(".jsonl.gz"):
        raise InputError(f"{target} must end in .jsonl.gz: the lines are written gzipped.")

    def named(kind: str, indices: Iterable[int]) -> dict[str, list[str]]:
        return {
            f"{kind}s": [pairs.documents[i] for i in indices],
            f"{kind}_ids": [pairs.document_ids[i] for i in indices],
        }

    unfinished = target.with_name(f".{target.name}.part")
    write_json_lines(
        unfinished,
        (
            {"id": name, "query": query, **named("positive", answers), **named("negative", others)}
            for name, query, answers, others in zip(
                pairs.query_ids, pairs.queries, pairs.positives, pairs.negatives, strict=True
            )
        ),
    )
    os.replace(unfinished, target)


def _write_texts(path: Path, ids: Iterable[str], texts: Iterable[str]) -> None:
    write_json_lines(
        path, ({"_id": name, "text": text} for name, text in zip(ids, texts, strict=True))
    )
