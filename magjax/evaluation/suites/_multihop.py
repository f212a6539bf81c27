"""Multi-hop retrieval: are all supporting paragraphs among the first documents?"""

from pathlib import Path

from magjax import hub
from magjax.checks import InputError
from magjax.data import find_multihop, read_multihop
from magjax.evaluation._retrieval import RetrievalResult
from magjax.evaluation.suites._searching import (
    Searcher,
    mean_of_rows,
    part_rows,
    result_row,
    skipped_notes,
)
from magjax.evaluation.suites._suite import SuiteReport, SuiteRow, SuiteSettings

__all__ = ["run_multihop"]

_METRICS = (
    *("recall@2", "recall@5", "recall@10", "recall@20"),
    *("all@2", "all@5", "all@10", "all@20", "ndcg@10", "mrr"),
)


def run_multihop(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """Recall of supporting paragraphs, one by one and jointly, and by type, level and hops.

    Args:
        model: ranks by its score.
        root: holds HotpotQA, 2WikiMultihopQA or MuSiQue, or BEIR folders with ``qa.jsonl``.
        settings: ``split`` names the files; default: ``dev``.

    Raises:
        InputError: no such file, or one that cannot be read.
    """
    split = settings.split or "dev"
    found = find_multihop(root, split)
    if not found:
        raise InputError(
            f"{root} holds no multi-hop set of split {split!r}: neither it nor a folder below it "
            "has qa.jsonl beside corpus.jsonl, or a .json or .jsonl file of HotpotQA, "
            f"2WikiMultihopQA or MuSiQue with {split!r} in its name."
        )
    searcher = Searcher(model, settings, _METRICS)
    sets = [read_multihop(path, split, name=name) for name, path in found.items()]
    results: list[RetrievalResult] = []
    rows: list[SuiteRow] = []
    whole: list[SuiteRow] = []
    notes = []
    for data in sets:
        notes += [
            f"{data.benchmark.name}: {count} questions left out, {reason}."
            for reason, count in data.left_out.items()
        ]
        parts = data.parts()
        for result in searcher.search(data.benchmark):
            results.append(result)
            whole.append(result_row(result))
            rows += [whole[-1], *part_rows(result, parts)]
    label = f"mean of {len(sets)} sets"
    return SuiteReport(
        suite="multihop",
        rows=rows,
        averages=mean_of_rows(whole, label) if len(sets) > 1 else (),
        notes=[*notes, *skipped_notes(results), searcher.describe()],
        retrieval=results,
    )
