"""Labelled texts embedded once, then clustered under any number of scores."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jax.sharding import Mesh

from magjax.data import LabelledTexts
from magjax.evaluation._symmetric import EqualTexts, embed_equals
from magjax.hub import Model
from magjax.typing import Side

__all__ = ["TextEmbeddings", "embed_labelled_texts"]


@dataclasses.dataclass(frozen=True, eq=False)
class TextEmbeddings:
    """A set of labelled texts with its raw embeddings, each different text once.

    Attributes:
        data: the set.
        texts: the embeddings of its different texts.
        rows: row of each text of each batch, int ``[texts]`` each.

    >>> data = LabelledTexts("s", [(["a", "b"], ["x", "y"])])
    >>> texts = EqualTexts(*[np.eye(2, dtype=np.float32)] * 2)
    >>> TextEmbeddings(data, texts, (np.array([0, 1]),)).rows[0]
    array([0, 1])
    """

    data: LabelledTexts
    texts: EqualTexts
    rows: tuple[np.ndarray, ...]


def embed_labelled_texts(
    model: Model,
    data: LabelledTexts,
    *,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    progress: Callable[[Side, int, int], None] | None = None,
) -> TextEmbeddings:
    """Embeds the texts of a set; the score is chosen later, and may be chosen often.

    As :func:`embed_pairs` does: once, by the side with the larger length limit, where the two
    sides of the encoder are one; otherwise as queries and as documents.

    Args:
        model: its score is not used.
        data: the texts.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: an embedding is not finite.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), None, tokenizer, text)
    >>> data = LabelledTexts("s", [(["a b", "b", "a b"], ["x", "y", "y"])])
    >>> found = embed_labelled_texts(model, data)
    >>> found.texts.query.shape, found.rows[0]
    ((2, 8), array([0, 1, 0]))
    """
    texts, rows = embed_equals(
        model,
        [text for batch, _ in data.batches for text in batch],
        mesh=mesh,
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )
    ends = np.cumsum([len(batch) for batch, _ in data.batches])
    return TextEmbeddings(data, texts, tuple(np.split(rows, ends[:-1])))
