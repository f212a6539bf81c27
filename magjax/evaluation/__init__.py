"""Encoding, exact search and ranking metrics."""

from magjax.evaluation._bm25 import bm25
from magjax.evaluation._encode import encode, encode_tokens
from magjax.evaluation._metrics import METRICS, Evaluation, evaluate_run, metric_depth
from magjax.evaluation._progress import progress_bar
from magjax.evaluation._ranking import Ranking
from magjax.evaluation._report import format_results, write_results
from magjax.evaluation._retrieval import (
    RetrievalResult,
    check_depth,
    evaluate_bm25,
    evaluate_retrieval,
)
from magjax.evaluation._search import search

__all__ = [
    "METRICS",
    "Evaluation",
    "Ranking",
    "RetrievalResult",
    "bm25",
    "check_depth",
    "encode",
    "encode_tokens",
    "evaluate_bm25",
    "evaluate_retrieval",
    "evaluate_run",
    "format_results",
    "metric_depth",
    "progress_bar",
    "search",
    "write_results",
]
