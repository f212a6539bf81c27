"""The closed registry of the BERT family and the one configuration that covers it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from magjax.checks import InputError, choose, positive_integer
from magjax.encoders._activation import ACTIVATIONS

__all__ = ["MODEL_TYPES", "EncoderConfig", "Family"]


@dataclasses.dataclass(frozen=True)
class Family:
    """What one ``model_type`` does differently; everything else the five families share.

    Attributes:
        architecture: the class name that Hugging Face writes into ``config.json``.
        token_types: rows of the token type table at a random start; 0 means no such table.
        pad_token_id: the pad id at a random start.
        offset_positions: positions count the non-pad tokens, starting at ``pad_token_id + 1``.
        relative_bias: attention scores get a learned bias by bucketed distance.
        keys: the family's own name of each field in ``config.json``.

    >>> MODEL_TYPES["mpnet"].relative_bias
    True
    """

    architecture: str
    token_types: int
    pad_token_id: int
    offset_positions: bool
    relative_bias: bool
    keys: Mapping[str, str]


_BERT_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "layer_norm_eps": "layer_norm_eps",
    "hidden_act": "hidden_act",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "pad_token_id": "pad_token_id",
    "initializer_range": "initializer_range",
}
_MPNET_KEYS = {name: key for name, key in _BERT_KEYS.items() if name != "type_vocab_size"}
_DISTILBERT_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "max_position_embeddings": "max_position_embeddings",
    "hidden_act": "activation",
    "hidden_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "pad_token_id": "pad_token_id",
    "initializer_range": "initializer_range",
}

MODEL_TYPES: dict[str, Family] = {
    "bert": Family("BertModel", 2, 0, False, False, _BERT_KEYS),
    "roberta": Family("RobertaModel", 1, 1, True, False, _BERT_KEYS),
    "xlm-roberta": Family("XLMRobertaModel", 1, 1, True, False, _BERT_KEYS),
    "distilbert": Family("DistilBertModel", 0, 0, False, False, _DISTILBERT_KEYS),
    "mpnet": Family("MPNetModel", 0, 1, True, True, _MPNET_KEYS),
}

# A file without these cannot be trusted to mean a default: a wrong head count loads without a
# shape error and changes every output.
_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)

# Settings that change the computation, with the only values that are implemented.
_FIXED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "quantization_config": (None,),
    "pruned_heads": (None, {}),
    "relative_attention_num_buckets": (32, None),
}


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Sizes and settings of one text encoder of the BERT family.

    ``type_vocab_size`` and ``pad_token_id`` default to the family's own (bert 2 and 0, roberta
    and xlm-roberta 1 and 1, distilbert 0 and 0, mpnet 0 and 1). ``hidden_dropout`` follows each
    sublayer and the embeddings, ``attention_dropout`` the attention weights.

    Raises:
        InputError: an unknown ``model_type`` or ``hidden_act``, or sizes that do not fit.

    >>> config = EncoderConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
    >>> config.max_length, config.pad_token_id
    (512, 0)
    >>> EncoderConfig("roberta", max_position_embeddings=514).max_length
    512
    """

    model_type: str = "bert"
    vocab_size: int = 30522
    hidden_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 512
    type_vocab_size: int | None = None
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    pad_token_id: int | None = None
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        choose("model_type", self.model_type, MODEL_TYPES)
        choose("hidden_act", self.hidden_act, ACTIVATIONS)
        family = self.family
        if self.type_vocab_size is None:
            object.__setattr__(self, "type_vocab_size", family.token_types)
        if self.pad_token_id is None:
            object.__setattr__(self, "pad_token_id", family.pad_token_id)
        for name in _REQUIRED:
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        for name in ("hidden_dropout", "attention_dropout"):
            rate = getattr(self, name)
            if not 0.0 <= rate < 1.0:
                raise InputError(f"{name}={rate!r} must be at least 0 and below 1.")
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}; change one of them."
            )
        if bool(self.type_vocab_size) != bool(family.token_types):
            needed = "at least 1" if family.token_types else "0 (it has no token types)"
            raise InputError(
                f"type_vocab_size={self.type_vocab_size} does not fit "
                f"model_type={self.model_type!r}, which needs {needed}."
            )
        if not 0 <= self.padding_index < self.vocab_size:
            raise InputError(
                f"pad_token_id={self.pad_token_id} lies outside vocab_size={self.vocab_size}."
            )
        # These two are constants in the published architectures, absent from their config files:
        # another value would be lost when the model is saved.
        if self.model_type == "distilbert" and self.layer_norm_eps != 1e-12:
            raise InputError(
                f"layer_norm_eps={self.layer_norm_eps} does not fit distilbert, which fixes 1e-12."
            )
        if self.model_type == "mpnet" and self.pad_token_id != 1:
            raise InputError(
                f"pad_token_id={self.pad_token_id} does not fit mpnet, which fixes 1; "
                "use model_type='bert' for a tokenizer with another pad id."
            )
        if self.max_length < 1:
            raise InputError(
                f"max_position_embeddings={self.max_position_embeddings} leaves no usable position "
                f"for {self.model_type} with pad_token_id={self.pad_token_id}; raise it."
            )

    @property
    def family(self) -> Family:
        """The entry of ``MODEL_TYPES``.

        >>> EncoderConfig("distilbert").family.architecture
        'DistilBertModel'
        """
        return MODEL_TYPES[self.model_type]

    @property
    def token_types(self) -> int:
        """Rows of the token type table, 0 when the family has none.

        >>> EncoderConfig("bert").token_types
        2
        """
        return self.type_vocab_size or 0

    @property
    def padding_index(self) -> int:
        """``pad_token_id`` as a plain number.

        >>> EncoderConfig("roberta").padding_index
        1
        """
        return 0 if self.pad_token_id is None else self.pad_token_id

    @property
    def max_length(self) -> int:
        """Tokens that fit the position table; offset families lose ``pad_token_id + 1`` rows.

        >>> EncoderConfig("mpnet", max_position_embeddings=514).max_length
        512
        """
        reserved = self.padding_index + 1 if self.family.offset_positions else 0
        return self.max_position_embeddings - reserved

    @classmethod
    def from_hf(cls, settings: Mapping[str, Any]) -> "EncoderConfig":
        """Reads the content of a Hugging Face ``config.json``.

        Raises:
            InputError: an unknown ``model_type`` or activation, a setting that changes the
                computation and is not implemented (relative position types, decoders,
                quantization), or a missing size.

        >>> EncoderConfig.from_hf({"model_type": "t5"})
        Traceback (most recent call last):
            ...
        magjax.checks.InputError: unknown model_type 't5'; known: bert, roberta, xlm-roberta, distilbert, mpnet.
        """
        if "model_type" not in settings:
            raise InputError(
                f"the encoder's config.json names no model_type; known: {', '.join(MODEL_TYPES)}."
            )
        model_type = choose("model_type", settings["model_type"], MODEL_TYPES)
        for name, allowed in _FIXED.items():
            value = settings.get(name)
            if value not in allowed:
                raise InputError(
                    f"{name}={value!r} in the encoder's config.json is not supported; "
                    f"only {allowed[0]!r} is."
                )
        keys = MODEL_TYPES[model_type].keys
        missing = [keys[name] for name in _REQUIRED if keys[name] not in settings]
        if missing:
            raise InputError(f"the encoder's config.json lacks {', '.join(missing)}.")
        values = {name: settings[key] for name, key in keys.items() if key in settings}
        return cls(model_type=model_type, **values)

    def to_hf(self) -> dict[str, Any]:
        """The content of the ``config.json`` that Hugging Face reads; inverse of ``from_hf``.

        >>> config = EncoderConfig("distilbert", hidden_size=24)
        >>> config.to_hf()["dim"], EncoderConfig.from_hf(config.to_hf()) == config
        (24, True)
        """
        settings: dict[str, Any] = {
            "architectures": [self.family.architecture],
            "model_type": self.model_type,
        }
        settings |= {key: getattr(self, name) for name, key in self.family.keys.items()}
        if self.family.relative_bias:
            settings["relative_attention_num_buckets"] = 32
        return settings
