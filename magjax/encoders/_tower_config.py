"""What the configurations of text and vision towers of CLIP and SigLIP have in common."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.encoders._activation import ACTIVATIONS

__all__ = ["TowerConfig"]

# Settings that change the computation, with the only values that are implemented.
_FIXED: dict[str, tuple[Any, ...]] = {
    "num_channels": (3, None),
    "vision_use_head": (True, None),
    "is_decoder": (False, None),
    "quantization_config": (None,),
}

_Config = TypeVar("_Config", bound="TowerConfig")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TowerConfig:
    """Sizes of a pre-norm transformer, and how they are read from ``config.json``.

    >>> from magjax.encoders import VisionConfig
    >>> issubclass(VisionConfig, TowerConfig)
    True
    """

    model_type: str
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    hidden_act: str
    layer_norm_eps: float
    attention_dropout: float = 0.0

    families: ClassVar[Mapping[str, Any]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, int]]] = {}

    def _check(self, *whole: str) -> None:
        choose("model_type", self.model_type, self.families)
        choose("hidden_act", self.hidden_act, ACTIVATIONS)
        positive_number("layer_norm_eps", self.layer_norm_eps)
        for name in (
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            *whole,
        ):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        if not 0.0 <= self.attention_dropout < 1.0:
            raise InputError(
                f"attention_dropout={self.attention_dropout!r} must be at least 0 and below 1."
            )
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}; change one of them."
            )

    @classmethod
    def of(cls: type[_Config], model_type: str, **changes: Any) -> _Config:
        """A family's published settings with some of them changed.

        Raises:
            InputError: an unknown family or setting, or sizes that do not fit.

        >>> from magjax.encoders import VisionConfig
        >>> VisionConfig.of("clip_vision_model", patch_size=16).positions
        197
        """
        defaults = cls.families[choose("model_type", model_type, cls.families)].defaults
        for name in changes:
            choose(f"setting of {model_type}", name, _names(cls))
        return cls(model_type=model_type, **{**defaults, **changes})

    @classmethod
    def preset(
        cls: type[_Config], name: str, *, model_type: str | None = None, **changes: Any
    ) -> _Config:
        """Sizes by name: ``"tiny"`` (4 layers of 192, for a CPU) or ``"base"`` (as published).

        Args:
            name: the preset.
            model_type: the family; None: CLIP's.
            changes: settings that replace the preset's.

        Raises:
            InputError: an unknown name, family or setting.

        >>> from magjax.encoders import VisionConfig
        >>> VisionConfig.preset("tiny", image_size=64).positions
        65
        """
        sizes = cls.presets[choose("preset", name, cls.presets)]
        return cls.of(model_type or next(iter(cls.families)), **{**sizes, **changes})

    @classmethod
    def from_hf(cls: type[_Config], settings: Mapping[str, Any]) -> _Config:
        """Reads a Hugging Face ``config.json``, or one side's part of a whole model's.

        Raises:
            InputError: an unknown ``model_type`` or activation, or a setting that is not
                implemented.

        >>> from magjax.encoders import ClipTextConfig
        >>> ClipTextConfig.from_hf({"model_type": "clip_text_model"}).vocab_size
        49408
        """
        choose("model_type", settings.get("model_type"), cls.families)
        for name, allowed in _FIXED.items():
            if settings.get(name) not in allowed:
                raise InputError(
                    f"{name}={settings[name]!r} in the tower's config.json is not supported; only "
                    f"{allowed[0]!r} is."
                )
        found = {name: settings[name] for name in _names(cls) if name in settings}
        return cls.of(settings["model_type"], **found)

    def to_hf(self) -> dict[str, Any]:
        """The content of the ``config.json`` that Hugging Face reads; inverse of ``from_hf``.

        >>> from magjax.encoders import VisionConfig
        >>> config = VisionConfig.preset("tiny", projection_dim=64)
        >>> VisionConfig.from_hf(config.to_hf()) == config
        True
        """
        architecture = self.families[self.model_type].architecture
        return {"architectures": [architecture], **dataclasses.asdict(self)}


def _names(cls: type[TowerConfig]) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.name != "model_type"]
