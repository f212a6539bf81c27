"""The routes of the encode server: what a request may say, and what is answered."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import traceback
from collections.abc import AsyncIterator
from typing import Any

import jax

from magjax import __version__
from magjax.checks import InputError, RunError, need, positive_integer, positive_number
from magjax.export._batching import BatchingEncoder
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["ServerSettings", "encode_app"]

_log = logging.getLogger(__name__)

_ROUTES = {"/encode/query": "POST", "/encode/document": "POST", "/health": "GET"}
_EXAMPLE = '{"texts": ["..."]}'
# Read, and dropped, of a body too long: a connection closed before it was sent tells nobody why.
_DRAINED = 67_108_864


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Limits of requests, and how they are batched.

    Args:
        max_batch: texts that are embedded together.
        max_wait_ms: milliseconds that a request waits for company.
        max_texts: texts of a request; more are refused with 413.
        max_characters: characters of a text; longer ones are refused with 413.
        max_body_bytes: bytes of a request's body; longer ones are refused with 413.
        max_requests: requests held at a time; further ones are refused with 503. With
            ``max_body_bytes`` it bounds the memory that requests can take.
        timeout_s: seconds from a request's headers to its answer; then 503.

    Raises:
        InputError: a limit that is no positive number.

    >>> ServerSettings(max_batch=16).max_texts
    256
    """

    max_batch: int = 64
    max_wait_ms: float | int = 5.0
    max_texts: int = 256
    max_characters: int = 20_000
    max_body_bytes: int = 8_388_608
    max_requests: int = 256
    timeout_s: float | int = 60.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "timeout_s":
                positive_number(field.name, value)
            elif field.name != "max_wait_ms":  # checked where it is used; 0 is a choice
                positive_integer(field.name, value)


def encode_app(
    batching: BatchingEncoder,
    name: str,
    score: Score,
    dim: int,
    *,
    settings: ServerSettings | None = None,
) -> Any:
    """The server as an ASGI application (starlette), to run under any ASGI server.

    ``POST /encode/query`` and ``POST /encode/document`` take ``{"texts": [...]}`` and answer with
    ``embeddings``, ``dim``, ``model``, ``score`` and ``metric`` (the inner product, which is the
    trained score). ``GET /health`` answers 200 when ready, 503 before. Every refusal is
    ``{"error": "..."}``: 400 no JSON; 404 another path; 405 another method; 408 a body that does
    not arrive; 413 too much of anything; 415 another content type; 422 JSON that says something
    else; 500 a failure here; 503 not ready, too busy or too late.

    Args:
        batching: embeds with the score's normalization; started and closed by the application.
        name: what responses call the model.
        score: the trained score.
        dim: dimensions of an embedding.
        settings: limits of requests.

    Raises:
        InputError: no starlette.

    >>> encode_app(batching, "code", Score.of("qnorm"), 384)  # doctest: +SKIP
    """
    applications = need("starlette.applications", "serve")
    routing = need("starlette.routing", "serve")
    exceptions = need("starlette.exceptions", "serve")
    disconnected = need("starlette.requests", "serve").ClientDisconnect
    JSONResponse = need("starlette.responses", "serve").JSONResponse
    settings = settings or ServerSettings()
    stated = {"model": name, "score": score.to_json(), "dim": dim, "metric": "inner product"}
    held = 0

    async def answer(request: Any, side: Side) -> Any:
        nonlocal held
        if not batching.is_ready:
            raise _Refusal(503, "the server is warming up or stopping; see /health.")
        if held >= settings.max_requests:
            raise _Refusal(
                503, f"{held} requests are held already, the limit; try again in a second."
            )
        held += 1
        texts = None
        try:
            async with asyncio.timeout(settings.timeout_s):
                texts = _texts(await _body(request, settings.max_body_bytes), settings)
                embeddings = await asyncio.wrap_future(batching.submit(texts, side))
        except TimeoutError:
            late = f"within {settings.timeout_s:g} s"
            if texts is None:
                raise _Refusal(408, f"the body did not arrive {late}.") from None
            raise _Refusal(503, f"no embeddings {late}; send less, or try again later.") from None
        except RunError:
            raise _Refusal(503, "the server is stopping.") from None
        finally:
            held -= 1
        return JSONResponse({"embeddings": embeddings.tolist(), **stated})

    def endpoint(side: Side) -> Any:
        async def encode(request: Any) -> Any:
            try:
                return await answer(request, side)
            except _Refusal as refusal:
                again = {"Retry-After": "1"} if refusal.status == 503 else None
                return JSONResponse({"error": str(refusal)}, refusal.status, again)
            except disconnected:
                return JSONResponse({"error": "the connection closed."}, 400)  # nobody reads it
            except Exception as error:  # not passed on: what logs it there would quote the text
                frames = "".join(traceback.format_tb(error.__traceback__))
                _log.error("%s while embedding\n%s", type(error).__name__, frames)
                said = str(error) if isinstance(error, InputError) else type(error).__name__
                return JSONResponse({"error": f"the texts could not be embedded: {said}"}, 500)

        return encode

    async def health(request: Any) -> Any:
        failure = batching.prepared.exception() if batching.prepared.done() else None
        content = {
            "ready": batching.is_ready,
            **stated,
            "versions": {"magjax": __version__, "jax": jax.__version__},
            "encoded": dataclasses.asdict(batching.counts),
        }
        if failure is not None:
            content["error"] = f"the warm-up failed: {failure}"
        return JSONResponse(content, 200 if content["ready"] else 503)

    async def refused(request: Any, error: Any) -> Any:
        path, method = request.url.path, request.method
        if error.status_code == 405:
            message = f"{path} answers {_ROUTES.get(path)}, not {method}."
        elif error.status_code == 404:
            known = ", ".join(f"{method} {path}" for path, method in _ROUTES.items())
            message = f"there is no {path!r} here; there are {known}."
        else:
            message = str(error.detail)
        return JSONResponse({"error": message}, error.status_code, error.headers)

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        batching.start()
        try:
            yield
        finally:
            await asyncio.to_thread(batching.close)

    app = applications.Starlette(
        routes=[
            routing.Route("/encode/query", endpoint("query"), methods=["POST"]),
            routing.Route("/encode/document", endpoint("document"), methods=["POST"]),
            routing.Route("/health", health, methods=["GET"]),
        ],
        exception_handlers={exceptions.HTTPException: refused},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class _Refusal(Exception):
    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


async def _body(request: Any, limit: int) -> bytes:
    """The body of a JSON request, never more of it in memory than the limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Refusal(
            415, f"Content-Type is {kind or 'missing'}; send application/json: {_EXAMPLE}."
        )
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        elif size > limit + _DRAINED:
            break
    if size > limit:
        raise _Refusal(413, f"the body is longer than {limit} bytes; send fewer or shorter texts.")
    return b"".join(chunks)


def _texts(body: bytes, settings: ServerSettings) -> list[str]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _Refusal(400, f"the body is no JSON{where}; send {_EXAMPLE}.") from None
    if not isinstance(content, dict) or set(content) != {"texts"}:
        raise _Refusal(422, f"the body must be an object with texts alone: {_EXAMPLE}.")
    texts = content["texts"]
    if not isinstance(texts, list) or not texts:
        raise _Refusal(422, "texts must be a list of at least one string.")
    if len(texts) > settings.max_texts:
        raise _Refusal(
            413, f"{len(texts)} texts are more than {settings.max_texts}; send them in parts."
        )
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise _Refusal(422, f"texts[{place}] is no string.")
        if len(text) > settings.max_characters:
            raise _Refusal(
                413,
                f"texts[{place}] has {len(text)} characters, more than {settings.max_characters}; "
                "split it.",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Refusal(422, f"texts[{place}] holds half of a surrogate pair.") from None
    return texts
