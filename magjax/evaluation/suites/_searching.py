"""What the retrieval suites share: search one set after another, rows, means over sets."""

from collections.abc import Mapping, Sequence

import numpy as np

from magjax import hub
from magjax.data import Benchmark, TextPreprocessor
from magjax.evaluation._benchmark_embeddings import embed_benchmark
from magjax.evaluation._progress import progress_bar
from magjax.evaluation._report import skipped
from magjax.evaluation._retrieval import RetrievalResult, evaluate_bm25, rank_benchmark
from magjax.evaluation.suites._suite import SuiteAverage, SuiteRow, SuiteSettings

__all__ = ["Searcher", "mean_of_rows", "part_rows", "result_row", "skipped_notes"]


class Searcher:
    """Runs a model, and BM25 where it is asked for, over one benchmark after another.

    A corpus is embedded once for all benchmarks in a row that hold the same document object, as
    the years of a TREC track do.

    Args:
        model: ranks by its score.
        settings: of the suite.
        metrics: what the suite reports unless settings name others.
        depth: documents a query that the suite searches for, unless settings say.

    Raises:
        InputError: the model has no score, or a metric looks deeper than ``k``.
    """

    def __init__(
        self, model: hub.Model, settings: SuiteSettings, metrics: Sequence[str], depth: int = 100
    ) -> None:
        self.metrics = tuple(settings.metrics or metrics)
        self._score = model.require_score()
        self._encoder = model.encoder
        self._preprocessor = TextPreprocessor(model.tokenizer, model.text)
        self._settings = settings
        self._k = settings.depth(self.metrics, depth)
        self._texts: Sequence[str] | None = None
        self._documents: np.ndarray | None = None

    def search(
        self, benchmark: Benchmark, *, ignore_identical_ids: bool = False
    ) -> list[RetrievalResult]:
        """The model's result, and BM25's after it where it is asked for."""
        if self._texts is not benchmark.documents:
            self._documents = None  # freed before the next corpus needs the memory
        with progress_bar(benchmark.name) as progress:
            embeddings = embed_benchmark(
                self._encoder,
                self._preprocessor,
                benchmark,
                tokens_per_batch=self._settings.tokens_per_batch,
                documents=self._documents,
                progress=progress,
            )
        self._texts, self._documents = benchmark.documents, embeddings["document"]
        found = rank_benchmark(
            benchmark,
            embeddings,
            self._score,
            k=self._k,
            metrics=self.metrics,
            ignore_identical_ids=ignore_identical_ids,
        )
        if not self._settings.bm25:
            return [found]
        lexical = evaluate_bm25(
            benchmark,
            k=self._k,
            metrics=self.metrics,
            ignore_identical_ids=ignore_identical_ids,
        )
        return [found, lexical]

    def describe(self) -> str:
        """What share of the texts was truncated."""
        return self._preprocessor.describe()


def result_row(result: RetrievalResult) -> SuiteRow:
    """A result as a row of a report."""
    return SuiteRow(
        name=result.domain,
        system=result.system,
        values=dict(result.evaluation.mean),
        counts={"queries": result.evaluation.counts["queries"], "documents": result.documents},
        fingerprint=result.fingerprint,
        score=result.score,
    )


def part_rows(result: RetrievalResult, parts: Mapping[str, Sequence[str]]) -> list[SuiteRow]:
    """A row for each part of the queries, ``NAME PART``; unjudged queries count in none."""
    per_query = result.evaluation.per_query
    rows = []
    for part, queries in parts.items():
        kept = [per_query[query] for query in queries if query in per_query]
        if kept:
            row = result_row(result)
            values = {name: sum(v[name] for v in kept) / len(kept) for name in row.values}
            rows.append(
                SuiteRow(
                    name=f"{row.name} {part}",
                    system=row.system,
                    values=values,
                    counts={**row.counts, "queries": len(kept)},
                    fingerprint=row.fingerprint,
                    score=row.score,
                )
            )
    return rows


def mean_of_rows(rows: Sequence[SuiteRow], label: str) -> list[SuiteAverage]:
    """Per system the plain mean over its rows: each data set weighs the same, however large."""
    averages = []
    for system in dict.fromkeys(row.system for row in rows):
        own = [row for row in rows if row.system == system]
        values = {
            name: sum(row.values[name] for row in own) / len(own)
            for name in own[0].values
            if all(name in row.values for row in own)
        }
        averages.append(SuiteAverage(label=label, system=system, values=values, score=own[0].score))
    return averages


def skipped_notes(results: Sequence[RetrievalResult]) -> list[str]:
    """What of each result's queries was skipped or counted as 0."""
    return [
        f"{result.domain}, {result.system}: {said}"
        for result in results
        for said in skipped(result.evaluation.counts)
    ]
