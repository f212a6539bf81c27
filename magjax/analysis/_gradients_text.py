"""A gradient analysis as text and as files."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magjax.analysis._gradients_pictures import gradients_figure, gradients_overview_figure
from magjax.analysis._gradients_report import FIELDS, GradientReport, ScoreGradients, nearest_scale
from magjax.analysis._gradients_sample import DIFFICULTIES, RULES
from magjax.analysis._report_files import check_about, report_names
from magjax.analysis._style import save_figure
from magjax.files import write_json, write_text
from magjax.tables import text_table

__all__ = ["format_gradients", "write_gradients"]

_SHOWN = (0.25, 1.0, 4.0)  # factors of the length that the table shows, where they were measured
_AGREEMENT = 1e-6


def format_gradients(report: GradientReport) -> str:
    """A table with a line for each score and class, what agrees with the closed forms, and notes.

    Medians over the queries of a class, at the measured lengths nearest to 1/4, 1 and 4 times the
    model's. ``steeper`` is the share of queries whose gradient with respect to direction is larger
    at 4 than at 1.

    >>> from magjax.analysis import GradientSettings, closed_form_sweep, query_length_sweep
    >>> from magjax.similarity import Score
    >>> q, d = np.random.default_rng(0).normal(size=(2, 3, 4))
    >>> problem = dict(gammas=(1.0, 1.0), temperature=1.0, scales=[0.25, 1.0, 4.0])
    >>> entry = ScoreGradients(Score.of("cosine", 1.0), "given",
    ...     query_length_sweep(q, d, np.arange(3), **problem),
    ...     closed_form_sweep(q, d, np.arange(3), **problem), np.arange(3), None)
    >>> report = GradientReport("b", "f", GradientSettings(), list("qrs"), 3, (entry,), ())
    >>> print(format_gradients(report).splitlines()[3])  # a normalized query: 1 / length
    cosine   easy          1.573     4.426, 1.107, 0.2767      0, 0, 0      0.746, 0.746, 0.746        0%   0.4817, 0.4817, 0.4817
    """
    with_parameters = report.scores[0].parameters is not None
    shown = ["|∂L/∂q|", "∂L/∂log|q|", "by direction", "steeper", "|∂L/∂D|"]
    if with_parameters:
        shown.append(f"|∂L/∂θ| {report.settings.parameters}")
    places = _places(report.scores[0].measured.scales)
    at = ", ".join(f"{report.scores[0].measured.scales[place]:g}" for place in places)
    rows = []
    for entry in report.scores:
        steeper = entry.steeper("direction")
        medians = {field: entry.quartiles(field)[:, 1] for field in FIELDS}
        for number, name in enumerate(DIFFICULTIES):
            row = [
                entry.name,
                name,
                f"{medians['loss'][number][nearest_scale(entry.measured.scales, 1.0)]:.4g}",
            ]
            for field in ("query", "log_length", "direction"):
                row.append(_numbers(medians[field][number][places]))
            row.append(f"{steeper[name]:.0%}")
            row.append(_numbers(medians["documents"][number][places]))
            if entry.parameters is not None:
                theirs = _places(entry.parameters.scales)
                row.append(_numbers(entry.quartiles("parameters")[number][1][theirs]))
            rows.append(row)
    lines = [
        f"{report.domain}: gradients of a query's loss at {at} times its length; medians of "
        f"{len(report.query_ids)} queries by {RULES[report.settings.difficulty]}",
        *text_table(["score", "queries"], ["loss at 1", *shown], rows),
    ]
    for entry in report.scores:
        lines.append(
            f"{entry.name}: temperature {entry.score.temperature:.6g} ({entry.temperature_source}); "
            f"{_agreement(entry)}"
        )
    return "\n".join([*lines, *report.notes])


def write_gradients(
    folder: str | os.PathLike[str],
    reports: Sequence[GradientReport],
    about: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Writes ``gradients.json``, and per data set its pictures and its queries as JSONL.

    These are ``gradients/DOMAIN.png`` (all scores), and for each score
    ``gradients/DOMAIN.SCORE.png`` (easy, medium and hard queries) and
    ``gradients/DOMAIN.SCORE.jsonl`` (every query at every length, to seven digits). Characters of
    ``DOMAIN`` other than letters, digits, ``.``, ``_`` and ``-`` become ``_``. Each file is
    written in one rename, ``gradients.json`` last.

    Args:
        folder: made if it is missing.
        reports: one a data set.
        about: further top-level entries of ``gradients.json``, such as the checkpoint's name.

    Returns:
        The files written, in order.

    Raises:
        InputError: two reports would write the same files, or ``about`` has an entry ``reports``.

    >>> write_gradients("/nowhere", [], {"reports": 1})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: about= may not hold 'reports', which is written from the reports.
    """
    check_about(about, "reports")
    root = Path(folder)
    names = report_names([report.domain for report in reports])
    written = []
    for name, report in zip(names, reports, strict=True):
        written.append(root / "gradients" / f"{name}.png")
        save_figure(written[-1], gradients_overview_figure(report))
        for entry in report.scores:
            written.append(root / "gradients" / f"{name}.{entry.name}.png")
            save_figure(written[-1], gradients_figure(report, entry))
            written.append(root / "gradients" / f"{name}.{entry.name}.jsonl")
            write_text(written[-1], "".join(_queries(report, entry)))
    written.append(root / "gradients.json")
    write_json(written[-1], {**(about or {}), "reports": [report.to_json() for report in reports]})
    return written


def _queries(report: GradientReport, entry: ScoreGradients) -> list[str]:
    """One JSON line a query."""
    columns = {field: getattr(entry.measured, field) for field in FIELDS}
    return [
        json.dumps(
            {
                "query_id": name,
                "difficulty": DIFFICULTIES[entry.difficulty[i]],
                "length": float(entry.measured.lengths[i]),
                **{
                    field: [float(f"{value:.7g}") for value in values[:, i]]
                    for field, values in columns.items()
                },
            },
            ensure_ascii=False,
        )
        + "\n"
        for i, name in enumerate(report.query_ids)
    ]


def _agreement(entry: ScoreGradients) -> str:
    deviations = entry.deviations()
    worst = max(deviations, key=lambda name: deviations[name])
    euler = max(entry.measured.euler_residuals().values())
    if max(deviations[worst], euler) <= _AGREEMENT:
        return (
            f"jax.grad and the closed forms agree to {deviations[worst]:.1g}, Euler's identity "
            f"holds to {euler:.1g}."
        )
    return (
        f"WARNING: jax.grad and the closed form of {worst!r} differ by {deviations[worst]:.1g}, "
        f"Euler's identity is off by {euler:.1g}: these numbers cannot be trusted."
    )


def _places(scales: np.ndarray) -> np.ndarray:
    return np.unique([nearest_scale(scales, wanted) for wanted in _SHOWN])


def _numbers(values: np.ndarray) -> str:
    # What is zero in theory is 1e-17 in practice; a class may have no query in a small batch.
    rounded = [0.0 if abs(value) < 1e-15 else value for value in values.tolist()]
    return ", ".join("-" if np.isnan(value) else f"{value:.4g}" for value in rounded)
