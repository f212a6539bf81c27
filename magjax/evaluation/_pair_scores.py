"""Scores of pairs of equals: embedded once, then compared under any number of scores."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jax.sharding import Mesh

from magjax.data import TextPairs
from magjax.evaluation._exact import exact_pair_scores, length_factors, squared_norms
from magjax.evaluation._symmetric import EqualTexts, check_equals, embed_equals
from magjax.hub import Model
from magjax.similarity import Score
from magjax.typing import Float, Int, Side

__all__ = ["ORDERS", "PairEmbeddings", "embed_pairs", "pair_scores"]

ORDERS = ("score(a,b)", "score(b,a)", "symmetrized")
"""What is reported where the order of a pair matters; elsewhere there is ``"score"`` alone."""


@dataclasses.dataclass(frozen=True, eq=False)
class PairEmbeddings:
    """A set of pairs with its raw embeddings, each different text once.

    Attributes:
        pairs: the set.
        texts: the embeddings of its different texts.
        first: row of each pair's first text, int ``[pairs]``.
        second: row of the second.

    >>> texts = EqualTexts(*[np.eye(2, dtype=np.float32)] * 2)
    >>> pairs = TextPairs("s", ["a"], ["b"], [1.0])
    >>> PairEmbeddings(pairs, texts, np.array([0]), np.array([1])).texts.query.shape
    (2, 2)
    """

    pairs: TextPairs
    texts: EqualTexts
    first: Int[np.ndarray, " pairs"]
    second: Int[np.ndarray, " pairs"]


def embed_pairs(
    model: Model,
    pairs: TextPairs,
    *,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    progress: Callable[[Side, int, int], None] | None = None,
) -> PairEmbeddings:
    """Embeds both texts of every pair; the score is chosen later, and may be chosen often.

    Where the two sides of the encoder are one (one tower, one prompt), each text has one
    embedding: that of the side with the larger length limit. Otherwise each text is embedded as a
    query and as a document.

    Args:
        model: its score is not used.
        pairs: the texts.
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
    >>> embeddings = embed_pairs(model, TextPairs("s", ["a", "b"], ["b", "a b"], [1.0, 2.0]))
    >>> embeddings.texts.query.shape, embeddings.first, embeddings.second
    ((3, 8), array([0, 1]), array([1, 2]))
    """
    texts, rows = embed_equals(
        model,
        [*pairs.first, *pairs.second],
        mesh=mesh,
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )
    return PairEmbeddings(pairs, texts, rows[: len(pairs)], rows[len(pairs) :])


def pair_scores(
    embeddings: PairEmbeddings, score: Score, *, allow_asymmetric: bool = False
) -> dict[str, Float[np.ndarray, " pairs"]]:
    r"""The score of each pair, in every order that matters.

    .. math:: s(a, b) = \langle a\lVert a\rVert^{-\gamma_q}, b\lVert b\rVert^{-\gamma_d}\rangle

    with a embedded as a query and b as a document. If both powers are equal and the encoder has no
    sides, :math:`s(a, b) = s(b, a)`, reported as ``"score"``. Otherwise ``"score(a,b)"``,
    ``"score(b,a)"`` and their mean, ``"symmetrized"``.

    Args:
        embeddings: from :func:`embed_pairs`.
        score: compares the embeddings.
        allow_asymmetric: let the order of a pair matter.

    Returns:
        By order, float64 ``[pairs]``: exact products of the float32 embeddings, summed in float64.

    Raises:
        InputError: the order matters, and ``allow_asymmetric`` is not set.

    >>> texts = EqualTexts(*[np.array([[3, 4], [10, 0]], np.float32)] * 2)
    >>> embeddings = PairEmbeddings(
    ...     TextPairs("s", ["a"], ["b"], [1.0]), texts, np.array([0]), np.array([1]))
    >>> pair_scores(embeddings, Score.of("cosine"))
    {'score': array([0.6])}
    >>> pair_scores(embeddings, Score.of("qnorm"), allow_asymmetric=True)
    {'score(a,b)': array([6.]), 'score(b,a)': array([3.]), 'symmetrized': array([4.5])}
    """
    texts = embeddings.texts
    reasons = check_equals(
        embeddings.pairs.name, score, texts.asymmetries, allow_asymmetric=allow_asymmetric
    )
    squares = [squared_norms(x) for x in (texts.query, texts.document)]
    query, document = map(length_factors, squares, score.gammas)

    def scored(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        dots = exact_pair_scores(texts.query, a, texts.document, b)
        # Ranks need ties to be ties: equal texts have a cosine of 1 to the last bit (the root of
        # s * s is s), and s(a, b) = s(b, a) where both powers are one, as both factors come first.
        if score.gammas == (1.0, 1.0):
            products = squares[0][a] * squares[1][b]
            return np.divide(dots, np.sqrt(products), where=products > 0.0, out=np.zeros(len(a)))
        return dots * (query[a] * document[b])

    forward = scored(embeddings.first, embeddings.second)
    if not reasons:
        return {"score": forward}
    backward = scored(embeddings.second, embeddings.first)
    return dict(zip(ORDERS, (forward, backward, (forward + backward) / 2.0), strict=True))
