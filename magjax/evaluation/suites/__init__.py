"""Benchmarks of many data sets: each reads its standard form on disk and averages as published."""

from magjax.evaluation.suites._registry import SUITES, Suite
from magjax.evaluation.suites._suite import (
    SuiteAverage,
    SuiteReport,
    SuiteRow,
    SuiteSettings,
    write_suite,
)

__all__ = [
    "SUITES",
    "Suite",
    "SuiteAverage",
    "SuiteReport",
    "SuiteRow",
    "SuiteSettings",
    "write_suite",
]
