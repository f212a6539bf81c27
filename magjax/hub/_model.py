"""What a folder holds: the encoder and everything that its numbers depend on."""

import dataclasses

from magjax.checks import InputError
from magjax.data import SIDES, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder
from magjax.similarity import PRESETS, Score

__all__ = ["Model"]


@dataclasses.dataclass
class Model:
    """An encoder with its score, tokenizer, prompts and lengths.

    Attributes:
        encoder: embeds token batches of either side; pooling is part of it.
        score: how two embeddings are compared, or None when the folder states none.
        tokenizer: the checkpoint's own.
        text: prompt and maximum length of each side.

    Raises:
        InputError: a tokenizer with more ids than the encoder has embeddings, another pad id
            where positions are counted by it, or a length beyond the position table.

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

    def __post_init__(self) -> None:
        for side in SIDES:
            config = self.encoder.tower(side).config
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
            if config.family.offset_positions and self.tokenizer.pad_id != config.padding_index:
                raise InputError(
                    f"the tokenizer pads with id {self.tokenizer.pad_id} but this "
                    f"{config.model_type} encoder counts positions by pad id "
                    f"{config.padding_index}; they belong to different checkpoints."
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
