"""Benchmark after benchmark: the model, an index and BM25 where they are asked for."""

import logging
from collections.abc import Iterable, Sequence

from magjax import hub
from magjax.data import Benchmark, TextPreprocessor
from magjax.evaluation._index import check_index
from magjax.evaluation._index_evaluation import IndexEvaluation, evaluate_index
from magjax.evaluation._metrics import METRICS
from magjax.evaluation._progress import progress_bar
from magjax.evaluation._retrieval import (
    RetrievalResult,
    check_depth,
    evaluate_bm25,
    evaluate_retrieval,
)

__all__ = ["evaluate_benchmarks"]

_log = logging.getLogger(__name__)


def evaluate_benchmarks(
    model: hub.Model,
    benchmarks: Iterable[Benchmark],
    *,
    k: int = 100,
    metrics: Sequence[str] = METRICS,
    ignore_identical_ids: bool = False,
    tokens_per_batch: int = 2048,
    bm25: bool = False,
    index: str = "exact",
    index_search: str = "",
) -> tuple[list[RetrievalResult], list[IndexEvaluation]]:
    """Evaluates a model on several benchmarks, and logs each result as it is there.

    Args:
        model: ranks by its score.
        benchmarks: what to search, in the order of the results.
        k: documents a query.
        metrics: names as in :func:`evaluate_run`.
        ignore_identical_ids: never return the document whose id is the query's.
        tokens_per_batch: tokens of an encoder batch on each device.
        bm25: add BM25's result to each benchmark.
        index: as :func:`evaluate_index` takes it; ``"exact"`` adds nothing.
        index_search: faiss's search parameters.

    Returns:
        the results, benchmark by benchmark: the model's, that of the index and BM25's where they
        are asked for; and what each index lost.

    Raises:
        InputError: the model has no score, or as :func:`evaluate_retrieval`.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.similarity import Score
    >>> benchmark = Benchmark("b", ["q"], ["add lists"], ["d1", "d2"], ["maps", "add lists"],
    ...     {"q": {"d2": 1}})
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> model = hub.Model(DualEncoder.create(config), Score.of("cosine"),
    ...     TextTokenizer.train(["add lists"] * 2, 270),
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> results, indexes = evaluate_benchmarks(model, [benchmark], k=2, metrics=["mrr@2"], bm25=True)
    >>> [(result.system, result.evaluation.mean) for result in results]
    [('model', {'mrr@2': 1.0}), ('bm25', {'mrr@2': 1.0})]
    """
    check_depth(metrics, k)
    approximate = check_index(index, index_search) is not None
    score = model.require_score()
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    results: list[RetrievalResult] = []
    indexes: list[IndexEvaluation] = []
    for benchmark in benchmarks:
        with progress_bar(benchmark.name) as progress:
            if approximate:
                indexes.append(
                    evaluate_index(
                        model.encoder,
                        preprocessor,
                        benchmark,
                        score,
                        index=index,
                        index_search=index_search,
                        k=k,
                        metrics=metrics,
                        ignore_identical_ids=ignore_identical_ids,
                        tokens_per_batch=tokens_per_batch,
                        progress=progress,
                    )
                )
                result = indexes[-1].exact
            else:
                result = evaluate_retrieval(
                    model.encoder,
                    preprocessor,
                    benchmark,
                    score,
                    k=k,
                    metrics=metrics,
                    ignore_identical_ids=ignore_identical_ids,
                    tokens_per_batch=tokens_per_batch,
                    progress=progress,
                )
        results.append(result)
        means = (f"{name} {value:.4f}" for name, value in result.evaluation.mean.items())
        _log.info("%s: %s", benchmark.name, ", ".join(means))  # a later one may fail
        if approximate:
            results.append(indexes[-1].approximate)
        if bm25:
            results.append(
                evaluate_bm25(
                    benchmark, k=k, metrics=metrics, ignore_identical_ids=ignore_identical_ids
                )
            )
    _log.info(preprocessor.describe())
    return results, indexes
