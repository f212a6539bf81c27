"""BEIR: zero-shot retrieval on many sets, and the mean of their nDCG@10."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from magjax import hub
from magjax.checks import InputError, choose
from magjax.data import Benchmark, beir_splits, find_beir, read_beir, text_key
from magjax.evaluation._metrics import METRICS
from magjax.evaluation._retrieval import RetrievalResult
from magjax.evaluation.suites._searching import (
    Searcher,
    mean_of_rows,
    result_row,
    skipped_notes,
)
from magjax.evaluation.suites._suite import SuiteReport, SuiteRow, SuiteSettings

__all__ = ["run_beir"]

_ZERO_SHOT = (
    *("trec-covid", "bioasq", "nfcorpus", "nq", "hotpotqa", "fiqa", "signal1m", "trec-news"),
    *("robust04", "arguana", "webis-touche2020", "cqadupstack", "quora", "dbpedia-entity"),
    *("scidocs", "fever", "climate-fever", "scifact"),
)
_IN_DOMAIN = "msmarco"
_FORUMS = "cqadupstack"
_QUERIES_IN_CORPUS = ("arguana", "quora")


def run_beir(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """Every BEIR set at or below ``root``; the average weighs each set the same.

    The forums of CQADupStack are one set, the mean of them. MS MARCO is judged by its dev split and
    stays out of the zero-shot average; other sets are judged by test.

    Args:
        model: ranks by its score.
        root: holds BEIR folders, or is one.
        settings: ``split`` for all sets; ``ignore_identical_ids`` for all sets, by default only
            where the queries are documents of the corpus.

    Raises:
        InputError: no set, or one that cannot be read; all are read before the first is embedded.
    """
    sets, partial = find_beir(root)
    if not sets:
        raise _nothing_found(root, partial)
    splits, notes = _splits(sets, settings.split)
    notes += [f"{name} is skipped: it lacks {what}." for name, what in partial.items()]
    searcher = Searcher(model, settings, METRICS)
    if len(sets) > 1:  # a broken file in the last set must not cost the hours before it
        for name, folder in sets.items():
            read_beir(folder, splits[name], name=name)
    results: list[RetrievalResult] = []
    for name, folder in sets.items():
        benchmark = read_beir(folder, splits[name], name=name)
        identical = settings.ignore_identical_ids
        if identical is None:
            identical = _queries_in_corpus(benchmark)
            if identical:
                notes.append(f"{name}: the document whose id is the query's is not returned.")
        results += searcher.search(benchmark, ignore_identical_ids=identical)
    rows, units = _rows(results)
    zero_shot = [row for row in units if _base(row.name) != _IN_DOMAIN]
    count = len({row.name for row in zero_shot})
    label = f"mean of {count} sets" + (", without msmarco" if len(zero_shot) < len(units) else "")
    notes += _coverage([row.name for row in zero_shot], sets)
    return SuiteReport(
        suite="beir",
        rows=rows,
        averages=mean_of_rows(zero_shot, label) if count > 1 else (),
        notes=[*notes, *skipped_notes(results), searcher.describe()],
        retrieval=results,
    )


def _nothing_found(root: Path, partial: Mapping[str, str]) -> InputError:
    zipped = [path.name for path in sorted(root.glob("*.zip")) if zipfile.is_zipfile(path)]
    found = "; ".join(f"{name} lacks {what}" for name, what in partial.items())
    return InputError(
        f"{root} holds no BEIR set: neither it nor a folder below it has corpus.jsonl, "
        "queries.jsonl and qrels/."
        + (f" {found}." if found else "")
        + (f" Unpack {', '.join(zipped)} first." if zipped else "")
    )


def _splits(sets: Mapping[str, Path], asked: str | None) -> tuple[dict[str, str], list[str]]:
    """The split of each set, and what to say of those that are not the usual ones."""
    splits, notes = {}, []
    for name, folder in sets.items():
        there = beir_splits(folder)
        usual = asked or ("dev" if _base(name) == _IN_DOMAIN else "test")
        if asked is None and usual not in there and len(there) == 1:
            usual = next(iter(there))
            notes.append(f"{name}: judged by {usual}, its only split.")
        splits[name] = choose(f"split of {folder}", usual, there)
    return splits, notes


def _rows(results: Sequence[RetrievalResult]) -> tuple[list[SuiteRow], list[SuiteRow]]:
    """Rows to show, and those that averages are over: a group of forums counts once."""
    shown, units = [], []
    forums: dict[tuple[str, str], list[SuiteRow]] = {}
    for result in results:
        row = result_row(result)
        parent = PurePosixPath(row.name).parent
        shown.append(row)
        if parent.name == _FORUMS:
            forums.setdefault((str(parent), row.system), []).append(row)
        else:
            units.append(row)
    for (name, system), rows in forums.items():
        (mean,) = mean_of_rows(rows, name)
        row = SuiteRow(
            name=name,
            system=system,
            values=mean.values,
            counts={
                key: sum(part.counts[key] for part in rows) for key in ("queries", "documents")
            },
            score=mean.score,
            details={"mean_of": [part.name for part in rows]},
        )
        shown.append(row)
        units.append(row)
    return shown, units


def _queries_in_corpus(benchmark: Benchmark) -> bool:
    """Whether the queries are documents: by BEIR's names, or an id with the same text."""
    if _base(benchmark.name) in _QUERIES_IN_CORPUS:
        return True
    queries = dict(zip(benchmark.query_ids, map(text_key, benchmark.queries), strict=True))
    return any(
        text_key(text).endswith(queries[name])  # the document's title stands before its text
        for name, text in zip(benchmark.document_ids, benchmark.documents, strict=True)
        if name in queries
    )


def _base(name: str) -> str:
    """The set's name without folders above it."""
    return PurePosixPath(name).name.lower()


def _coverage(names: Sequence[str], sets: Mapping[str, Path]) -> list[str]:
    """How much of BEIR the average is over."""
    there = {_base(name) for name in names}
    known = [name for name in _ZERO_SHOT if name in there]
    missing = [name for name in _ZERO_SHOT if name not in there]
    others = sorted(there - set(_ZERO_SHOT))
    notes = []
    if known and missing:
        notes.append(
            f"{len(known)} of BEIR's {len(_ZERO_SHOT)} zero-shot sets are here; missing: "
            f"{', '.join(missing)}."
        )
    if others:
        notes.append(f"in the mean, but not sets of BEIR: {', '.join(others)}.")
    forums = sum(PurePosixPath(name).parent.name == _FORUMS for name in sets)
    if forums not in (0, 12):
        notes.append(f"{_FORUMS} is the mean of {forums} forums; BEIR has 12.")
    return notes
