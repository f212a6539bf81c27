"""What a folder holds: the encoder and everything that its numbers depend on."""

import dataclasses
import logging

from magjax.checks import InputError
from magjax.data import SIDES, ImageSettings, TextSettings, TextTokenizer
from magjax.encoders import (
    ClipTextConfig,
    DualEncoder,
    EncoderConfig,
    TextEncoder,
    VisionConfig,
    VisionEncoder,
)
from magjax.similarity import PRESETS, Score
from magjax.typing import Side

__all__ = ["Model", "text_config"]

_log = logging.getLogger("magjax")


@dataclasses.dataclass
class Model:
    """An encoder with its score, tokenizer, prompts and lengths, and how it reads images.

    Attributes:
        encoder: embeds batches of either side; pooling is part of it.
        score: how two embeddings are compared, or None when the folder states none.
        tokenizer: the checkpoint's own.
        text: prompt and maximum length of each side; a side of images has no prompt, and a length
            that nothing reads.
        images: how images become numbers where a side embeds them, else None.

    Raises:
        InputError: a tokenizer with more ids than the encoder has embeddings, another pad id
            where positions are counted by it or padding is read, texts that do not end in the
            token that CLIP pools at, a length beyond the position table, or images of another
            size than the vision tower's.

    >>> from magjax.encoders import EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm"), tokenizer, text)
    >>> model.require_score().gammas
    (1.0, 0.0)
    """

    encoder: DualEncoder
    score: Score | None
    tokenizer: TextTokenizer
    text: TextSettings
    images: ImageSettings | None = None

    def __post_init__(self) -> None:
        for side in SIDES:
            config = text_config(self.encoder, side)
            if self.text.max_length(side) > config.max_length:
                raise InputError(
                    f"{side}_max_length={self.text.max_length(side)} does not fit the "
                    f"{config.max_length} positions of the encoder; lower it."
                )
            if self.tokenizer.vocab_size > config.vocab_size:
                raise InputError(
                    f"the tokenizer has {self.tokenizer.vocab_size} ids but the encoder only "
                    f"{config.vocab_size} embeddings; they belong to different checkpoints."
                )
            if self.encoder.modality(side) == "image" and self.text.prompt(side):
                raise InputError(
                    f"{side}_prompt={self.text.prompt(side)!r} was given, but the {side} side "
                    "embeds images; leave it out."
                )
            if isinstance(config, EncoderConfig):
                _check_offset(config, self.tokenizer)
            else:
                _check_special(config, self.tokenizer)
        self._check_images()

    def _check_images(self) -> None:
        configs = [self.encoder.tower(side).config for side in SIDES]
        sizes = [config.image_size for config in configs if isinstance(config, VisionConfig)]
        if self.images is None and sizes:
            raise InputError(
                "the encoder embeds images, and nothing states how they are resized and "
                "normalized; give images=ImageSettings(...), or copy preprocessor_config.json "
                "into the folder."
            )
        if self.images is not None and not sizes:
            raise InputError("images= was given, but the encoder embeds texts only; leave it out.")
        if self.images is not None and self.images.crop_size != sizes[0]:
            raise InputError(
                f"images are cut to {self.images.crop_size} pixels a side, but the vision tower "
                f"reads {sizes[0]}; change one of them (load(image_size=...) resizes the tower)."
            )

    def require_bert(self, purpose: str) -> None:
        """Raises unless both sides embed texts by a tower of the BERT family.

        Args:
            purpose: what needs that, for the message.

        Raises:
            InputError: a side of images, or a text tower of CLIP or SigLIP.
        """
        for side in SIDES:
            tower = self.encoder.tower(side)
            if not isinstance(tower, TextEncoder):
                raise InputError(
                    f"{purpose} is for text towers of the BERT family; the {side} side of this "
                    f"model is a {tower.config.model_type}."
                )

    def require_score(self) -> Score:
        """The score, or an error that asks for one.

        Raises:
            InputError: neither the folder nor the caller stated a score.
        """
        if self.score is None:
            raise InputError(
                "the model's folder states no score, and rankings depend on it; name one: "
                f"--score={'|'.join(PRESETS)} on the command line, score=Score.of(...) in Python."
            )
        return self.score

    def ranked_by(self, score: Score | None) -> "Model":
        """The same model under another score than its own: a cross-evaluation, and said to be one.

        Args:
            score: None, or one that agrees with the model's own, keeps that and its temperature.

        >>> from magjax.encoders import EncoderConfig
        >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
        >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
        ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
        >>> text = TextSettings(query_max_length=8, document_max_length=16)
        >>> model = Model(DualEncoder.create(config), None, tokenizer, text)
        >>> model.ranked_by(Score.of("dnorm")).require_score().variant
        'dnorm'
        """
        if score is None or (self.score is not None and self.score.agrees_with(score)):
            return self
        if self.score is not None:
            _log.warning("cross-evaluation: trained for %s, ranked by %s.", self.score, score)
        return dataclasses.replace(self, score=score)


def text_config(encoder: DualEncoder, side: Side) -> EncoderConfig | ClipTextConfig:
    """The configuration of a side's text tower; of the other side's where this one is images.

    Raises:
        InputError: both sides are images.
    """
    for name in (side, *SIDES):
        tower = encoder.tower(name)
        if not isinstance(tower, VisionEncoder):
            return tower.config
    raise InputError("both sides of this encoder embed images; a model needs a side of texts.")


def _check_offset(config: EncoderConfig, tokenizer: TextTokenizer) -> None:
    if config.family.offset_positions and tokenizer.pad_id != config.padding_index:
        raise InputError(
            f"the tokenizer pads with id {tokenizer.pad_id} but this {config.model_type} encoder "
            f"counts positions by pad id {config.padding_index}; they belong to different "
            "checkpoints."
        )


def _check_special(config: ClipTextConfig, tokenizer: TextTokenizer) -> None:
    """The one token that decides an embedding of CLIP's and SigLIP's text towers."""
    if config.family.fills_positions:
        if tokenizer.pad_id != config.pad_token_id:
            raise InputError(
                f"the tokenizer pads with id {tokenizer.pad_id} but the {config.model_type} reads "
                f"padding of id {config.pad_token_id}; set pad_token_id to the tokenizer's."
            )
        return
    last = int(tokenizer.encode(["a"], config.max_length)[0][-1])
    if config.pools_at_largest_id:
        largest = tokenizer.vocab_size - 1
        if last != largest:
            raise InputError(
                f"eos_token_id=2 stands for the older rule, by which a text's largest id is its "
                f"end; this tokenizer ends texts with {last} and has ids up to {largest}. State "
                f"eos_token_id={last} in config.json."
            )
    elif last != config.eos_token_id:
        raise InputError(
            f"the tokenizer ends texts with id {last}, but the {config.model_type} pools at "
            f"eos_token_id={config.eos_token_id}; make them agree."
        )
