"""Texts of concurrent callers, embedded together by one thread."""

import collections
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np

from magjax.checks import InputError, RunError, positive_integer
from magjax.typing import Side

__all__ = ["BatchCounts", "BatchingEncoder"]


@dataclasses.dataclass
class BatchCounts:
    """What was embedded so far.

    >>> BatchCounts(requests=3, texts=5, batches=1)
    BatchCounts(requests=3, texts=5, batches=1)
    """

    requests: int = 0
    texts: int = 0
    batches: int = 0


@dataclasses.dataclass(eq=False)
class _Request:
    texts: list[str]
    side: Side
    due: float  # when it stops waiting for company
    embeddings: "Future[np.ndarray]" = dataclasses.field(default_factory=Future)


class BatchingEncoder:
    """Embeds the texts of concurrent requests in common batches, oldest request first.

    A request waits at most ``max_wait_ms`` for others of its side, and not at all once
    ``max_batch`` texts are there; one with more texts than that is embedded alone. While a batch
    is being embedded the next one gathers. A request that fails does not fail its company: the
    batch is then embedded again, request by request.

    Args:
        embed: ``(texts, side) -> [texts, dim]``; only ever called by this object's thread.
        max_batch: texts that are embedded together.
        max_wait_ms: milliseconds.
        prepare: called by the thread before the first batch, such as to compile; it is given a
            function that says whether to give up.

    Attributes:
        counts: requests, texts and batches so far.
        prepared: a future that is done when requests can be served, or holds the error.

    >>> encoder = BatchingEncoder(lambda texts, side: np.ones((len(texts), 2)))
    >>> encoder.start()
    >>> encoder.prepared.result()
    >>> encoder.submit(["a", "b"], "query").result().shape
    (2, 2)
    >>> encoder.close()
    """

    def __init__(
        self,
        embed: Callable[[Sequence[str], Side], np.ndarray],
        *,
        max_batch: int = 64,
        max_wait_ms: float | int = 5.0,
        prepare: Callable[[Callable[[], bool]], None] | None = None,
    ):
        self._embed = embed
        self._max_batch = positive_integer("max_batch", max_batch)
        if not 0 <= max_wait_ms <= 60_000:
            raise InputError(f"max_wait_ms={max_wait_ms!r} must be from 0 to 60,000.")
        self._max_wait = max_wait_ms / 1000
        self._prepare = prepare
        self._waiting: collections.deque[_Request] = collections.deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="magjax-encode")
        self.counts = BatchCounts()
        self.prepared: Future[None] = Future()

    @property
    def is_ready(self) -> bool:
        """Whether requests are served."""
        return (
            self.prepared.done()
            and not self.prepared.cancelled()
            and self.prepared.exception() is None
            and not self._closing
        )

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, texts: Sequence[str], side: Side) -> "Future[np.ndarray]":
        """Queues a request; its future gives the embeddings in the order of ``texts``.

        A future that is cancelled before its batch begins costs nothing more.

        Raises:
            RunError: not prepared yet, or closed.
        """
        request = _Request(list(texts), side, time.monotonic() + self._max_wait)
        with self._changed:
            if not self.is_ready:
                raise RunError("the encoder is not ready, or closed; try again later.")
            self._waiting.append(request)
            self._changed.notify()
        return request.embeddings

    def close(self) -> None:
        """Serves what was submitted, then ends the thread; nothing more is accepted."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            if self._prepare is not None:
                self._prepare(lambda: self._closing)
        except Exception as error:
            self.prepared.set_exception(error)
            return
        self.prepared.set_result(None)
        while requests := self._gather():
            self._serve(requests)

    def _gather(self) -> list[_Request]:
        """The next batch, or nothing when closed and all are served."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            if not self._waiting:
                return []
            first = self._waiting[0]
            while not self._closing and self._texts(first.side) < self._max_batch:
                left = first.due - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            together: list[_Request] = []
            others: collections.deque[_Request] = collections.deque()
            size = 0
            for request in self._waiting:
                grown = size + len(request.texts)
                if request.side == first.side and (not together or grown <= self._max_batch):
                    together.append(request)
                    size = grown
                else:
                    others.append(request)
            self._waiting = others
            return together

    def _texts(self, side: Side) -> int:
        return sum(len(request.texts) for request in self._waiting if request.side == side)

    def _serve(self, requests: Sequence[_Request]) -> None:
        live = [r for r in requests if r.embeddings.set_running_or_notify_cancel()]
        if not live:
            return
        try:
            rows = self._embed([text for r in live for text in r.texts], live[0].side)
        except Exception as error:
            if len(live) == 1:
                live[0].embeddings.set_exception(error)
            else:
                for request in live:
                    self._serve_alone(request)
            return
        self.counts.batches += 1
        start = 0
        for request in live:
            self._answer(request, rows[start : start + len(request.texts)])
            start += len(request.texts)

    def _serve_alone(self, request: _Request) -> None:
        try:
            rows = self._embed(request.texts, request.side)
        except Exception as error:
            request.embeddings.set_exception(error)
            return
        self.counts.batches += 1
        self._answer(request, rows)

    def _answer(self, request: _Request, rows: np.ndarray) -> None:
        self.counts.requests += 1
        self.counts.texts += len(request.texts)
        request.embeddings.set_result(rows)
