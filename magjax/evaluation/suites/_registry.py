"""The suites by name, each imported when it runs."""

import dataclasses
import importlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from magjax import hub
from magjax.checks import InputError, choose
from magjax.evaluation.suites._clip_options import CLIP_OPTIONS
from magjax.evaluation.suites._rag_options import RAG_OPTIONS
from magjax.evaluation.suites._suite import SuiteReport, SuiteSettings

__all__ = ["SUITES", "Suite"]

_EVERY = ("tokens_per_batch", "options")  # options are checked one by one


@dataclasses.dataclass(frozen=True)
class Suite:
    """A benchmark that is run on a folder of its own data, in its standard form.

    Args:
        name: what ``--suite=`` takes.
        target: ``module:function`` under ``magjax.evaluation.suites``; the function takes a
            model, the root folder and settings, and returns a report.
        looks_for: what the root must hold, for messages.
        takes: settings of :class:`SuiteSettings` that it knows, beside ``tokens_per_batch``.
        options: names that ``SuiteSettings.options`` may hold, each with its meaning.

    >>> SUITES["beir"].name
    'beir'
    """

    name: str
    target: str
    looks_for: str
    takes: tuple[str, ...] = ()
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __call__(
        self, model: hub.Model, root: str | Path, settings: SuiteSettings | None = None
    ) -> SuiteReport:
        """Runs the suite.

        Args:
            model: ranks by its score.
            root: the folder of data.
            settings: default: the suite's own choices.

        Raises:
            InputError: a setting or option that the suite does not take, a root that is no folder,
                or data that cannot be used.
        """
        settings = settings or SuiteSettings()
        self.check(root, settings)
        module, _, function = self.target.partition(":")
        run: Callable[[hub.Model, Path, SuiteSettings], SuiteReport] = getattr(
            importlib.import_module(f"magjax.evaluation.suites.{module}"), function
        )
        return run(model, Path(root), settings)

    def check(self, root: str | Path, settings: SuiteSettings) -> None:
        """Refuses what can be refused before a model is loaded.

        Raises:
            InputError: as when the suite is called.

        >>> SUITES["beir"].check(".", SuiteSettings(seed=1))
        Traceback (most recent call last):
            ...
        magjax.checks.InputError: --seed is not a flag of suite 'beir', which takes: \
--tokens_per_batch, --split, --k, --metrics, --bm25, --ignore_identical_ids.
        """
        plain = SuiteSettings()
        names = [field.name for field in dataclasses.fields(SuiteSettings)]
        self.check_taken([n for n in names if getattr(settings, n) != getattr(plain, n)])
        for name in settings.options:
            if not self.options:
                raise InputError(f"suite {self.name!r} takes no --option; got {name!r}.")
            choose(f"option of suite {self.name!r}", name, self.options)
        folder = Path(root)
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder; suite {self.name!r} needs {self.looks_for}.")

    def check_taken(self, names: Collection[str]) -> None:
        """Refuses settings that the suite does not take.

        Raises:
            InputError: one of ``names`` is not taken.

        >>> SUITES["beir"].check_taken(["bm25"])
        """
        for name in names:
            if name not in (*_EVERY, *self.takes):
                known = ", ".join(f"--{other}" for other in ("tokens_per_batch", *self.takes))
                raise InputError(
                    f"--{name} is not a flag of suite {self.name!r}, which takes: {known}."
                )


_EQUALS = ("split", "allow_asymmetric", "seed")
_RESAMPLES = {"resamples": "of the bootstrap over pairs; default: 1000."}
_RETRIEVAL = ("split", "k", "metrics", "bm25", "ignore_identical_ids")

SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "beir",
            "_beir:run_beir",
            "BEIR folders (corpus.jsonl, queries.jsonl, qrels/) in it",
            _RETRIEVAL,
        ),
        Suite(
            "bright",
            "_bright:run_bright",
            "examples/ and documents/ of BRIGHT's tasks, as on Hugging Face, in it",
            ("k", "metrics", "bm25"),
            {
                "long": "true: search long_documents/, whole pages, for gold_ids_long.",
                "queries": "folder of queries; default: examples. Others are rewritten queries.",
            },
        ),
        Suite(
            "msmarco",
            "_msmarco:run_msmarco",
            "collection.tsv, queries.dev.small.tsv and qrels.dev.small.tsv in it",
            ("split", "k", "metrics", "bm25"),
        ),
        Suite(
            "trec_dl",
            "_msmarco:run_trec_dl",
            "collection.tsv, msmarco-test2019-queries.tsv and 2019qrels-pass.txt (or 2020) in it",
            ("split", "k", "metrics", "bm25"),
        ),
        Suite(
            "multihop",
            "_multihop:run_multihop",
            "HotpotQA's, 2WikiMultihopQA's or MuSiQue's files, or BEIR folders with qa.jsonl in it",
            ("split", "k", "metrics", "bm25"),
        ),
        Suite(
            "rag",
            "_rag:run_rag",
            "corpus.jsonl and qa.jsonl, or the files that --option=corpus= and questions= name",
            ("k", "bm25", "seed"),
            RAG_OPTIONS,
        ),
        Suite(
            "sts",
            "_sts:run_sts",
            "STS sets (SPLIT.tsv with score, sentence1 and sentence2, SICK, SemEval's files) in it",
            _EQUALS,
            _RESAMPLES,
        ),
        Suite(
            "pair_classification",
            "_pair_classification:run_pair_classification",
            "sets of labelled pairs (SPLIT.tsv with sentence1, sentence2 and label) in it",
            _EQUALS,
            _RESAMPLES,
        ),
        Suite(
            "clustering",
            "_clustering:run_clustering",
            "sets of labelled texts (SPLIT.tsv with label and text) in it",
            _EQUALS,
            {"runs": "of k-means, each with another seed; default: 10."},
        ),
        Suite(
            "clip",
            "_clip:run_clip",
            "images and captions (SPLIT.jsonl, .csv, .tsv or .tar), or folders of them, in it",
            ("split", "k", "metrics"),
            CLIP_OPTIONS,
        ),
    )
}
"""The suites that ``launch/evaluate.py --suite=`` knows."""
