"""Coloured squares with captions, on disk, and a model too small to be good."""

import json

import numpy as np

from magjax import hub
from magjax.config import image_text_config, to_json
from magjax.data import ImageSettings, TextSettings, TextTokenizer
from magjax.encoders import ClipTextConfig, DualEncoder, VisionConfig
from magjax.similarity import Score

COLOURS = {"red": (220, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 220), "grey": (90,) * 3}
PLACES = {"left": (slice(None), slice(0, 4)), "right": (slice(None), slice(4, 8))}
WORDS = [f"{colour} {place}" for colour in COLOURS for place in PLACES]


def square(words, shade=0):
    """A white square of 8 pixels, one half of it coloured."""
    colour, place = words.split()
    picture = np.full((8, 8, 3), 255, np.uint8)
    picture[PLACES[place]] = np.clip(np.add(COLOURS[colour], shade), 0, 255)
    return picture


def write_set(folder, splits=("train", "dev", "test"), rows=24):
    """A table a split; images of one kind share a caption, and some images have two."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, split in enumerate(splits):
        count = rows if split == "train" else 12
        words = [WORDS[i % len(WORDS)] for i in range(count)]
        pictures = np.stack([square(w, 3 * i + number) for i, w in enumerate(words)])
        np.savez(folder / f"{split}.npz", images=pictures)
        lines = [
            {
                "file": f"{split}.npz",
                "index": i,
                "captions": [text] if i % 3 else [text, f"{text} {split} half"],
            }
            for i, text in enumerate(words)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{split}.jsonl").write_text(text)
    return folder


def tiny_config(folder, *, variant="qnorm", **changes):
    """JSON of a run on ``folder`` that takes seconds; ``loop__steps=5`` changes a section."""
    config = image_text_config(variant=variant, seed=0)
    config.data.update(source="folder", path=str(folder), augmentation="none")
    config.model.update(
        image_size=8, patch_size=4, image_layers=1, image_width=16, image_heads=2, text_layers=1
    )
    config.model.update(text_width=16, text_heads=2, vocab_size=300)
    config.text.max_length = 8
    config.batch_size = 16
    config.loop.update(steps=2, evaluate_every=2, save_every=2, log_every=1)
    config.evaluation.k = 10
    for key, value in changes.items():
        *sections, name = key.split("__")
        target = config
        for section in sections:
            target = target[section]
        target[name] = value
    return to_json(config)


def tiny_model(score="qnorm", *, query_modality="text", seed=0):
    """A model of random towers for 8-pixel images."""
    tokenizer = TextTokenizer.train(WORDS, 300)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    vision = VisionConfig.of("clip_vision_model", image_size=8, patch_size=4, **sizes)
    text = ClipTextConfig.of(
        "clip_text_model",
        vocab_size=tokenizer.vocab_size,
        max_position_embeddings=12,
        pad_token_id=tokenizer.pad_id,
        eos_token_id=3,
        **sizes,
    )
    encoder = DualEncoder.create_image_text(
        vision, text, dim=8, query_modality=query_modality, seed=seed
    )
    settings = TextSettings(query_max_length=12, document_max_length=12)
    return hub.Model(encoder, Score.of(score, 0.1), tokenizer, settings, ImageSettings(size=8))
