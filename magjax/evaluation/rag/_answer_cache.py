"""Answers that were paid for once: one SQLite file, safe for many writers and for a kill."""

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from magjax.checks import InputError, RunError
from magjax.evaluation.rag._endpoint import Completion
from magjax.evaluation.rag._settings import request_key
from magjax.files import cache_folder

__all__ = ["AnswerCache", "default_cache_path"]

_LAYOUT = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    answer TEXT NOT NULL,
    finish_reason TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    created REAL NOT NULL
) WITHOUT ROWID
"""
_COLUMNS = "answer, finish_reason, prompt_tokens, completion_tokens"
_PATIENCE = 60.0  # seconds to wait for another writer
_ASKED_AT_ONCE = 500  # SQLite admits 999 variables in a statement at least


class AnswerCache:
    """Completions by request, in a SQLite file that several processes may use at once.

    The key is the SHA-256 of the request's body (model, messages, sampling parameters); the
    endpoint does not count, nor is any header kept. Each answer is a transaction of its own in
    write-ahead mode: after a kill at any moment the file holds every answer that :meth:`put`
    returned. Of two answers to one request the first is kept.

    Args:
        path: made if it is missing, with its folder.

    Raises:
        InputError: the path cannot be written, or is a file of another kind.

    >>> import tempfile
    >>> request = {"model": "tiny", "messages": [{"role": "user", "content": "who?"}]}
    >>> with AnswerCache(Path(tempfile.mkdtemp(), "answers.sqlite")) as cache:
    ...     kept = cache.put(request, Completion("Jane Austen"))
    ...     cache.find([request_key(request)])[request_key(request)].answer
    'Jane Austen'
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"{self.path} cannot be used as a cache of answers ({error})."
            ) from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise InputError(
                f"{self.path} cannot be used as a cache of answers ({error})."
            ) from error
        except InputError:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        # Entering write-ahead mode fails at once while another process does, whatever the patience.
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self._connection.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            (layout,) = self._connection.execute("PRAGMA user_version").fetchone()
            (others,) = self._connection.execute(
                "SELECT COUNT(*) FROM sqlite_master WHERE name != 'answers'"
            ).fetchone()
            if layout not in (0, _LAYOUT) or (layout == 0 and others):
                raise InputError(
                    f"{self.path} is a SQLite file of another kind or of a newer magjax; name "
                    "another file for the cache of answers."
                )
            self._connection.execute(_TABLE)
            self._connection.execute(f"PRAGMA user_version = {_LAYOUT}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(
                    sqlite3.Error
                ):  # nothing to roll back, or the disk is full
                    self._connection.execute("ROLLBACK")
                raise

    def find(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The answers that are there, by key."""
        wanted = list(keys)
        found: dict[str, Completion] = {}
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            some = wanted[start : start + _ASKED_AT_ONCE]
            marks = ", ".join("?" * len(some))
            with self._lock:
                rows = self._connection.execute(
                    f"SELECT key, {_COLUMNS} FROM answers WHERE key IN ({marks})", some
                ).fetchall()
            found |= {key: Completion(*rest) for key, *rest in rows}
        return found

    def put(self, request: Mapping[str, Any], completion: Completion) -> Completion:
        """Keeps an answer; gives the one that the file holds then.

        Raises:
            RunError: the file cannot be written any more.
        """
        key = request_key(request)
        row = (
            key,
            json.dumps(request, ensure_ascii=True),
            completion.answer,
            completion.finish_reason,
            completion.prompt_tokens,
            completion.completion_tokens,
            time.time(),
        )
        try:
            with self._transaction():
                self._connection.execute(
                    "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", row
                )
                kept = self._connection.execute(
                    f"SELECT {_COLUMNS} FROM answers WHERE key = ?", [key]
                ).fetchone()
        except sqlite3.Error as error:
            raise RunError(
                f"{self.path}: an answer could not be kept ({error}); make room and run again, "
                "what was kept is not asked anew."
            ) from error
        return Completion(*kept)

    def __len__(self) -> int:
        with self._lock:
            return self._connection.execute("SELECT COUNT(*) FROM answers").fetchone()[0]

    def __enter__(self) -> "AnswerCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; the cache cannot be used afterwards."""
        self._connection.close()


def default_cache_path() -> Path:
    """``answers.sqlite`` in ``$MAGJAX_CACHE``, else in ``~/.cache/magjax``.

    >>> default_cache_path().name
    'answers.sqlite'
    """
    return cache_folder() / "answers.sqlite"
