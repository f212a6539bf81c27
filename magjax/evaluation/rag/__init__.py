"""Retrieved passages to answers: answer recall, a generator over HTTP, exact match and F1."""

from magjax.evaluation.rag._answer_cache import AnswerCache, default_cache_path
from magjax.evaluation.rag._answer_match import (
    MATCHES,
    answer_tokens,
    exact_match,
    has_answer,
    is_yes_no,
    normalize_answer,
    token_f1,
)
from magjax.evaluation.rag._answer_recall import ANSWER_DEPTHS, answer_ranks, answer_recall
from magjax.evaluation.rag._endpoint import ChatEndpoint, Completion, QuestionError
from magjax.evaluation.rag._generate import (
    GeneratedAnswers,
    TokenPrices,
    evaluate_answers,
    generate_answers,
)
from magjax.evaluation.rag._prompt import CLOSED_BOOK_TEMPLATE, DEFAULT_TEMPLATE, PromptTemplate
from magjax.evaluation.rag._settings import GeneratorSettings

__all__ = [
    "ANSWER_DEPTHS",
    "CLOSED_BOOK_TEMPLATE",
    "DEFAULT_TEMPLATE",
    "MATCHES",
    "AnswerCache",
    "ChatEndpoint",
    "Completion",
    "GeneratedAnswers",
    "GeneratorSettings",
    "PromptTemplate",
    "QuestionError",
    "TokenPrices",
    "answer_ranks",
    "answer_recall",
    "answer_tokens",
    "default_cache_path",
    "evaluate_answers",
    "exact_match",
    "generate_answers",
    "has_answer",
    "is_yes_no",
    "normalize_answer",
    "token_f1",
]
