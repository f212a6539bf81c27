"""Embeddings over HTTP, carrying the trained score's normalization."""

import contextlib
import functools
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from magjax.checks import InputError, RunError, choose, need
from magjax.export._app import ServerSettings, encode_app
from magjax.export._batching import BatchingEncoder
from magjax.export._embedder import WARM_UPS, TextEmbedder
from magjax.hub import Model

__all__ = ["serve"]

_log = logging.getLogger(__name__)


def serve(
    model: Model,
    name: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    settings: ServerSettings | None = None,
    tokens_per_batch: int = 2048,
    warm_up: str = "single",
) -> None:
    """Serves ``model`` over HTTP until SIGTERM or SIGINT, and returns when all is answered.

    The address is bound before anything is compiled, so that a taken port is known at once, and
    logged, so that ``port=0`` (any free one) can be used. ``GET /health`` says 503 until the
    shapes of ``warm_up`` are compiled. There is neither encryption nor authentication: beyond
    this machine, put a proxy that has both in front. Requests' texts are never logged.

    On a signal the server stops listening, answers what it has, and returns.

    Args:
        model: what to serve; its score must be stated.
        name: what responses call the model.
        host: address to listen on; the default is this machine alone.
        port: TCP port, 0 for any free one.
        settings: limits of requests, and how they are batched.
        tokens_per_batch: tokens of a batch on the device, padding included.
        warm_up: ``none``, ``single`` (each length with one text) or ``full`` (every shape).

    Raises:
        InputError: no score, a port that cannot be bound, or no starlette or uvicorn.
        RunError: the warm-up failed.

    >>> serve(hub.load("runs/code"), "code", port=8080)  # doctest: +SKIP
    """
    uvicorn = need("uvicorn", "serve")
    settings = settings or ServerSettings()
    choose("warm_up", warm_up, WARM_UPS)
    embedder = TextEmbedder(model, tokens_per_batch=tokens_per_batch)
    batching = BatchingEncoder(
        embedder,
        max_batch=settings.max_batch,
        max_wait_ms=settings.max_wait_ms,
        prepare=functools.partial(
            embedder.warm_up, warm_up, max(settings.max_batch, settings.max_texts)
        ),
    )
    app = encode_app(batching, name, embedder.score, embedder.dim, settings=settings)
    listener = _bind(host, port)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=max(1, round(settings.timeout_s)),
        )
    )

    def prepared(done: "Future[None]") -> None:
        if done.exception() is not None:
            server.should_exit = True
        elif batching.is_ready:
            _log.info("ready.")

    batching.prepared.add_done_callback(prepared)
    where, at = listener.getsockname()[:2]
    where = f"[{where}]" if ":" in where else where
    _log.info("%s, %s, at http://%s:%d; preparing ...", name, embedder.score, where, at)
    with _stopping_on_signals(server):
        server.run(sockets=[listener])
    if batching.prepared.done() and (error := batching.prepared.exception()) is not None:
        raise RunError(f"the server stopped, since its warm-up failed: {error}") from error
    _log.info("stopped after %d requests.", batching.counts.requests)


def _bind(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise InputError(f"port={port} must be from 0 to 65535.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be listened on ({error}); choose another --host or --port."
        ) from error


@contextlib.contextmanager
def _stopping_on_signals(server: Any) -> Iterator[None]:
    """A stop on request is a success, also where uvicorn does not listen for the signal.

    That is before it has started; and when it has stopped, it raises the signal once more.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
