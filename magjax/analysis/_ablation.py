"""Ranking again with the norms of the documents shuffled, inverted or removed."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from magjax.analysis._magnitude_settings import MagnitudeSettings
from magjax.analysis._norms import BLOCK, embedding_norms
from magjax.evaluation import Evaluation, Ranking, evaluate_run, search
from magjax.files import json_safe
from magjax.similarity import Score
from magjax.statistics import Interval, PairedDifference, holm, paired_bootstrap
from magjax.typing import Array, Float

__all__ = ["Ablation", "Condition", "ablate_norms", "with_norms"]

INTACT = "as they are"


@dataclasses.dataclass(frozen=True, eq=False)
class Condition:
    """One way to treat the documents' norms, and what the rankings are worth then.

    Attributes:
        name: ``"as they are"``, ``"shuffled"``, ``"inverted"`` or ``"removed"``.
        description: what was done.
        metrics: mean of each metric over the judged queries, with its interval over queries.
        difference: to the norms as they are, query by query; empty for those.
        p_corrected: p-values of the differences, by Holm over the conditions of one metric.
        seeds: for shuffled norms, each metric's interval over the shuffles.

    >>> [field.name for field in dataclasses.fields(Condition)][2:4]
    ['metrics', 'difference']
    """

    name: str
    description: str
    metrics: Mapping[str, Interval]
    difference: Mapping[str, PairedDifference]
    p_corrected: Mapping[str, float]
    seeds: Mapping[str, Interval]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return json_safe(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, eq=False)
class Ablation:
    """What rankings owe to the norms of embeddings.

    Attributes:
        applies: whether the score uses the documents' norms at all.
        conditions: the norms as they are first; the others only where ``applies``.
        queries_changed: queries whose ranking differs when every query is made 2^-4 to 2^4 times
            as long; 0, since a query's own norm scales all of its scores alike.
        evaluation: per query, of the norms as they are.

    >>> [field.name for field in dataclasses.fields(Ablation)][:2]
    ['applies', 'conditions']
    """

    applies: bool
    conditions: Sequence[Condition]
    queries_changed: int
    evaluation: Evaluation

    def to_json(self) -> dict[str, Any]:
        """All but the values of single queries, as JSON values."""
        return {
            "applies": self.applies,
            "queries_changed": self.queries_changed,
            "counts": dict(self.evaluation.counts),
            "conditions": [condition.to_json() for condition in self.conditions],
        }


def with_norms(
    embeddings: Float[Array, "rows dim"],
    norms: Float[Array, " rows"],
    wanted: Float[Array, " rows"],
) -> Float[np.ndarray, "rows dim"]:
    r"""Embeddings of the same directions and other norms.

    .. math:: x_i' = x_i \, \frac{n_i}{\lVert x_i \rVert}

    Args:
        embeddings: raw.
        norms: of the embeddings; an embedding of norm 0 stays as it is.
        wanted: the new ones.

    Returns:
        float32; rows whose norm stays the same are the same numbers.

    >>> with_norms(np.array([[3.0, 4.0]], np.float32), np.array([5.0]), np.array([10.0]))
    array([[6., 8.]], dtype=float32)
    """
    known = np.asarray(norms, np.float64)
    factors = np.ones_like(known)
    np.divide(wanted, known, out=factors, where=known > 0.0)
    found = np.empty(embeddings.shape, np.float32)
    for start in range(0, len(found), BLOCK):
        part = slice(start, start + BLOCK)
        found[part] = np.asarray(embeddings[part]).astype(np.float64) * factors[part, None]
    return found


def ablate_norms(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    score: Score,
    settings: MagnitudeSettings | None = None,
    exclude: Mapping[str, Collection[str]] | None = None,
    document_norms: Float[Array, " documents"] | None = None,
    ranking: Ranking | None = None,
) -> Ablation:
    """Ranks with the documents' norms as they are, shuffled, inverted and removed.

    Directions stay; only norms move. Shuffled norms go to other documents of the corpus
    (each metric is then a mean over the shuffles); inverted, the longest document gets the
    least norm and so on; removed, the document's power is 1. A score with that power already
    has nothing to take away, and only the check of the queries' norms is made.

    Args:
        queries: raw embeddings, float32.
        documents: raw embeddings, float32.
        qrels: ``{query id: {document id: grade}}``.
        query_ids: one name a query.
        document_ids: one name a document.
        score: what to rank by.
        settings: metrics, shuffles, seed and intervals.
        exclude: documents never to return, per query id.
        document_norms: of the documents; default: measured.
        ranking: under ``score``, if it is there already, of ``settings.depth`` documents a query.

    Raises:
        InputError: what ``search`` and ``evaluate_run`` refuse.

    >>> documents = np.array([[1.0, 0.0], [0.0, 10.0]], np.float32)
    >>> found = ablate_norms(np.array([[1.0, 0.5]], np.float32), documents, {"q": {"b": 1}},
    ...     query_ids=["q"], document_ids=["a", "b"], score=Score.of("dot"),
    ...     settings=MagnitudeSettings(metrics=("mrr@10",), resamples=10))
    >>> {item.name: item.metrics["mrr@10"].mean for item in found.conditions if item.name != "shuffled"}
    {'as they are': 1.0, 'inverted': 0.5, 'removed': 0.5}
    """
    settings = settings or MagnitudeSettings()
    norms = embedding_norms(documents) if document_norms is None else np.asarray(document_norms)

    def found(asked: Array, searched: Array, under: Score) -> Ranking:
        return search(
            asked,
            searched,
            score=under,
            k=settings.depth,
            query_ids=query_ids,
            document_ids=document_ids,
            exclude=exclude,
        )

    def measured(wanted: np.ndarray) -> Evaluation:
        changed = found(queries, with_norms(documents, norms, wanted), score)
        return evaluate_run(changed, qrels, settings.metrics)

    intact = found(queries, documents, score) if ranking is None else ranking
    evaluation = evaluate_run(intact, qrels, settings.metrics)
    draws = np.random.default_rng(settings.seed)
    # Powers of 2, which float32 multiplies by exactly: not even near-ties may change places.
    factors = np.exp2(draws.integers(-4, 5, len(query_ids))).astype(np.float32)
    scaled = found(np.asarray(queries, np.float32) * factors[:, None], documents, score)
    changed = sum(a != b for a, b in zip(intact.documents, scaled.documents, strict=True))
    applies = score.gamma_document < 1.0
    others: dict[str, tuple[str, list[Evaluation]]] = {}
    if applies:
        shuffled = [measured(draws.permutation(norms)) for _ in range(settings.shuffles)]
        inverted = np.empty_like(norms)
        inverted[np.argsort(norms, kind="stable")] = np.sort(norms)[::-1]
        removed = found(queries, documents, Score.power(score.gamma_query, 1.0))
        others = {
            "shuffled": (
                f"norms exchanged among the documents, {settings.shuffles} times",
                shuffled,
            ),
            "inverted": (
                "the longest document gets the least norm, and so on",
                [measured(inverted)],
            ),
            "removed": (
                "all documents of norm 1",
                [evaluate_run(removed, qrels, settings.metrics)],
            ),
        }
    return Ablation(applies, _conditions(evaluation, others, settings), changed, evaluation)


def _conditions(
    intact: Evaluation,
    others: Mapping[str, tuple[str, list[Evaluation]]],
    settings: MagnitudeSettings,
) -> list[Condition]:
    queries = list(intact.per_query)

    def values(runs: Sequence[Evaluation], metric: str) -> np.ndarray:
        return np.mean([[run.per_query[q][metric] for q in queries] for run in runs], axis=0)

    def mean(found: np.ndarray) -> Interval:
        # Not Student's t, whose ends may leave [0, 1].
        return settings.interval(np.mean, found)

    base = {metric: values([intact], metric) for metric in settings.metrics}
    differences = {
        metric: {
            name: paired_bootstrap(
                values(runs, metric),
                base[metric],
                seed=settings.seed,
                confidence=settings.confidence,
            )
            for name, (_, runs) in others.items()
        }
        for metric in settings.metrics
    }
    corrected = {
        metric: holm({name: found.p_value for name, found in row.items()})
        for metric, row in differences.items()
    }
    first = Condition(INTACT, "", {m: mean(base[m]) for m in base}, {}, {}, {})
    rest = [
        Condition(
            name=name,
            description=description,
            metrics={m: mean(values(runs, m)) for m in base},
            difference={m: differences[m][name] for m in base},
            p_corrected={m: corrected[m][name] for m in base},
            seeds={m: settings.mean([run.mean[m] for run in runs]) for m in base}
            if name == "shuffled"
            else {},
        )
        for name, (description, runs) in others.items()
    ]
    return [first, *rest]
