"""Files that are either whole or absent: written under a temporary name, then renamed."""

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from magjax.checks import InputError

__all__ = [
    "cache_folder",
    "file_name",
    "json_safe",
    "open_to_readers",
    "read_json",
    "write_bytes",
    "write_folder",
    "write_json",
    "write_text",
]


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where results are kept that should not be made twice: ``folder``, or the usual place.

    Args:
        folder: default ``$MAGJAX_CACHE``, else ``~/.cache/magjax``.

    >>> cache_folder("/tmp/kept").as_posix()
    '/tmp/kept'
    """
    root = folder or os.environ.get("MAGJAX_CACHE") or Path.home() / ".cache" / "magjax"
    return Path(root).expanduser()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes ``text`` (UTF-8) to ``path`` in one rename; parents are made.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp(), "a", "note.txt")
    >>> write_text(target, "whole")
    >>> target.read_text()
    'whole'
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes ``content`` to ``path`` in one rename; parents are made.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp(), "a", "picture.png")
    >>> write_bytes(target, b"whole")
    >>> target.read_bytes()
    b'whole'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        open_to_readers(name)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def open_to_readers(path: str | os.PathLike[str]) -> None:
    """Gives a file the usual permissions, where its writer chose 0600 (tempfile, safetensors).

    >>> import tempfile, pathlib, stat
    >>> file = pathlib.Path(tempfile.mkstemp()[1])
    >>> open_to_readers(file)
    >>> stat.S_IMODE(file.stat().st_mode) >= 0o600
    True
    """
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, 0o666 & ~umask)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes ``value`` as indented JSON in one rename; NaN and infinity are refused.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp(), "result.json")
    >>> write_json(target, {"ndcg@10": 0.5})
    >>> read_json(target)
    {'ndcg@10': 0.5}
    """
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads one JSON file; a missing or broken file raises ``InputError`` with its name.

    >>> read_json("/nowhere/score.json")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/score.json does not exist.
    """
    target = Path(path)
    if not target.is_file():
        raise InputError(f"{target} does not exist.")
    try:
        return json.loads(target.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise InputError(
            f"{target} is not valid JSON ({error}); write it anew or restore it."
        ) from error


@contextlib.contextmanager
def write_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary folder beside ``path`` that takes its place when the block succeeds.

    An older folder at ``path`` stays untouched until then and is replaced as a whole; if the
    block raises, the temporary folder is removed.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp(), "model")
    >>> with write_folder(target) as folder:
    ...     _ = (folder / "a.txt").write_text("a")
    >>> sorted(p.name for p in target.iterdir())
    ['a.txt']
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    folder.chmod(0o755)
    try:
        yield folder
        if target.exists():
            retired = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old."))
            os.replace(target, retired / "old")
            os.replace(folder, target)
            shutil.rmtree(retired)
        else:
            os.replace(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def file_name(name: str) -> str:
    """A name as a file's: other than letters, digits, ``.``, ``_`` and ``-`` become ``_``.

    >>> file_name("cqadupstack/android")
    'cqadupstack_android'
    """
    return re.sub(r"[^\w.-]", "_", name)


def json_safe(value: Any) -> Any:
    """Plain Python for ``json.dumps``: infinity becomes the word "infinite", NaN None.

    JSON has no infinity, and a condition number that is infinite must stay so in a report.

    Args:
        value: numbers, NumPy arrays, None, and mappings or sequences of them.

    Returns:
        the same structure of dict, list, str, bool, int, float and None.

    >>> json_safe({"kappa": np.inf, "rank": np.int64(2)})
    {'kappa': 'infinite', 'rank': 2}
    """
    if isinstance(value, dict):
        return {str(key): json_safe(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_safe(value.tolist())
    if isinstance(value, list | tuple):
        return [json_safe(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else "infinite" if value > 0 else "-infinite"
    return value
