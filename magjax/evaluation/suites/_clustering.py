"""Clustering: k-means on the embeddings against people's labels."""

from pathlib import Path

from magjax import hub
from magjax.data import find_labelled_texts
from magjax.evaluation._clustering import ClusteringResult, cluster_texts
from magjax.evaluation._labelled_embeddings import embed_labelled_texts
from magjax.evaluation._progress import progress_bar
from magjax.evaluation.suites._equals import (
    ends_of,
    notes_of,
    score_of_equals,
    system_of,
    values_of,
)
from magjax.evaluation.suites._searching import mean_of_rows
from magjax.evaluation.suites._suite import SuiteReport, SuiteRow, SuiteSettings

__all__ = ["run_clustering"]


def run_clustering(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """The V-measure of each set over runs of k-means, and the mean over sets.

    Args:
        model: its score normalizes the embeddings.
        root: holds sets of labelled texts, or is one.
        settings: ``split`` (default ``test``), ``allow_asymmetric``, ``seed`` of the first run, and
            the option ``runs``.

    Raises:
        InputError: no set, one that cannot be read, or a model that tells queries from documents.
    """
    score, notes = score_of_equals(
        "clustering", model, settings, "Each row clusters the embeddings of one side."
    )
    sets = find_labelled_texts(root, settings.split or "test")
    rows: list[SuiteRow] = []
    for data in sets:
        with progress_bar(data.name) as progress:
            embeddings = embed_labelled_texts(
                model, data, tokens_per_batch=settings.tokens_per_batch, progress=progress
            )
        found = cluster_texts(
            embeddings,
            score,
            allow_asymmetric=settings.allow_asymmetric,
            runs=settings.option("runs", 10),
            seed=settings.seed,
        )
        rows += _rows(found)
        notes += notes_of(data, embeddings.texts)
    return SuiteReport(
        suite="clustering",
        rows=rows,
        averages=mean_of_rows(rows, f"mean of {len(sets)} sets") if len(sets) > 1 else (),
        notes=notes,
    )


def _rows(found: ClusteringResult) -> list[SuiteRow]:
    return [
        SuiteRow(
            name=found.name,
            system=system_of(form),
            values=values_of(
                v_measure=by.v_measure, homogeneity=by.homogeneity, completeness=by.completeness
            ),
            intervals=ends_of(v_measure=by.v_measure),
            counts={"texts": found.texts, "labels": found.labels},
            fingerprint=found.fingerprint,
            score=found.score,
            details={"runs": list(by.runs), "asymmetries": list(found.asymmetries)},
        )
        for form, by in found.forms.items()
    ]
