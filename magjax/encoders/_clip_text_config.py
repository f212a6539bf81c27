"""The configuration of CLIP's and SigLIP's text towers."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from magjax.checks import InputError
from magjax.encoders._tower_config import TowerConfig
from magjax.encoders._tower_families import CLIP_TEXT_TYPES, TextFamily

__all__ = ["ClipTextConfig"]

# CLIP's files from before the end-of-text id was corrected name 2 (it is 49407): those towers pool
# at a text's largest id.
_LEGACY_EOS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipTextConfig(TowerConfig):
    """Sizes and settings of a text tower of CLIP or SigLIP.

    ``projection_dim`` is the width of its embeddings (None: ``hidden_size``). ``eos_token_id`` is
    the token that CLIP pools at; the value 2 stands for the rule of older checkpoints, the largest
    id of a text. SigLIP pads with ``pad_token_id`` and reads the padding. Start from ``of`` or
    ``preset``, which fill in what a family publishes.

    Raises:
        InputError: an unknown ``model_type`` or ``hidden_act``, or sizes that do not fit.

    >>> config = ClipTextConfig.preset("tiny", vocab_size=1000, eos_token_id=3)
    >>> config.hidden_size, config.max_length, config.hidden_act
    (192, 32, 'quick_gelu')
    """

    vocab_size: int
    max_position_embeddings: int
    projection_dim: int | None
    pad_token_id: int | None
    bos_token_id: int | None
    eos_token_id: int | list[int] | None  # a list is read, to be refused by name

    families: ClassVar[Mapping[str, TextFamily]] = CLIP_TEXT_TYPES
    presets: ClassVar[Mapping[str, Mapping[str, int]]] = {
        "tiny": {
            "hidden_size": 192,
            "intermediate_size": 768,
            "projection_dim": 192,
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "max_position_embeddings": 32,
        },
        "base": {},
    }

    def __post_init__(self) -> None:
        if self.projection_dim is None:
            object.__setattr__(self, "projection_dim", self.hidden_size)
        self._check("vocab_size", "max_position_embeddings", "projection_dim")
        # The one special token that decides the embedding: SigLIP's padding, CLIP's end of text.
        name = "pad_token_id" if self.family.fills_positions else "eos_token_id"
        token = getattr(self, name)
        if isinstance(token, bool) or not isinstance(token, int):
            raise InputError(f"{name}={token!r} of {self.model_type} must be one token id.")
        if not 0 <= token < self.vocab_size:
            raise InputError(
                f"{name}={token} lies outside vocab_size={self.vocab_size}; state the tokenizer's."
            )

    @property
    def family(self) -> TextFamily:
        """The entry of ``CLIP_TEXT_TYPES``.

        >>> ClipTextConfig.of("clip_text_model").family.projection_bias
        False
        """
        return CLIP_TEXT_TYPES[self.model_type]

    @property
    def max_length(self) -> int:
        """Tokens that fit the position table."""
        return self.max_position_embeddings

    @property
    def dim(self) -> int:
        """Width of the embeddings.

        >>> ClipTextConfig.of("siglip_text_model").dim
        768
        """
        return self.projection_dim or self.hidden_size

    @property
    def pools_at_largest_id(self) -> bool:
        """Whether the end of text is found by the rule of older checkpoints.

        >>> ClipTextConfig.of("clip_text_model", eos_token_id=2).pools_at_largest_id
        True
        """
        return not self.family.fills_positions and self.eos_token_id == _LEGACY_EOS

    @classmethod
    def from_hf(cls, settings: Mapping[str, Any]) -> "ClipTextConfig":
        """As in every tower; SigLIP's name of ``projection_dim`` is ``projection_size``.

        >>> settings = {"model_type": "siglip_text_model", "projection_size": 512}
        >>> ClipTextConfig.from_hf(settings).dim
        512
        """
        family = cls.families.get(str(settings.get("model_type")))
        if family is not None and family.projection_key != "projection_dim":
            settings = {**settings, "projection_dim": settings.get(family.projection_key)}
        return super().from_hf(settings)

    def to_hf(self) -> dict[str, Any]:
        """The content of the ``config.json`` that Hugging Face reads; inverse of ``from_hf``.

        >>> config = ClipTextConfig.of("siglip_text_model")
        >>> config.to_hf()["projection_size"], ClipTextConfig.from_hf(config.to_hf()) == config
        (768, True)
        """
        settings = super().to_hf()
        settings[self.family.projection_key] = settings.pop("projection_dim")
        return settings
