"""What a magnitude analysis states."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from magjax.analysis._magnitude_negatives import NEGATIVES
from magjax.analysis._norm_statistics import spearman
from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.evaluation import METRICS, metric_depth
from magjax.statistics import Interval, bootstrap_interval, mean_interval

__all__ = ["MagnitudeSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MagnitudeSettings:
    """What a magnitude analysis compares, draws and ranks by; every report states it.

    Args:
        negatives: kinds of documents that relevant ones are compared with, of ``"random"``,
            ``"top_k"`` (retrieved but not relevant) and ``"all"`` (that are not relevant).
        random: documents a query of ``"random"``.
        top_k: documents retrieved a query for ``"top_k"``.
        occurrences: k of the k-occurrence: in how many queries' k best a document stands.
        metrics: of the ablation, and of each query; names as in ``evaluate_run``.
        shuffles: how often documents' norms are shuffled.
        candidates: documents that each query's loss runs over: all relevant ones and a draw of
            others; ``None``: all documents.
        resamples: of each bootstrap interval.
        confidence: of all intervals.
        seed: of everything drawn.

    Raises:
        InputError: an unknown or repeated kind or metric, no metric, or a number out of range.

    >>> MagnitudeSettings(negatives=("all",)).depth
    100
    """

    negatives: tuple[str, ...] = NEGATIVES
    random: int = 100
    top_k: int = 100
    occurrences: int = 10
    metrics: tuple[str, ...] = METRICS
    shuffles: int = 5
    candidates: int | None = None
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for kind in self.negatives:
            choose("negatives", kind, NEGATIVES)
        for name in ("negatives", "metrics"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise InputError(f"{name}={values!r} must name at least one, each once.")
        for name in ("random", "top_k", "occurrences", "shuffles", "resamples"):
            positive_integer(name, getattr(self, name))
        if self.candidates is not None:
            positive_integer("candidates", self.candidates)
        for metric in self.metrics:
            metric_depth(metric)
        if positive_number("confidence", self.confidence) >= 1.0:
            raise InputError(f"confidence={self.confidence!r} must be below 1; try 0.95.")
        if self.seed < 0:
            raise InputError(f"seed={self.seed!r} must be at least 0.")

    @property
    def depth(self) -> int:
        """Documents a query that are searched for."""
        return max(self.top_k, self.occurrences, *(metric_depth(m) for m in self.metrics))

    def interval(
        self, statistic: Callable[..., float], *samples: np.ndarray, paired: bool = False
    ) -> Interval:
        """A bootstrap interval as these settings draw it.

        >>> MagnitudeSettings(resamples=10).interval(np.mean, np.arange(5.0)).mean
        2.0
        """
        return bootstrap_interval(
            statistic,
            *samples,
            paired=paired,
            resamples=self.resamples,
            seed=self.seed,
            confidence=self.confidence,
        )

    def mean(self, values: Any) -> Interval:
        """The mean of independent values at these settings' confidence.

        >>> MagnitudeSettings().mean([1.0, 3.0]).mean
        2.0
        """
        return mean_interval(values, confidence=self.confidence)

    def correlation(self, x: np.ndarray, y: np.ndarray) -> Interval:
        """Spearman's correlation with the interval that these settings draw.

        >>> MagnitudeSettings(resamples=10).correlation(np.arange(5.0), -np.arange(5.0)).mean
        -1.0
        """
        return spearman(x, y, resamples=self.resamples, seed=self.seed, confidence=self.confidence)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values.

        >>> MagnitudeSettings().to_json()["shuffles"]
        5
        """
        return dataclasses.asdict(self)
