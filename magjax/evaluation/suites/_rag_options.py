"""The options of the RAG suite: what they mean, and how they are read."""

import dataclasses
from pathlib import Path

from magjax.checks import InputError, positive_integer
from magjax.evaluation.rag import (
    ANSWER_DEPTHS,
    CLOSED_BOOK_TEMPLATE,
    DEFAULT_TEMPLATE,
    GeneratorSettings,
    PromptTemplate,
    TokenPrices,
    default_cache_path,
)
from magjax.evaluation.suites._suite import SuiteSettings

__all__ = ["RAG_OPTIONS", "GeneratorOptions", "RagOptions"]

_SEARCHED = 100  # passages a question, unless k is given or a depth needs more

_RETRIEVAL_OPTIONS = {
    "corpus": "corpus file in the root (.jsonl as BEIR has it, or DPR's .tsv); corpus.jsonl",
    "questions": "file of questions and answers in the root; qa.jsonl",
    "ks": "depths of answer recall, such as 1,5,20,100",
    "search_titles": "look for answers in the title too; false, as in DPR",
    "limit": "only the first so many questions",
}
_GENERATOR_OPTIONS = {
    "model": "the generator's name at the endpoint",
    "api_key_env": "name of the environment variable that holds the key",
    "template": "file of the prompt, with the places {question} and {passages}",
    "passages": "passages shown to the generator; 5; 0 asks it without any",
    "max_tokens": "most tokens of an answer; 64",
    "temperature": "of sampling; 0",
    "send_seed": "send --seed with each request; true",
    "concurrency": "requests on their way at a time; 8",
    "timeout": "seconds of one attempt; 120",
    "attempts": "attempts of one question; 5",
    "cache": "SQLite file of answers; $MAGJAX_CACHE/answers.sqlite or ~/.cache/magjax/...",
    "offline": "answers from the cache alone; false",
    "price_prompt": "price of a million prompt tokens",
    "price_completion": "price of a million completion tokens",
}

RAG_OPTIONS: dict[str, str] = {
    **_RETRIEVAL_OPTIONS,
    "endpoint": "OpenAI-compatible generator, such as http://localhost:8000/v1; none: no generator",
    **_GENERATOR_OPTIONS,
}
"""What ``--option=NAME=VALUE`` may name, with the meaning and the default of each."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """The generator's part of the options."""

    settings: GeneratorSettings
    template: PromptTemplate
    passages: int
    cache: Path
    offline: bool
    prices: TokenPrices | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RagOptions:
    """All options, checked against each other."""

    corpus: Path
    questions: Path
    depths: tuple[int, ...]
    k: int
    search_titles: bool
    limit: int | None
    generator: GeneratorOptions | None

    @classmethod
    def read(cls, root: Path, settings: SuiteSettings) -> "RagOptions":
        """Reads ``settings.options``; files are looked for in ``root``.

        Raises:
            InputError: a value that cannot be used, more passages or depth than ``k``, or an
                option of the generator without an endpoint.
        """
        generator = _generator(root, settings)
        depths = _depths(settings)
        k = max(_SEARCHED, *depths) if settings.k is None else settings.k
        if generator is not None and generator.passages > k:
            raise InputError(
                f"passages={generator.passages} are to be shown, but k={k} are searched for; set "
                f"k to {generator.passages} or more."
            )
        limit = settings.option("limit", 0)
        return cls(
            corpus=root / settings.option("corpus", "corpus.jsonl"),
            questions=root / settings.option("questions", "qa.jsonl"),
            depths=depths,
            k=k,
            search_titles=settings.option("search_titles", False),
            limit=positive_integer("limit", limit) if "limit" in settings.options else None,
            generator=generator,
        )


def _depths(settings: SuiteSettings) -> tuple[int, ...]:
    if "ks" not in settings.options:
        return tuple(depth for depth in ANSWER_DEPTHS if depth <= (settings.k or _SEARCHED))
    text = settings.options["ks"]
    if not all(part.strip().isdecimal() and int(part) for part in text.split(",")):
        raise InputError(f"--option=ks={text}: whole numbers of at least 1 were needed: 1,5,20.")
    depths = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    if settings.k is not None and max(depths) > settings.k:
        raise InputError(
            f"--option=ks={text} looks at {max(depths)} passages, but k={settings.k} are searched "
            f"for; set k to {max(depths)} or more."
        )
    return depths


def _generator(root: Path, settings: SuiteSettings) -> GeneratorOptions | None:
    option = settings.option
    if "endpoint" not in settings.options:
        for name in settings.options:
            if name in _GENERATOR_OPTIONS:
                raise InputError(
                    f"--option={name} belongs to a generator; name one by --option=endpoint=URL."
                )
        return None
    passages = option("passages", 5)
    if passages < 0:
        raise InputError(f"--option=passages={passages} must be at least 0.")
    if "template" in settings.options:
        template = PromptTemplate.read(root / settings.options["template"], passages=passages)
    else:
        text = DEFAULT_TEMPLATE if passages else CLOSED_BOOK_TEMPLATE
        template = PromptTemplate(text, passages=passages)
    named = [name for name in ("price_prompt", "price_completion") if name in settings.options]
    if len(named) == 1:
        raise InputError(f"--option={named[0]} needs the other price too; name both, or none.")
    return GeneratorOptions(
        settings=GeneratorSettings(
            endpoint=settings.options["endpoint"],
            model=option("model", ""),
            api_key_env=settings.options.get("api_key_env"),
            max_tokens=option("max_tokens", 64),
            temperature=option("temperature", 0.0),
            seed=settings.seed if option("send_seed", True) else None,
            concurrency=option("concurrency", 8),
            timeout=option("timeout", 120.0),
            attempts=option("attempts", 5),
        ),
        template=template,
        passages=passages,
        cache=Path(settings.options.get("cache") or default_cache_path()).expanduser(),
        offline=option("offline", False),
        prices=TokenPrices(option("price_prompt", 0.0), option("price_completion", 0.0))
        if named
        else None,
    )
