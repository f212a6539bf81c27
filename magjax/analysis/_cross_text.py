"""A cross-evaluation as text and as files."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from magjax.analysis._cross_deltas import REFERENCES, CrossDelta
from magjax.analysis._cross_domains import DomainGap
from magjax.analysis._cross_table import CrossEvaluation
from magjax.analysis._heat_map import cross_figure
from magjax.analysis._report_files import check_about
from magjax.analysis._style import save_figure
from magjax.checks import InputError
from magjax.files import file_name, write_json, write_text
from magjax.statistics import Interval, PairedDifference
from magjax.tables import text_table

__all__ = ["cross_markdown", "format_cross", "format_gaps", "write_cross"]

Gaps = Sequence[DomainGap]

_CONSTANT = 1e-3  # deviation of lengths over their mean: no score can tell such lengths apart


def format_cross(evaluation: CrossEvaluation, deltas: Sequence[CrossDelta] = ()) -> str:
    """The table of each metric, differences and identities, as text.

    Brackets mark the trained score, a star a difference that Holm's correction leaves decided.

    Args:
        evaluation: what :func:`cross_evaluate` found.
        deltas: differences to show, from :func:`cross_deltas`.

    >>> import numpy as np
    >>> from magjax.analysis import ModelEmbeddings, cross_evaluate
    >>> from magjax.data import Benchmark
    >>> from magjax.similarity import Score
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", Score.of("dot"), np.ones((1, 2), np.float32),
    ...                         np.array([[1, 1], [4, 0]], np.float32))
    >>> print(format_cross(cross_evaluate([model], benchmark, metrics=["mrr@2"], k=2)))
    b, query to document, 1 queries: mrr@2
    model   cosine    dnorm        dot    qnorm
    ───────────────────────────────────────────
    m       0.5000   0.5000   [1.0000]   1.0000
    m: cosine = dnorm in all 1 rankings
    m: dot = qnorm in all 1 rankings
    """
    lines = []
    for metric in evaluation.metrics:
        lines.append(f"{_title(evaluation)}: {metric}")
        rows = [
            [row.model, *_values(evaluation, row.model, metric, "[{}]")] for row in evaluation.rows
        ]
        lines += text_table(["model"], evaluation.score_names, rows)
        some = [_delta(delta) for delta in deltas if delta.metric == metric]
        if some:
            lines += text_table(_DELTA_HEADS[:2], _DELTA_HEADS[2:], some)
    return "\n".join([*lines, *_notes(evaluation)])


def format_gaps(gaps: Gaps) -> str:
    """Gains in and out of domain and their difference as a table of text.

    Args:
        gaps: from :func:`domain_gaps`.

    >>> gain = PairedDifference(0.1, 0.05, 0.15, 0.01, 100, 0.95)
    >>> gap = DomainGap("ndcg@10", "a over b", ("in", "out"), "query_to_document", gain, gain,
    ...                 Interval(0.0, -0.05, 0.05, 100, 0.95))
    >>> print(format_gaps([gap]).splitlines()[2])
    ndcg@10   a over b     +0.1000         +0.1000   +0.0000   -0.0500 to +0.0500
    """
    table = text_table(_GAP_HEADS[:2], _GAP_HEADS[2:], [_gap(gap) for gap in gaps])
    return "\n".join([*table, _GAP_NOTE])


def cross_markdown(
    evaluations: Sequence[CrossEvaluation], deltas: Sequence[Sequence[CrossDelta]], gaps: Gaps
) -> str:
    """All tables, differences and gaps as Markdown; the trained score is bold.

    Args:
        evaluations: the tables.
        deltas: per table its differences, from :func:`cross_deltas`, of any references.
        gaps: from :func:`domain_gaps`.

    >>> import numpy as np
    >>> from magjax.analysis import ModelEmbeddings, cross_evaluate
    >>> from magjax.data import Benchmark
    >>> from magjax.similarity import Score
    >>> benchmark = Benchmark("b", ["q"], ["sum"], ["d", "e"], ["adds", "a sum"], {"q": {"e": 1}})
    >>> model = ModelEmbeddings("m", Score.of("dot"), np.ones((1, 2), np.float32),
    ...                         np.array([[1, 1], [4, 0]], np.float32))
    >>> table = cross_evaluate([model], benchmark, metrics=["mrr@2"], k=2)
    >>> print(cross_markdown([table], [[]], []).splitlines()[-4])
    | m | 0.5000 | 0.5000 | **1.0000** | 1.0000 |
    """
    lines = ["# Cross-evaluation", "", "Bold: the score that the model was trained under.", ""]
    for evaluation, theirs in zip(evaluations, deltas, strict=True):
        lines += [f"## {_cell(_title(evaluation))}", ""]
        for metric in evaluation.metrics:
            heads = [metric, *evaluation.score_names]
            rows = [
                [row.model, *_values(evaluation, row.model, metric, "**{}**")]
                for row in evaluation.rows
            ]
            lines += [*_markdown(heads, rows), ""]
            some = [delta for delta in theirs if delta.metric == metric]
            if some:
                lines += [*_markdown(_DELTA_HEADS, [_delta(delta) for delta in some]), ""]
        lines += [*(f"- {note}" for note in _notes(evaluation)), ""]
    if gaps:
        lines += ["## Gains out of domain minus gains in domain", ""]
        lines += [*_markdown(_GAP_HEADS, [_gap(gap) for gap in gaps]), "", _GAP_NOTE, ""]
    return "\n".join(lines).rstrip() + "\n"


def write_cross(
    folder: str | os.PathLike[str],
    evaluations: Sequence[CrossEvaluation],
    deltas: Sequence[Sequence[CrossDelta]],
    gaps: Gaps = (),
    about: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Writes ``cross.json``, ``cross.md`` and a heat map for each metric, ``cross/METRIC.png``.

    Characters of ``METRIC`` other than letters, digits, ``.``, ``_`` and ``-`` become ``_``. Each
    file is written in one rename, ``cross.json`` last.

    Args:
        folder: made if it is missing.
        evaluations: the tables; all have the same metrics.
        deltas: per table its differences, from :func:`all_cross_deltas`.
        gaps: from :func:`domain_gaps`.
        about: further top-level entries of ``cross.json``, such as the checkpoints' names.

    Returns:
        The files written, in order.

    Raises:
        InputError: ``about`` has an entry of its own for what is written, or metrics differ.

    >>> write_cross("/nowhere", [], [], about={"gaps": 1})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: about= may not hold 'gaps', which is written from the tables.
    """
    check_about(about, "tables", "references", "gaps", source="tables")
    if len({evaluation.metrics for evaluation in evaluations}) != 1:
        raise InputError("the tables have different metrics, or there is none; give some of equal.")
    root = Path(folder)
    written = []
    for metric in evaluations[0].metrics:
        name = file_name(metric)
        written.append(root / "cross" / f"{name}.png")
        save_figure(written[-1], cross_figure(evaluations, metric))
    written.append(root / "cross.md")
    write_text(written[-1], cross_markdown(evaluations, deltas, gaps))
    written.append(root / "cross.json")
    write_json(
        written[-1],
        {
            **(about or {}),
            "references": REFERENCES,
            "tables": [
                {**evaluation.to_json(), "deltas": [delta.to_json() for delta in theirs]}
                for evaluation, theirs in zip(evaluations, deltas, strict=True)
            ],
            "gaps": [gap.to_json() for gap in gaps],
        },
    )
    return written


_DELTA_HEADS = ["ranking", "minus", "difference", "95 % interval", "p", "p (Holm)"]
_GAP_HEADS = ["metric", "gain", "in domain", "out of domain", "gap", "95 % interval"]
_GAP_NOTE = (
    "Intervals of single gaps, by bootstrap over the queries of either domain; not corrected for "
    "their number. They do not cover the noise of training: one model stands for each variant."
)


def _title(evaluation: CrossEvaluation) -> str:
    direction = evaluation.direction.replace("_", " ")
    asking = "queries" if evaluation.direction == "query_to_document" else "documents"
    return f"{evaluation.domain}, {direction}, {len(evaluation.query_ids):,} {asking}"


def _values(evaluation: CrossEvaluation, model: str, metric: str, mark: str) -> list[str]:
    texts = []
    for score in evaluation.score_names:
        cell = evaluation.cell(model, score)
        text = "-" if cell is None else f"{cell.mean(metric):.4f}"
        texts.append(mark.format(text) if cell is not None and cell.trained else text)
    return texts


def _notes(evaluation: CrossEvaluation) -> list[str]:
    notes = [found.describe() for row in evaluation.rows for found in row.identities]
    for row in evaluation.rows:
        if row.variation < _CONSTANT:
            notes.append(
                f"{row.model}: the ranked lengths vary by {row.variation:.1g} of their mean only, so "
                "that all scores rank nearly alike."
            )
        if row.trained is None:
            notes.append(f"{row.model}: states no trained score.")
    if evaluation.rows[0].unjudged:
        notes.append(f"{evaluation.rows[0].unjudged} queries without a judgement are in no mean.")
    return notes


def _delta(delta: CrossDelta) -> list[str]:
    return [
        f"{delta.model}: {' = '.join(delta.scores)}",
        f"{delta.reference[0]}: {delta.reference[1]}",
        *_ends(delta.difference),
        f"{delta.difference.p_value:.2g}",
        f"{delta.corrected:.2g}{' *' if delta.is_decided else ''}",
    ]


def _gap(gap: DomainGap) -> list[str]:
    gains = [f"{found.mean:+.4f}" for found in (gap.in_domain, gap.out_of_domain)]
    way = "" if gap.direction == "query_to_document" else ", document to query"
    return [f"{gap.metric}{way}", gap.contrast, *gains, *_ends(gap.gap)]


def _ends(found: PairedDifference | Interval) -> list[str]:
    if found.low is None or found.high is None:
        return [f"{found.mean:+.4f}", "-"]
    return [f"{found.mean:+.4f}", f"{found.low:+.4f} to {found.high:+.4f}"]


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(heads), ["---"] * len(heads), *rows]
    return [f"| {' | '.join(map(_cell, line))} |" for line in lines]


def _cell(text: str) -> str:
    """A name cannot end a cell or a line."""
    return " ".join(text.replace("|", "\\|").split())
