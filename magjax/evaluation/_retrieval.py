"""One benchmark from texts to metrics: embed, search, measure."""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError, positive_integer
from magjax.data import Benchmark, TextPreprocessor
from magjax.encoders import DualEncoder
from magjax.evaluation._benchmark_embeddings import embed_benchmark, norm_statistics
from magjax.evaluation._bm25 import bm25
from magjax.evaluation._metrics import METRICS, Evaluation, evaluate_run, metric_depth
from magjax.evaluation._ranking import Ranking
from magjax.evaluation._search import search
from magjax.similarity import Score
from magjax.typing import Side

__all__ = [
    "RetrievalResult",
    "check_depth",
    "evaluate_bm25",
    "evaluate_retrieval",
    "measured",
    "rank_benchmark",
]

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class RetrievalResult:
    """What one system did on one benchmark.

    Args:
        domain: the benchmark's name.
        system: what ranked: ``"model"``, ``"bm25"`` or a name of the caller's.
        evaluation: the metrics, per query too.
        ranking: the documents found.
        k: documents searched for per query; metrics without a cut-off see these.
        queries: queries of the benchmark.
        documents: documents of the benchmark.
        fingerprint: of the benchmark; results of different ones are not comparable.
        score: what ranked embeddings; None for a lexical system.
        norms: per side, mean and standard deviation of the embeddings' lengths.

    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d1", "d2"], ["adds", "a sum"], {"q": {"d2": 1}})
    >>> evaluate_bm25(benchmark, metrics=["mrr@10"]).to_json()["system"]
    'bm25'
    """

    domain: str
    system: str
    evaluation: Evaluation
    ranking: Ranking
    k: int
    queries: int
    documents: int
    fingerprint: str
    score: Score | None = None
    norms: dict[str, dict[str, float]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything but rankings and per-query values, as JSON values."""
        return {
            "domain": self.domain,
            "system": self.system,
            "metrics": dict(self.evaluation.mean),
            "counts": dict(self.evaluation.counts),
            "k": self.k,
            "queries": self.queries,
            "documents": self.documents,
            "fingerprint": self.fingerprint,
            "score": None if self.score is None else self.score.to_json(),
            "norms": self.norms,
        }


def evaluate_retrieval(
    encoder: DualEncoder,
    preprocessor: TextPreprocessor,
    benchmark: Benchmark,
    score: Score,
    *,
    k: int = 100,
    metrics: Sequence[str] = METRICS,
    ignore_identical_ids: bool = False,
    system: str = "model",
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    block_size: int = 65_536,
    progress: Callable[[Side, int, int], None] | None = None,
) -> RetrievalResult:
    """Embeds queries and corpus, ranks by ``score`` and measures against the judgements.

    Args:
        encoder: embeds both sides.
        preprocessor: the model's prompts, tokenizer and lengths.
        benchmark: what to search and what counts as an answer.
        score: the score that the model was trained under; another is a cross-evaluation.
        k: documents a query. ``map``, ``ndcg`` and ``mrr`` without a cut-off see these k.
        metrics: names as in :func:`evaluate_run`.
        ignore_identical_ids: never return the document whose id is the query's, for collections
            whose queries are documents of the corpus, such as ArguAna.
        system: what results call the model.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of an encoder batch on each device.
        block_size: documents a block of the search.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: a metric looks deeper than ``k``, no query is judged, or an embedding is not
            finite.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import EncoderConfig
    >>> benchmark = Benchmark("b", ["q"], ["a b"], ["d1", "d2"], ["b", "a b"], {"q": {"d2": 1}})
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270),
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> result = evaluate_retrieval(DualEncoder.create(config), preprocessor, benchmark,
    ...     Score.of("cosine"), k=2, metrics=["mrr@2"])
    >>> result.evaluation.mean
    {'mrr@2': 1.0}
    """
    check_depth(metrics, k)
    embeddings = embed_benchmark(
        encoder,
        preprocessor,
        benchmark,
        mesh=mesh,
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )
    return rank_benchmark(
        benchmark,
        embeddings,
        score,
        k=k,
        metrics=metrics,
        ignore_identical_ids=ignore_identical_ids,
        system=system,
        mesh=mesh,
        block_size=block_size,
    )


def rank_benchmark(
    benchmark: Benchmark,
    embeddings: Mapping[Side, np.ndarray],
    score: Score,
    *,
    k: int = 100,
    metrics: Sequence[str] = METRICS,
    ignore_identical_ids: bool = False,
    system: str = "model",
    mesh: Mesh | None = None,
    block_size: int = 65_536,
) -> RetrievalResult:
    """The second half of :func:`evaluate_retrieval`: ranks what is embedded already and measures.

    One pass of the encoder serves any number of scores.

    Args:
        benchmark: what was embedded and what counts as an answer.
        embeddings: raw ``[texts, dim]`` of both sides, as :func:`embed_benchmark` gives them.
        score: what to rank by.
        k: documents a query.
        metrics: names as in :func:`evaluate_run`.
        ignore_identical_ids: never return the document whose id is the query's.
        system: what results call the model.
        mesh: devices to use; default: all of this process.
        block_size: documents a block of the search.

    Raises:
        InputError: a metric looks deeper than ``k``, no query is judged, or an embedding is not
            finite.

    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> embeddings = {"query": np.ones((1, 2), np.float32), "document": np.eye(2, dtype=np.float32)}
    >>> rank_benchmark(benchmark, embeddings, Score.of("dot"), k=2, metrics=["mrr@2"]).evaluation.mean
    {'mrr@2': 1.0}
    """
    check_depth(metrics, k)
    ranking = search(
        embeddings["query"],
        embeddings["document"],
        score=score,
        k=k,
        query_ids=benchmark.query_ids,
        document_ids=benchmark.document_ids,
        exclude=benchmark.never_returned(ignore_identical_ids),
        block_size=block_size,
        mesh=mesh,
    )
    norms = {str(side): norm_statistics(values) for side, values in embeddings.items()}
    return measured(benchmark, system, ranking, metrics, k, score, norms)


def evaluate_bm25(
    benchmark: Benchmark,
    *,
    k: int = 100,
    metrics: Sequence[str] = METRICS,
    ignore_identical_ids: bool = False,
) -> RetrievalResult:
    """The same for :func:`bm25`, the lexical row beside a model's.

    Args:
        benchmark: what to search and what counts as an answer.
        k: documents a query.
        metrics: names as in :func:`evaluate_run`.
        ignore_identical_ids: never return the document whose id is the query's.

    Raises:
        InputError: a metric looks deeper than ``k``, or no query is judged.

    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d1", "d2"], ["adds", "a sum"], {"q": {"d2": 1}})
    >>> evaluate_bm25(benchmark, metrics=["mrr@10"]).evaluation.mean
    {'mrr@10': 1.0}
    """
    check_depth(metrics, k)
    ranking = bm25(benchmark, k, exclude=benchmark.never_returned(ignore_identical_ids))
    return measured(benchmark, "bm25", ranking, metrics, k, None, None)


def measured(
    benchmark: Benchmark,
    system: str,
    ranking: Ranking,
    metrics: Sequence[str],
    k: int,
    score: Score | None,
    norms: dict[str, dict[str, float]] | None,
) -> RetrievalResult:
    """The result of a ranking; queries without a judgement are counted and said."""
    evaluation = evaluate_run(
        ranking, benchmark.qrels, metrics, relevance_level=benchmark.relevance_level
    )
    if evaluation.counts["unjudged"]:
        _log.warning(
            "%s: skipped %d queries without a judgement; the means are over %d.",
            benchmark.name,
            evaluation.counts["unjudged"],
            evaluation.counts["queries"],
        )
    return RetrievalResult(
        domain=benchmark.name,
        system=system,
        evaluation=evaluation,
        ranking=ranking,
        k=k,
        queries=len(benchmark.queries),
        documents=len(benchmark.documents),
        fingerprint=benchmark.fingerprint,
        score=score,
        norms=norms,
    )


def check_depth(metrics: Sequence[str], k: int) -> None:
    """Refuses metrics that look deeper than the ``k`` documents searched for.

    Raises:
        InputError: a metric looks deeper than ``k``, or ``k`` is no positive whole number.

    >>> check_depth(["ndcg@10"], 100)
    """
    positive_integer("k", k)
    for metric in metrics:
        if metric_depth(metric) > k:
            raise InputError(
                f"metric {metric!r} looks at {metric_depth(metric)} documents a query, but k={k} "
                f"are searched for; set k to {metric_depth(metric)} or more."
            )
