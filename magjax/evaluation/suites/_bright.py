"""BRIGHT: retrieval that needs reasoning, 12 tasks, ids to leave out per query."""

from pathlib import Path

from magjax import hub
from magjax.data import BRIGHT_TASKS, find_bright, read_bright
from magjax.evaluation._retrieval import RetrievalResult
from magjax.evaluation.suites._searching import (
    Searcher,
    mean_of_rows,
    result_row,
    skipped_notes,
)
from magjax.evaluation.suites._suite import SuiteReport, SuiteSettings

__all__ = ["run_bright"]

_METRICS = ("ndcg@10", "recall@10", "recall@100", "mrr@10")
_LONG_METRICS = ("recall@1", "recall@10", "ndcg@10")  # the paper reports recall@1 of whole pages


def run_bright(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """The tasks found under ``root``; the average is the plain mean over tasks of nDCG@10.

    A query's ``excluded_ids`` are never returned to it. Instructions are the model's own prompts.

    Args:
        model: ranks by its score.
        root: holds ``examples/`` and ``documents/``.
        settings: options ``long`` and ``queries``.

    Raises:
        InputError: no task, or one that cannot be read; all are read before the first is embedded.
    """
    long = settings.option("long", False)
    queries = settings.option("queries", "examples")
    tasks = find_bright(root, documents="long_documents" if long else "documents")
    searcher = Searcher(model, settings, _LONG_METRICS if long else _METRICS)
    for task in tasks if len(tasks) > 1 else ():  # a broken file must not cost the tasks before it
        read_bright(root, task, long=long, queries=queries)
    results: list[RetrievalResult] = []
    left_out = 0
    for task in tasks:
        benchmark = read_bright(root, task, long=long, queries=queries)
        left_out += sum(map(len, benchmark.excluded.values()))
        results += searcher.search(benchmark)
    rows = [result_row(result) for result in results]
    missing = [task for task in BRIGHT_TASKS if task not in tasks]
    notes = [f"{left_out} documents in all are excluded for single queries."] if left_out else []
    if missing and not long:
        notes.append(
            f"{len(tasks)} of BRIGHT's {len(BRIGHT_TASKS)} tasks are here; missing: "
            f"{', '.join(missing)}."
        )
    label = f"mean of {len(tasks)} tasks"
    return SuiteReport(
        suite="bright",
        rows=rows,
        averages=mean_of_rows(rows, label) if len(tasks) > 1 else (),
        notes=[*notes, *skipped_notes(results), searcher.describe()],
        retrieval=results,
    )
