"""Ranking metrics by trec_eval's own code, with every judged query counted."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytrec_eval

from magjax.checks import InputError, choose, positive_integer
from magjax.evaluation._ranking import Ranking, rank

__all__ = ["METRICS", "Evaluation", "evaluate_run", "metric_depth"]

METRICS: tuple[str, ...] = ("ndcg@10", "mrr@10", "recall@100", "map", "success@5")
"""What is computed unless other metrics are named."""

# name -> (trec_eval's measure with a cut-off, the one without; None: the cut-off is required)
_MEASURES: dict[str, tuple[str, str | None]] = {
    "all": ("recall", None),
    "ndcg": ("ndcg_cut", "ndcg"),
    "mrr": ("recip_rank", "recip_rank"),
    "recall": ("recall", None),
    "map": ("map_cut", "map"),
    "success": ("success", None),
    "precision": ("P", None),
}

_LARGEST_GRADE = 10_000


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Metrics of one run against judgements.

    Args:
        mean: per metric, the mean over all judged queries.
        per_query: per judged query, its value of each metric.
        counts: ``queries`` that the means are over; among them ``missing`` from the run, which
            count as 0; ``unjudged`` queries of qrels or run that were skipped.

    >>> evaluate_run({"q": {"d": 1.0}}, {"q": {"d": 1}}, ["mrr@10"]).mean
    {'mrr@10': 1.0}
    """

    mean: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    counts: Mapping[str, int]


def evaluate_run(
    run: Ranking | Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    metrics: Sequence[str] = METRICS,
    *,
    relevance_level: int = 1,
) -> Evaluation:
    """Computes metrics as trec_eval does, over all queries that have a judgement.

    A query's documents are ranked by float64 score, ties by document id descending. Gains are
    linear; grades of 0 and below are not relevant. A judged query that the run lacks counts as 0
    for every metric, as does one without a relevant document; a query without any judgement is
    skipped and counted. ``map``, ``ndcg`` and ``mrr`` without a cut-off see the whole run.

    ``all@K`` is 1 for a query whose relevant documents all stand among the first K, else 0: the
    joint recall of multi-hop questions.

    Args:
        run: a ranking, or ``{query id: {document id: score}}``.
        qrels: ``{query id: {document id: grade}}``.
        metrics: ``ndcg@K``, ``mrr@K``, ``recall@K``, ``map@K``, ``success@K``, ``precision@K``,
            ``all@K``, and ``ndcg``, ``mrr``, ``map``.
        relevance_level: the least grade that is relevant; ``ndcg`` is graded and does not use it.
            trec_eval's ``-l``.

    Raises:
        InputError: an unknown metric, a score that is not a number, a grade that is no whole
            number, a level below 1, or no judged query at all.

    >>> found = evaluate_run({"q1": {"d1": 0.9}}, {"q1": {"d1": 1}, "q2": {"d1": 1}}, ["ndcg@10"])
    >>> found.mean, found.counts
    ({'ndcg@10': 0.5}, {'queries': 2, 'missing': 1, 'unjudged': 0})
    """
    measures = {metric: _measure(metric) for metric in metrics}
    if not measures:
        raise InputError(f"no metric was named; choose some of {', '.join(METRICS)}.")
    positive_integer("relevance_level", relevance_level)
    _check_grades(qrels)
    if isinstance(run, Ranking):
        run = run.to_run()
    judged = {query: row for query, row in qrels.items() if row}
    if not judged:
        raise InputError("no query has a judgement; use qrels with at least one line.")
    # pytrec_eval keeps scores in float32 and drops missing queries: it is given places, which
    # float32 holds up to 2^24, and an empty result for each query that the run lacks.
    places = {query: _places(query, run.get(query, {})) for query in judged}
    # Grades below 0 count as 0 in all of these measures; given as they are, pytrec_eval 0.5.11
    # writes outside its arrays and sooner or later crashes the process.
    grades = {q: {d: max(int(grade), 0) for d, grade in row.items()} for q, row in judged.items()}
    wanted = {measure for measure, _ in measures.values()}
    evaluator = pytrec_eval.RelevanceEvaluator(grades, wanted, relevance_level=relevance_level)
    values = evaluator.evaluate(places)
    per_query = {
        query: {
            metric: _value(metric, values[query][measure.replace(".", "_")], cut)
            for metric, (measure, cut) in measures.items()
        }
        for query in judged
    }
    mean = {
        metric: math.fsum(row[metric] for row in per_query.values()) / len(per_query)
        for metric in measures
    }
    unjudged = {query for query in (*qrels, *run) if query not in judged}
    counts = {
        "queries": len(judged),
        "missing": sum(query not in run for query in judged),
        "unjudged": len(unjudged),
    }
    return Evaluation(mean, per_query, counts)


def metric_depth(metric: str) -> int:
    """How many documents a query ``metric`` looks at; 1 without a cut-off.

    Raises:
        InputError: an unknown metric.

    >>> metric_depth("recall@100"), metric_depth("map")
    (100, 1)
    """
    _, _, cut = metric.partition("@")
    _measure(metric)
    return int(cut or 1)


def _measure(metric: str) -> tuple[str, int | None]:
    """Trec_eval's measure, and the cut-off that is applied to its value (reciprocal rank)."""
    name, at, cut = metric.partition("@")
    with_cut, without = _MEASURES[choose("metric", name, _MEASURES)]
    if not at:
        if without is None:
            raise InputError(f"metric {metric!r} needs a cut-off; try {metric}@10.")
        return without, None
    if not re.fullmatch("[1-9][0-9]*", cut):
        raise InputError(f"metric {metric!r}: the cut-off must be a whole number; try {name}@10.")
    if name == "mrr":  # trec_eval has no cut-off here
        return with_cut, int(cut)
    return f"{with_cut}.{cut}", None


def _value(metric: str, value: float, cut: int | None) -> float:
    """The measure's value; a reciprocal rank beyond the cut-off is 0, incomplete recall no "all"."""
    if metric.startswith("all@"):
        return float(value == 1.0)
    if cut is not None and value > 0.0 and round(1.0 / value) > cut:
        return 0.0
    return float(value)


def _places(query: str, scores: Mapping[str, float]) -> dict[str, float]:
    ids = list(scores)
    array = np.array([scores[name] for name in ids], np.float64)
    broken = np.flatnonzero(np.isnan(array))
    if broken.size:
        raise InputError(
            f"the run gives query {query!r}, document {ids[broken[0]]!r} the score NaN; scores "
            "must be numbers."
        )
    order = rank(array, ids)
    return {ids[row]: float(len(ids) - place) for place, row in enumerate(order)}


def _check_grades(qrels: Mapping[str, Mapping[str, Any]]) -> None:
    for query, row in qrels.items():
        for document, grade in row.items():
            if isinstance(grade, bool) or not isinstance(grade, int | np.integer):
                raise InputError(
                    f"query {query!r} grades document {document!r} as {grade!r}; grades are whole "
                    "numbers."
                )
            if grade > _LARGEST_GRADE:
                raise InputError(
                    f"query {query!r} grades document {document!r} as {grade}; grades above "
                    f"{_LARGEST_GRADE} are refused, since trec_eval keeps a counter for each grade."
                )
