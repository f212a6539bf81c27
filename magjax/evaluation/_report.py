"""Results on disk and on the terminal: one JSON, runs, per-query lines, a table."""

import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.evaluation._retrieval import RetrievalResult
from magjax.files import write_json, write_text

__all__ = ["format_results", "write_results"]


def write_results(
    folder: str | os.PathLike[str],
    results: Sequence[RetrievalResult],
    extra: Mapping[str, Any] | None = None,
) -> None:
    r"""Writes ``results.json``, ``runs/DOMAIN.trec`` and ``per_query/DOMAIN.jsonl``.

    ``DOMAIN`` is the benchmark's name, with ``.SYSTEM`` for systems other than the model (as in
    ``runs/adi.bm25.trec``); characters other than letters, digits, ``.``, ``_`` and ``-`` become
    ``_``. Each file is written in one rename, ``results.json`` last.

    Args:
        folder: made if it is missing.
        results: in the order to list them.
        extra: further top-level entries of ``results.json``, such as the checkpoint's name.

    Raises:
        InputError: two results would write the same file, an id cannot stand in a TREC run, or
            ``extra`` has an entry of its own for ``results``.

    >>> import tempfile
    >>> from magjax.data import Benchmark
    >>> from magjax.evaluation import evaluate_bm25
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d1", "d2"], ["adds", "a sum"], {"q": {"d2": 1}})
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_results(folder, [evaluate_bm25(benchmark, metrics=["mrr@10"])])
    >>> (folder / "per_query" / "b.bm25.jsonl").read_text()
    '{"query_id": "q", "mrr@10": 1.0}\n'
    """
    root = Path(folder)
    names = [_file_name(result) for result in results]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two results would both be written as {name!r}; rename a benchmark.")
    if extra and "results" in extra:
        raise InputError("extra= may not hold 'results', which is written from the results.")
    for name, result in zip(names, results, strict=True):
        result.ranking.write_trec(root / "runs" / f"{name}.trec", f"magjax-{result.system}")
        lines = [
            json.dumps({"query_id": query, **values}, ensure_ascii=False) + "\n"
            for query, values in result.evaluation.per_query.items()
        ]
        write_text(root / "per_query" / f"{name}.jsonl", "".join(lines))
    listed = [result.to_json() for result in results]
    write_json(root / "results.json", {**(extra or {}), "results": listed})


def format_results(results: Sequence[RetrievalResult]) -> str:
    """The metrics as a table of text, one row a result; what was skipped stands below.

    >>> from magjax.data import Benchmark
    >>> from magjax.evaluation import evaluate_bm25
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d1", "d2"], ["adds", "a sum"], {"q": {"d2": 1}})
    >>> print(format_results([evaluate_bm25(benchmark, metrics=["mrr@10"])]))
    domain   system   score   queries   documents   mrr@10
    ──────────────────────────────────────────────────────
    b        bm25     -             1           2   1.0000
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    metrics = list(dict.fromkeys(name for result in results for name in result.evaluation.mean))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("domain", "system", "score"):
        table.add_column(name)
    for name in ("queries", "documents", *metrics):
        table.add_column(name, justify="right")
    notes = []
    for result in results:
        mean, counts = result.evaluation.mean, result.evaluation.counts
        table.add_row(
            result.domain,
            result.system,
            "-" if result.score is None else _short(result),
            f"{counts['queries']:,}",
            f"{result.documents:,}",
            *(f"{mean[name]:.4f}" if name in mean else "-" for name in metrics),
        )
        said = {
            "missing from the run, counted as 0": counts["missing"],
            "without a judgement, skipped": counts["unjudged"],
        }
        notes += [
            f"{result.domain}, {result.system}: {number} queries {reason}."
            for reason, number in said.items()
            if number
        ]
    # Wide enough for every table: a narrow terminal wraps lines rather than losing columns.
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip().removeprefix(" ") for line in console.file.getvalue().splitlines()]
    return "\n".join([*(line for line in lines if line), *notes])


def _short(result: RetrievalResult) -> str:
    score = result.score
    assert score is not None
    if score.variant in ("learnable", "power"):
        return f"{score.variant} {score.gamma_query:.3f},{score.gamma_document:.3f}"
    return score.variant


def _file_name(result: RetrievalResult) -> str:
    name = result.domain if result.system == "model" else f"{result.domain}.{result.system}"
    return re.sub(r"[^\w.-]", "_", name)
