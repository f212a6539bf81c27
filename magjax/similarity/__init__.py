"""How alike a query and a document are, and what the lengths of their embeddings do to it.

The score is the inner product of both embeddings, each divided by its length to a power of its
own: (1, 1) is cosine, (0, 0) the dot product, and (1, 0) or (0, 1) normalize one side only.
"""

from magjax.similarity._head import Constant, SimilarityHead
from magjax.similarity._normalize import norm, normalize, widen
from magjax.similarity._score import PRESETS, VARIANTS, Score
from magjax.similarity._scores import (
    blockwise_scores,
    fold_score_blocks,
    list_scores,
    paired_scores,
    scores,
)
from magjax.similarity._temperature import calibrate_temperature

__all__ = [
    "PRESETS",
    "VARIANTS",
    "Constant",
    "Score",
    "SimilarityHead",
    "blockwise_scores",
    "calibrate_temperature",
    "fold_score_blocks",
    "list_scores",
    "norm",
    "normalize",
    "paired_scores",
    "scores",
    "widen",
]
