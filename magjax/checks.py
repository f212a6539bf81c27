"""Errors that say what came, what was needed and what to try.

>>> choose("variant", "qnrom", ("cosine", "dot", "qnorm", "dnorm"))
Traceback (most recent call last):
    ...
magjax.checks.InputError: unknown variant 'qnrom'; known: cosine, dot, qnorm, dnorm. Did you mean 'qnorm'?
"""

import difflib
import importlib
import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

__all__ = [
    "InputError",
    "RunError",
    "choose",
    "fraction",
    "need",
    "positive_integer",
    "positive_number",
]


class InputError(ValueError):
    """Input from the user that cannot be used; the message is one clear sentence with a remedy.

    The programs in ``launch/`` print the message without a traceback and exit with status 2.

    >>> raise InputError("batch_size=0 must be at least 1.")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: batch_size=0 must be at least 1.
    """


class RunError(RuntimeError):
    """A run that cannot go on; the message says where it stopped and how to go on.

    The programs in ``launch/`` print the message without a traceback and exit with status 1.

    >>> raise RunError("loss is nan at step 7; go on from step 5 with --resume.")
    Traceback (most recent call last):
        ...
    magjax.checks.RunError: loss is nan at step 7; go on from step 5 with --resume.
    """


def choose(name: str, value: Any, known: Iterable[str]) -> str:
    """Returns ``value`` if it is one of ``known``; otherwise raises, naming the nearest.

    >>> choose("pooling", "mean", ("mean", "cls"))
    'mean'
    """
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"unknown {name} {value!r}; known: {', '.join(names)}.{hint}")


def positive_integer(name: str, value: Any) -> int:
    """Returns ``value`` as an ``int`` of at least 1, or raises.

    >>> positive_integer("batch_size", 32)
    32
    """
    number = _number(value)
    if not (number >= 1 and number.is_integer()):
        raise InputError(f"{name}={value!r} must be a whole number of at least 1.")
    return int(number)


def positive_number(name: str, value: Any) -> float:
    """Returns ``value`` as a finite ``float`` above zero, or raises.

    >>> positive_number("temperature", 0.05)
    0.05
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise InputError(f"{name}={value!r} must be a finite number above 0.")
    return float(value)


def fraction(name: str, value: Any) -> float:
    """Returns ``value`` as a ``float`` in [0, 1], or raises.

    >>> fraction("gamma_query", 1)
    1.0
    """
    number = _number(value)
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{name}={value!r} must be a number from 0 to 1.")
    return number


def need(module: str, extra: str) -> Any:
    """Imports and returns a module of an optional extra, or raises, naming what to install.

    Args:
        module: dotted name, such as ``"faiss"``.
        extra: the extra of pyproject.toml that brings it.

    Raises:
        InputError: the package is not installed, or fails to import.

    >>> need("no_such_engine", "engines")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: this needs the package no_such_engine: pip install -e '.[engines]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and error.name in (package, module)
        found = "" if missing else f", which is there but fails to import ({error})"
        raise InputError(
            f"this needs the package {package}{found}: pip install -e '.[{extra}]'"
        ) from error


def _number(value: Any) -> float:
    """``value`` as a float, or NaN if it is no real number (True and "1" are none)."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if is_number else math.nan
