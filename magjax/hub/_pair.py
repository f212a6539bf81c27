"""CLIP and SigLIP folders of Hugging Face: a text and a vision tower in one file."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from magjax.checks import InputError
from magjax.data import SIDES
from magjax.encoders import (
    CLIP_TEXT_TYPES,
    VISION_TYPES,
    ClipTextConfig,
    ClipTextEncoder,
    DualEncoder,
    VisionConfig,
    VisionEncoder,
)
from magjax.files import read_json, write_json
from magjax.hub._names import name_table
from magjax.hub._tensors import read_tensors, write_tensors
from magjax.hub._tower import build_tower, check_names, tower_tensors
from magjax.similarity import Score

__all__ = ["PAIR_TYPES", "Pair", "is_pair", "pair_towers", "read_pair", "write_pair"]


@dataclasses.dataclass(frozen=True)
class Pair:
    """What one ``model_type`` of two towers differs in.

    Attributes:
        architecture: the class name that Hugging Face writes into ``config.json``.
        text: ``model_type`` of its text tower.
        vision: ``model_type`` of its vision tower.
        temperature: at a random start.
        bias: of the logits at a random start, or None where there is none.
    """

    architecture: str
    text: str
    vision: str
    temperature: float
    bias: float | None


PAIR_TYPES: dict[str, Pair] = {
    "clip": Pair("CLIPModel", "clip_text_model", "clip_vision_model", 0.07, None),
    "siglip": Pair("SiglipModel", "siglip_text_model", "siglip_vision_model", 0.1, -10.0),
}


def is_pair(folder: Path) -> bool:
    """Whether ``folder`` holds a whole CLIP or SigLIP model.

    >>> is_pair(Path("/nowhere"))
    False
    """
    file = folder / "config.json"
    settings = read_json(file) if file.is_file() else None
    return isinstance(settings, dict) and settings.get("model_type") in PAIR_TYPES


def read_pair(
    folder: Path, *, dtype: str = "float32", remat: bool = False
) -> tuple[ClipTextEncoder, VisionEncoder, Score]:
    r"""Both towers, and the score that the folder states.

    It is cosine with temperature :math:`e^{-s}` for the stored logit scale :math:`s`, and in
    SigLIP the stored bias.

    Raises:
        InputError: a missing or unsupported file, and any tensor too few, too many or of another
            shape.

    >>> read_pair(Path("/nowhere"))
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/config.json does not exist.
    """
    file = folder / "config.json"
    settings = read_json(file)
    pair = PAIR_TYPES[settings["model_type"]]
    try:
        text_config = ClipTextConfig.from_hf(_part(settings, "text", pair.text))
        vision_config = VisionConfig.from_hf(_part(settings, "vision", pair.vision))
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    if text_config.dim != vision_config.dim:
        raise InputError(
            f"{file}: texts have {text_config.dim} dimensions and images {vision_config.dim}; "
            "one of the two was edited."
        )
    tensors = read_tensors(folder)
    scalars = ["logit_scale"] if pair.bias is None else ["logit_scale", "logit_bias"]
    names = {config: set(name_table(config)) for config in (text_config, vision_config)}
    check_names(folder, set().union(*names.values(), scalars), set(tensors))
    for name in scalars:
        if tensors[name].size != 1 or not np.isfinite(tensors[name]).all():
            raise InputError(f"{folder}: {name} must be one finite number, not {tensors[name]}.")
    scale, *bias = (tensors[name].item() for name in scalars)
    score = Score.of("cosine", math.exp(-scale))
    if bias:
        score = dataclasses.replace(score, bias=bias[0])
    text = build_tower(text_config, tensors, folder, dtype=dtype, remat=remat)
    vision = build_tower(vision_config, tensors, folder, dtype=dtype, remat=remat)
    assert isinstance(text, ClipTextEncoder)
    assert isinstance(vision, VisionEncoder)
    return text, vision, score


def pair_towers(encoder: DualEncoder) -> tuple[ClipTextEncoder, VisionEncoder] | None:
    """The two towers where one Hugging Face model can hold them, else None.

    >>> from magjax.encoders import EncoderConfig
    >>> vision = VisionConfig.preset("tiny", num_hidden_layers=1)
    >>> bert = EncoderConfig(vocab_size=50, hidden_size=12, num_hidden_layers=1)
    >>> pair_towers(DualEncoder.create_image_text(vision, bert)) is None
    True
    """
    text, vision = encoder.tower("query"), encoder.tower("document")
    if encoder.modality("query") == "image":
        text, vision = vision, text
    if not (isinstance(text, ClipTextEncoder) and isinstance(vision, VisionEncoder)):
        return None
    kinds = (text.config.model_type, vision.config.model_type)
    if kinds not in {(pair.text, pair.vision) for pair in PAIR_TYPES.values()}:
        return None
    if any(encoder.side_projection(side) is not None for side in SIDES):
        return None
    # Without a projection CLIP's vision tower fits no CLIPModel, whatever its width.
    return (text, vision) if vision.head or vision.projection else None


def write_pair(
    text: ClipTextEncoder, vision: VisionEncoder, score: Score | None, folder: Path
) -> None:
    r"""Writes ``config.json`` and ``model.safetensors`` as ``CLIPModel`` or ``SiglipModel`` reads them.

    The logit scale is :math:`-\log\tau`. Those classes score by cosine whatever the model was
    trained for; an unknown temperature or bias is written as at a random start.
    """
    kind, pair = next(
        (kind, pair) for kind, pair in PAIR_TYPES.items() if pair.text == text.config.model_type
    )
    parts = {"text_config": text.config.to_hf(), "vision_config": vision.config.to_hf()}
    for part in parts.values():
        del part["architectures"]
    settings: dict[str, Any] = {"architectures": [pair.architecture], "model_type": kind, **parts}
    if pair.bias is None:
        settings["projection_dim"] = text.dim
    write_json(folder / "config.json", settings)
    temperature = score.temperature if score is not None else None
    scale = -math.log(temperature or pair.temperature)
    tensors = {**tower_tensors(text), **tower_tensors(vision)}
    if pair.bias is None:
        tensors["logit_scale"] = np.asarray(scale, np.float32)
    else:
        bias = score.bias if score is not None and score.bias is not None else pair.bias
        tensors["logit_scale"] = np.asarray([scale], np.float32)
        tensors["logit_bias"] = np.asarray([bias], np.float32)
    write_tensors(folder / "model.safetensors", tensors)


def _part(settings: Mapping[str, Any], side: str, model_type: str) -> dict[str, Any]:
    """One tower's settings as transformers fills them in."""
    stated = settings.get(f"{side}_config") or {}
    older = settings.get(f"{side}_config_dict")
    if older is not None:
        # The older key outdoes the newer one, its defaults included.
        families: Mapping[str, Any] = CLIP_TEXT_TYPES if side == "text" else VISION_TYPES
        stated = {**stated, **families[model_type].defaults, **older}
    part = {"model_type": model_type, **stated}
    part.pop("architectures", None)
    if part["model_type"] != model_type:
        raise InputError(
            f"{side}_config has model_type {part['model_type']!r}, not {model_type!r}, the only one "
            "that fits here."
        )
    if settings["model_type"] == "clip":
        # CLIPModel reads the width of the whole model and leaves those of its parts aside.
        part["projection_dim"] = settings.get("projection_dim", 512)
    return part
