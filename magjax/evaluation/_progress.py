"""What a person sees while a corpus is embedded."""

import contextlib
import logging
from collections.abc import Callable, Iterator

from magjax.typing import Side

__all__ = ["progress_bar"]

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def progress_bar(name: str) -> Iterator[Callable[[Side, int, int], None]]:
    """Shows embedding on standard error; gives what ``evaluate_retrieval`` takes as ``progress``.

    On a terminal a bar a side with the time left; otherwise one log line a side when it is done.

    >>> with progress_bar("adi") as progress:
    ...     progress("query", 35, 35)
    """
    from rich.console import Console
    from rich.progress import Progress, TaskID

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda side, done, total: _say(name, side, done, total)
        return
    with Progress(console=console, transient=True) as bar:
        tasks: dict[Side, TaskID] = {}

        def advance(side: Side, done: int, total: int) -> None:
            if side not in tasks:
                tasks[side] = bar.add_task(f"{name}: {side}", total=total)
            bar.update(tasks[side], completed=done)

        yield advance


def _say(name: str, side: Side, done: int, total: int) -> None:
    if done == total:
        _log.info("%s: embedded %d texts of side %s", name, total, side)
