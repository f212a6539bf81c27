"""Magnitude and gradient analysis, cross-evaluation, and pictures of what was measured."""

from magjax.analysis._ablation import Ablation, Condition, ablate_norms, with_norms
from magjax.analysis._cross import (
    ModelEmbeddings,
    cross_evaluate,
    evaluate_under_scores,
    reversed_benchmark,
)
from magjax.analysis._cross_deltas import (
    REFERENCES,
    CrossDelta,
    all_cross_deltas,
    cross_deltas,
)
from magjax.analysis._cross_domains import DomainGap, domain_gaps
from magjax.analysis._cross_identities import Identity, check_identity
from magjax.analysis._cross_model import all_domain_gaps, cross_evaluate_models, model_names
from magjax.analysis._cross_table import (
    DIRECTIONS,
    CrossCell,
    CrossEvaluation,
    CrossRow,
    score_name,
)
from magjax.analysis._cross_text import cross_markdown, format_cross, format_gaps, write_cross
from magjax.analysis._fisher_pictures import (
    draw_measures,
    draw_spectra,
    measures_figure,
    spectra_figure,
)
from magjax.analysis._gradients import GradientSweep, query_length_sweep
from magjax.analysis._gradients_closed_form import closed_form_sweep, sweep_deviation
from magjax.analysis._gradients_model import measure_gradients
from magjax.analysis._gradients_parameters import parameter_gradient_sweep
from magjax.analysis._gradients_pictures import gradients_figure, gradients_overview_figure
from magjax.analysis._gradients_report import (
    GradientReport,
    ParameterGradients,
    ScoreGradients,
    comparable_scores,
)
from magjax.analysis._gradients_sample import (
    GradientSample,
    GradientSettings,
    difficulty_classes,
)
from magjax.analysis._gradients_text import format_gradients, write_gradients
from magjax.analysis._heat_map import cross_figure
from magjax.analysis._hubness import Hubness, k_occurrence, skewness
from magjax.analysis._magnitude import measure_magnitude
from magjax.analysis._magnitude_contrast import Contrast
from magjax.analysis._magnitude_model import measure_model_magnitude, write_magnitude
from magjax.analysis._magnitude_pictures import (
    ablation_figure,
    document_norms_figure,
    query_norms_figure,
    relevance_figure,
)
from magjax.analysis._magnitude_report import MagnitudeReport, MagnitudeValues
from magjax.analysis._magnitude_settings import MagnitudeSettings
from magjax.analysis._magnitude_text import format_magnitude
from magjax.analysis._norm_statistics import cohens_d, hedges_g, norm_auc, spearman
from magjax.analysis._norms import NormSummary, embedding_norms, summarize_norms
from magjax.analysis._retrieval_sheet import (
    draw_retrieval_sheet,
    retrieval_sheet_figure,
    sheet_queries,
)
from magjax.analysis._study_pictures import (
    CurveOfRun,
    ValueOfSystem,
    runs_figure,
    values_figure,
)
from magjax.analysis._style import figure_png
from magjax.analysis._training_curves import (
    draw_training_curves,
    read_metrics,
    training_curves_figure,
)

__all__ = [
    "DIRECTIONS",
    "REFERENCES",
    "Ablation",
    "Condition",
    "Contrast",
    "CrossCell",
    "CrossDelta",
    "CrossEvaluation",
    "CrossRow",
    "CurveOfRun",
    "DomainGap",
    "GradientReport",
    "GradientSample",
    "GradientSettings",
    "GradientSweep",
    "Hubness",
    "Identity",
    "MagnitudeReport",
    "MagnitudeSettings",
    "MagnitudeValues",
    "ModelEmbeddings",
    "NormSummary",
    "ParameterGradients",
    "ScoreGradients",
    "ValueOfSystem",
    "ablate_norms",
    "ablation_figure",
    "all_cross_deltas",
    "all_domain_gaps",
    "check_identity",
    "closed_form_sweep",
    "cohens_d",
    "comparable_scores",
    "cross_deltas",
    "cross_evaluate",
    "cross_evaluate_models",
    "cross_figure",
    "cross_markdown",
    "difficulty_classes",
    "document_norms_figure",
    "domain_gaps",
    "draw_measures",
    "draw_retrieval_sheet",
    "draw_spectra",
    "draw_training_curves",
    "embedding_norms",
    "evaluate_under_scores",
    "figure_png",
    "format_cross",
    "format_gaps",
    "format_gradients",
    "format_magnitude",
    "gradients_figure",
    "gradients_overview_figure",
    "hedges_g",
    "k_occurrence",
    "measure_gradients",
    "measure_magnitude",
    "measure_model_magnitude",
    "measures_figure",
    "model_names",
    "norm_auc",
    "parameter_gradient_sweep",
    "query_length_sweep",
    "query_norms_figure",
    "read_metrics",
    "relevance_figure",
    "retrieval_sheet_figure",
    "reversed_benchmark",
    "runs_figure",
    "score_name",
    "sheet_queries",
    "skewness",
    "spearman",
    "spectra_figure",
    "summarize_norms",
    "sweep_deviation",
    "training_curves_figure",
    "values_figure",
    "with_norms",
    "write_cross",
    "write_gradients",
    "write_magnitude",
]
