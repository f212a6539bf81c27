"""Text encoders of the BERT family, pooling, and the dual encoder of queries and documents."""

from magjax.encoders._attention import attention
from magjax.encoders._config import MODEL_TYPES, EncoderConfig
from magjax.encoders._dual_encoder import DualEncoder, Projection
from magjax.encoders._pooling import POOLINGS, pool
from magjax.encoders._text_encoder import COMPUTE_DTYPES, TextEncoder

__all__ = [
    "COMPUTE_DTYPES",
    "MODEL_TYPES",
    "POOLINGS",
    "DualEncoder",
    "EncoderConfig",
    "Projection",
    "TextEncoder",
    "attention",
    "pool",
]
