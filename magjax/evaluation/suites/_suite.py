"""What every suite is given and what it returns: settings, rows, averages, files."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from magjax.checks import InputError, choose, positive_integer
from magjax.evaluation._metrics import metric_depth
from magjax.evaluation._report import score_label, write_results
from magjax.evaluation._retrieval import RetrievalResult, check_depth
from magjax.files import file_name, write_text
from magjax.similarity import Score
from magjax.tables import text_table

__all__ = ["SuiteAverage", "SuiteReport", "SuiteRow", "SuiteSettings", "write_suite"]

_Value = TypeVar("_Value", bool, int, float, str)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SuiteSettings:
    """How to run a suite; what is left out is the suite's own choice.

    A suite that does not take a setting refuses it (:class:`Suite`).

    Args:
        split: judgements to use, such as ``"dev"``.
        k: documents a query; default: as many as the deepest metric sees, and the suite's own.
        metrics: names as in ``magjax.evaluation.evaluate_run``.
        tokens_per_batch: tokens of an encoder batch on each device.
        bm25: add a BM25 row to each set.
        ignore_identical_ids: never return the document whose id is the query's.
        allow_asymmetric: let a one-sided score rank a symmetric task, which is then reported in
            both orders.
        seed: of whatever the suite draws.
        options: what only this suite knows, by name.

    Raises:
        InputError: a count is no positive whole number.

    >>> SuiteSettings(options={"long": "true"}).option("long", False)
    True
    """

    split: str | None = None
    k: int | None = None
    metrics: tuple[str, ...] = ()
    tokens_per_batch: int = 2048
    bm25: bool = False
    ignore_identical_ids: bool | None = None
    allow_asymmetric: bool = False
    seed: int = 0
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        positive_integer("tokens_per_batch", self.tokens_per_batch)
        if self.k is not None:
            positive_integer("k", self.k)

    def option(self, name: str, default: _Value) -> _Value:
        """The option ``name`` in the type of ``default``, or ``default``.

        Raises:
            InputError: the option is given, but is no such value.

        >>> SuiteSettings(options={"k_passages": "ten"}).option("k_passages", 5)
        Traceback (most recent call last):
            ...
        magjax.checks.InputError: --option=k_passages=ten: a value of type int was needed.
        """
        if name not in self.options:
            return default
        text, kind = self.options[name], type(default)
        if isinstance(default, bool):
            flag = choose(f"value of --option={name}", text.lower(), ("true", "false"))
            return kind(flag == "true")
        try:
            return kind(text)
        except ValueError as error:
            raise InputError(
                f"--option={name}={text}: a value of type {kind.__name__} was needed."
            ) from error

    def depth(self, metrics: Sequence[str], own: int = 100) -> int:
        """Documents to search for a query: ``k``, or the most of ``own`` and what metrics see.

        Raises:
            InputError: an unknown metric, or one that looks deeper than ``k``.

        >>> SuiteSettings().depth(["recall@1000"]), SuiteSettings(k=10).depth(["ndcg@10"])
        (1000, 10)
        """
        if self.k is None:
            return max(own, *map(metric_depth, metrics))
        check_depth(metrics, self.k)
        return self.k


@dataclasses.dataclass(frozen=True, kw_only=True)
class SuiteRow:
    """What one system did on one data set.

    Args:
        name: the data set, or a part of one.
        system: what was measured: ``"model"``, ``"bm25"``, ...
        values: figures by metric.
        intervals: (low, high) at 95 % by metric, where there are any.
        counts: what the figures are over, such as ``queries`` and ``documents``.
        fingerprint: of the data; figures of different ones are not comparable.
        score: what compared the embeddings; None where nothing did.
        details: further JSON values, which the table does not show.

    >>> SuiteRow(name="adi", values={"ndcg@10": 0.5}).to_json()["values"]
    {'ndcg@10': 0.5}
    """

    name: str
    system: str = "model"
    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fingerprint: str = ""
    score: Score | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "name": self.name,
            "system": self.system,
            "values": dict(self.values),
            "intervals": {name: list(ends) for name, ends in self.intervals.items()},
            "counts": dict(self.counts),
            "fingerprint": self.fingerprint,
            "score": None if self.score is None else self.score.to_json(),
            "details": dict(self.details),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class SuiteAverage:
    """The benchmark's own average of one system.

    Args:
        label: how it weighs and what it is over, as a reader needs to know it.
        system: whose average.
        values: figures by metric.
        score: what compared the embeddings; None where nothing did.

    >>> SuiteAverage(label="mean of 2 data sets", values={"ndcg@10": 0.5}).to_json()["label"]
    'mean of 2 data sets'
    """

    label: str
    system: str = "model"
    values: Mapping[str, float]
    score: Score | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "label": self.label,
            "system": self.system,
            "values": dict(self.values),
            "score": None if self.score is None else self.score.to_json(),
        }


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SuiteReport:
    """What a suite found.

    Args:
        suite: its name.
        rows: one a data set and system, in the order to show them.
        averages: as the benchmark weighs them; none where it reports none.
        notes: what a reader must know: what was skipped, which split was used, ...
        retrieval: rankings and per-query values of data sets that were searched.
        per_item: further values by file name, one record an item.

    >>> row = SuiteRow(name="adi", values={"ndcg@10": 0.5}, counts={"queries": 35})
    >>> print(SuiteReport(suite="beir", rows=[row], notes=["qrels/dev.tsv was used."]).format())
    data set   system   score   queries   ndcg@10
    ─────────────────────────────────────────────
    adi        model    -            35    0.5000
    qrels/dev.tsv was used.
    """

    suite: str
    rows: Sequence[SuiteRow]
    averages: Sequence[SuiteAverage] = ()
    notes: Sequence[str] = ()
    retrieval: Sequence[RetrievalResult] = ()
    per_item: Mapping[str, Sequence[Mapping[str, Any]]] = dataclasses.field(default_factory=dict)

    def format(self) -> str:
        """A table, the averages as its last rows, the notes below; intervals in brackets."""
        named: list[SuiteRow | SuiteAverage] = [*self.rows, *self.averages]
        counts = list(dict.fromkeys(name for row in self.rows for name in row.counts))
        metrics = list(dict.fromkeys(name for row in named for name in row.values))
        cells = []
        for row in named:
            known = row.counts if isinstance(row, SuiteRow) else {}
            ends = row.intervals if isinstance(row, SuiteRow) else {}
            cells.append(
                [
                    row.name if isinstance(row, SuiteRow) else row.label,
                    row.system,
                    score_label(row.score),
                    *(f"{known[name]:,}" if name in known else "-" for name in counts),
                    *(_figure(name, row.values, ends) for name in metrics),
                ]
            )
        lines = text_table(("data set", "system", "score"), [*counts, *metrics], cells)
        return "\n".join([*lines, *self.notes])

    def to_json(self) -> dict[str, Any]:
        """Suite, rows, averages and notes as JSON values."""
        return {
            "suite": self.suite,
            "rows": [row.to_json() for row in self.rows],
            "averages": [average.to_json() for average in self.averages],
            "notes": list(self.notes),
        }


def write_suite(
    workdir: str | os.PathLike[str],
    report: SuiteReport,
    about: Mapping[str, Any] | None = None,
) -> None:
    r"""Writes ``per_item/NAME.jsonl``, ``runs/``, ``per_query/`` and, last, ``results.json``.

    ``results.json`` holds ``about``, the report, and under ``results`` what
    ``magjax.evaluation.write_results`` says of each ranking.

    Args:
        workdir: made if it is missing.
        report: what to write.
        about: further top-level entries of ``results.json``, such as the checkpoint's name.

    Raises:
        InputError: two entries would write the same file, or ``about`` has an entry that the
            report has too.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> row = SuiteRow(name="sts-b", values={"spearman": 0.5})
    >>> pairs = {"sts-b": [{"line": 1, "score": 0.25}]}
    >>> write_suite(folder, SuiteReport(suite="sts", rows=[row], per_item=pairs))
    >>> (folder / "per_item" / "sts-b.jsonl").read_text()
    '{"line": 1, "score": 0.25}\n'
    """
    root = Path(workdir)
    written = report.to_json()
    both = sorted(written.keys() & set(about or {}))
    if both:
        raise InputError(f"about= may not hold {both[0]!r}, which is written from the report.")
    files = {name: file_name(name) for name in report.per_item}
    for name, file in files.items():
        if list(files.values()).count(file) > 1:
            raise InputError(f"two per-item lists would be written as {file!r}; rename {name!r}.")
    for name, records in report.per_item.items():
        lines = [
            json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records
        ]
        write_text(root / "per_item" / f"{files[name]}.jsonl", "".join(lines))
    write_results(root, report.retrieval, {**(about or {}), **written})


def _figure(name: str, values: Mapping[str, float], ends: Mapping[str, tuple[float, float]]) -> str:
    if name not in values:
        return "-"
    if name not in ends:
        return f"{values[name]:.4f}"
    low, high = ends[name]
    return f"{values[name]:.4f} [{low:.4f}, {high:.4f}]"
