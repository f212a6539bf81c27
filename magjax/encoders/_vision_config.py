"""The configuration of CLIP's and SigLIP's vision towers."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from magjax.checks import InputError, positive_integer
from magjax.encoders._tower_config import TowerConfig
from magjax.encoders._tower_families import VISION_TYPES, VisionFamily

__all__ = ["VisionConfig"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class VisionConfig(TowerConfig):
    """Sizes and settings of a vision transformer of CLIP or SigLIP.

    An image of ``image_size`` pixels a side is cut into squares of ``patch_size`` pixels; what
    does not fill a square at the right and lower edge is left out. ``projection_dim`` is the
    width of the embeddings, or None for ``hidden_size`` (always so in SigLIP). Start from ``of``
    or ``preset``, which fill in what a family publishes.

    Raises:
        InputError: an unknown ``model_type`` or ``hidden_act``, or sizes that do not fit.

    >>> config = VisionConfig.preset("tiny")
    >>> config.image_size, config.grid, config.positions
    (32, 4, 17)
    """

    image_size: int
    patch_size: int
    projection_dim: int | None

    families: ClassVar[Mapping[str, VisionFamily]] = VISION_TYPES
    presets: ClassVar[Mapping[str, Mapping[str, int]]] = {
        "tiny": {
            "hidden_size": 192,
            "intermediate_size": 768,
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "image_size": 32,
            "patch_size": 8,
        },
        "base": {},
    }

    def __post_init__(self) -> None:
        self._check("image_size", "patch_size")
        if self.patch_size > self.image_size:
            raise InputError(
                f"patch_size={self.patch_size} is larger than image_size={self.image_size}."
            )
        if self.projection_dim is not None:
            if not self.family.class_token:
                raise InputError(
                    f"projection_dim={self.projection_dim} does not fit {self.model_type}, whose "
                    f"embeddings are hidden_size={self.hidden_size} wide; leave it out."
                )
            positive_integer("projection_dim", self.projection_dim)

    @property
    def family(self) -> VisionFamily:
        """The entry of ``VISION_TYPES``.

        >>> VisionConfig.of("siglip_vision_model").family.patch_bias
        True
        """
        return VISION_TYPES[self.model_type]

    @property
    def dim(self) -> int:
        """Width of the embeddings.

        >>> VisionConfig.of("clip_vision_model").dim
        512
        """
        return self.projection_dim or self.hidden_size

    @property
    def grid(self) -> int:
        """Patches along one edge.

        >>> VisionConfig.of("siglip_vision_model", image_size=384, patch_size=14).grid
        27
        """
        return self.image_size // self.patch_size

    @property
    def positions(self) -> int:
        """Rows of the position table: one a patch, and one for a class token.

        >>> VisionConfig.of("clip_vision_model").positions
        50
        """
        return self.grid**2 + int(self.family.class_token)

    @classmethod
    def from_hf(cls, settings: Mapping[str, Any]) -> "VisionConfig":
        """As in every tower; a ``CLIPVisionModel`` has no projection, whatever its file says.

        >>> settings = {"model_type": "clip_vision_model", "architectures": ["CLIPVisionModel"]}
        >>> VisionConfig.from_hf(settings).projection_dim is None
        True
        """
        family = cls.families.get(str(settings.get("model_type")))
        bare = settings.get("architectures") == ["CLIPVisionModel"]
        if family is not None and (bare or not family.class_token):
            settings = {**settings, "projection_dim": None}
        return super().from_hf(settings)

    def to_hf(self) -> dict[str, Any]:
        """The content of the ``config.json`` that Hugging Face reads; inverse of ``from_hf``.

        >>> VisionConfig.of("clip_vision_model", projection_dim=None).to_hf()["architectures"]
        ['CLIPVisionModel']
        """
        settings = super().to_hf()
        if self.projection_dim is None:
            settings.pop("projection_dim")
            bare = self.family.architecture.removesuffix("WithProjection")
            settings["architectures"] = [bare]
        return settings
