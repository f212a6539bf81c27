"""What an approximate index costs: its metrics beside those of exact search, on one embedding."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax.data import Benchmark, TextPreprocessor
from magjax.encoders import DualEncoder
from magjax.evaluation._benchmark_embeddings import embed_benchmark, norm_statistics
from magjax.evaluation._index import VectorIndex, check_index
from magjax.evaluation._metrics import METRICS, evaluate_run
from magjax.evaluation._ranking import Ranking
from magjax.evaluation._retrieval import RetrievalResult, check_depth, measured
from magjax.evaluation._search import search
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["IndexEvaluation", "evaluate_index"]


@dataclasses.dataclass(frozen=True, eq=False)
class IndexEvaluation:
    """Exact search and an index on one benchmark.

    Args:
        exact: the result of exact search; its system is ``"model"``.
        approximate: the result of the index; its system is the index's name.
        index_search: faiss's search parameters.
        recall: per depth, the share of the exact best documents that the index finds among as many
            of its own, mean over queries. A document as good as the last of the exact ones counts,
            whichever of several equals exact search put there.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import EncoderConfig
    >>> benchmark = Benchmark("b", ["q"], ["a b"], ["d1", "d2"], ["b", "a b"], {"q": {"d2": 1}})
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270),
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> print(evaluate_index(DualEncoder.create(config), preprocessor, benchmark,
    ...     Score.of("cosine"), index="exact", k=2, metrics=["mrr@2"]).describe())
    b, exact against exact search: mrr@2 +0.0000; it finds 100.0% of the exact top 2.
    """

    exact: RetrievalResult
    approximate: RetrievalResult
    index_search: str
    recall: Mapping[int, float]

    @property
    def loss(self) -> dict[str, float]:
        """Per metric, what exact search has more than the index."""
        mean = self.approximate.evaluation.mean
        return {name: value - mean[name] for name, value in self.exact.evaluation.mean.items()}

    def to_json(self) -> dict[str, Any]:
        """Benchmark, index, losses and recall as JSON values."""
        return {
            "domain": self.exact.domain,
            "index": self.approximate.system,
            "index_search": self.index_search,
            "loss": self.loss,
            "recall_of_exact": {f"@{depth}": share for depth, share in self.recall.items()},
        }

    def describe(self) -> str:
        """One line: how each metric changes, and how much of the exact ranking is found."""
        given = f" ({self.index_search})" if self.index_search else ""
        changes = ", ".join(f"{name} {0.0 - value:+.4f}" for name, value in self.loss.items())
        found = " and ".join(
            f"{share:.1%} of the exact top {d}" for d, share in self.recall.items()
        )
        return (
            f"{self.exact.domain}, {self.approximate.system}{given} against exact search: {changes}; "
            f"it finds {found}."
        )


def evaluate_index(
    encoder: DualEncoder,
    preprocessor: TextPreprocessor,
    benchmark: Benchmark,
    score: Score,
    *,
    index: str,
    index_search: str = "",
    k: int = 100,
    metrics: Sequence[str] = METRICS,
    ignore_identical_ids: bool = False,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    block_size: int = 65_536,
    progress: Callable[[Side, int, int], None] | None = None,
) -> IndexEvaluation:
    """As :func:`evaluate_retrieval`, and once more through an index over the same embeddings.

    Args:
        encoder: embeds both sides.
        preprocessor: the model's prompts, tokenizer and lengths.
        benchmark: what to search and what counts as an answer.
        score: the score that the model was trained under.
        index: as :func:`search_index` takes it; ranked by its own numbers.
        index_search: faiss's search parameters, such as ``efSearch=64`` or ``nprobe=8``.
        k: documents a query; an HNSW index visits at least as many.
        metrics: names as in :func:`evaluate_run`.
        ignore_identical_ids: never return the document whose id is the query's.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of an encoder batch on each device.
        block_size: documents a block of the exact search.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: as :func:`evaluate_retrieval` and :func:`search_index`.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import EncoderConfig
    >>> benchmark = Benchmark("b", ["q"], ["a b"], ["d1", "d2"], ["b", "a b"], {"q": {"d2": 1}})
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270),
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> found = evaluate_index(DualEncoder.create(config), preprocessor, benchmark,
    ...     Score.of("cosine"), index="exact", k=1, metrics=["mrr@1"])
    >>> found.loss, found.recall
    ({'mrr@1': 0.0}, {1: 1.0})
    """
    check_index(index, index_search)
    check_depth(metrics, k)

    embeddings = embed_benchmark(
        encoder,
        preprocessor,
        benchmark,
        mesh=mesh,
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )
    queries, documents = embeddings["query"], embeddings["document"]
    asked: dict[str, Any] = {
        "query_ids": benchmark.query_ids,
        "k": k,
        "exclude": benchmark.never_returned(ignore_identical_ids),
    }
    built = VectorIndex.build(
        documents, benchmark.document_ids, index=index, index_search=index_search, score=score
    )
    best = search(
        queries,
        documents,
        score=score,
        document_ids=benchmark.document_ids,
        block_size=block_size,
        mesh=mesh,
        **asked,
    )
    found = built.search(queries, **asked)
    norms = {str(side): norm_statistics(values) for side, values in embeddings.items()}
    exact = measured(benchmark, "model", best, metrics, k, score, norms)
    approximate = dataclasses.replace(
        exact,
        system=index,
        evaluation=evaluate_run(
            found, benchmark.qrels, metrics, relevance_level=benchmark.relevance_level
        ),
        ranking=found,
    )
    values = built.scores(queries, benchmark.query_ids, found.rows)
    recall = {depth: _recall(best, values, depth) for depth in sorted({min(10, k), k})}
    return IndexEvaluation(exact, approximate, index_search, recall)


def _recall(exact: Ranking, found: Sequence[np.ndarray], depth: int) -> float:
    """Mean share of the exact best ``depth``, judged by exact scores so that equals are equal."""
    shares = []
    for best, values in zip(exact.scores, found, strict=True):
        wanted = min(depth, len(best))
        if wanted:
            shares.append(np.count_nonzero(values[:depth] >= best[wanted - 1]) / wanted)
    return float(np.mean(shares)) if shares else 1.0
