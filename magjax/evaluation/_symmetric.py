"""Tasks between equals: who treats two texts alike, and the embeddings of texts without a side."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError
from magjax.data import SIDES, TextPreprocessor, TextSettings
from magjax.evaluation._encode import encode
from magjax.hub import Model
from magjax.similarity import Score
from magjax.typing import Float, Side

__all__ = [
    "EqualTexts",
    "asymmetries",
    "check_equals",
    "embed_equals",
    "encoder_asymmetries",
    "side_of_equals",
    "unequal",
]


@dataclasses.dataclass(frozen=True, eq=False)
class EqualTexts:
    """Raw embeddings of texts that no task says to be queries or documents.

    Attributes:
        query: the texts embedded as queries, float32 ``[texts, dim]``.
        document: the same texts embedded as documents; the same array where both sides are one.
        asymmetries: why the encoder tells sides apart, in words; empty where it does not.
        truncated: share of the different texts that were cut to the length limit.

    >>> x = np.eye(2, dtype=np.float32)
    >>> EqualTexts(x, x).asymmetries
    ()
    """

    query: Float[np.ndarray, "texts dim"]
    document: Float[np.ndarray, "texts dim"]
    asymmetries: tuple[str, ...] = ()
    truncated: float = 0.0


def encoder_asymmetries(model: Model) -> tuple[str, ...]:
    """Why a text has another embedding as query than as document; empty where it has not.

    Length limits alone do not count: :func:`side_of_equals` takes one of them for both texts.
    """
    reasons = {
        "each side has an encoder of its own": not model.encoder.is_shared,
        "each side has a prompt of its own": model.text.query_prompt != model.text.document_prompt,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def asymmetries(score: Score, encoder: Sequence[str]) -> tuple[str, ...]:
    """Why ``score(a, b)`` is not ``score(b, a)``, the score's reason before the encoder's.

    >>> asymmetries(Score.of("cosine"), ()), asymmetries(Score.of("qnorm", 1.0), ())
    ((), ('its score qnorm (gamma_query=1, gamma_document=0, temperature=1) is one-sided',))
    """
    own = () if score.is_symmetric else (f"its score {score} is one-sided",)
    return (*own, *encoder)


def unequal(task: str, reasons: Sequence[str], remedy: str) -> InputError:
    """The error of a task between equals for a model that has sides.

    >>> print(unequal("sts-b", ["each side has a prompt of its own"], "Take another."))
    sts-b compares texts as equals, which this model does not: each side has a prompt of its own. \
Take another.
    """
    return InputError(
        f"{task} compares texts as equals, which this model does not: {' and '.join(reasons)}. "
        f"{remedy}"
    )


def check_equals(
    task: str, score: Score, encoder: Sequence[str], *, allow_asymmetric: bool
) -> tuple[str, ...]:
    """Refuses a model that has sides, unless that was asked for; returns why it has them.

    Raises:
        InputError: the score or the encoder tells the sides apart.

    >>> check_equals("sts-b", Score.of("dot"), (), allow_asymmetric=False)
    ()
    """
    reasons = asymmetries(score, encoder)
    if reasons and not allow_asymmetric:
        other = "" if score.is_symmetric else "take a score of equal powers, such as cosine, "
        raise unequal(
            task,
            reasons,
            f"Evaluate it on retrieval, {other}or ask for every order with --allow_asymmetric "
            "(allow_asymmetric=True in Python).",
        )
    return reasons


def side_of_equals(text: TextSettings) -> Side:
    """The side that both texts are taken for where sides differ in nothing but their lengths.

    The one with the larger limit, which cuts fewer texts.

    >>> side_of_equals(TextSettings(query_max_length=8, document_max_length=16))
    'document'
    """
    return max(SIDES, key=text.max_length)


def embed_equals(
    model: Model,
    texts: Sequence[str],
    *,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    progress: Callable[[Side, int, int], None] | None = None,
) -> tuple[EqualTexts, np.ndarray]:
    """Embeds each different text once, or once a side where the encoder tells sides apart.

    Args:
        model: its score is not used.
        texts: any number; equal ones have one embedding.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: called with (side, texts done, texts in all).

    Returns:
        The embeddings of the different texts, and the row of each text, int ``[texts]``.

    Raises:
        InputError: a side embeds images, or an embedding is not finite.
    """
    for side in SIDES:
        if model.encoder.modality(side) != "text":
            raise InputError(
                f"texts were to be embedded on both sides, but the {side} side of this model "
                f"embeds {model.encoder.modality(side)}s; evaluate it on its own pairs."
            )
    places: dict[str, int] = {}
    rows = np.array([places.setdefault(text, len(places)) for text in texts], np.int64)
    preprocessor = TextPreprocessor(model.tokenizer, model.text)

    def embed(side: Side) -> np.ndarray:
        return encode(
            model.encoder,
            preprocessor,
            list(places),
            side,
            mesh=mesh,
            tokens_per_batch=tokens_per_batch,
            progress=None if progress is None else (lambda *done: progress(side, *done)),
        )

    reasons = encoder_asymmetries(model)
    if reasons:
        query, document = embed("query"), embed("document")
    else:
        query = document = embed(side_of_equals(preprocessor.settings))
    truncated = max(preprocessor.truncated_share(side) for side in SIDES)
    return EqualTexts(query, document, reasons, truncated), rows
