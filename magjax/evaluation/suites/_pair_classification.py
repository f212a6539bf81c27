"""Pair classification: paraphrases and duplicates against other pairs."""

from pathlib import Path

from magjax import hub
from magjax.data import find_labelled_pairs
from magjax.evaluation._pair_classification import PairClassificationResult, classify_pairs
from magjax.evaluation._pair_scores import embed_pairs
from magjax.evaluation._progress import progress_bar
from magjax.evaluation.suites._equals import (
    ends_of,
    notes_of,
    records_of,
    score_of_equals,
    system_of,
    values_of,
)
from magjax.evaluation.suites._searching import mean_of_rows
from magjax.evaluation.suites._suite import SuiteReport, SuiteRow, SuiteSettings

__all__ = ["run_pair_classification"]


def run_pair_classification(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """Average precision, best accuracy and best F1 of each set, and the mean over sets.

    Args:
        model: its score compares the embeddings.
        root: holds sets of labelled pairs, or is one.
        settings: ``split`` (default ``test``), ``allow_asymmetric``, ``seed`` of the bootstrap, and
            the option ``resamples``.

    Raises:
        InputError: no set, one that cannot be read or has one label only, or a model that tells
            queries from documents.
    """
    score, notes = score_of_equals("pair_classification", model, settings)
    sets = find_labelled_pairs(root, settings.split or "test")
    rows: list[SuiteRow] = []
    per_item = {}
    for pairs in sets:
        with progress_bar(pairs.name) as progress:
            embeddings = embed_pairs(
                model, pairs, tokens_per_batch=settings.tokens_per_batch, progress=progress
            )
        found = classify_pairs(
            embeddings,
            score,
            allow_asymmetric=settings.allow_asymmetric,
            resamples=settings.option("resamples", 1000),
            seed=settings.seed,
        )
        rows += _rows(found)
        notes += notes_of(pairs, embeddings.texts)
        per_item[pairs.name] = records_of(found.scores, found.labels)
    return SuiteReport(
        suite="pair_classification",
        rows=rows,
        averages=mean_of_rows(rows, f"mean of {len(sets)} sets") if len(sets) > 1 else (),
        notes=notes,
        per_item=per_item,
    )


def _rows(found: PairClassificationResult) -> list[SuiteRow]:
    return [
        SuiteRow(
            name=found.name,
            system=system_of(order),
            values=values_of(ap=by.average_precision, accuracy=by.accuracy, f1=by.f1),
            intervals=ends_of(ap=by.average_precision),
            counts={"pairs": len(found.labels), "positive": int(found.labels.sum())},
            fingerprint=found.fingerprint,
            score=found.score,
            details={
                "accuracy_threshold": by.accuracy_threshold,
                "f1_threshold": by.f1_threshold,
                "precision": by.precision,
                "recall": by.recall,
                "asymmetries": list(found.asymmetries),
            },
        )
        for order, by in found.orders.items()
    ]
