"""A Fisher measurement as text and JSON."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from magjax.checks import InputError
from magjax.fisher._adviser import Advice, intervals_by_variant
from magjax.fisher._measurement import Measurement, Norms
from magjax.fisher._measures import find_measure
from magjax.statistics import Interval
from magjax.tables import text_table

__all__ = ["FisherReport", "definitions", "format_report"]


@dataclasses.dataclass(frozen=True, eq=False)
class FisherReport:
    """Everything that was measured of one start model on one task.

    Attributes:
        measurements: spaces x variants x batches.
        norms: lengths of each side's embeddings.
        advice: what follows.
        about: the model, the data's fingerprints, the settings: JSON values.
        notes: what a reader must know of the data.

    >>> [field.name for field in dataclasses.fields(FisherReport)]
    ['measurements', 'norms', 'advice', 'about', 'notes']
    """

    measurements: Sequence[Measurement]
    norms: Mapping[str, Norms]
    advice: Advice
    about: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def spaces(self) -> list[str]:
        """The spaces measured, in order."""
        return list(dict.fromkeys(item.space for item in self.measurements))

    def of_space(self, space: str) -> list[Measurement]:
        """The measurements of one space."""
        return [item for item in self.measurements if item.space == space]

    def intervals(self, space: str, name: str) -> dict[str, Interval | None]:
        """One measure of one space by variant, at the advice's confidence."""
        return intervals_by_variant(
            self.measurements, space, name, confidence=self.advice.confidence
        )

    def to_json(self) -> dict[str, Any]:
        """The whole report as JSON values; infinity is the word "infinite"."""
        table = {
            space: {
                name: {
                    variant: None if interval is None else interval.to_json()
                    for variant, interval in self.intervals(space, name).items()
                }
                for name in self.of_space(space)[0].values
            }
            for space in self.spaces
        }
        measures = {
            name: dataclasses.asdict(find_measure(name))
            for item in self.measurements
            for name in item.values
        }
        return {
            "kind": self.measurements[0].kind,
            "advice": self.advice.to_json(),
            "norms": {side: norms.to_json() for side, norms in self.norms.items()},
            "notes": list(self.notes),
            "table": table,
            "measures": measures,
            "measurements": [item.to_json() for item in self.measurements],
            **self.about,
        }


def definitions(report: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """What every definition of the adviser says of one cell: input of :func:`score_adviser`.

    Args:
        report: what :meth:`FisherReport.to_json` gave, or ``fisher.json`` as read.

    Returns:
        ``space|kind|measure`` to the mean over the batches for each variant.

    Raises:
        InputError: the report lacks its table.

    >>> table = {"query": {"kappa": {"dot": {"mean": "infinite"}, "qnorm": None}}}
    >>> definitions({"kind": "ggn", "table": table})
    {'query|ggn|kappa': {'dot': inf, 'qnorm': None}}
    """
    if not isinstance(report.get("table"), Mapping) or "kind" not in report:
        raise InputError("the report has no table; give the contents of a fisher.json.")

    def mean(cell: Mapping[str, Any] | None) -> float | None:
        value = None if cell is None else cell["mean"]
        return math.inf if value == "infinite" else value

    return {
        f"{space}|{report['kind']}|{name}": {v: mean(cell) for v, cell in cells.items()}
        for space, names in report["table"].items()
        for name, cells in names.items()
    }


def format_report(report: FisherReport) -> str:
    """A table for each space, what limits it, and the advice, as text.

    Values are means over the batches with the half width of their interval; ``infinite`` stays
    infinite, and ``-`` stands for what this computation cannot say.

    >>> import numpy as np
    >>> from magjax.fisher import CandidateSets, Embedded, FisherModel
    >>> from magjax.fisher import advise, measure_embeddings, measure_norms
    >>> from magjax.similarity import Score
    >>> q, d = np.random.default_rng(0).normal(size=(2, 8, 3)).astype("float32")
    >>> sets = CandidateSets.from_batch({"query": q[None], "document": d[None]})
    >>> found = measure_embeddings(Embedded(q, d), sets, [Score.of("dot", 1.0)], ["document"],
    ...                            model=FisherModel())
    >>> norms = measure_norms([Embedded(q, d)])
    >>> report = FisherReport(found, norms, advise(found, norms, task="asymmetric"), {})
    >>> format_report(report).splitlines()[-1]
    'Advice: dot. dot is the only variant measured.'
    """
    lines = []
    for space in report.spaces:
        items = report.of_space(space)
        first = items[0]
        batches = len({item.batch for item in items})
        shape = first.spectrum
        lines += [
            f"{_title(space)}: {first.kind} Fisher, {shape.dimension:,} x {shape.dimension:,}, "
            f"{first.examples:,} queries a batch, {_batches_text(report, batches)}, "
            f"{_route(items)}",
            _table(report, space),
            *_notes(items),
            "",
        ]
    for side in report.norms.values():
        lines.append(
            f"{side.side} length: {side.mean:.4g}, coefficient of variation {side.variation:.3g}"
        )
    lines += [*report.notes, *(f"Warning: {text}" for text in report.advice.warnings)]
    sides = ""
    if report.advice.recommended is None and report.advice.contenders:
        sides = f" Query side: {report.advice.query}; document side: {report.advice.document}."
    lines.append(f"Advice: {report.advice.verdict}. {report.advice.reason}{sides}")
    return "\n".join(lines)


def _batches_text(report: FisherReport, batches: int) -> str:
    if batches == 1:
        return "1 batch (no intervals)"
    return f"{batches} batches (± half of the {report.advice.confidence:.0%} interval)"


def _title(space: str) -> str:
    if space in ("query", "document"):
        return f"{space} embeddings"
    return f"parameters {space!r}"


def _route(items: Sequence[Measurement]) -> str:
    first = items[0].spectrum
    worst = max(item.spectrum.orthogonality_loss for item in items)
    if first.method == "lanczos":
        return (
            f"Lanczos with {first.steps} steps and {first.probes} "
            f"probe{'s' if first.probes > 1 else ''}, float{first.float_width}, loss of "
            f"orthogonality {worst:.1g}"
        )
    residual = max(
        float(item.spectrum.residuals.max() / max(item.spectrum.eigenvalues[0], 1e-300))
        for item in items
    )
    route = "Gram matrix" if first.method == "gram" else "whole spectrum"
    return f"{route}, float{first.float_width}, residuals at most {residual:.1g} of λ1"


def _table(report: FisherReport, space: str) -> str:
    """Measures down, variants across."""
    items = report.of_space(space)
    by_variant: dict[str, list[Measurement]] = {}
    for item in items:
        by_variant.setdefault(item.variant, []).append(item)
    temperatures = [found[0].score.temperature for found in by_variant.values()]
    rows = [
        ["temperature", "", *("-" if t is None else f"{t:.4g}" for t in temperatures)],
        ["rank", "", *(_ranks(found) for found in by_variant.values())],
    ]
    for name in items[0].values:
        cells = report.intervals(space, name)
        rows.append([name, find_measure(name).prefer, *(_cell(cells[v]) for v in by_variant)])
    return "\n".join(text_table(["measure", "better"], list(by_variant), rows))


def _ranks(items: Sequence[Measurement]) -> str:
    known = sorted(item.spectrum.rank for item in items if item.spectrum.rank is not None)
    if not known:
        return "-"
    return f"{known[0]}" if known[0] == known[-1] else f"{known[0]}-{known[-1]}"


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    if math.isinf(interval.mean):
        return "infinite"
    if interval.low is None or interval.high is None:
        return f"{interval.mean:.4g}"
    return f"{interval.mean:.4g} ± {(interval.high - interval.low) / 2:.2g}"


def _notes(items: Sequence[Measurement]) -> list[str]:
    """Null directions and unknown measures; what holds for all variants is said once."""
    lines: list[str] = []
    everyone = list(dict.fromkeys(item.variant for item in items))

    def say(prefix: str, found: dict[str, list[str]]) -> None:
        for text, variants in found.items():
            whose = "" if len(variants) == len(everyone) else f" ({', '.join(variants)})"
            lines.append(f"  {prefix}{text}{whose}")

    nulls: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    said: set[tuple[str, str]] = set()
    for item in items:
        first = item.batch == items[0].batch
        for text in item.nulls if first else ():
            nulls.setdefault(text, []).append(item.variant)
        for name, value in item.values.items():
            # One batch without a value leaves the mean without one; its reason stands for all.
            if value is None and name in item.reasons and (item.variant, name) not in said:
                said.add((item.variant, name))
                unknown.setdefault(f"{name}: {item.reasons[name]}", []).append(item.variant)
        for text in item.notes if first else ():
            notes.setdefault(text, []).append(item.variant)
    say("null: ", nulls)
    say("not said: ", unknown)
    say("note: ", notes)
    return lines
