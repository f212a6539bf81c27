"""Proof by table: what each engine returns from an export, beside the exact trained ranking."""

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from magjax.checks import InputError, choose
from magjax.evaluation import Ranking, search
from magjax.export._metric import AUGMENTATIONS
from magjax.export._pgvector import drop_table
from magjax.export._private_postgres import private_postgres
from magjax.export._search import Found, search_vectors
from magjax.export._vectors import Embeddings
from magjax.export._writers import TARGETS, table_name, write_vectors
from magjax.similarity import PRESETS, Score

__all__ = ["ParityRow", "format_parity", "parity_rows"]

_NAME = "magjax_parity"
_NEAR = 1e-6  # of the score scale: what float32 engines may swap


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityRow:
    """One engine, one score, one index.

    Attributes:
        target: the engine.
        score: a preset's name, or the powers.
        index: ``flat``, ``hnsw`` or ``ivf``.
        metric: what the engine compared by.
        augment: ``none`` or the metric that a coordinate was appended for.
        identical: every query has the same documents in the same places, up to exact scores that
            differ by at most 1e-6 of the score scale.
        largest_difference: between the engine's scores and the exact ones, over the score scale.
        recall: share of the exact best k that the engine found, mean over queries.
        missing: why there is no row: what to install.

    >>> ParityRow(target="faiss", score="dot", missing="pip install -e '.[faiss]'").identical
    False
    """

    target: str
    score: str
    index: str = "flat"
    metric: str = ""
    augment: str = "none"
    identical: bool = False
    largest_difference: float = 0.0
    recall: float = 0.0
    missing: str = ""


def parity_rows(
    query_embeddings: np.ndarray,
    document_embeddings: np.ndarray,
    *,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    score: Score,
    targets: Sequence[str] = tuple(TARGETS),
    k: int = 10,
    postgres: str | None = None,
) -> Iterator[ParityRow]:
    """Writes the same embeddings to each target under each preset, asks them, and compares.

    First flat tables of all presets, which must agree with exact search; then, under ``score``,
    the approximate indexes by inner product and by each augmentation, whose recall is measured.
    Everything is written to temporary folders; pgvector is asked at ``postgres`` (in the table
    ``magjax_parity_documents``, dropped at the end), or at a private server, stopped at the end.

    Args:
        query_embeddings: raw ``[queries, dim]``, float32.
        document_embeddings: raw ``[documents, dim]``.
        query_ids: one name a query.
        document_ids: one name a document.
        score: of the approximate indexes.
        targets: names in :data:`TARGETS`; those that are not installed give a row that says so.
        k: documents a query.
        postgres: address of a server with pgvector.

    Yields:
        One row a table that was asked.

    >>> rng = np.random.default_rng(0)
    >>> q, d = (rng.normal(size=(n, 4)).astype(np.float32) for n in (2, 20))
    >>> rows = parity_rows(q, d, query_ids=["a", "b"], document_ids=[f"d{i}" for i in range(20)],
    ...     score=Score.of("dot"), targets=["numpy"])
    >>> [(row.score, row.identical) for row in rows]
    [('cosine', True), ('dot', True), ('qnorm', True), ('dnorm', True)]
    """
    documents = Embeddings.from_array("document", document_ids, document_embeddings)

    def exactly(one: Score) -> _Exact:
        return _Exact.of(query_embeddings, document_embeddings, query_ids, document_ids, one, k)

    presets = [exactly(Score.of(name)) for name in PRESETS]
    trained = exactly(score)

    def row(target: str, place: str, exact: _Exact, **settings: Any) -> ParityRow:
        told = write_vectors(
            [documents],
            place,
            target=target,
            score=exact.score,
            name=_NAME,
            overwrite=True,
            **settings,
        )
        found = search_vectors(place, query_embeddings, k=k, name=_NAME)
        return ParityRow(
            target=target,
            score=exact.score.variant,
            index=told.index,
            metric=told.metric,
            augment=told.augment,
            **exact.compare(found),
        )

    for target in targets:
        engine = TARGETS[choose("target", target, TARGETS)]
        with ExitStack() as stack:
            try:
                engine.need()
                place = _place(target, postgres, stack)
            except InputError as error:
                yield ParityRow(target=target, score=score.variant, missing=str(error))
                continue
            for exact in presets:
                yield row(target, place, exact)
            if target == "qdrant":  # embedded, it searches exactly and has no index
                continue
            turned = () if score.gamma_document == 1.0 else AUGMENTATIONS[1:]
            for index in engine.options:
                for augment in ("none", *turned) if index != "flat" else ():
                    yield row(target, place, trained, index=index, augment=augment)


def _place(target: str, postgres: str | None, stack: ExitStack) -> str:
    if target == "pgvector":
        address = postgres or stack.enter_context(private_postgres())
        stack.callback(drop_table, address, table_name("document", _NAME))
        return address
    root = stack.enter_context(tempfile.TemporaryDirectory(prefix="magjax-parity-"))
    return str(Path(root, "vectors"))


@dataclasses.dataclass(frozen=True, eq=False)
class _Exact:
    """The exact ranking under one score, and float64 vectors to score any other pair by."""

    score: Score
    ranking: Ranking
    queries: np.ndarray
    documents: np.ndarray
    rows: Mapping[str, int]

    @classmethod
    def of(
        cls,
        queries: np.ndarray,
        documents: np.ndarray,
        query_ids: Sequence[str],
        document_ids: Sequence[str],
        score: Score,
        k: int,
    ) -> "_Exact":
        ranking = search(
            queries, documents, score=score, k=k, query_ids=query_ids, document_ids=document_ids
        )
        sides = []
        for x, gamma in zip((queries, documents), score.gammas, strict=True):
            wide = np.asarray(x, np.float64)
            lengths = np.linalg.norm(wide, axis=1, keepdims=True)
            sides.append(wide / np.where(lengths > 0.0, lengths, 1.0) ** gamma)
        rows = {name: row for row, name in enumerate(document_ids)}
        return cls(score, ranking, sides[0], sides[1], rows)

    def compare(self, found: Found) -> dict[str, Any]:
        """The figures of a row.

        Differences are relative to the largest score that a query could have: its length times
        the longest document's, which is what the error of a float32 product is relative to.
        """
        longest = np.linalg.norm(self.documents, axis=1).max()
        identical, largest, recalls = True, 0.0, []
        for query, expected, ids, scores in zip(
            self.queries, self.ranking.scores, found.documents, found.scores, strict=True
        ):
            scale = np.linalg.norm(query) * longest or 1.0
            exact = self.documents[[self.rows[name] for name in ids]] @ query
            slack = _NEAR * scale
            identical &= len(exact) == len(expected) and bool(
                np.all(np.abs(exact - expected) <= slack)
            )
            largest = max(largest, float(np.abs(scores - exact).max(initial=0.0) / scale))
            recalls.append(np.count_nonzero(exact >= expected[-1] - slack) / len(expected))
        return {
            "identical": identical,
            "largest_difference": largest,
            "recall": float(np.mean(recalls)),
        }


def format_parity(rows: Sequence[ParityRow], k: int) -> str:
    """The rows as two Markdown tables: exact tables by target and score, then approximate indexes.

    Args:
        rows: of :func:`parity_rows`.
        k: documents a query, for the headings.

    >>> print(format_parity([ParityRow(target="numpy", score="dot", metric="inner_product",
    ...     identical=True, largest_difference=1.2e-8, recall=1.0)], 10))
    Top 10 identical to exact search? And the largest difference of a score, of the score scale.
    <BLANKLINE>
    | target | metric | dot |
    |---|---|---|
    | numpy | inner_product | yes, 1.2e-08 |
    """
    flat = [row for row in rows if not row.missing and row.index == "flat"]
    scores = list(dict.fromkeys(row.score for row in flat))
    lines = [
        f"Top {k} identical to exact search? And the largest difference of a score, of the score "
        "scale.",
        "",
        f"| {' | '.join(('target', 'metric', *scores))} |",
        "|---" * (2 + len(scores)) + "|",
    ]
    for target, metric in dict.fromkeys((row.target, row.metric) for row in flat):
        cells = {
            row.score: f"{'yes' if row.identical else 'NO'}, {row.largest_difference:.1e}"
            for row in flat
            if (row.target, row.metric) == (target, metric)
        }
        lines.append(f"| {' | '.join((target, metric, *(cells.get(s, '-') for s in scores)))} |")
    lines += ["", *(f"{row.target}: not checked: {row.missing}" for row in rows if row.missing)]
    while not lines[-1]:
        lines.pop()
    approximate = [row for row in rows if not row.missing and row.index != "flat"]
    if approximate:
        lines += [
            "",
            f"| target | score | index | metric | augmentation | recall@{k} | max score difference |",
            "|---|---|---|---|---|---|---|",
        ]
    lines += [
        f"| {row.target} | {row.score} | {row.index} | {row.metric} | {row.augment} "
        f"| {row.recall:.4f} | {row.largest_difference:.1e} |"
        for row in approximate
    ]
    return "\n".join(lines)
