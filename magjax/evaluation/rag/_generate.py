"""Answers to many prompts: the cache first, then the endpoint, a few at a time."""

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from magjax.checks import InputError, RunError
from magjax.evaluation._metrics import Evaluation
from magjax.evaluation.rag._answer_cache import AnswerCache
from magjax.evaluation.rag._answer_match import exact_match, token_f1
from magjax.evaluation.rag._endpoint import ChatEndpoint, Completion, QuestionError
from magjax.evaluation.rag._settings import GeneratorSettings, request_key

__all__ = ["GeneratedAnswers", "TokenPrices", "evaluate_answers", "generate_answers"]

_log = logging.getLogger(__name__)

_LISTED = 5  # failed questions named in a message


@dataclasses.dataclass(frozen=True)
class TokenPrices:
    """What a million tokens cost, in any currency.

    >>> TokenPrices(prompt=2.0, completion=8.0).cost(500_000, 250_000)
    3.0
    """

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        for name in ("prompt", "completion"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise InputError(f"the price of {name} tokens must be a number of at least 0.")

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of so many tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclasses.dataclass(frozen=True)
class GeneratedAnswers:
    """What a generator answered, what it did not, and what that took.

    Args:
        completions: by question id.
        failures: by question id, why there is no answer.
        asked: answers that came from the endpoint in this run.
        cached: answers that an earlier run had kept.
        requests: HTTP requests sent, further attempts included.
        prompt_tokens: of the answers asked in this run, as the server counted them. Attempts that
            failed may have cost more.
        completion_tokens: likewise.
        uncounted: answers asked in this run for which the server stated no usage.

    >>> GeneratedAnswers({"q": Completion("Jane Austen")}, {}, asked=1).answers
    {'q': 'Jane Austen'}
    """

    completions: Mapping[str, Completion]
    failures: Mapping[str, str]
    asked: int = 0
    cached: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0

    @property
    def answers(self) -> dict[str, str]:
        """The answers' texts by question id."""
        return {name: found.answer for name, found in self.completions.items()}

    @property
    def cut(self) -> int:
        """Answers that ended at ``max_tokens``."""
        return sum(found.finish_reason == "length" for found in self.completions.values())

    def to_json(self, prices: TokenPrices | None = None) -> dict[str, Any]:
        """The counts and the failures as JSON values; with ``prices`` also this run's cost."""
        names = ("asked", "cached", "requests", "prompt_tokens", "completion_tokens", "uncounted")
        return {
            "answered": len(self.completions),
            "failed": len(self.failures),
            **{name: getattr(self, name) for name in names},
            "cut": self.cut,
            "cost": None
            if prices is None
            else prices.cost(self.prompt_tokens, self.completion_tokens),
            "failures": dict(self.failures),
        }

    def describe(self, prices: TokenPrices | None = None) -> str:
        """The same in a sentence or two, without the failures' reasons but the first.

        >>> GeneratedAnswers({"q": Completion("Jane Austen")}, {}, cached=1).describe()
        '1 answer (0 asked, 1 from the cache); 0 requests, 0 prompt and 0 completion tokens.'
        """
        count = len(self.completions)
        text = (
            f"{count:,} answer{'' if count == 1 else 's'} ({self.asked:,} asked, {self.cached:,} "
            f"from the cache); {self.requests:,} requests, {self.prompt_tokens:,} prompt and "
            f"{self.completion_tokens:,} completion tokens"
        )
        if prices is not None:
            cost = prices.cost(self.prompt_tokens, self.completion_tokens)
            text += f", cost {cost:.4f}"
        text += "."
        if self.uncounted:
            text += f" The server stated no usage of {self.uncounted:,}."
        if self.cut:
            text += f" {self.cut:,} ended at max_tokens."
        if self.failures:
            names = list(self.failures)
            more = ", ..." if len(names) > _LISTED else ""
            text += (
                f" {len(names):,} failed and are left out: {', '.join(names[:_LISTED])}{more} "
                f"(the first: {self.failures[names[0]]})."
            )
        return text


def generate_answers(
    prompts: Mapping[str, str],
    settings: GeneratorSettings,
    *,
    cache: AnswerCache,
    endpoint: ChatEndpoint | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> GeneratedAnswers:
    """Answers every prompt, from the cache where it can.

    Equal prompts are asked once. Each answer is kept as it comes, so that a run that was killed
    asks only for the rest when it is run again.

    Args:
        prompts: by question id.
        settings: where and how to ask.
        cache: of answers.
        endpoint: an open one; default: one is opened if a question is to be asked.
        offline: ask nothing; an answer that the cache lacks is an error.
        progress: called with (prompts done, prompts in all).

    Returns:
        answers and failures: each question of ``prompts`` is in one of the two.

    Raises:
        InputError: ``offline`` and an answer is missing.
        RunError: the endpoint refuses, answers garbage, or ``give_up_after`` questions failed one
            after the other.

    >>> import tempfile
    >>> settings = GeneratorSettings(endpoint="http://localhost:9/v1", model="tiny")
    >>> with AnswerCache(tempfile.mkdtemp() + "/answers.sqlite") as cache:
    ...     _ = cache.put(settings.request("who?"), Completion("Jane Austen"))
    ...     generate_answers({"q": "who?"}, settings, cache=cache, offline=True).answers
    {'q': 'Jane Austen'}
    """
    names: dict[str, list[str]] = {}
    for name, prompt in prompts.items():
        names.setdefault(prompt, []).append(name)
    keys = {prompt: request_key(settings.request(prompt)) for prompt in names}
    kept = cache.find(keys.values())
    found = {prompt: kept[key] for prompt, key in keys.items() if key in kept}
    missing = [prompt for prompt in names if prompt not in found]
    cached = sum(len(names[prompt]) for prompt in found)
    if missing and offline:
        raise InputError(
            f"{cache.path} lacks the answers to {len(missing)} of {len(names)} prompts, and "
            "offline=true asks none; run once without it, with the same model and settings."
        )
    failed: dict[str, str] = {}
    requests = 0
    if missing:
        endpoint = endpoint or ChatEndpoint(settings)
        before = endpoint.requests
        asked = _ask(missing, endpoint, cache, progress, len(names) - len(missing))
        found |= {prompt: value for prompt, value in asked.items() if isinstance(value, Completion)}
        failed = {prompt: value for prompt, value in asked.items() if isinstance(value, str)}
        requests = endpoint.requests - before
    new = [found[prompt] for prompt in missing if prompt in found]
    return GeneratedAnswers(
        completions={n: found[prompt] for n, prompt in prompts.items() if prompt in found},
        failures={n: failed[prompt] for n, prompt in prompts.items() if prompt in failed},
        asked=len(prompts) - cached - sum(len(names[prompt]) for prompt in failed),
        cached=cached,
        requests=requests,
        prompt_tokens=sum(c.prompt_tokens or 0 for c in new),
        completion_tokens=sum(c.completion_tokens or 0 for c in new),
        uncounted=sum(None in (c.prompt_tokens, c.completion_tokens) for c in new),
    )


def _ask(
    prompts: Sequence[str],
    endpoint: ChatEndpoint,
    cache: AnswerCache,
    progress: Callable[[int, int], None] | None,
    done: int,
) -> dict[str, Completion | str]:
    """A completion or the reason for none, by prompt."""
    settings = endpoint.settings
    stop = threading.Event()
    results: dict[str, Completion | str] = {}
    answered, in_a_row = done > 0, 0

    def answer(prompt: str) -> Completion:
        return cache.put(settings.request(prompt), endpoint.complete(prompt, stop))

    pool = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="generator")
    try:
        futures: dict[Future[Completion], str] = {pool.submit(answer, p): p for p in prompts}
        for future in as_completed(futures):
            prompt = futures[future]
            try:
                results[prompt] = future.result()
                answered, in_a_row = True, 0
            except QuestionError as error:
                results[prompt] = str(error)
                # Where others are answered, a refusal is the question's own fault: a run that was
                # taken up again may have only such questions left, and must come to its end.
                in_a_row += not (error.refused and answered)
            nothing = not answered and len(results) == len(prompts)
            if in_a_row >= settings.give_up_after or nothing:
                raise RunError(
                    f"the generator's endpoint {settings.endpoint} gave no answer to "
                    f"{in_a_row} questions in a row (the last: {results[prompt]}); mend it and run "
                    f"again: answers so far are kept in {cache.path}."
                )
            if progress is not None:
                progress(done + len(results), done + len(prompts))
    finally:
        # What is on its way was paid for: it ends, and is kept. Pauses end at once.
        stop.set()
        pool.shutdown(cancel_futures=True)
    return results


def evaluate_answers(
    generated: Mapping[str, str], answers: Mapping[str, Sequence[str]]
) -> Evaluation:
    """Exact match and token F1 of generated answers, over the questions that have one.

    Args:
        generated: by question id, the generator's text.
        answers: by question id, the aliases of the right answer.

    Returns:
        ``exact_match`` and ``f1`` in [0, 1], as :func:`exact_match` and :func:`token_f1` define
        them; ``counts`` has ``queries`` that the means are over, ``missing`` questions without a
        generated answer, which they leave out, and ``unjudged`` ones that have no right answer.

    Raises:
        InputError: no question has both.

    >>> found = evaluate_answers({"q": "Austen"}, {"q": ["Jane Austen"], "r": ["Emma"]})
    >>> found.counts["queries"], round(found.mean["f1"], 3)
    (1, 0.667)
    """
    asked = [name for name in answers if name in generated]
    if not asked:
        raise InputError(
            f"none of the {len(answers)} questions has a generated answer to be measured."
        )
    per_query = {
        name: {
            "exact_match": exact_match(generated[name], answers[name]),
            "f1": token_f1(generated[name], answers[name]),
        }
        for name in asked
    }
    return Evaluation(
        mean={
            metric: sum(row[metric] for row in per_query.values()) / len(asked)
            for metric in ("exact_match", "f1")
        },
        per_query=per_query,
        counts={
            "queries": len(asked),
            "missing": len(answers) - len(asked),
            "unjudged": len(generated.keys() - answers.keys()),
        },
    )
