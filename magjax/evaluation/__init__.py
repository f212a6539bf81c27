"""Encoding, search, ranking metrics and hard-negative mining."""

from magjax.evaluation._benchmark_embeddings import embed_benchmark
from magjax.evaluation._bm25 import bm25
from magjax.evaluation._chance import chance_level
from magjax.evaluation._clustering import (
    ClusteringResult,
    VMeasure,
    cluster_texts,
    evaluate_clustering,
)
from magjax.evaluation._encode import encode, encode_tokens
from magjax.evaluation._encode_images import encode_images
from magjax.evaluation._fingerprint import model_fingerprint
from magjax.evaluation._first_ranks import first_answer_ranks
from magjax.evaluation._image_text import (
    IMAGE_TEXT_METRICS,
    embed_image_text,
    evaluate_image_text,
    other_scores,
    rank_image_text,
)
from magjax.evaluation._image_text_direction import (
    IMAGE_TEXT_DIRECTIONS,
    image_text_direction,
    side_of_modality,
)
from magjax.evaluation._index import check_index, search_index
from magjax.evaluation._index_evaluation import IndexEvaluation, evaluate_index
from magjax.evaluation._labelled_embeddings import TextEmbeddings, embed_labelled_texts
from magjax.evaluation._metrics import METRICS, Evaluation, evaluate_run, metric_depth
from magjax.evaluation._mining import MinedQuery, MiningSettings, mine_negatives
from magjax.evaluation._mining_run import MINING_SOURCES, MiningSummary, mine_to_file
from magjax.evaluation._pair_classification import (
    Classification,
    PairClassificationResult,
    classify_pairs,
    classify_scores,
    evaluate_pair_classification,
)
from magjax.evaluation._pair_scores import ORDERS, PairEmbeddings, embed_pairs, pair_scores
from magjax.evaluation._progress import progress_bar
from magjax.evaluation._ranking import Ranking
from magjax.evaluation._report import format_results, write_results
from magjax.evaluation._retrieval import (
    RetrievalResult,
    check_depth,
    evaluate_bm25,
    evaluate_retrieval,
    rank_benchmark,
)
from magjax.evaluation._run_file import evaluate_run_file
from magjax.evaluation._search import search
from magjax.evaluation._several import evaluate_benchmarks
from magjax.evaluation._sts import (
    Correlation,
    StsResult,
    correlate_scores,
    evaluate_sts,
    score_pairs,
)
from magjax.evaluation._symmetric import EqualTexts
from magjax.evaluation._zero_shot import (
    PROMPT_TEMPLATES,
    ZeroShotResult,
    check_templates,
    class_embeddings,
    evaluate_zero_shot,
)

__all__ = [
    "IMAGE_TEXT_DIRECTIONS",
    "IMAGE_TEXT_METRICS",
    "METRICS",
    "MINING_SOURCES",
    "ORDERS",
    "PROMPT_TEMPLATES",
    "Classification",
    "ClusteringResult",
    "Correlation",
    "EqualTexts",
    "Evaluation",
    "IndexEvaluation",
    "MinedQuery",
    "MiningSettings",
    "MiningSummary",
    "PairClassificationResult",
    "PairEmbeddings",
    "Ranking",
    "RetrievalResult",
    "StsResult",
    "TextEmbeddings",
    "VMeasure",
    "ZeroShotResult",
    "bm25",
    "chance_level",
    "check_depth",
    "check_index",
    "check_templates",
    "class_embeddings",
    "classify_pairs",
    "classify_scores",
    "cluster_texts",
    "correlate_scores",
    "embed_benchmark",
    "embed_image_text",
    "embed_labelled_texts",
    "embed_pairs",
    "encode",
    "encode_images",
    "encode_tokens",
    "evaluate_benchmarks",
    "evaluate_bm25",
    "evaluate_clustering",
    "evaluate_image_text",
    "evaluate_index",
    "evaluate_pair_classification",
    "evaluate_retrieval",
    "evaluate_run",
    "evaluate_run_file",
    "evaluate_sts",
    "evaluate_zero_shot",
    "first_answer_ranks",
    "format_results",
    "image_text_direction",
    "metric_depth",
    "mine_negatives",
    "mine_to_file",
    "model_fingerprint",
    "other_scores",
    "pair_scores",
    "progress_bar",
    "rank_benchmark",
    "rank_image_text",
    "score_pairs",
    "search",
    "search_index",
    "side_of_modality",
    "write_results",
]
