"""Contrastive and distillation losses with explicit lengths, masks and devices.

Every loss takes raw embeddings (or logits) and returns one value per query; callers reduce, for
example by :func:`batch_mean`. A mask named ``where`` means absent: values and gradients are
those of the smaller problem.
"""

from magjax.losses._candidates import Candidates, MultiplePositives, candidate_logits
from magjax.losses._distillation import (
    kl_distillation,
    kl_distillation_from_logits,
    margin_mse,
    margin_mse_from_logits,
)
from magjax.losses._info_nce import Direction, info_nce
from magjax.losses._reduction import batch_mean, logit_statistics, logit_summary
from magjax.losses._sigmoid import sigmoid_from_logits, sigmoid_loss
from magjax.losses._softmax import info_nce_from_logits, softmax_cross_entropy

LOSSES = {"info_nce": info_nce, "sigmoid": sigmoid_loss}
"""The contrastive losses by the name that configs use."""

__all__ = [
    "LOSSES",
    "Candidates",
    "Direction",
    "MultiplePositives",
    "batch_mean",
    "candidate_logits",
    "info_nce",
    "info_nce_from_logits",
    "kl_distillation",
    "kl_distillation_from_logits",
    "logit_statistics",
    "logit_summary",
    "margin_mse",
    "margin_mse_from_logits",
    "sigmoid_from_logits",
    "sigmoid_loss",
    "softmax_cross_entropy",
]
