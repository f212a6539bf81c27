"""Encoding, search, ranking metrics and hard-negative mining."""

from magjax.evaluation._bm25 import bm25
from magjax.evaluation._encode import encode, encode_tokens
from magjax.evaluation._fingerprint import model_fingerprint
from magjax.evaluation._index import check_index, search_index
from magjax.evaluation._index_evaluation import IndexEvaluation, evaluate_index
from magjax.evaluation._metrics import METRICS, Evaluation, evaluate_run, metric_depth
from magjax.evaluation._mining import MinedQuery, MiningSettings, mine_negatives
from magjax.evaluation._mining_run import MINING_SOURCES, MiningSummary, mine_to_file
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
    "MINING_SOURCES",
    "Evaluation",
    "IndexEvaluation",
    "MinedQuery",
    "MiningSettings",
    "MiningSummary",
    "Ranking",
    "RetrievalResult",
    "bm25",
    "check_depth",
    "check_index",
    "encode",
    "encode_tokens",
    "evaluate_bm25",
    "evaluate_index",
    "evaluate_retrieval",
    "evaluate_run",
    "format_results",
    "metric_depth",
    "mine_negatives",
    "mine_to_file",
    "model_fingerprint",
    "progress_bar",
    "search",
    "search_index",
    "write_results",
]
