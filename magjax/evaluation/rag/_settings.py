"""Which generator to ask, and how."""

import dataclasses
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from magjax.checks import InputError, positive_integer, positive_number

__all__ = ["GeneratorSettings", "request_key"]

_log = logging.getLogger(__name__)

_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeneratorSettings:
    """A generator behind an OpenAI-compatible HTTP endpoint, and how it is asked.

    The key itself is no setting: it is read from the environment when the endpoint is opened, sent
    in one header, and stands in no message, file or cache.

    Args:
        endpoint: the API's root, such as ``http://localhost:8000/v1``; ``/chat/completions`` is
            put behind it.
        model: the name that the endpoint knows it by.
        api_key_env: the name of the environment variable that holds the key; None: no key is sent.
        max_tokens: most tokens of an answer.
        temperature: of sampling; 0 for the most likely answer.
        seed: sent with each request; None: not sent, for servers that refuse it.
        concurrency: requests on their way at a time.
        timeout: seconds that one attempt may take.
        attempts: of one question, on errors that may pass: 408, 425, 429, 5xx, time-outs, broken
            connections.
        backoff: seconds before the second attempt; doubled for each further one up to 30, times a
            random factor from 0.5 to 1. A ``Retry-After`` that asks for more is followed.
        longest_wait: seconds of a ``Retry-After`` beyond which the question is given up.
        give_up_after: questions that fail one after the other before the run stops.

    Raises:
        InputError: an endpoint that is no http(s) address or holds a password, query or fragment,
            an empty model, a name that no environment variable can have, or a number out of range.

    >>> settings = GeneratorSettings(endpoint="http://localhost:8000/v1/", model="tiny")
    >>> settings.endpoint, settings.request("who?")["messages"]
    ('http://localhost:8000/v1', [{'role': 'user', 'content': 'who?'}])
    """

    endpoint: str
    model: str
    api_key_env: str | None = None
    max_tokens: int = 64
    temperature: float = 0.0
    seed: int | None = 0
    concurrency: int = 8
    timeout: float = 120.0
    attempts: int = 5
    backoff: float = 0.5
    longest_wait: float = 300.0
    give_up_after: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint", _checked_endpoint(self.endpoint))
        if not self.model.strip():
            raise InputError("the generator's model is missing; name one that the endpoint serves.")
        # The value is never shown: somebody may have written the key itself.
        if self.api_key_env is not None and not re.fullmatch("[A-Za-z_]\\w*", self.api_key_env):
            raise InputError(
                "api_key_env must be the name of an environment variable, such as OPENAI_API_KEY, "
                "never the key itself."
            )
        for name in ("max_tokens", "concurrency", "attempts", "give_up_after"):
            positive_integer(name, getattr(self, name))
        for name in ("timeout", "backoff", "longest_wait"):
            positive_number(name, getattr(self, name))
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError(f"temperature={self.temperature!r} must be a number of at least 0.")

    def request(self, prompt: str) -> dict[str, Any]:
        """The body of one chat completion: all that the answer depends on."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        if self.seed is not None:
            body["seed"] = self.seed
        return body

    def api_key(self, environment: Mapping[str, str] | None = None) -> str | None:
        """The key, from ``environment`` (default: this process's).

        Raises:
            InputError: the variable is not set, is empty, or holds what no header can.

        >>> settings = GeneratorSettings(endpoint="http://localhost/v1", model="tiny")
        >>> settings.api_key() is None
        True
        """
        if self.api_key_env is None:
            return None
        key = (os.environ if environment is None else environment).get(self.api_key_env, "").strip()
        if not key:
            raise InputError(
                f"the environment variable {self.api_key_env} is not set or empty; export the key."
            )
        if not (key.isascii() and key.isprintable()):
            raise InputError(
                f"the environment variable {self.api_key_env} holds characters that no HTTP header "
                "may have; export the key alone."
            )
        parts = urlsplit(self.endpoint)
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            _log.warning("the key travels to %s unencrypted (http).", parts.hostname)
        return key


def request_key(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request's body in one spelling: the same at every endpoint.

    >>> request_key({"model": "a", "seed": 0}) == request_key({"seed": 0, "model": "a"})
    True
    """
    spelled = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(spelled.encode("ascii")).hexdigest()


def _checked_endpoint(address: str) -> str:
    wanted = "an address such as http://localhost:8000/v1 was needed"
    if not address.isprintable():  # urlsplit would drop line breaks silently
        raise InputError(f"the endpoint holds characters that no address may have; {wanted}.")
    try:
        parts = urlsplit(address)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise InputError(f"the endpoint is no address ({error}); {wanted}.") from error
    if parts.username is not None or parts.password is not None:
        raise InputError(
            "the endpoint holds a user or a password; give the key by api_key_env, the name of an "
            "environment variable."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError(f"endpoint {address!r}: {wanted}.")
    if parts.query or parts.fragment or parts.path.rstrip("/").endswith("/chat/completions"):
        raise InputError(
            f"endpoint {parts.scheme}://{parts.netloc}{parts.path}: the API's root was needed, "
            "without /chat/completions, query or fragment."
        )
    if not parts.path.isascii() or " " in address.strip():
        raise InputError(f"endpoint {address!r} holds characters that no address may have.")
    return address.strip().rstrip("/")
