"""The generator of the RAG suite: prompts from rankings, answers, and what they took."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from magjax.data import Passages, QuestionSet
from magjax.evaluation._metrics import Evaluation
from magjax.evaluation._ranking import Ranking
from magjax.evaluation.rag import (
    AnswerCache,
    ChatEndpoint,
    GeneratedAnswers,
    evaluate_answers,
    generate_answers,
)
from magjax.evaluation.suites._rag_options import GeneratorOptions

__all__ = ["Answered", "Generator"]

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Answered:
    """What a generator made of one ranking."""

    generated: GeneratedAnswers
    quality: Evaluation
    options: GeneratorOptions

    def describe(self) -> str:
        """A sentence or two: how many answers, from where, at what cost."""
        return f"{self.options.settings.model}: {self.generated.describe(self.options.prices)}"

    def to_json(self) -> dict[str, Any]:
        """How it was asked, and the counts, as JSON values."""
        settings = self.options.settings
        return {
            "endpoint": settings.endpoint,
            "request": {
                name: value for name, value in settings.request("").items() if name != "messages"
            },
            "template": self.options.template.text,
            "passages": self.options.passages,
            "cache": str(self.options.cache),
            **self.generated.to_json(self.options.prices),
        }

    def of_question(self, name: str) -> dict[str, Any]:
        """One question's answer with its measures, or why it has none."""
        if name in self.generated.failures:
            return {"failure": self.generated.failures[name]}
        return {"generated": self.generated.answers[name], **self.quality.per_query[name]}


class Generator:
    """An endpoint that was tried before anything is computed, with the cache of its answers.

    Raises:
        InputError: the key's variable is not set, or the cache cannot be used.
        RunError: the endpoint is down, refuses, or is no such endpoint.
    """

    def __init__(self, options: GeneratorOptions):
        self._options = options
        self._endpoint = None
        if not options.offline:
            self._endpoint = ChatEndpoint(options.settings)
            self._endpoint.check()
        self._cache = AnswerCache(options.cache)

    def answer(self, questions: QuestionSet, passages: Passages, ranking: Ranking) -> Answered:
        """Answers all questions from their first passages, and measures the answers."""
        options = self._options
        prompts = {}
        for name, question, rows in zip(
            questions.ids, questions.questions, ranking.rows, strict=True
        ):
            shown = [(passages.titles[row], passages.texts[row]) for row in rows]
            prompts[name] = options.template.fill(question, shown[: options.passages])
        generated = generate_answers(
            prompts,
            options.settings,
            cache=self._cache,
            endpoint=self._endpoint,
            offline=options.offline,
            progress=_tenths(),
        )
        quality = evaluate_answers(generated.answers, questions.answers_of)
        return Answered(generated, quality, options)

    def close(self) -> None:
        """Closes the cache."""
        self._cache.close()


def _tenths() -> Callable[[int, int], None]:
    """Says in the log whenever a further tenth is done."""
    said = 0

    def progress(done: int, total: int) -> None:
        nonlocal said
        if 10 * done // total > said:
            said = 10 * done // total
            _log.info("generator: %d of %d questions", done, total)

    return progress
