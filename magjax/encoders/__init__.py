"""Towers of the BERT family, CLIP and SigLIP, pooling, and the dual encoder of two sides."""

from magjax.encoders._attention import attention
from magjax.encoders._clip_text import ClipTextEncoder
from magjax.encoders._clip_text_config import ClipTextConfig
from magjax.encoders._config import MODEL_TYPES, EncoderConfig
from magjax.encoders._dual_encoder import DualEncoder, Modality, Tower
from magjax.encoders._layers import COMPUTE_DTYPES
from magjax.encoders._pooling import POOLINGS, pool
from magjax.encoders._position_interpolation import interpolate_positions
from magjax.encoders._projection import Projection
from magjax.encoders._text_encoder import TextEncoder
from magjax.encoders._tower_families import CLIP_TEXT_TYPES, VISION_TYPES
from magjax.encoders._vision import VisionEncoder
from magjax.encoders._vision_config import VisionConfig

__all__ = [
    "CLIP_TEXT_TYPES",
    "COMPUTE_DTYPES",
    "MODEL_TYPES",
    "POOLINGS",
    "VISION_TYPES",
    "ClipTextConfig",
    "ClipTextEncoder",
    "DualEncoder",
    "EncoderConfig",
    "Modality",
    "Projection",
    "TextEncoder",
    "Tower",
    "VisionConfig",
    "VisionEncoder",
    "attention",
    "interpolate_positions",
    "pool",
]
