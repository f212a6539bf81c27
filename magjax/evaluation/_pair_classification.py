"""Pair classification: does the score tell pairs that belong together from pairs that do not."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError
from magjax.data import TextPairs
from magjax.evaluation._pair_scores import PairEmbeddings, embed_pairs, pair_scores
from magjax.evaluation._symmetric import asymmetries, check_equals, encoder_asymmetries
from magjax.files import json_safe
from magjax.hub import Model
from magjax.similarity import Score
from magjax.statistics import Interval, bootstrap_interval
from magjax.typing import Float, Side

__all__ = [
    "Classification",
    "PairClassificationResult",
    "classify_pairs",
    "classify_scores",
    "evaluate_pair_classification",
]


@dataclasses.dataclass(frozen=True)
class Classification:
    """How well one threshold on the score finds the pairs that belong together.

    Attributes:
        average_precision: area under precision over recall, with a bootstrap interval over pairs.
        accuracy: best share of pairs on the right side of a threshold.
        accuracy_threshold: that threshold: half-way between two scores, or above all of them.
        f1: best harmonic mean of precision and recall.
        f1_threshold: its threshold.
        precision: at that threshold.
        recall: at that threshold.

    >>> found = classify_scores(np.array([0.9, 0.1]), np.array([1.0, 0.0]), resamples=10)
    >>> found.to_json()["f1"]
    1.0
    """

    average_precision: Interval
    accuracy: float
    accuracy_threshold: float
    f1: float
    f1_threshold: float
    precision: float
    recall: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return json_safe(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, eq=False)
class PairClassificationResult:
    """What one score did on one set of labelled pairs.

    Attributes:
        name: the set.
        score: what compared the embeddings.
        orders: by order of the pair (``"score"``, or the three of ``ORDERS``), the figures.
        scores: by order, the score of each pair, float64 ``[pairs]``.
        labels: 1 for a pair that belongs together, else 0, float64 ``[pairs]``.
        asymmetries: why the order of a pair matters; empty where it does not.
        fingerprint: of the set.

    >>> found = PairClassificationResult(name="s", score=Score.of("dot"), orders={}, scores={},
    ...     labels=np.array([1.0, 0.0]), asymmetries=(), fingerprint="")
    >>> found.to_json()["positive"]
    1
    """

    name: str
    score: Score
    orders: Mapping[str, Classification]
    scores: Mapping[str, np.ndarray]
    labels: np.ndarray
    asymmetries: tuple[str, ...]
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """Everything but the scores of single pairs, as JSON values."""
        return {
            "name": self.name,
            "score": self.score.to_json(),
            "orders": {order: found.to_json() for order, found in self.orders.items()},
            "pairs": len(self.labels),
            "positive": int(self.labels.sum()),
            "asymmetries": list(self.asymmetries),
            "fingerprint": self.fingerprint,
        }


def evaluate_pair_classification(
    model: Model,
    pairs: TextPairs,
    *,
    score: Score | None = None,
    allow_asymmetric: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    progress: Callable[[Side, int, int], None] | None = None,
) -> PairClassificationResult:
    """Embeds the pairs of a set, scores them and separates them by the score.

    For many scores of one encoder call :func:`embed_pairs` once, then :func:`classify_pairs` for
    each.

    Args:
        model: embeds the texts.
        pairs: from :func:`magjax.data.find_labelled_pairs`.
        score: compares the embeddings; default: the model's own.
        allow_asymmetric: evaluate a score or an encoder that tells queries from documents, in
            every order.
        resamples: of the bootstrap over pairs.
        seed: of the resamples.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: the model has sides (refused before anything is embedded), the labels are not
            both 0 and 1, or an embedding is not finite.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("cosine"), tokenizer, text)
    >>> pairs = TextPairs("s", ["a b", "a"], ["a b", "b"], [1, 0])
    >>> found = evaluate_pair_classification(model, pairs, resamples=10)
    >>> found.orders["score"].average_precision.mean
    1.0
    """
    chosen = score or model.require_score()
    check_equals(pairs.name, chosen, encoder_asymmetries(model), allow_asymmetric=allow_asymmetric)
    embeddings = embed_pairs(
        model, pairs, mesh=mesh, tokens_per_batch=tokens_per_batch, progress=progress
    )
    return classify_pairs(
        embeddings, chosen, allow_asymmetric=allow_asymmetric, resamples=resamples, seed=seed
    )


def classify_pairs(
    embeddings: PairEmbeddings,
    score: Score,
    *,
    allow_asymmetric: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> PairClassificationResult:
    """Separates pairs by their score.

    Args:
        embeddings: from :func:`embed_pairs`, of pairs whose grades are the labels 0 and 1.
        score: compares them.
        allow_asymmetric: evaluate a score or an encoder that tells queries from documents, in
            every order.
        resamples: of the bootstrap.
        seed: of the resamples.

    Raises:
        InputError: the order of a pair matters and ``allow_asymmetric`` is not set, or the labels
            are not both 0 and 1.

    >>> from magjax.evaluation import EqualTexts
    >>> x = np.array([[1, 0], [1, 1], [0, 1]], np.float32)
    >>> pairs = TextPairs("s", ["a"] * 3, ["a", "b", "c"], [1, 0, 0])
    >>> rows = np.array([0, 0, 0]), np.array([0, 1, 2])
    >>> found = classify_pairs(PairEmbeddings(pairs, EqualTexts(x, x), *rows), Score.of("dot"))
    >>> found.orders["score"].accuracy
    0.6666666666666666
    """
    pairs = embeddings.pairs
    labels = np.asarray(pairs.grades)
    found = np.unique(labels)
    if found.tolist() != [0.0, 1.0]:
        shown = ", ".join(f"{value:g}" for value in found[:5])
        raise InputError(
            f"{pairs.name}: the labels are {shown}; pairs of both labels, 0 and 1, are needed."
        )
    scores = pair_scores(embeddings, score, allow_asymmetric=allow_asymmetric)
    return PairClassificationResult(
        name=pairs.name,
        score=score,
        orders={
            order: classify_scores(values, labels, resamples=resamples, seed=seed)
            for order, values in scores.items()
        },
        scores=scores,
        labels=labels,
        asymmetries=asymmetries(score, embeddings.texts.asymmetries),
        fingerprint=pairs.fingerprint,
    )


def classify_scores(
    scores: Float[np.ndarray, " pairs"],
    labels: Float[np.ndarray, " pairs"],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Classification:
    r"""Average precision, and the best accuracy and F1 that a threshold on the score reaches.

    .. math:: \mathrm{AP} = \sum_k (R_k - R_{k-1}) P_k

    over the different scores from the highest down, with precision :math:`P_k` and recall
    :math:`R_k` of the pairs that score as high (scikit-learn's ``average_precision_score``).
    Thresholds never part equal scores (sentence-transformers' ``BinaryClassificationEvaluator``).
    They are chosen on the pairs that they are measured on, so accuracy and F1 are upper bounds.

    Args:
        scores: float64 ``[pairs]``, higher for pairs that belong together.
        labels: 1 for those that do, else 0; both occur.
        resamples: of the bootstrap over pairs.
        seed: of the resamples.

    >>> found = classify_scores(np.array([0.9, 0.8, 0.1]), np.array([1.0, 0.0, 1.0]))
    >>> round(found.average_precision.mean, 4), found.f1, found.accuracy_threshold
    (0.8333, 0.8, 0.8500000000000001)
    """
    hits, taken, thresholds = _steps(scores, labels)
    positive, pairs = labels.sum(), len(labels)
    correct = np.concatenate([[pairs - positive], hits + (pairs - positive) - (taken - hits)])
    best = int(np.argmax(correct))
    above = np.nextafter(scores.max(), np.inf)
    f1 = 2.0 * hits / (taken + positive)
    at = int(np.argmax(f1))
    return Classification(
        average_precision=bootstrap_interval(
            _average_precision, scores, labels, paired=True, resamples=resamples, seed=seed
        ),
        accuracy=float(correct[best] / pairs),
        accuracy_threshold=float(above if best == 0 else thresholds[best - 1]),
        f1=float(f1[at]),
        f1_threshold=float(thresholds[at]),
        precision=float(hits[at] / taken[at]),
        recall=float(hits[at] / positive),
    )


def _steps(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per different score, from the highest: positives and pairs that reach it, and a threshold."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    ends = np.append(np.flatnonzero(ranked[:-1] != ranked[1:]), len(ranked) - 1)
    here, below = ranked[ends], ranked[np.minimum(ends + 1, len(ranked) - 1)]
    middle = (here + below) / 2.0
    # The middle of two neighbouring numbers may round to the lower one, which must stay outside.
    return np.cumsum(labels[order])[ends], ends + 1.0, np.where(middle > below, middle, here)


def _average_precision(scores: np.ndarray, labels: np.ndarray) -> float:
    """NaN where no pair belongs together, as in some resamples of few pairs."""
    hits, taken, _ = _steps(scores, labels)
    if hits[-1] == 0.0:
        return float("nan")
    return float(np.sum(np.diff(hits, prepend=0.0) * hits / taken) / hits[-1])
