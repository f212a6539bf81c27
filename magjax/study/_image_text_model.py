"""The start model of an image-text run: random, one checkpoint, or a tower of each of two."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from magjax import hub
from magjax.checks import InputError, choose
from magjax.data import ImageSettings, ImageTextSet, TextSettings, TextTokenizer
from magjax.encoders import ClipTextConfig, DualEncoder, VisionConfig
from magjax.study._text_model import with_dropout

__all__ = ["start_image_text_model"]

_FAMILIES = ("clip", "siglip")


def start_image_text_model(config: Mapping[str, Any], train: ImageTextSet) -> hub.Model:
    """Towers, tokenizer and settings that ``config.model`` and ``config.text`` name.

    A random start trains its tokenizer on the training captions; checkpoints bring their own, and
    how images become numbers with it.

    Args:
        config: as :func:`magjax.config.image_text_config`, in JSON form.
        train: captions for the tokenizer of a random start.

    Returns:
        The model without a score: the run's variant decides that.

    Raises:
        InputError: sizes that do not fit, settings that contradict each other, or a checkpoint
            that cannot be read.

    >>> import numpy as np
    >>> from magjax.config import image_text_config, to_json
    >>> from magjax.data import ImageArrays
    >>> train = ImageTextSet(["a"], ImageArrays(np.zeros((1, 8, 8), np.uint8), ["a"]), [("x",)])
    >>> config = image_text_config(variant="qnorm", seed=0)
    >>> config.model.update(image_layers=1, text_layers=1, vocab_size=300)
    >>> model = start_image_text_model(to_json(config), train)
    >>> model.encoder.dim, model.encoder.modality("document"), model.images.crop_size
    (128, 'image', 32)
    """
    model, text = config["model"], config["text"]
    lit = [name for name in ("text_init", "image_init") if model[name]]
    if model["init"] == "random" and not lit:
        return _random(config, train)
    if len(lit) == 1 or (lit and model["init"] != "random"):
        raise InputError(
            "model.text_init and model.image_init name the two towers of a LiT start together, "
            f"with model.init='random'; got init={model['init']!r}, "
            f"text_init={model['text_init']!r}, image_init={model['image_init']!r}."
        )
    common = {
        "query_modality": config["query_modality"],
        "image_size": model["image_size"] or None,
        "dtype": model["dtype"],
        "remat": model["remat"],
    }
    if lit:
        combined = hub.combine(
            model["text_init"],
            model["image_init"],
            dim=model["dim"] or None,
            prompt=text["prompt"],
            max_length=text["max_length"],
            seed=config["seed"],
            **common,
        )
        with_dropout(combined.encoder, model["dropout"])
        return combined
    if model["dim"]:
        raise InputError(
            "model.dim is for random starts and LiT; a checkpoint keeps its own output. Set it to "
            "0."
        )
    loaded = hub.load(
        model["init"],
        **common,
        **_lengths(text),
        **_prompts(config, None),
        cross_evaluation=True,
    )
    if not loaded.encoder.is_mixed:
        raise InputError(
            f"{model['init']} has no image tower; name a CLIP or SigLIP folder, or set "
            "model.text_init and model.image_init."
        )
    stated = loaded.encoder.modality("query")
    if stated != config["query_modality"]:
        raise InputError(
            f"the queries of {model['init']} are {stated}s; set "
            f"--config.query_modality={stated} to go on training it."
        )
    return dataclasses.replace(
        loaded, encoder=with_dropout(loaded.encoder, model["dropout"]), score=None
    )


def _random(config: Mapping[str, Any], train: ImageTextSet) -> hub.Model:
    model, length = config["model"], config["text"]["max_length"]
    siglip = choose("model.family", model["family"], _FAMILIES) == "siglip"
    tokenizer = TextTokenizer.train(train.flat_captions, model["vocab_size"])
    dim = model["dim"] or model["image_width"]
    vision = VisionConfig.of(
        f"{model['family']}_vision_model",
        hidden_size=model["image_width"],
        intermediate_size=4 * model["image_width"],
        num_hidden_layers=model["image_layers"],
        num_attention_heads=model["image_heads"],
        image_size=model["image_size"],
        patch_size=model["patch_size"],
        projection_dim=None if siglip else dim,
        attention_dropout=model["dropout"],
    )
    words = ClipTextConfig.of(
        f"{model['family']}_text_model",
        vocab_size=tokenizer.vocab_size,
        hidden_size=model["text_width"],
        intermediate_size=4 * model["text_width"],
        num_hidden_layers=model["text_layers"],
        num_attention_heads=model["text_heads"],
        max_position_embeddings=length,
        projection_dim=dim,
        pad_token_id=tokenizer.pad_id,
        eos_token_id=int(tokenizer.encode(["a"], length)[0][-1]),
        attention_dropout=model["dropout"],
    )
    encoder = DualEncoder.create_image_text(
        vision,
        words,
        dim=dim,
        query_modality=config["query_modality"],
        dtype=model["dtype"],
        remat=model["remat"],
        seed=config["seed"],
    )
    settings = TextSettings(**_lengths(config["text"]), **_prompts(config, ""))
    size = model["image_size"]
    images = ImageSettings.siglip(size) if siglip else ImageSettings(size=size)
    return hub.Model(encoder, None, tokenizer, settings, images)


def _lengths(text: Mapping[str, Any]) -> dict[str, Any]:
    # A length of the images' side is read by nothing; a model states both.
    return {"query_max_length": text["max_length"], "document_max_length": text["max_length"]}


def _prompts(config: Mapping[str, Any], none: str | None) -> dict[str, Any]:
    side = "query" if config["query_modality"] == "text" else "document"
    return {f"{side}_prompt": config["text"]["prompt"] or none}
