"""The start model of a run: random with a tokenizer of its own, or a checkpoint."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from flax import nnx

from magjax import hub
from magjax.checks import InputError
from magjax.data import TextSettings, TextTokenizer, TrainingSet
from magjax.encoders import ClipTextConfig, DualEncoder, EncoderConfig, VisionConfig

__all__ = ["start_model", "with_dropout"]


def start_model(config: Mapping[str, Any], train: TrainingSet) -> hub.Model:
    """Encoder, tokenizer and text settings that ``config.model`` and ``config.text`` name.

    A random start trains its tokenizer on the training texts; a checkpoint brings its own, and
    its weights, pooling, prompts and length limits unless the config states others.

    Args:
        config: the whole config, as JSON.
        train: texts for the tokenizer of a random start.

    Returns:
        The model without a score: the run's variant decides that.

    Raises:
        InputError: sizes that do not fit, or a checkpoint that cannot be read.

    >>> from magjax.config import retrieval_config, to_json
    >>> train = TrainingSet(["q"], ["sum"], [(0,)], [()], ["d"], ["adds numbers"])
    >>> config = retrieval_config(variant="dnorm", seed=0)
    >>> config.model.update(layers=1, width=16, vocab_size=300)
    >>> model = start_model(to_json(config), train)
    >>> model.encoder.dim, model.text.document_max_length, model.score
    (16, 64, None)
    """
    model, text = config["model"], config["text"]
    if model["init"] == "random":
        tokenizer = TextTokenizer.train([*train.queries, *train.documents], model["vocab_size"])
        settings = TextSettings(**text)
        longest = max(settings.query_max_length, settings.document_max_length)
        encoder_config = EncoderConfig(
            model_type=model["model_type"],
            vocab_size=tokenizer.vocab_size,
            hidden_size=model["width"],
            num_hidden_layers=model["layers"],
            num_attention_heads=model["heads"],
            intermediate_size=4 * model["width"],
            max_position_embeddings=longest + _reserved_positions(model["model_type"]),
            hidden_dropout=model["dropout"],
            attention_dropout=model["dropout"],
            pad_token_id=tokenizer.pad_id,
        )
        encoder = DualEncoder.create(
            encoder_config,
            pooling=model["pooling"],
            shared=model["shared"],
            projection_dim=model["projection_dim"] or None,
            dtype=model["dtype"],
            remat=model["remat"],
            seed=config["seed"],
        )
        return hub.Model(encoder, None, tokenizer, settings)
    if model["projection_dim"]:
        raise InputError(
            "model.projection_dim is for random starts; a checkpoint keeps its own output. Set it "
            "to 0."
        )
    loaded = hub.load(
        model["init"],
        dtype=model["dtype"],
        remat=model["remat"],
        pooling=model["pooling"] or None,
        query_prompt=text["query_prompt"] or None,
        document_prompt=text["document_prompt"] or None,
        query_max_length=text["query_max_length"],
        document_max_length=text["document_max_length"],
        cross_evaluation=True,
    )
    return dataclasses.replace(
        loaded, encoder=with_dropout(loaded.encoder, model["dropout"]), score=None
    )


def _reserved_positions(model_type: str) -> int:
    probe = EncoderConfig(model_type=model_type, max_position_embeddings=512)
    return 512 - probe.max_length


def with_dropout(encoder: DualEncoder, rate: float) -> DualEncoder:
    """Replaces the checkpoint's dropout rates by the config's, which states them for every run."""
    for _, module in nnx.iter_modules(encoder):
        config = getattr(module, "config", None)
        if isinstance(config, EncoderConfig | ClipTextConfig | VisionConfig):
            names = {field.name for field in dataclasses.fields(config)}
            rates: dict[str, Any] = {
                name: rate for name in ("hidden_dropout", "attention_dropout") if name in names
            }
            changed = dataclasses.replace(config, **rates)
            setattr(module, "config", changed)  # noqa: B010 (the attribute is not on every Module)
    return encoder
