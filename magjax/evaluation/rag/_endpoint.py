"""A chat endpoint: asked politely, answered once, its errors told apart."""

import dataclasses
import json
import logging
import random
import threading
from typing import Any, NoReturn

from magjax.checks import RunError
from magjax.evaluation.rag._http import Reply, Unreachable, exchange, retry_after
from magjax.evaluation.rag._settings import GeneratorSettings

__all__ = ["ChatEndpoint", "Completion", "QuestionError"]

_log = logging.getLogger(__name__)

_PASSING = (408, 425, 429)  # beside 5xx: what another attempt may mend
_OF_THE_QUESTION = (400, 413, 422)  # too long, filtered, ...: other questions may do
_NO_SUCH_PATH = (404, 405, 501)
_LONGEST_BACKOFF = 30.0
_SHOWN = 300  # characters of a server's words in a message


class QuestionError(Exception):
    """One question got no answer; others may.

    Args:
        reason: the server's words, or what broke.
        refused: whether the server refuses this question, however often it is asked.

    >>> QuestionError("HTTP 400: the prompt is too long", refused=True).refused
    True
    """

    def __init__(self, reason: str, *, refused: bool = False):
        super().__init__(reason)
        self.refused = refused


@dataclasses.dataclass(frozen=True)
class Completion:
    """One answer of a generator.

    Args:
        answer: the text, white space at its ends dropped; empty where the server sent null.
        finish_reason: ``"stop"``, ``"length"`` where the answer was cut, ...; None if not said.
        prompt_tokens: as the server counted them; None if it did not.
        completion_tokens: likewise.

    >>> Completion("Jane Austen", "stop", 20, 3).answer
    'Jane Austen'
    """

    answer: str
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ChatEndpoint:
    """Asks chat completions of one endpoint; safe to use from several threads.

    The key is read from the environment here and sent in the header ``Authorization`` to this host
    alone: redirects are errors, proxies are not used. It is cut out of what the server says.

    Args:
        settings: where and how to ask.

    Attributes:
        requests: HTTP requests for answers that were sent, attempts included.

    Raises:
        InputError: the environment variable of the key is not set.

    >>> endpoint = ChatEndpoint(GeneratorSettings(endpoint="http://localhost:9/v1", model="tiny"))
    >>> endpoint.check()
    Traceback (most recent call last):
        ...
    magjax.checks.RunError: the generator's endpoint http://localhost:9/v1 gave no answer: connection refused; start the server, or correct the endpoint.
    """

    def __init__(self, settings: GeneratorSettings):
        self.settings = settings
        self.requests = 0
        self._key = settings.api_key()
        self._lock = threading.Lock()
        self._random = random.Random()

    def check(self) -> None:
        """Asks for the list of models (or, where there is none, for one token) before work begins.

        Nothing is tried twice. A server that is up but busy (429) passes; a model that is not
        listed is said in the log, since some servers answer to any name.

        Raises:
            RunError: the endpoint is down, refuses the key, or is no such endpoint.
        """
        where = f"the generator's endpoint {self.settings.endpoint}"
        try:
            reply = self._send("GET", "/models", None)
            if reply.status in _NO_SUCH_PATH:
                probe = self.settings.request("Reply with one word.") | {"max_tokens": 1}
                reply = self._send("POST", "/chat/completions", probe)
                if reply.status == 200:
                    self._completion(reply)
                    return
        except Unreachable as error:
            raise RunError(
                f"{where} gave no answer: {error}; start the server, or correct the endpoint."
            ) from error
        if reply.status == 429:
            return
        if reply.status != 200:
            self._refuse(reply)
        known = self._object(reply).get("data")
        if not isinstance(known, list):
            raise RunError(
                f"{where} answered {self._shown(reply)} where a list of models was needed; is it "
                "OpenAI-compatible, and does the address end in /v1?"
            )
        names = [entry.get("id") for entry in known if isinstance(entry, dict)]
        if self.settings.model not in names:
            listed = ", ".join(map(str, names[:10])) or "none"
            _log.warning(
                "%s does not list model %r; it lists %s.", where, self.settings.model, listed
            )

    def complete(self, prompt: str, stop: threading.Event | None = None) -> Completion:
        """The answer to one prompt; errors that may pass are tried again after a pause.

        Args:
            prompt: the user's message.
            stop: when it is set, no further attempt is made.

        Raises:
            QuestionError: no attempt had an answer, or the server refuses this prompt.
            RunError: the endpoint refuses all prompts (key, model, address), or what it answers is
                no chat completion.
        """
        stop = stop or threading.Event()
        body = self.settings.request(prompt)
        for attempt in range(1, self.settings.attempts + 1):
            asked_to_wait = None
            try:
                with self._lock:
                    self.requests += 1
                reply = self._send("POST", "/chat/completions", body)
            except Unreachable as error:
                if not error.passing:
                    raise RunError(
                        f"the generator's endpoint {self.settings.endpoint} cannot be used: {error}."
                    ) from error
                problem = str(error)
            else:
                if reply.status == 200:
                    return self._completion(reply)
                if reply.status in _OF_THE_QUESTION:
                    raise QuestionError(f"HTTP {reply.status}: {self._words(reply)}", refused=True)
                if reply.status not in _PASSING and reply.status < 500:
                    self._refuse(reply)
                problem = f"HTTP {reply.status}: {self._words(reply)}"
                asked_to_wait = retry_after(reply.headers)
            if asked_to_wait is not None and asked_to_wait > self.settings.longest_wait:
                raise QuestionError(
                    f"{problem}; the server asks to wait {asked_to_wait:.0f} s, longer than "
                    f"{self.settings.longest_wait:g} s"
                )
            if attempt == self.settings.attempts or stop.wait(
                max(self._pause(attempt), asked_to_wait or 0.0)
            ):
                break
        raise QuestionError(f"{problem} (attempt {attempt} of {self.settings.attempts})")

    def _pause(self, attempt: int) -> float:
        longest = min(_LONGEST_BACKOFF, self.settings.backoff * 2.0 ** (attempt - 1))
        return longest * self._random.uniform(0.5, 1.0)

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> Reply:
        headers = {"Accept": "application/json", "User-Agent": "magjax", "Connection": "close"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        address = self.settings.endpoint + path
        return exchange(method, address, headers, content, self.settings.timeout)

    def _refuse(self, reply: Reply) -> NoReturn:
        where = f"the generator's endpoint {self.settings.endpoint}"
        if 300 <= reply.status < 400:
            target = self._cut(reply.headers.get("location", "elsewhere"))
            raise RunError(
                f"{where} redirects to {target} (HTTP {reply.status}), where the key is not sent; "
                "name that endpoint if you trust it."
            )
        remedy = {
            401: "check the key (api_key_env)",
            403: "check the key (api_key_env)",
            404: "check the model's name, and that the address ends in /v1",
        }.get(reply.status, "correct the request, or look at the server's log")
        raise RunError(f"{where} answered HTTP {reply.status}: {self._words(reply)}; {remedy}.")

    def _completion(self, reply: Reply) -> Completion:
        content = self._object(reply)
        try:
            choice = content["choices"][0]
            answer = choice["message"]["content"]
        except (KeyError, IndexError, TypeError) as error:
            self._garbage(reply, f"choices[0].message.content is missing ({error!r})")
        if not isinstance(answer, str | None):
            self._garbage(reply, f"choices[0].message.content is {type(answer).__name__}, no text")
        usage = content.get("usage")
        counts = [
            usage.get(name) if isinstance(usage, dict) else None
            for name in ("prompt_tokens", "completion_tokens")
        ]
        prompt_tokens, completion_tokens = (
            count if isinstance(count, int) and not isinstance(count, bool) else None
            for count in counts
        )
        reason = choice.get("finish_reason")
        return Completion(
            # JSON may hold half a surrogate pair, which no UTF-8 file can.
            (answer or "").encode("utf-8", "replace").decode().strip(),
            reason if isinstance(reason, str) else None,
            prompt_tokens,
            completion_tokens,
        )

    def _object(self, reply: Reply) -> dict[str, Any]:
        try:
            content = json.loads(reply.body)
        except (ValueError, RecursionError):
            self._garbage(reply, "no JSON")
        if not isinstance(content, dict):
            self._garbage(reply, f"{type(content).__name__} where an object was needed")
        return content

    def _garbage(self, reply: Reply, problem: str) -> NoReturn:
        raise RunError(
            f"the generator's endpoint {self.settings.endpoint} answered {self._shown(reply)}: "
            f"{problem}; is it OpenAI-compatible, and does the address end in /v1?"
        )

    def _words(self, reply: Reply) -> str:
        """What the server says of an error, in the usual places of its JSON, or as it is."""
        try:
            content = json.loads(reply.body)
        except (ValueError, RecursionError):
            return self._shown(reply)
        for name in ("error", "message", "detail"):
            if isinstance(content, dict) and name in content:
                content = content[name]
        return self._cut(content if isinstance(content, str) else json.dumps(content))

    def _shown(self, reply: Reply) -> str:
        return repr(self._cut(reply.body.decode("utf-8", "replace"))) if reply.body else "nothing"

    def _cut(self, text: str) -> str:
        if self._key is not None:
            text = text.replace(self._key, "[key]")
        text = " ".join(text.split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
