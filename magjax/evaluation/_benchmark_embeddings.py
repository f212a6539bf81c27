"""Both sides of a benchmark, embedded."""

from collections.abc import Callable, Sequence

import numpy as np
from jax.sharding import Mesh

from magjax.data import Benchmark, TextPreprocessor
from magjax.encoders import DualEncoder
from magjax.evaluation._encode import encode
from magjax.evaluation._exact import squared_norms
from magjax.typing import Side

__all__ = ["embed_benchmark", "norm_statistics"]


def embed_benchmark(
    encoder: DualEncoder,
    preprocessor: TextPreprocessor,
    benchmark: Benchmark,
    *,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    documents: np.ndarray | None = None,
    progress: Callable[[Side, int, int], None] | None = None,
) -> dict[Side, np.ndarray]:
    """Raw embeddings ``[texts, dim]`` of both sides of a benchmark.

    Args:
        encoder: embeds both sides.
        preprocessor: the model's prompts, tokenizer and lengths.
        benchmark: the texts.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of a batch on each device.
        documents: the documents' embeddings, if they are known from another benchmark of the same
            corpus.
        progress: called with (side, texts done, texts in all).

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import EncoderConfig
    >>> benchmark = Benchmark("b", ["q"], ["a b"], ["d1", "d2"], ["b", "a b"], {"q": {"d2": 1}})
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270),
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> found = embed_benchmark(DualEncoder.create(config), preprocessor, benchmark)
    >>> {side: embeddings.shape for side, embeddings in found.items()}
    {'query': (1, 16), 'document': (2, 16)}
    """
    sides: tuple[tuple[Side, Sequence[str], Sequence[str]], ...] = (
        ("query", benchmark.queries, benchmark.query_ids),
        ("document", benchmark.documents, benchmark.document_ids),
    )
    known: dict[Side, np.ndarray | None] = {"query": None, "document": documents}
    embeddings = {}
    for side, texts, ids in sides:
        given = known[side]
        embeddings[side] = (
            given
            if given is not None
            else encode(
                encoder,
                preprocessor,
                texts,
                side,
                ids=ids,
                mesh=mesh,
                tokens_per_batch=tokens_per_batch,
                progress=None if progress is None else _on_side(progress, side),
            )
        )
    return embeddings


def _on_side(progress: Callable[[Side, int, int], None], side: Side) -> Callable[[int, int], None]:
    return lambda done, total: progress(side, done, total)


def norm_statistics(embeddings: np.ndarray) -> dict[str, float]:
    """Mean and standard deviation of the embeddings' lengths."""
    norms = np.sqrt(squared_norms(embeddings))
    return {"mean": float(norms.mean()), "std": float(norms.std())}
