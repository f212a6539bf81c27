"""A claim that a study tests: the best of some systems beats the best of others."""

import dataclasses
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from magjax.checks import InputError, choose
from magjax.config import check_keys, study_claim
from magjax.similarity import PRESETS

__all__ = ["Claim"]


@dataclasses.dataclass(frozen=True)
class Claim:
    """As :func:`magjax.config.study_claim` writes it, with all names filled in.

    Attributes:
        text: in words.
        better: systems of which the best is compared.
        than: systems of which the best must be beaten.
        domain: ``in``, ``out``, ``all`` or a test's name.
        metric: of the per-item values.
        margin: the difference that must be exceeded.
        tasks: names of tasks.
        starts: names of starts.
        inside: the study's tests in domain; empty for the first of each task.

    >>> Claim("t", ("qnorm",), ("cosine",), "in", "ndcg@10", 0.0, ("code",), ("random",)).domain
    'in'
    """

    text: str
    better: tuple[str, ...]
    than: tuple[str, ...]
    domain: str
    metric: str
    margin: float
    tasks: tuple[str, ...]
    starts: tuple[str, ...]
    inside: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Any, config: Mapping[str, Any], number: int = 0) -> "Claim":
        """Reads a claim of a study's config.

        Args:
            value: what :func:`magjax.config.study_claim` made.
            config: the study's config, in JSON form.
            number: place among the claims, for messages.

        Raises:
            InputError: an unknown key, system, metric, task or start, or no system on one side.
        """
        where = f"claims[{number}]"
        if not isinstance(value, Mapping):
            raise InputError(f"{where} is {value!r}; make it by magjax.config.study_claim.")
        check_keys(value, study_claim("", better=(), than=()), f"{where}.")
        for key in ("better", "than", "tasks", "starts"):
            if not isinstance(value[key], list) or len(set(value[key])) != len(value[key]):
                raise InputError(f"{where}.{key}={value[key]!r} must list names, each once.")
        systems = list(config["variants"])
        if config["lexical"]:
            systems.append("bm25")
        if config["untrained"]:
            systems += [f"untrained {preset}" for preset in PRESETS]
        for key in ("better", "than"):
            if not value[key]:
                raise InputError(f"{where}.{key} is empty; name at least one system.")
            for system in value[key]:
                choose(f"system in {where}.{key}", system, systems)
        both = [system for system in value["better"] if system in value["than"]]
        if both:
            raise InputError(f"{where} compares {both[0]!r} with itself; name it on one side.")
        for key in ("tasks", "starts"):
            for name in value[key]:
                choose(f"name in {where}.{key}", name, config[key])
        margin, text = value["margin"], value["text"]
        if isinstance(margin, bool) or not isinstance(margin, Real) or not math.isfinite(margin):
            raise InputError(f"{where}.margin={margin!r} must be a finite number.")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{where}.text={text!r} must say the claim in words.")
        metric = value["metric"] or config["metrics"][0]
        return cls(
            text=text,
            better=tuple(value["better"]),
            than=tuple(value["than"]),
            domain=str(value["domain"]),
            metric=choose(f"metric in {where}", metric, config["metrics"]),
            margin=float(margin),
            tasks=tuple(value["tasks"] or config["tasks"]),
            starts=tuple(value["starts"] or config["starts"]),
            inside=tuple(config["in_domain"]),
        )
