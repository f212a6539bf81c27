"""Semantic textual similarity: does the score order pairs of sentences as people do."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError, RunError
from magjax.data import TextPairs
from magjax.evaluation._pair_scores import PairEmbeddings, embed_pairs, pair_scores
from magjax.evaluation._symmetric import asymmetries, check_equals, encoder_asymmetries
from magjax.hub import Model
from magjax.similarity import Score
from magjax.statistics import Interval, bootstrap_interval
from magjax.typing import Float, Side

__all__ = ["Correlation", "StsResult", "correlate_scores", "evaluate_sts", "score_pairs"]


@dataclasses.dataclass(frozen=True)
class Correlation:
    """How scores and gold scores go together, with bootstrap intervals over pairs.

    Attributes:
        spearman: correlation of the ranks, equal ones sharing their mean rank.
        pearson: correlation of the values.

    >>> from magjax.statistics import mean_interval
    >>> Correlation(mean_interval([0.5]), mean_interval([0.25])).to_json()["spearman"]["mean"]
    0.5
    """

    spearman: Interval
    pearson: Interval

    def to_json(self) -> dict[str, Any]:
        """Both intervals as JSON values."""
        return {"spearman": self.spearman.to_json(), "pearson": self.pearson.to_json()}


@dataclasses.dataclass(frozen=True, eq=False)
class StsResult:
    """What one score did on one STS set.

    Attributes:
        name: the set, or ``"SET PART"``.
        score: what compared the embeddings.
        orders: by order of the pair (``"score"``, or the three of ``ORDERS``), the correlations.
        scores: by order, the score of each pair, float64 ``[pairs]``.
        grades: the gold score of each pair, float64 ``[pairs]``.
        parts: the same for each part of the set alone; a part of equal gold scores has none.
        asymmetries: why the order of a pair matters; empty where it does not.
        unjudged: pairs of the published files without a gold score, left out.
        fingerprint: of the set.

    >>> found = StsResult(name="s", score=Score.of("dot"), orders={}, scores={},
    ...     grades=np.array([5.0]), parts=(), asymmetries=(), unjudged=0, fingerprint="")
    >>> found.to_json()["pairs"]
    1
    """

    name: str
    score: Score
    orders: Mapping[str, Correlation]
    scores: Mapping[str, np.ndarray]
    grades: np.ndarray
    parts: tuple["StsResult", ...]
    asymmetries: tuple[str, ...]
    unjudged: int
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """Everything but the scores of single pairs, as JSON values."""
        return {
            "name": self.name,
            "score": self.score.to_json(),
            "orders": {order: found.to_json() for order, found in self.orders.items()},
            "pairs": len(self.grades),
            "unjudged": self.unjudged,
            "parts": [part.to_json() for part in self.parts],
            "asymmetries": list(self.asymmetries),
            "fingerprint": self.fingerprint,
        }


def evaluate_sts(
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
) -> StsResult:
    """Embeds the pairs of a set, scores them and correlates the scores with people's.

    For many scores of one encoder call :func:`embed_pairs` once, then :func:`score_pairs` for
    each.

    Args:
        model: embeds the texts.
        pairs: from :func:`magjax.data.find_sts`.
        score: compares the embeddings; default: the model's own.
        allow_asymmetric: evaluate a score or an encoder that tells queries from documents, in
            every order.
        resamples: of the bootstrap over pairs.
        seed: of the resamples.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: the model has sides (refused before anything is embedded), all gold scores are
            equal, or an embedding is not finite.
        RunError: the model gives every pair the same score.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("cosine"), tokenizer, text)
    >>> pairs = TextPairs("s", ["a b", "a", "b"], ["a b", "b", "a b"], [5.0, 1.0, 2.0])
    >>> list(evaluate_sts(model, pairs, resamples=10).orders)
    ['score']
    """
    chosen = score or model.require_score()
    check_equals(pairs.name, chosen, encoder_asymmetries(model), allow_asymmetric=allow_asymmetric)
    embeddings = embed_pairs(
        model, pairs, mesh=mesh, tokens_per_batch=tokens_per_batch, progress=progress
    )
    return score_pairs(
        embeddings, chosen, allow_asymmetric=allow_asymmetric, resamples=resamples, seed=seed
    )


def score_pairs(
    embeddings: PairEmbeddings,
    score: Score,
    *,
    allow_asymmetric: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> StsResult:
    """Correlates a score with the gold scores, over all pairs of a set.

    The parts of one year of SemEval are joined first, as MTEB and SentEval's ``all`` do, and
    reported one by one beside it. The figures are those of :func:`correlate_scores`.

    Args:
        embeddings: from :func:`embed_pairs`.
        score: compares them.
        allow_asymmetric: evaluate a score or an encoder that tells queries from documents, in
            every order (claim 4: such scores ruin a symmetric task).
        resamples: of the bootstrap.
        seed: of the resamples.

    Raises:
        InputError: the order of a pair matters and ``allow_asymmetric`` is not set, or all gold
            scores are equal.
        RunError: the model gives every pair the same score.

    >>> from magjax.evaluation import EqualTexts
    >>> x = np.array([[1, 0], [1, 1], [0, 1]], np.float32)
    >>> pairs = TextPairs("s", ["a"] * 3, ["a", "b", "c"], [5.0, 3.0, 0.0])
    >>> rows = np.array([0, 0, 0]), np.array([0, 1, 2])
    >>> found = score_pairs(PairEmbeddings(pairs, EqualTexts(x, x), *rows), Score.of("cosine"))
    >>> round(found.orders["score"].spearman.mean, 6)
    1.0
    """
    pairs = embeddings.pairs
    grades = np.asarray(pairs.grades)
    if np.ptp(grades) == 0.0:
        raise InputError(
            f"{pairs.name}: all {len(grades)} gold scores are {grades[0]:g}, with which nothing "
            "correlates; check the file."
        )
    scores = pair_scores(embeddings, score, allow_asymmetric=allow_asymmetric)
    for order, values in scores.items():
        if np.ptp(values) == 0.0:
            raise RunError(
                f"{pairs.name}: the {order} of every pair is {values[0]:g}, with which nothing "
                "correlates; the model's embeddings have collapsed."
            )

    def correlated(by_order: Mapping[str, np.ndarray], gold: np.ndarray) -> dict[str, Correlation]:
        return {
            order: correlate_scores(values, gold, resamples=resamples, seed=seed)
            for order, values in by_order.items()
        }

    whole = StsResult(
        name=pairs.name,
        score=score,
        orders=correlated(scores, grades),
        scores=scores,
        grades=grades,
        parts=(),
        asymmetries=asymmetries(score, embeddings.texts.asymmetries),
        unjudged=pairs.unjudged,
        fingerprint=pairs.fingerprint,
    )
    parts = []
    labels = np.array(pairs.parts)
    for part in dict.fromkeys(pairs.parts):
        chosen = labels == part
        if np.ptp(grades[chosen]) > 0.0:
            own = {order: values[chosen] for order, values in scores.items()}
            parts.append(
                dataclasses.replace(
                    whole,
                    name=f"{pairs.name} {part}",
                    orders=correlated(own, grades[chosen]),
                    scores=own,
                    grades=grades[chosen],
                    unjudged=0,
                )
            )
    return dataclasses.replace(whole, parts=tuple(parts))


def correlate_scores(
    scores: Float[np.ndarray, " pairs"],
    grades: Float[np.ndarray, " pairs"],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Correlation:
    r"""Spearman's and Pearson's correlation with 95 % percentile bootstraps over pairs.

    .. math:: r = \frac{\sum_i (x_i - \bar x)(y_i - \bar y)}
                       {\sqrt{\sum_i (x_i - \bar x)^2 \sum_i (y_i - \bar y)^2}}

    on the values (Pearson), or on their ranks, equal values sharing their mean rank (Spearman), as
    ``scipy.stats.pearsonr`` and ``spearmanr``. A constant has no correlation: NaN.

    Args:
        scores: float64 ``[pairs]``.
        grades: gold scores on any scale, float64 ``[pairs]``.
        resamples: of the bootstrap.
        seed: of the resamples.

    >>> found = correlate_scores(np.array([0.1, 0.5, 0.9]), np.array([0.0, 1.0, 5.0]))
    >>> round(found.spearman.mean, 6), round(found.pearson.mean, 3)
    (1.0, 0.945)
    """

    def interval(statistic: Callable[..., float]) -> Interval:
        return bootstrap_interval(
            statistic, grades, scores, paired=True, resamples=resamples, seed=seed
        )

    return Correlation(interval(_spearman), interval(_pearson))


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    """NaN where one of them is constant, as some resamples of few pairs are."""
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > 0.0 else float("nan")


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import rankdata

    return _pearson(rankdata(x), rankdata(y))
