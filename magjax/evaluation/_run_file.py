"""A run that is on disk already, whoever made it, measured against judgements."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from magjax.checks import InputError
from magjax.data import read_qrels, read_run
from magjax.evaluation._metrics import METRICS, evaluate_run
from magjax.evaluation._ranking import Ranking
from magjax.evaluation._retrieval import RetrievalResult

__all__ = ["evaluate_run_file"]

_log = logging.getLogger(__name__)


def evaluate_run_file(
    run: str | os.PathLike[str],
    qrels: str | os.PathLike[str],
    *,
    metrics: Sequence[str] = METRICS,
    relevance_level: int = 1,
) -> RetrievalResult:
    r"""Measures a TREC run without a model; the result is called by the files' names.

    As in trec_eval a query without documents in the run counts as 0, and one without a judgement
    is skipped; both are counted. A metric deeper than the run sees what there is.

    Args:
        run: a run as ``magjax.data.read_run`` reads it.
        qrels: judgements as ``magjax.data.read_qrels`` reads them.
        metrics: names as in :func:`evaluate_run`.
        relevance_level: the least grade that is relevant.

    Returns:
        The result; its ``documents`` are those that the run or the judgements name.

    Raises:
        InputError: a file that cannot be read, a run without scores, or one whose queries are all
            unknown to the judgements.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "mine.trec").write_text("q1 Q0 d2 1 0.9 me\nq1 Q0 d1 2 0.4 me\n")
    >>> _ = (folder / "test.tsv").write_text("q1\td1\t1\n")
    >>> result = evaluate_run_file(folder / "mine.trec", folder / "test.tsv", metrics=["mrr@10"])
    >>> result.domain, result.system, result.evaluation.mean
    ('test', 'mine', {'mrr@10': 0.5})
    """
    judged = read_qrels(qrels)
    if not judged:
        raise InputError(f"{qrels} holds no judgement.")
    found = read_run(run)
    if not found.keys() & judged.keys():
        raise InputError(
            f"{run} and {qrels} share no query: {next(iter(found))!r} is one of the run's, "
            f"{next(iter(judged))!r} one of the judgements'; name the judgements of this run."
        )
    known = {document for row in judged.values() for document in row}
    if all(known.isdisjoint(row) for row in found.values()):
        _log.warning("%s returns no judged document; are its document ids those of %s?", run, qrels)
    ranking = Ranking.from_run(found)
    return RetrievalResult(
        domain=_stem(qrels),
        system=_stem(run),
        evaluation=evaluate_run(ranking, judged, metrics, relevance_level=relevance_level),
        ranking=ranking,
        k=max(map(len, ranking.documents)),
        queries=len(found.keys() | judged.keys()),
        documents=len(known.union(*found.values())),
        fingerprint="",
    )


def _stem(path: str | os.PathLike[str]) -> str:
    return Path(path).name.removesuffix(".gz").rpartition(".")[0] or Path(path).name
