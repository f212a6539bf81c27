"""One process at a time for one piece of work, whatever happens to the process."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["try_lock"]


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Whether this process holds the lock ``path`` inside the block; never waits.

    The kernel's lock on an open file (``flock``) ends with its process, however that ends, so a
    killed one leaves nothing to clear up but an empty file. The file is removed with the lock.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "cell")
    >>> with try_lock(path) as mine, try_lock(path) as again:
    ...     print(mine, again)
    True False
    >>> path.exists()
    False
    """
    import fcntl  # of Unix only

    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        # The holder before may have removed this very file after it was opened here: then another
        # process can lock a new one of that name, and this lock says nothing.
        if not _is_file(path, handle):
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _is_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
