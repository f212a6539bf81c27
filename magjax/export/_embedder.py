"""A model as a function from texts to the vectors of its trained score, of few compiled shapes."""

import functools
from collections.abc import Callable, Sequence

import jax
import numpy as np

from magjax.checks import choose, positive_integer
from magjax.data import SIDES, TextPreprocessor
from magjax.evaluation import encode, encode_tokens
from magjax.export._shapes import padded_lengths
from magjax.hub import Model
from magjax.mesh import data_mesh
from magjax.similarity import normalize
from magjax.typing import Side

__all__ = ["WARM_UPS", "TextEmbedder"]

WARM_UPS = ("none", "single", "full")


class TextEmbedder:
    """Embeds texts with their side's normalization: inner products are the trained score.

    It runs on one device, JAX's first: the batches of a server are small, and splitting them
    would pad each to the number of devices.

    Args:
        model: encoder, tokenizer, prompts, lengths and score.
        tokens_per_batch: tokens of a batch, padding included.

    Raises:
        InputError: the model states no score, or a count is below 1.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.similarity import Score
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> embed = TextEmbedder(Model(DualEncoder.create(config), Score.of("qnorm"), tokenizer, text))
    >>> (embed(["a", "b a"], "query") ** 2).sum(axis=1).round(5).tolist()
    [1.0, 1.0]
    """

    def __init__(self, model: Model, *, tokens_per_batch: int = 2048):
        self.score = model.require_score()
        self.dim = model.encoder.dim
        self._encoder = model.encoder
        self._preprocessor = TextPreprocessor(model.tokenizer, model.text)
        self._budget = positive_integer("tokens_per_batch", tokens_per_batch)
        self._mesh = data_mesh(jax.local_devices()[:1])

    @property
    def text(self):
        """Prompts and lengths in force."""
        return self._preprocessor.settings

    def __call__(self, texts: Sequence[str], side: Side) -> np.ndarray:
        """Float32 ``[texts, dim]`` in the order given.

        Raises:
            InputError: an embedding is not finite.
        """
        raw = encode(
            self._encoder,
            self._preprocessor,
            texts,
            side,
            mesh=self._mesh,
            tokens_per_batch=self._budget,
        )
        return self._normalized(raw, side)

    def warm_up(
        self, extent: str, max_texts: int, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """Compiles before the first request what requests will need.

        Args:
            extent: ``single``: each length with one text; ``full``: every shape of up to
                ``max_texts`` texts, which for 256 tokens is some 70 a side; or ``none``.
            max_texts: texts of the largest batch.
            is_stopping: asked before each shape.

        Raises:
            InputError: an unknown extent, or an embedding that is not finite.
        """
        if choose("warm_up", extent, WARM_UPS) == "none":
            return
        for side in SIDES:
            rows = 1
            while rows < 2 * max_texts and not is_stopping():
                self._normalized(np.zeros((rows, self.dim), np.float32), side)
                rows *= 2
            for length in padded_lengths(self.text.max_length(side)):
                row = np.full(length, self._preprocessor.tokenizer.pad_id, np.int32)
                for size in self._sizes(length, max_texts) if extent == "full" else [1]:
                    if is_stopping():
                        return
                    encode_tokens(
                        self._encoder,
                        self._preprocessor,
                        [[row] * size],
                        side,
                        count=size,
                        mesh=self._mesh,
                        tokens_per_batch=self._budget,
                    )

    def _sizes(self, length: int, max_texts: int) -> list[int]:
        """Numbers of texts that fill the batches which ``encode`` makes: a half, a quarter, ..."""
        size = max(1, self._budget // length)
        sizes = [size]
        while size > 1:
            size = -(-size // 2)
            sizes.append(size)
        needed = next((size for size in reversed(sizes) if size >= max_texts), sizes[0])
        return [size for size in sizes if size <= needed]

    def _normalized(self, embeddings: np.ndarray, side: Side) -> np.ndarray:
        """Compiled, on rows padded to powers of two: as it stands each count would compile anew."""
        gamma = self.score.gamma(side)
        if gamma == 0.0 or not len(embeddings):
            return embeddings
        padded = np.zeros((1 << (len(embeddings) - 1).bit_length(), self.dim), np.float32)
        padded[: len(embeddings)] = embeddings
        return np.asarray(_normalize(padded, gamma))[: len(embeddings)]


@functools.partial(jax.jit, static_argnums=1)
def _normalize(embeddings: jax.Array, gamma: float) -> jax.Array:
    return normalize(embeddings, gamma)
