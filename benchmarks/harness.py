"""What the benchmarks share: sides that take turns, memory of each in its own process, tables.

A side is something that is done again and again, and the first side is the one that others are
compared with. Sides run A B C A B C in one process, so that a slow minute of the machine meets all
of them; what a turn needs beforehand is not timed, and neither are the first turns, which compile
and fill caches. Memory is the peak resident size of a new process that runs one side alone.
"""

import concurrent.futures
import dataclasses
import multiprocessing
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import jax
import numpy as np

from magjax.checks import InputError, RunError
from magjax.files import write_json, write_text
from magjax.study import describe_machine

COLUMNS = ("what", "per second", "min to max", "per CPU second", "ratio", "CPU ratio")


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: heads its row.
        items: how many a turn works off, in the benchmark's unit.
        turn: does the work and waits for its end.
        prepare: runs before each turn and is not timed.
    """

    name: str
    items: float
    turn: Callable[[], Any]
    prepare: Callable[[], Any] = lambda: None


def take_turns(sides: Sequence[Side], *, repeats: int, warm: int = 1) -> list[dict[str, Any]]:
    """Rates of all sides and their ratios to the first side's: above 1 is faster than it.

    Ratios are medians of the ratios turn by turn, for neighbours in time share the machine's mood.
    """
    taken = np.zeros((2, len(sides), repeats))
    for turn in range(-warm, repeats):
        for number, side in enumerate(sides):
            side.prepare()
            before = time.perf_counter(), time.process_time()
            side.turn()
            after = time.perf_counter(), time.process_time()
            if turn >= 0:
                taken[:, number, turn] = np.subtract(after, before)
    items = np.array([[side.items] for side in sides])
    rate, cpu_rate = items / taken
    ratio, cpu_ratio = (rates / rates[:1] for rates in (rate, cpu_rate))
    return [
        {
            "what": side.name,
            "items": side.items,
            "seconds": float(np.median(taken[0, number])),
            "cpu_seconds": float(np.median(taken[1, number])),
            "per_second": float(np.median(rate[number])),
            "slowest": float(rate[number].min()),
            "fastest": float(rate[number].max()),
            "per_cpu_second": float(np.median(cpu_rate[number])),
            "ratio": float(np.median(ratio[number])),
            "ratio_min": float(ratio[number].min()),
            "ratio_max": float(ratio[number].max()),
            "cpu_ratio": float(np.median(cpu_ratio[number])),
        }
        for number, side in enumerate(sides)
    ]


def resident_bytes() -> int:
    """The peak resident size of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _peak(function: Callable[..., Any], arguments: Mapping[str, Any]) -> int:
    function(**arguments)
    return resident_bytes()


def peak_memory(function: Callable[..., Any], **arguments: Any) -> int:
    """Peak resident bytes of a new process that calls ``function``, importable by its name.

    Call it before this process grows: Linux counts the peak of the process that starts another as
    the other's own.
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(_peak, function, arguments).result()
        except BrokenProcessPool as error:
            shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            raise RunError(
                f"a process ({shown}) was killed, most likely for want of memory."
            ) from error


def machine() -> str:
    """Processor, cores, devices and versions in one line."""
    return f"{describe_machine()}, Python {platform.python_version()}, JAX {jax.__version__}"


def check_outputs(*paths: str | None) -> None:
    """Refuses a report file that cannot be written, before anything is measured."""
    for path in paths:
        if path and Path(path).is_dir():
            raise InputError(f"{path!r} is a folder; name a file in it.")


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row of :func:`take_turns` as text, under ``COLUMNS``."""
    digits = 3 if row["per_second"] < 1 else 1 if row["per_second"] < 1_000 else 0
    return [
        row["what"],
        f"{row['per_second']:,.{digits}f}",
        f"{row['slowest']:,.{digits}f} to {row['fastest']:,.{digits}f}",
        f"{row['per_cpu_second']:,.{digits}f}",
        f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})",
        f"{row['cpu_ratio']:.2f}",
    ]


def markdown(title: str, unit: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of rates; ``memory`` (bytes), where rows have it, is a further column."""
    names = [f"{unit} {name}" if name.startswith("per") else name for name in COLUMNS]
    lines = [cells(row) for row in rows]
    if any("memory" in row for row in rows):
        names.append("peak memory")
        for line, row in zip(lines, rows, strict=True):
            line.append(f"{row['memory'] / 2**30:.2f} GiB" if "memory" in row else "")
    body = "\n".join(
        "| " + " | ".join(line) + " |" for line in [names, ["---"] * len(names), *lines]
    )
    return f"{title}\n\n{body}\n"


def report(
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    unit: str,
    settings: Mapping[str, Any],
    json: str | None = None,
    to: str | None = None,
    **more: Any,
) -> None:
    """Prints settings, tables and the machine, and writes them to ``json`` and, as Markdown, ``to``."""
    shown = ", ".join(f"{name} {value}" for name, value in settings.items())
    parts = [markdown(title, unit, rows) for title, rows in tables.items()]
    text = "\n".join([shown + "\n", *parts, machine() + "\n"])
    print(text, end="")
    if to:
        write_text(Path(to), text)
    if json:
        value = {"settings": settings, "unit": unit, "tables": tables, "machine": machine()}
        write_json(json, value | more)
