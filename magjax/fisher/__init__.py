"""Fisher matrices of p(document | query): products, spectra, condition numbers, advice."""

from magjax.fisher._adviser import TASKS, Advice, advise, intervals_by_variant
from magjax.fisher._candidate_model import KINDS, FisherModel
from magjax.fisher._embedding_space import embedding_fisher, embedding_rank_bound
from magjax.fisher._lanczos import krylov_bytes, lanczos_spectrum
from magjax.fisher._measurement import (
    Measurement,
    Norms,
    measure_embeddings,
    measure_norms,
    measure_parameters,
    variant_name,
)
from magjax.fisher._measures import MEASURES, Measure, explain, find_measure, measure
from magjax.fisher._null_directions import NullDirections, find_null_directions, known_directions
from magjax.fisher._operator import ParameterFisher
from magjax.fisher._parameter_space import (
    METHODS,
    null_parameters,
    parameter_spectrum,
    trace_by_parameter,
)
from magjax.fisher._report import FisherReport, definitions, format_report
from magjax.fisher._scoring import Cell, DefinitionScore, Verdict, format_scores, score_adviser
from magjax.fisher._selection import SPACES, Selection, expand_spaces, select
from magjax.fisher._sets import CandidateSets, DualEmbedding, Embedded, dual_embedding
from magjax.fisher._spectrum import Spectrum, dense_spectrum, gram_spectrum

__all__ = [
    "KINDS",
    "MEASURES",
    "METHODS",
    "SPACES",
    "TASKS",
    "Advice",
    "CandidateSets",
    "Cell",
    "DefinitionScore",
    "DualEmbedding",
    "Embedded",
    "FisherModel",
    "FisherReport",
    "Measure",
    "Measurement",
    "Norms",
    "NullDirections",
    "ParameterFisher",
    "Selection",
    "Spectrum",
    "Verdict",
    "advise",
    "definitions",
    "dense_spectrum",
    "dual_embedding",
    "embedding_fisher",
    "embedding_rank_bound",
    "expand_spaces",
    "explain",
    "find_measure",
    "find_null_directions",
    "format_report",
    "format_scores",
    "gram_spectrum",
    "intervals_by_variant",
    "known_directions",
    "krylov_bytes",
    "lanczos_spectrum",
    "measure",
    "measure_embeddings",
    "measure_norms",
    "measure_parameters",
    "null_parameters",
    "parameter_spectrum",
    "score_adviser",
    "select",
    "trace_by_parameter",
    "variant_name",
]
