"""Text files line by line: gzip or plain, with errors that name file and line."""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from magjax.checks import InputError

__all__ = ["fail_at", "find_file", "has_file", "json_lines", "text_lines", "write_json_lines"]


def fail_at(path: str | os.PathLike[str], line: int, problem: str) -> NoReturn:
    """Raises ``InputError`` with the place first.

    >>> fail_at("pairs.jsonl", 3, "the query is empty.")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: pairs.jsonl:3: the query is empty.
    """
    raise InputError(f"{path}:{line}: {problem}")


def find_file(path: str | os.PathLike[str]) -> Path:
    """``path``, or ``path`` with ``.gz`` added; neither existing raises ``InputError``.

    >>> find_file("/nowhere/corpus.jsonl")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/corpus.jsonl does not exist, nor does it with .gz added.
    """
    plain = Path(path)
    if plain.is_file():
        return plain
    zipped = plain.with_name(plain.name + ".gz")
    if plain.suffix != ".gz" and zipped.is_file():
        return zipped
    tried = "" if plain.suffix == ".gz" else ", nor does it with .gz added"
    raise InputError(f"{plain} {'is no file' if plain.exists() else 'does not exist'}{tried}.")


def has_file(path: str | os.PathLike[str]) -> bool:
    """Whether :func:`find_file` finds ``path``.

    >>> has_file("/nowhere/corpus.jsonl")
    False
    """
    plain = Path(path)
    return plain.is_file() or plain.with_name(plain.name + ".gz").is_file()


def text_lines(path: str | os.PathLike[str], *, blank: bool = False) -> Iterator[tuple[int, str]]:
    r"""Numbered lines without their ends; blank ones are skipped, a byte order mark is dropped.

    Gzip is recognized by content, whatever the name. Only ``\n`` (and ``\r\n``) ends a line.

    Args:
        path: the file, plain or gzipped.
        blank: give blank lines too.

    Raises:
        InputError: the file is missing, not UTF-8, or its gzip stream is broken.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = file.write_bytes(b"\xef\xbb\xbfone\r\n\r\nthree")
    >>> list(text_lines(file))
    [(1, 'one'), (3, 'three')]
    """
    source = find_file(path)
    with source.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    number = 0
    with gzip.open(source, "rb") if zipped else source.open("rb") as file:
        try:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if blank or line.strip():
                    yield number, line
        except UnicodeDecodeError as error:
            fail_at(source, number, f"not UTF-8 ({error.reason}); convert the file to UTF-8.")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            fail_at(source, number + 1, f"the gzip stream is broken ({error}); fetch it again.")


def json_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbered JSON objects, one a line.

    Raises:
        InputError: a line is no JSON object.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = file.write_text('{"query": "a"}')
    >>> list(json_lines(file))
    [(1, {'query': 'a'})]
    """
    source = find_file(path)
    for number, line in text_lines(source):
        try:
            value = json.loads(line)
        except ValueError as error:
            fail_at(source, number, f"not valid JSON ({error}); write one object a line.")
        if not isinstance(value, dict):
            fail_at(source, number, f"{type(value).__name__} where a JSON object was needed.")
        yield number, value


def write_json_lines(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes one object a line, gzipped; the same rows give the same bytes.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.jsonl.gz")
    >>> write_json_lines(file, [{"query": "a"}])
    >>> list(json_lines(file))
    [(1, {'query': 'a'})]
    """
    # mtime=0: gzip otherwise writes the time of day into the file.
    with Path(path).open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
