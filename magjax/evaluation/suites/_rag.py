"""Retrieval for answers: does a passage hold the answer, and does a generator then give it?"""

import contextlib
import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np

from magjax import hub
from magjax.data import (
    Benchmark,
    Passages,
    QuestionSet,
    TextPreprocessor,
    read_passages,
    read_questions,
)
from magjax.evaluation._benchmark_embeddings import embed_benchmark, norm_statistics
from magjax.evaluation._bm25 import bm25
from magjax.evaluation._metrics import Evaluation
from magjax.evaluation._progress import progress_bar
from magjax.evaluation._ranking import Ranking
from magjax.evaluation._retrieval import RetrievalResult
from magjax.evaluation._search import search
from magjax.evaluation.rag import MATCHES, answer_ranks, answer_recall, is_yes_no
from magjax.evaluation.suites._rag_generator import Answered, Generator
from magjax.evaluation.suites._rag_options import RagOptions
from magjax.evaluation.suites._suite import SuiteReport, SuiteRow, SuiteSettings
from magjax.similarity import Score
from magjax.statistics import bootstrap_interval

__all__ = ["run_rag"]

_log = logging.getLogger(__name__)


def run_rag(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """Ranks the corpus for each question, measures answer recall and, if asked, a generator.

    All input is read, and the generator's endpoint tried, before the first text is embedded.

    Raises:
        InputError: a missing or broken file, an option that cannot be used, a model without a
            score, or no question to be measured.
        RunError: the endpoint is down, refuses, or answers garbage.
    """
    score = model.require_score()
    options = RagOptions.read(root, settings)
    questions, notes = _limited(read_questions(options.questions), options.limit)
    passages = read_passages(options.corpus)
    task = _Task(_name(root, options), questions, passages, options, settings.seed)
    with contextlib.ExitStack() as stack:
        generator = None
        if options.generator is not None:
            generator = Generator(options.generator)
            stack.callback(generator.close)
        ranking, norms = _ranked(model, score, task.benchmark, options.k, settings)
        found = [task.measure("model", ranking, generator, score=score, norms=norms)]
        if settings.bm25:
            lexical = bm25(task.benchmark, options.k)
            found.append(task.measure("bm25", lexical, generator))
    notes += task.notes(found[0])
    notes += [f"{one.row.system}: {one.answered.describe()}" for one in found if one.answered]
    return SuiteReport(
        suite="rag",
        rows=[one.row for one in found],
        notes=notes,
        retrieval=[one.result for one in found],
        per_item={one.file: one.items for one in found},
    )


def _name(root: Path, options: RagOptions) -> str:
    """The folder's name; with the file of questions where it is not the usual one."""
    name = root.resolve().name
    return name if options.questions == root / "qa.jsonl" else f"{name}/{options.questions.name}"


def _limited(questions: QuestionSet, limit: int | None) -> tuple[QuestionSet, list[str]]:
    """The first questions, and what a reader must know of those left out."""
    notes = []
    if questions.unanswered:
        notes.append(f"{questions.unanswered:,} questions state no answer and were left out.")
    if limit is not None and limit < len(questions):
        notes.append(f"only the first {limit:,} of {len(questions):,} questions were asked.")
        questions = QuestionSet(
            questions.ids[:limit],
            questions.questions[:limit],
            questions.answers[:limit],
            questions.source,
            questions.unanswered,
        )
    return questions, notes


def _ranked(
    model: hub.Model, score: Score, benchmark: Benchmark, k: int, settings: SuiteSettings
) -> tuple[Ranking, dict[str, dict[str, float]]]:
    """The model's ranking, and the lengths of its embeddings."""
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    with progress_bar(benchmark.name) as progress:
        embeddings = embed_benchmark(
            model.encoder,
            preprocessor,
            benchmark,
            tokens_per_batch=settings.tokens_per_batch,
            progress=progress,
        )
    ranking = search(
        embeddings["query"],
        embeddings["document"],
        score=score,
        k=k,
        query_ids=benchmark.query_ids,
        document_ids=benchmark.document_ids,
    )
    _log.info(preprocessor.describe())
    return ranking, {str(side): norm_statistics(values) for side, values in embeddings.items()}


@dataclasses.dataclass(frozen=True)
class _Measured:
    """One system's part of the report."""

    row: SuiteRow
    result: RetrievalResult
    items: list[dict[str, Any]]
    answered: Answered | None

    @property
    def file(self) -> str:
        """What the items' file is called."""
        system = self.row.system
        return self.row.name if system == "model" else f"{self.row.name}.{system}"


class _Task:
    """Questions and passages that every ranking is measured on."""

    def __init__(
        self, name: str, questions: QuestionSet, passages: Passages, options: RagOptions, seed: int
    ):
        self.benchmark = Benchmark(
            name, questions.ids, questions.questions, passages.ids, passages.documents, {}
        )
        self._questions = questions
        self._answers = questions.answers_of
        self._passages = passages
        self._options = options
        self._seed = seed
        searched = self.benchmark.documents if options.search_titles else passages.texts
        self._texts = dict(zip(passages.ids, searched, strict=True))

    def measure(
        self,
        system: str,
        ranking: Ranking,
        generator: Generator | None,
        *,
        score: Score | None = None,
        norms: dict[str, dict[str, float]] | None = None,
    ) -> _Measured:
        """Answer recall of a ranking, and what a generator makes of its first passages."""
        recall = answer_recall(
            ranking, self._texts, self._answers, self._options.depths, matches=MATCHES
        )
        fingerprint = f"{self.benchmark.fingerprint}-{self._questions.fingerprint}"
        result = RetrievalResult(
            domain=self.benchmark.name,
            system=system,
            evaluation=recall,
            ranking=ranking,
            k=self._options.k,
            queries=len(self._questions),
            documents=len(self._passages),
            fingerprint=fingerprint,
            score=score,
            norms=norms,
        )
        counts = {
            "questions": len(self._questions),
            "searchable": recall.counts["queries"],
            "passages": len(self._passages),
        }
        answered = None
        if generator is not None:
            answered = generator.answer(self._questions, self._passages, ranking)
            counts["answered"] = len(answered.generated.completions)
            counts["failed"] = len(answered.generated.failures)
        measures = [recall] if answered is None else [recall, answered.quality]
        row = SuiteRow(
            name=self.benchmark.name,
            system=system,
            values={name: value for one in measures for name, value in one.mean.items()},
            intervals={name: ends for one in measures for name, ends in self._ends(one).items()},
            counts=counts,
            fingerprint=fingerprint,
            score=score,
            details={
                "yes_no": recall.counts["yes_no"],
                "k": self._options.k,
                "generation": None if answered is None else answered.to_json(),
            },
        )
        return _Measured(row, result, self._items(ranking, answered), answered)

    def _ends(self, evaluation: Evaluation) -> dict[str, tuple[float, float]]:
        """By bootstrap over questions; SQuAD's way of matching goes without, for the width."""
        ends = {}
        for metric in evaluation.mean:
            values = [row[metric] for row in evaluation.per_query.values()]
            interval = bootstrap_interval(np.mean, values, seed=self._seed)
            if interval.low is not None and interval.high is not None and "squad" not in metric:
                ends[metric] = (interval.low, interval.high)
        return ends

    def _items(self, ranking: Ranking, answered: Answered | None) -> list[dict[str, Any]]:
        places = answer_ranks(ranking, self._texts, self._answers)
        items = []
        for name, question in zip(self._questions.ids, self._questions.questions, strict=True):
            yes_no = is_yes_no(self._answers[name])
            items.append(
                {
                    "question_id": name,
                    "question": question,
                    "answers": list(self._answers[name]),
                    "yes_no": yes_no,
                    "answer_rank": None if yes_no else places[name],
                    **({} if answered is None else answered.of_question(name)),
                }
            )
        return items

    def notes(self, measured: _Measured) -> list[str]:
        """How to read the figures, and what they leave out."""
        row = measured.row
        where = "title or text" if self._options.search_titles else "text (its title apart)"
        notes = [
            f"answer_recall@K: the {where} of one of the first K passages holds an alias word by "
            "word (DPR's match); answer_recall_squad@K: after SQuAD's normalization. Brackets: "
            "95 % by bootstrap over questions."
        ]
        if row.details["yes_no"]:
            notes.append(
                f"{row.details['yes_no']:,} of {row.counts['questions']:,} questions have the "
                "answer yes or no, which no passage can be searched for: answer recall is over the "
                f"other {row.counts['searchable']:,}."
            )
        return notes
