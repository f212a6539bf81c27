"""The run folder: made, taken up again, or refused."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from magjax.checks import InputError
from magjax.config import differences, with_later_keys
from magjax.files import read_json, write_json
from magjax.study._lock import try_lock

__all__ = ["check_workdir", "claim_workdir", "default_workdir", "hold_workdir"]

_LOCK = ".lock"


def default_workdir(config_file: str | os.PathLike[str]) -> Path:
    """``runs/NAME`` for the config file ``NAME.py``.

    >>> str(default_workdir("configs/retrieval_code.py"))
    'runs/retrieval_code'
    """
    return Path("runs") / Path(config_file).stem


def check_workdir(
    workdir: str | os.PathLike[str], config: Mapping[str, Any], *, resume: bool
) -> Path:
    """The folder of a new run, or of an earlier one that goes on; writes nothing.

    Args:
        workdir: the run folder.
        config: the resolved config, as JSON.
        resume: whether an earlier run with the same config goes on.

    Raises:
        InputError: the folder belongs to another config, to a run that was not asked to go on,
            or to no run at all; or it cannot be written.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "run")
    >>> check_workdir(folder, {"seed": 0}, resume=False) == folder
    True
    >>> claim_workdir(folder, {"seed": 0})
    >>> check_workdir(folder, {"seed": 1}, resume=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: ...run holds a run of another config: seed=0 there, 1 here; ...
    """
    folder = Path(workdir)
    stored = folder / "config.json"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--workdir={folder} is a file; name a folder.")
    existing = next(
        part for part in (folder.absolute(), *folder.absolute().parents) if part.exists()
    )
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"--workdir={folder} cannot be written: {existing} is read-only.")
    if stored.is_file():
        found = differences(with_later_keys(read_json(stored)), with_later_keys(config))
        if found:
            items = list(found.items())
            shown = "; ".join(f"{key}={old!r} there, {new!r} here" for key, (old, new) in items[:3])
            more = f" and {len(items) - 3} more" if len(items) > 3 else ""
            raise InputError(
                f"{folder} holds a run of another config: {shown}{more}; choose another --workdir."
            )
        # A run that was killed before its first checkpoint has nothing to lose or to go on from.
        if not resume and any((folder / "checkpoints").glob("[0-9]*")):
            raise InputError(
                f"{folder} already holds a run of this config; go on with --resume, choose another "
                "--workdir, or delete it."
            )
        return folder
    if resume:
        raise InputError(f"{folder} holds no run to go on with; start it without --resume.")
    if folder.is_dir() and any(part.name != _LOCK for part in folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run; choose another --workdir.")
    return folder


def claim_workdir(folder: Path, config: Mapping[str, Any]) -> None:
    """Writes ``config.json``: from here on the folder is this run's.

    Raises:
        InputError: the folder cannot be written.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "run")
    >>> claim_workdir(folder, {"seed": 0})
    >>> read_json(folder / "config.json")
    {'seed': 0}
    """
    try:
        write_json(folder / "config.json", dict(config))
    except OSError as error:
        raise InputError(f"cannot write to --workdir={folder}: {error}.") from error


@contextlib.contextmanager
def hold_workdir(folder: Path) -> Iterator[None]:
    """Keeps every other process out of a run folder inside the block.

    The folder is made, and removed again if nothing was written to it. Where several processes
    share one run, the first of them holds it for all.

    Raises:
        InputError: another process holds it, or the folder cannot be written.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with hold_workdir(folder), hold_workdir(folder):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: another process is at work in ...; wait for it, ...
    """
    if jax.process_index():
        yield
        return
    made = not folder.exists()
    with contextlib.ExitStack() as stack:
        try:
            mine = stack.enter_context(try_lock(folder / _LOCK))
        except OSError as error:
            raise InputError(f"cannot write to --workdir={folder}: {error}.") from error
        if not mine:
            raise InputError(
                f"another process is at work in {folder}; wait for it, stop it, or choose another "
                "--workdir."
            )
        if made:
            stack.callback(_remove_if_empty, folder)
        yield


def _remove_if_empty(folder: Path) -> None:
    if [part.name for part in folder.iterdir()] == [_LOCK]:
        (folder / _LOCK).unlink()
        folder.rmdir()
