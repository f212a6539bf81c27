"""Semantic textual similarity: STS-B, SICK, STS12 to STS16, and sets of the same form."""

from pathlib import Path

from magjax import hub
from magjax.data import find_sts
from magjax.evaluation._pair_scores import embed_pairs
from magjax.evaluation._progress import progress_bar
from magjax.evaluation._sts import StsResult, score_pairs
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

__all__ = ["run_sts"]


def run_sts(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """Spearman's and Pearson's correlation of scores with gold scores, and the mean over sets.

    The files of one year of SemEval are joined into one set, as MTEB does, with a row for each
    below it; the mean weighs every set alike.

    Args:
        model: its score compares the embeddings.
        root: holds STS sets, or is one.
        settings: ``split`` (default ``test``), ``allow_asymmetric``, ``seed`` of the bootstrap, and
            the option ``resamples``.

    Raises:
        InputError: no set, one that cannot be read, or a model that tells queries from documents.
        RunError: the model gives every pair of a set the same score.
    """
    score, notes = score_of_equals("sts", model, settings)
    sets = find_sts(root, settings.split or "test")
    rows: list[SuiteRow] = []
    whole: list[SuiteRow] = []
    per_item = {}
    for pairs in sets:
        with progress_bar(pairs.name) as progress:
            embeddings = embed_pairs(
                model, pairs, tokens_per_batch=settings.tokens_per_batch, progress=progress
            )
        found = score_pairs(
            embeddings,
            score,
            allow_asymmetric=settings.allow_asymmetric,
            resamples=settings.option("resamples", 1000),
            seed=settings.seed,
        )
        own = _rows(found)
        whole += own
        rows += [*own, *(row for part in found.parts for row in _rows(part))]
        notes += notes_of(pairs, embeddings.texts)
        per_item[pairs.name] = records_of(found.scores, found.grades)
    return SuiteReport(
        suite="sts",
        rows=rows,
        averages=mean_of_rows(whole, f"mean of {len(sets)} sets") if len(sets) > 1 else (),
        notes=notes,
        per_item=per_item,
    )


def _rows(found: StsResult) -> list[SuiteRow]:
    return [
        SuiteRow(
            name=found.name,
            system=system_of(order),
            values=values_of(spearman=by.spearman, pearson=by.pearson),
            intervals=ends_of(spearman=by.spearman, pearson=by.pearson),
            counts={"pairs": len(found.grades)},
            fingerprint=found.fingerprint,
            score=found.score,
            details={"unjudged": found.unjudged, "asymmetries": list(found.asymmetries)},
        )
        for order, by in found.orders.items()
    ]
