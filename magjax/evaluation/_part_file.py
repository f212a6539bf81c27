"""A file of JSON lines that grows beside its name until it is whole, and can be gone on with."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from magjax.checks import InputError
from magjax.config import differences
from magjax.files import open_to_readers

__all__ = ["PartFile"]


class PartFile:
    r"""The lines of ``path`` so far, in ``path.partial`` below a header with their settings.

    Use it as a context: leaving it normally gives ``path`` its lines, without the header, in one
    rename, and removes the part file; leaving it by an error or a kill keeps the part file. Lines
    count once they end: what a kill cut off is dropped on resuming.

    Args:
        path: the file to be; must not exist.
        settings: what the lines depend on, as JSON values.
        resume: go on after the last whole line of a part file, if there is one.

    Raises:
        InputError: ``path`` exists; a part file is there and ``resume`` is off, or it was made
            with other settings or is damaged.

    >>> path = Path(tempfile.mkdtemp(), "numbers.jsonl")
    >>> with contextlib.suppress(KeyboardInterrupt), PartFile(path, {"from": 0}) as part:
    ...     part.append([{"number": 0}])
    ...     raise KeyboardInterrupt
    >>> with PartFile(path, {"from": 0}, resume=True) as part:
    ...     for row in part.done():
    ...         print(row)
    ...     part.append([{"number": 1}])
    {'number': 0}
    >>> path.read_text()
    '{"number": 0}\n{"number": 1}\n'
    """

    def __init__(
        self, path: str | os.PathLike[str], settings: Mapping[str, Any], *, resume: bool = False
    ) -> None:
        self.path = Path(path)
        self.part = self.path.with_name(self.path.name + ".partial")
        self._header = _line({"settings": dict(settings)})
        if self.path.exists():
            raise InputError(f"{self.path} exists already; remove it or name another file.")
        if self.part.exists() and not resume:
            raise InputError(
                f"{self.part} holds lines of an earlier run; go on with --resume, or remove it."
            )
        self._resumed = self._check_part() if self.part.exists() else False
        self._file: BinaryIO | None = None

    def _check_part(self) -> bool:
        """Whether the part file has a whole header, of these settings."""
        with self.part.open("rb") as file:
            first = file.readline()
        if not first.endswith(b"\n"):
            return False  # killed before the first line was whole
        try:
            found = json.loads(first)["settings"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.part} has a damaged header; remove it.") from error
        wanted = json.loads(self._header)["settings"]
        if found != wanted:
            changed = "; ".join(
                f"{name} was {old!r} and is {new!r}"
                for name, (old, new) in differences(found, wanted).items()
            )
            raise InputError(
                f"{self.part} was made with other settings: {changed}; set them as they were, or "
                "remove it and begin anew."
            )
        return True

    def __enter__(self) -> "PartFile":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._resumed:
            _drop_unfinished_line(self.part)
            self._file = self.part.open("ab")
        else:
            self._file = self.part.open("wb")
            self._write(self._header)
        return self

    def done(self) -> Iterator[dict[str, Any]]:
        """The rows of an earlier run, in order.

        Raises:
            InputError: a line is damaged.
        """
        if not self._resumed:
            return
        with self.part.open("rb") as file:
            file.readline()
            for number, line in enumerate(file, start=2):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise InputError(
                        f"{self.part}:{number}: damaged ({error}); remove the file and begin anew."
                    ) from error

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Adds whole lines and waits until they are on the disk."""
        self._write(b"".join(map(_line, rows)))

    def _write(self, content: bytes) -> None:
        assert self._file is not None
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._file is not None
        self._file.close()
        if kind is not None:
            return
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as target, self.part.open("rb") as source:
                source.readline()
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
            open_to_readers(name)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
        self.part.unlink()


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can write and UTF-8 cannot
        return json.dumps(row, allow_nan=False).encode() + b"\n"


def _drop_unfinished_line(path: Path) -> None:
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - (1 << 16))
            file.seek(start)
            last = file.read(end - start).rfind(b"\n")
            if last >= 0:
                file.truncate(start + last + 1)
                return
            end = start
