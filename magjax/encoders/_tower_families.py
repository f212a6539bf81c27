"""The closed registry of the CLIP and SigLIP towers: what each family does differently."""

import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = ["CLIP_TEXT_TYPES", "VISION_TYPES", "TextFamily", "VisionFamily"]


@dataclasses.dataclass(frozen=True)
class TextFamily:
    """What one kind of text tower does differently.

    Attributes:
        architecture: the class name that Hugging Face writes into ``config.json``.
        causal: tokens see only themselves and earlier ones.
        fills_positions: texts are padded to all positions, padding is attended to, and the last
            position is the embedding; else the end-of-text token is.
        projection_key: the name of ``projection_dim`` in ``config.json``.
        projection_bias: the projection has a bias.
        depth_scaled_start: kernels start as CLIP's do, smaller in deeper towers; else as SigLIP's.
        defaults: what ``config.json`` means where it is silent.

    >>> CLIP_TEXT_TYPES["siglip_text_model"].causal
    False
    """

    architecture: str
    causal: bool
    fills_positions: bool
    projection_key: str
    projection_bias: bool
    depth_scaled_start: bool
    defaults: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class VisionFamily:
    """What one kind of vision tower does differently.

    Attributes:
        architecture: the class name that Hugging Face writes into ``config.json``.
        class_token: a token of its own stands before the patches and becomes the embedding, after
            layer norms before the first and after the last layer; else patches alone are
            read, and a head of attention from one learned query pools them.
        patch_bias: the patch embedding has a bias.
        depth_scaled_start: kernels start as CLIP's do, smaller in deeper towers; else as SigLIP's.
        defaults: what ``config.json`` means where it is silent.

    >>> VISION_TYPES["clip_vision_model"].class_token
    True
    """

    architecture: str
    class_token: bool
    patch_bias: bool
    depth_scaled_start: bool
    defaults: Mapping[str, Any]


CLIP_TEXT_TYPES: dict[str, TextFamily] = {
    "clip_text_model": TextFamily(
        "CLIPTextModelWithProjection",
        causal=True,
        fills_positions=False,
        projection_key="projection_dim",
        projection_bias=False,
        depth_scaled_start=True,
        defaults={
            "vocab_size": 49408,
            "hidden_size": 512,
            "intermediate_size": 2048,
            "projection_dim": 512,
            "num_hidden_layers": 12,
            "num_attention_heads": 8,
            "max_position_embeddings": 77,
            "hidden_act": "quick_gelu",
            "layer_norm_eps": 1e-5,
            "attention_dropout": 0.0,
            "pad_token_id": 1,
            "bos_token_id": 49406,
            "eos_token_id": 49407,
        },
    ),
    "siglip_text_model": TextFamily(
        "SiglipTextModel",
        causal=False,
        fills_positions=True,
        projection_key="projection_size",
        projection_bias=True,
        depth_scaled_start=False,
        defaults={
            "vocab_size": 32000,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "projection_dim": None,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "max_position_embeddings": 64,
            "hidden_act": "gelu_pytorch_tanh",
            "layer_norm_eps": 1e-6,
            "attention_dropout": 0.0,
            "pad_token_id": 1,
            "bos_token_id": 49406,
            "eos_token_id": 49407,
        },
    ),
}
"""The text towers of CLIP and SigLIP by their ``model_type``."""

VISION_TYPES: dict[str, VisionFamily] = {
    "clip_vision_model": VisionFamily(
        "CLIPVisionModelWithProjection",
        class_token=True,
        patch_bias=False,
        depth_scaled_start=True,
        defaults={
            "hidden_size": 768,
            "intermediate_size": 3072,
            "projection_dim": 512,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "image_size": 224,
            "patch_size": 32,
            "hidden_act": "quick_gelu",
            "layer_norm_eps": 1e-5,
            "attention_dropout": 0.0,
        },
    ),
    "siglip_vision_model": VisionFamily(
        "SiglipVisionModel",
        class_token=False,
        patch_bias=True,
        depth_scaled_start=False,
        defaults={
            "hidden_size": 768,
            "intermediate_size": 3072,
            "projection_dim": None,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "image_size": 224,
            "patch_size": 16,
            "hidden_act": "gelu_pytorch_tanh",
            "layer_norm_eps": 1e-6,
            "attention_dropout": 0.0,
        },
    ),
}
"""The vision towers of CLIP and SigLIP by their ``model_type``."""
