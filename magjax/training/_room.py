"""Whether the disk has room for what a run will write."""

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from magjax.checks import InputError, RunError

__all__ = ["check_room", "explain_full_disk"]


def check_room(folder: Path, state: Any) -> None:
    """Refuses to start a run whose first checkpoint would not fit.

    Args:
        folder: where checkpoints go; it exists.
        state: the arrays of one checkpoint.

    Raises:
        InputError: the disk has less room than one checkpoint takes.

    >>> import tempfile
    >>> check_room(Path(tempfile.mkdtemp()), {"w": jax.numpy.zeros(3)})
    """
    needed = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{folder} has {free / 2**20:.1f} MiB of room and one checkpoint takes "
            f"{needed / 2**20:.1f} MiB; make room or choose another --workdir."
        )


@contextlib.contextmanager
def explain_full_disk(workdir: Path) -> Iterator[None]:
    """Turns a full or read-only disk inside the block into an error that says what to do.

    Raises:
        RunError: in place of such an ``OSError``; others pass.

    >>> with explain_full_disk(Path("run")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
        ...
    magjax.checks.RunError: run cannot be written ([Errno 28] No space left on device); ...
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        raise RunError(
            f"{workdir} cannot be written ({error}); make room or give write access, then go on "
            "with --resume."
        ) from error
