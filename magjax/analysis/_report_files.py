"""What the writers of reports share: one name a data set, and entries that do not collide."""

from collections.abc import Mapping, Sequence
from typing import Any

from magjax.checks import InputError
from magjax.files import file_name

__all__ = ["check_about", "report_names"]


def report_names(domains: Sequence[str]) -> list[str]:
    """Names of files, one a report.

    Raises:
        InputError: two reports would write the same files.

    >>> report_names(["code/in_domain", "adi"])
    ['code_in_domain', 'adi']
    """
    names = [file_name(domain) for domain in domains]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two reports would both be written as {name!r}; rename a data set.")
    return names


def check_about(about: Mapping[str, Any] | None, *written: str, source: str = "reports") -> None:
    """Refuses entries of a caller that would stand in the place of what is written.

    Raises:
        InputError: ``about`` has one of ``written``.

    >>> check_about({"checkpoint": "runs/code"}, "reports")
    """
    for name in written:
        if about and name in about:
            raise InputError(f"about= may not hold {name!r}, which is written from the {source}.")
