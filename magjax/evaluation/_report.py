"""Results on disk and on the terminal: one JSON, runs, per-query lines, a table."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.evaluation._retrieval import RetrievalResult
from magjax.files import file_name, write_json, write_text
from magjax.similarity import Score
from magjax.tables import text_table

__all__ = ["format_results", "score_label", "skipped", "write_results"]

_log = logging.getLogger(__name__)


def write_results(
    folder: str | os.PathLike[str],
    results: Sequence[RetrievalResult],
    extra: Mapping[str, Any] | None = None,
) -> None:
    r"""Writes ``results.json``, ``runs/DOMAIN.trec`` and ``per_query/DOMAIN.jsonl``.

    Where ids hold white space, which a TREC run cannot express, ``runs/DOMAIN.jsonl`` stands in its
    place, and the log says so; ``magjax.data.read_run`` reads both.

    ``DOMAIN`` is the benchmark's name, with ``.SYSTEM`` for systems other than the model (as in
    ``runs/adi.bm25.trec``); characters other than letters, digits, ``.``, ``_`` and ``-`` become
    ``_``. Each file is written in one rename, ``results.json`` last.

    Args:
        folder: made if it is missing.
        results: in the order to list them.
        extra: further top-level entries of ``results.json``, such as the checkpoint's name.

    Raises:
        InputError: two results would write the same file, or ``extra`` has an entry of its own
            for ``results``.

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
    names = [_result_name(result) for result in results]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two results would both be written as {name!r}; rename a benchmark.")
    if extra and "results" in extra:
        raise InputError("extra= may not hold 'results', which is written from the results.")
    for name, result in zip(names, results, strict=True):
        if not len(result.ranking):
            pass  # the level of chance is a figure without a ranking
        elif result.ranking.fits_trec():
            # A system's name may be a sentence; a tag may not.
            tag = f"magjax-{file_name(result.system)}"
            result.ranking.write_trec(root / "runs" / f"{name}.trec", tag)
        else:
            _log.warning("%s: ids hold white space; its run is written as JSON lines.", name)
            result.ranking.write_jsonl(root / "runs" / f"{name}.jsonl")
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
    metrics = list(dict.fromkeys(name for result in results for name in result.evaluation.mean))
    rows, notes = [], []
    for result in results:
        mean, counts = result.evaluation.mean, result.evaluation.counts
        rows.append(
            [
                result.domain,
                result.system,
                score_label(result.score),
                f"{counts['queries']:,}",
                f"{result.documents:,}",
                *(f"{mean[name]:.4f}" if name in mean else "-" for name in metrics),
            ]
        )
        notes += [f"{result.domain}, {result.system}: {said}" for said in skipped(counts)]
    lines = text_table(("domain", "system", "score"), ("queries", "documents", *metrics), rows)
    return "\n".join([*lines, *notes])


def skipped(counts: Mapping[str, int]) -> list[str]:
    """What a reader must know of the queries that the means are over.

    >>> skipped({"queries": 3, "missing": 0, "unjudged": 1})
    ['1 queries without a judgement, skipped.']
    """
    said = {
        "missing from the run, counted as 0": counts["missing"],
        "without a judgement, skipped": counts["unjudged"],
    }
    return [f"{number} queries {reason}." for reason, number in said.items() if number]


def score_label(score: Score | None) -> str:
    """A score in a table: its name, with the powers where the name does not tell; ``-`` for None.

    >>> score_label(Score.of("qnorm")), score_label(None)
    ('qnorm', '-')
    """
    if score is None:
        return "-"
    if score.variant in ("learnable", "power"):
        return f"{score.variant} {score.gamma_query:.3f},{score.gamma_document:.3f}"
    return score.variant


def _result_name(result: RetrievalResult) -> str:
    own = result.system == "model"
    return file_name(result.domain if own else f"{result.domain}.{result.system}")
