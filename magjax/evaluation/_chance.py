"""What a ranking drawn at random reaches on average: the level that a model must beat."""

import math
from collections.abc import Sequence

import numpy as np

from magjax.data import ImageTextBenchmark
from magjax.evaluation._image_text import IMAGE_TEXT_METRICS
from magjax.evaluation._image_text_direction import IMAGE_TEXT_DIRECTIONS, image_text_direction
from magjax.evaluation._metrics import Evaluation, metric_depth
from magjax.evaluation._ranking import Ranking
from magjax.evaluation._retrieval import RetrievalResult

__all__ = ["chance_level"]


def chance_level(
    benchmark: ImageTextBenchmark, *, metrics: Sequence[str] = IMAGE_TEXT_METRICS, k: int = 100
) -> list[RetrievalResult]:
    r"""Expected metrics of a random order, both directions, as rows beside a model's.

    Of N documents, R of which answer the query, the first r hold none with probability
    :math:`\prod_{i<r} (N - R - i) / (N - i)`. From it follow the expectations of ``success@K`` and
    ``mrr``, of the mean rank, (N + 1) / (R + 1), and the median rank over queries and orders.

    Args:
        benchmark: images and captions.
        metrics: those other than ``success@K``, ``mrr@K`` and ``mrr`` are left out.
        k: documents a query; ``mrr`` sees these.

    Returns:
        A result a direction, of system ``"chance"``, with an empty ranking.

    >>> from magjax.data import ImageFiles, ImageTextSet
    >>> names = ["a.png", "b.png"]
    >>> data = ImageTextSet(names, ImageFiles(names), [("one",), ("two",)])
    >>> found = chance_level(ImageTextBenchmark.of(data, "two"), metrics=["success@1", "mrr"])
    >>> dict(found[0].evaluation.mean)
    {'success@1': 0.5, 'mrr': 0.75, 'mean_rank': 1.5, 'median_rank': 1.0}
    """
    results = []
    for direction in IMAGE_TEXT_DIRECTIONS:
        test = image_text_direction(benchmark, direction)
        size = len(test.documents)
        by_answers = {
            count: _expected(size, count, metrics, k)
            for count in {len(row) for row in test.qrels.values()}
        }
        per_query = {query: by_answers[len(row)][0] for query, row in test.qrels.items()}
        absent = np.mean([by_answers[len(row)][1] for row in test.qrels.values()], axis=0)
        mean = {
            name: math.fsum(values[name] for values in per_query.values()) / len(per_query)
            for name in next(iter(per_query.values()))
        }
        mean["mean_rank"] = mean.pop("rank")
        mean["median_rank"] = float(np.argmax(absent <= 0.5))
        counts = {"queries": len(per_query), "missing": 0, "unjudged": 0}
        results.append(
            RetrievalResult(
                domain=test.name,
                system="chance",
                evaluation=Evaluation(mean, per_query, counts),
                ranking=Ranking((), (), (), ()),
                k=k,
                queries=len(test.queries),
                documents=size,
                fingerprint=test.fingerprint,
            )
        )
    return results


def _expected(
    size: int, answers: int, metrics: Sequence[str], k: int
) -> tuple[dict[str, float], np.ndarray]:
    """The expectations of one query, and the probability that the first r = 0, 1, ... hold none."""
    places = np.arange(size)
    absent = np.cumprod(
        np.concatenate([[1.0], np.maximum(size - answers - places, 0) / (size - places)])
    )
    first = (absent[:-1] - absent[1:]) / (places + 1)
    values = {}
    for metric in metrics:
        kind, cut, _ = metric.partition("@")
        if kind == "success":
            values[metric] = float(1.0 - absent[min(metric_depth(metric), size)])
        elif kind == "mrr":
            values[metric] = float(first[: metric_depth(metric) if cut else k].sum())
    values["rank"] = (size + 1) / (answers + 1)
    return values, absent
