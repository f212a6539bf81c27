"""MS MARCO passages: its dev queries, and the judged queries of TREC's Deep Learning track."""

from pathlib import Path

from magjax import hub
from magjax.data import read_msmarco, read_trec_dl
from magjax.evaluation.suites._searching import Searcher, result_row, skipped_notes
from magjax.evaluation.suites._suite import SuiteReport, SuiteSettings

__all__ = ["run_msmarco", "run_trec_dl"]

_DEPTH = 1000  # documents a query of both official evaluations
_MSMARCO = ("mrr@10", "recall@1000", "ndcg@10")
_TREC = ("ndcg@10", "map", "mrr", "recall@100", "recall@1000")


def run_msmarco(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """MRR@10 and recall@1000 over the passage collection.

    Args:
        model: ranks by its score.
        root: holds ``collection.tsv``, queries and judgements.
        settings: ``split``; default: ``dev.small`` where it is there, else ``dev``.

    Raises:
        InputError: a missing or broken file.
    """
    small = any(root.glob("qrels.dev.small.tsv*"))
    split = settings.split or ("dev.small" if small else "dev")
    searcher = Searcher(model, settings, _MSMARCO, _DEPTH)
    results = searcher.search(read_msmarco(root, split))
    return SuiteReport(
        suite="msmarco",
        rows=[result_row(result) for result in results],
        notes=[*skipped_notes(results), searcher.describe()],
        retrieval=results,
    )


def run_trec_dl(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """Graded nDCG@10, and measures of yes or no that count grades of 2 and 3, year by year.

    The collection is embedded once for all years. Years are not averaged, as the track does not.

    Args:
        model: ranks by its score.
        root: holds ``collection.tsv``, and queries and judgements of 2019 or 2020.
        settings: ``split`` is a year; default: all that are there.

    Raises:
        InputError: a missing or broken file.
    """
    searcher = Searcher(model, settings, _TREC, _DEPTH)
    benchmarks = read_trec_dl(root, [settings.split] if settings.split else None)
    results = [result for benchmark in benchmarks for result in searcher.search(benchmark)]
    notes = ["ndcg is graded; all other measures count passages judged 2 or 3 as relevant."]
    return SuiteReport(
        suite="trec_dl",
        rows=[result_row(result) for result in results],
        notes=[*notes, *skipped_notes(results), searcher.describe()],
        retrieval=results,
    )
