"""Cross-evaluation: every trained model under every score, from one pass of the encoder."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from magjax.analysis._cross_identities import check_identity
from magjax.analysis._cross_table import (
    DIRECTIONS,
    CrossCell,
    CrossEvaluation,
    CrossRow,
    score_name,
)
from magjax.checks import InputError, choose
from magjax.data import Benchmark
from magjax.evaluation import METRICS, check_depth, evaluate_run, search
from magjax.similarity import PRESETS, Score, norm
from magjax.typing import Side

__all__ = ["ModelEmbeddings", "cross_evaluate", "evaluate_under_scores", "reversed_benchmark"]


@dataclasses.dataclass(frozen=True, eq=False)
class ModelEmbeddings:
    """One model's raw embeddings of a benchmark.

    Attributes:
        name: what tables call the model.
        trained: the score it was trained under; None where nobody states one.
        query: raw float32 ``[queries, dim]``, in the benchmark's order.
        document: raw float32 ``[documents, dim]``.

    >>> ModelEmbeddings("m", Score.of("dot"), np.ones((1, 2)), np.ones((3, 2))).side("query").shape
    (1, 2)
    """

    name: str
    trained: Score | None
    query: np.ndarray
    document: np.ndarray

    def side(self, side: Side) -> np.ndarray:
        """The embeddings of one side."""
        return self.query if side == "query" else self.document


def cross_evaluate(
    models: Iterable[ModelEmbeddings],
    benchmark: Benchmark,
    scores: Sequence[Score] | None = None,
    metrics: Sequence[str] = METRICS,
    *,
    k: int = 100,
    direction: str = "query_to_document",
    ignore_identical_ids: bool = False,
) -> CrossEvaluation:
    r"""Ranks a benchmark by every score for every model, and checks which rankings coincide.

    A query's own length multiplies all of its scores, so that scores of one document power rank
    documents alike: dot and qnorm, cosine and dnorm. From document to query the pairs swap: dot and
    dnorm, cosine and qnorm. Every score is searched on its own, and rankings that must coincide are
    compared.

    Args:
        models: taken one at a time, so that a generator holds one model's embeddings at a time.
        benchmark: what was embedded and what counts as an answer.
        scores: default: the four presets. A model's own score is added to its row if it is none of
            them.
        metrics: names as in :func:`magjax.evaluation.evaluate_run`.
        k: documents (or queries) a ranking.
        direction: one of :data:`DIRECTIONS`.
        ignore_identical_ids: never return the document whose id is the query's.

    Raises:
        InputError: no model, two of one name, embeddings that do not fit the benchmark, a score
            named twice, or a metric that is unknown or looks deeper than ``k``.

    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", Score.of("dot"), np.ones((1, 2), np.float32),
    ...                         np.array([[1, 1], [4, 0]], np.float32))
    >>> found = cross_evaluate([model], benchmark, metrics=["mrr@2"], k=2)
    >>> {cell.name: cell.mean("mrr@2") for cell in found.cells}
    {'cosine': 0.5, 'dot': 1.0, 'qnorm': 1.0, 'dnorm': 0.5}
    >>> found.score_names, [identity.holds for identity in found.rows[0].identities]
    (['cosine', 'dnorm', 'dot', 'qnorm'], [True, True])
    """
    rows = []
    for model in models:
        rows.append(
            evaluate_under_scores(
                model,
                benchmark,
                scores,
                metrics,
                k=k,
                direction=direction,
                ignore_identical_ids=ignore_identical_ids,
            )
        )
        del model  # or it would be held while a generator makes the next
    return CrossEvaluation(
        benchmark.name, benchmark.fingerprint, direction, k, tuple(metrics), tuple(rows)
    )


def evaluate_under_scores(
    model: ModelEmbeddings,
    benchmark: Benchmark,
    scores: Sequence[Score] | None = None,
    metrics: Sequence[str] = METRICS,
    *,
    k: int = 100,
    direction: str = "query_to_document",
    ignore_identical_ids: bool = False,
) -> CrossRow:
    """One row of :func:`cross_evaluate`, with the same arguments.

    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", None, np.ones((1, 2), np.float32), np.eye(2, dtype=np.float32))
    >>> row = evaluate_under_scores(model, benchmark, metrics=["mrr@2"], k=2)
    >>> row.trained is None, len(row.cells)
    (True, 4)
    """
    ranked = DIRECTIONS[choose("direction", direction, DIRECTIONS)]
    check_depth(metrics, k)
    asked, found = (model.query, model.document)
    if ranked == "query":
        benchmark, rows = reversed_benchmark(benchmark)
        asked, found = (_fitting(model, "document", rows), model.query)
    columns = list(scores) if scores is not None else [Score.of(name) for name in PRESETS]
    names = [score_name(score) for score in columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the score {name!r} is named twice; name each once.")
    own = model.trained
    if own is not None and not any(_same(own, score) for score in columns):
        columns.append(own)
    cells, rankings = [], []
    for score in columns:
        ranking = search(
            asked,
            found,
            # The asking side always stands first.
            score=score
            if ranked == "document"
            else Score.power(score.gamma_document, score.gamma_query),
            k=k,
            query_ids=benchmark.query_ids,
            document_ids=benchmark.document_ids,
            exclude=benchmark.never_returned(ignore_identical_ids),
        )
        evaluation = evaluate_run(
            ranking, benchmark.qrels, metrics, relevance_level=benchmark.relevance_level
        )
        judged = tuple(evaluation.per_query)
        values = {
            metric: np.array([evaluation.per_query[query][metric] for query in judged])
            for metric in metrics
        }
        cells.append(CrossCell(model.name, score, own is not None and _same(own, score), values))
        rankings.append(ranking)
    groups: dict[float, list[int]] = {}
    for number, score in enumerate(columns):
        groups.setdefault(score.gamma(ranked), []).append(number)
    lengths = np.asarray(norm(found), np.float64)
    return CrossRow(
        model.name,
        tuple(cells),
        tuple(
            check_identity(model.name, {cells[i].name: rankings[i] for i in members})
            for members in groups.values()
            if len(members) > 1
        ),
        judged,
        evaluation.counts["unjudged"],
        float(lengths.std() / lengths.mean()) if lengths.any() else 0.0,
    )


def reversed_benchmark(benchmark: Benchmark) -> tuple[Benchmark, np.ndarray]:
    """The documents that answer something ask for their queries.

    Args:
        benchmark: its judgements are turned around; empty documents ask nothing.

    Returns:
        The benchmark, whose queries are documents and whose documents are queries, and the rows of
        its queries among the documents given, int64.

    Raises:
        InputError: no document with a text is relevant to a query.

    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> turned, rows = reversed_benchmark(benchmark)
    >>> turned.queries, turned.qrels, rows.tolist()
    (['a sum'], {'e': {'q': 1}}, [1])
    """
    level = benchmark.relevance_level
    qrels: dict[str, dict[str, int]] = {}
    for query, row in benchmark.qrels.items():
        for document, grade in row.items():
            qrels.setdefault(document, {})[query] = grade
    excluded: dict[str, list[str]] = {}
    for query, names in benchmark.excluded.items():
        for name in names:
            excluded.setdefault(name, []).append(query)
    rows = [
        number
        for number, (name, text) in enumerate(
            zip(benchmark.document_ids, benchmark.documents, strict=True)
        )
        if text.strip() and any(grade >= level for grade in qrels.get(name, {}).values())
    ]
    if not rows:
        raise InputError(f"{benchmark.name}: no document is relevant to a query; nothing can ask.")
    names = [benchmark.document_ids[row] for row in rows]
    turned = Benchmark(
        benchmark.name,
        query_ids=names,
        queries=[benchmark.documents[row] for row in rows],
        document_ids=benchmark.query_ids,
        documents=benchmark.queries,
        qrels={name: qrels[name] for name in names},
        excluded={name: excluded[name] for name in names if name in excluded},
        relevance_level=level,
    )
    return turned, np.array(rows, np.int64)


def _fitting(model: ModelEmbeddings, side: Side, rows: np.ndarray) -> np.ndarray:
    embeddings = model.side(side)
    if len(embeddings) <= rows.max():
        raise InputError(
            f"{model.name!r} has {len(embeddings)} embeddings of side {side}, fewer than the "
            "benchmark has texts; embed the same benchmark."
        )
    return embeddings[rows]


def _same(one: Score, two: Score) -> bool:
    """The same powers; temperatures change no ranking."""
    return all(abs(a - b) <= 1e-6 for a, b in zip(one.gammas, two.gammas, strict=True))
