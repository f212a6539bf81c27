"""A magnitude analysis as tables of text."""

import math
from collections.abc import Sequence

from magjax.analysis._magnitude_contrast import EVER_RELEVANT
from magjax.analysis._magnitude_report import MagnitudeReport
from magjax.statistics import Interval, PairedDifference
from magjax.tables import aligned_table

__all__ = ["format_interval", "format_magnitude"]


def format_interval(found: Interval | PairedDifference, digits: int = 3) -> str:
    """A value with the ends of its interval, as far as they exist.

    >>> format_interval(Interval(0.5, 0.25, 0.75, 9, 0.95))
    '0.500 [0.250, 0.750]'
    """
    if math.isnan(found.mean):
        return "-"
    if found.low is None or found.high is None:
        return f"{found.mean:.{digits}f}"
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def format_magnitude(report: MagnitudeReport) -> str:
    """The tables of a magnitude analysis, and what to know before believing them.

    Values stand with the ends of their interval; ``-`` is what does not exist, such as a
    correlation with what does not vary.

    Args:
        report: what :func:`measure_magnitude` found.

    >>> import numpy as np
    >>> from magjax.analysis import MagnitudeSettings, measure_magnitude
    >>> from magjax.similarity import Score
    >>> x = np.eye(4, dtype="float32")
    >>> report = measure_magnitude(x[:1], x, {"q": {"a": 1}}, query_ids=["q"],
    ...     document_ids=list("abcd"), score=Score.of("dot", 1.0),
    ...     settings=MagnitudeSettings(metrics=("mrr@10",), negatives=("all",), resamples=10))
    >>> print(format_magnitude(report).splitlines()[0])
    data: 1 of 1 queries have a relevant document among 4; dot (gamma_query=0, gamma_document=0, temperature=1)
    """
    settings = report.settings
    level = f"{100 * settings.confidence:g}%"
    queries, documents = len(report.values.query_ids), report.values.in_degree.size
    parts = [
        f"{report.domain}: {report.judged:,} of {queries:,} queries have a relevant document among "
        f"{documents:,}; {report.score}",
        f"Brackets hold {level} intervals.",
        _norms(report),
        "Norms of relevant documents against those of others (above 0, and AUC above 0.5: "
        "relevant ones are longer)",
        _contrasts(report),
        *(f"  {found.kind}: {found.description}." for found in report.contrasts),
        "  pairs count a document once for each query that it stands beside, documents once.",
        "",
        "Spearman's correlation of norms",
        _correlations(report),
        f"  loss: InfoNCE over {report.candidates:,} documents at temperature "
        f"{report.temperature:.4g} ({report.temperature_source}).",
        "",
        f"Hubness: in-degree of documents over the {settings.occurrences} best of each query",
        _hubness(report),
        "Rankings with other norms of the documents",
        _ablation(report),
        "",
        *(f"Note: {note}" for note in report.notes),
    ]
    return "\n".join(parts).rstrip()


def _norms(report: MagnitudeReport) -> str:
    rows = [
        [side, f"{found.count:,}"]
        + [f"{value:.4g}" for value in (found.mean, found.std, found.cv)]
        + [f"{value:.4g}" for value in (found.minimum, found.median, found.maximum)]
        for side, found in report.norms.items()
    ]
    head = ["norms", "count", "mean", "std", "std/mean", "least", "median", "largest"]
    return _table(head, rows)


def _contrasts(report: MagnitudeReport) -> str:
    rows = []
    for found in report.contrasts:
        pooled, within = found.pooled, found.within
        rows.append(
            [
                found.kind,
                "documents" if found.kind == EVER_RELEVANT else "pairs",
                f"{found.relevant:,} / {found.others:,}",
                f"{found.mean_relevant:.4g} / {found.mean_other:.4g}",
                *(format_interval(pooled[name]) for name in ("cohens_d", "hedges_g", "norm_auc")),
            ]
        )
        if within:
            rows.append(
                [
                    found.kind,
                    "in each query",
                    f"{found.queries:,} queries",
                    format_interval(within["difference"]),
                    format_interval(within["cohens_d"]),
                    "",
                    format_interval(within["norm_auc"]),
                ]
            )
    head = ["against", "over", "number", "means, or difference", "Cohen's d", "Hedges' g", "AUC"]
    return _table(head, rows)


def _correlations(report: MagnitudeReport) -> str:
    rows = [
        [side, name, format_interval(found), f"{found.count:,}"]
        for side, row in report.correlations.items()
        for name, found in row.items()
    ]
    return _table(["of", "with", "Spearman", "rows"], rows)


def _hubness(report: MagnitudeReport) -> str:
    rows = [
        [
            found.score,
            format_interval(found.skewness),
            "-" if math.isnan(found.chance) else f"{found.chance:.3f}",
            f"{found.never:.1%}",
            f"{found.largest:,}",
            format_interval(found.with_norm),
        ]
        for found in report.hubness
    ]
    head = ["score", "skewness", "by chance", "never named", "largest", "Spearman with norm"]
    return _table(head, rows)


def _ablation(report: MagnitudeReport) -> str:
    metrics = report.settings.metrics
    rows = []
    for condition in report.ablation.conditions:
        for metric in metrics:
            difference = condition.difference.get(metric)
            seeds = condition.seeds.get(metric)
            rows.append(
                [
                    condition.name,
                    metric,
                    format_interval(condition.metrics[metric], 4),
                    "" if difference is None else format_interval(difference, 4),
                    "" if difference is None else f"{condition.p_corrected[metric]:.2g}",
                    "" if seeds is None else format_interval(seeds, 4),
                ]
            )
    head = ["norms", "metric", "mean", "difference", "p (Holm)", "over the shuffles"]
    changed, total = report.ablation.queries_changed, len(report.values.query_ids)
    lines = [_table(head, rows)]
    lines += [f"  {item.name}: {item.description}." for item in report.ablation.conditions[1:]]
    if not report.ablation.applies:
        lines.append("  The score does not use the documents' norms: there is nothing to change.")
    lines.append(
        f"  Queries made 2^-4 to 2^4 times as long: {changed:,} of {total:,} rankings changed."
    )
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Words left, numbers right; as wide as it needs to be."""
    right = [
        all(not cell or cell[0] in "-.0123456789" for cell in column)
        for column in zip(*rows, strict=True)
    ]
    return "\n".join([*aligned_table(head, rows, right), ""])
