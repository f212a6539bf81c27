"""A CLIP pair of towers with one-sided normalization on real icons, offline.

    python launch/train.py --config=configs/clip_asym.py --workdir=runs/clip
    python launch/train.py --config=configs/clip_asym.py:variant=cosine,seed=1 --workdir=runs/cosine
    python launch/train.py --config=configs/clip_asym.py:data=FOLDER --workdir=runs/mine

Captions are the queries: dnorm, the default, normalizes images and leaves captions their length, qnorm
the reverse (docs/clip.md). ``data`` names an image-text folder (train, dev and test tables); nothing
else changes. The settings come from a few short runs that were not compared one by one; figures of
whole runs are still to be measured.
"""

from magjax.config import image_text_config, parse_arguments


def get_config(arguments=None):
    """Icons of 32 pixels and their names; towers of width 128, three and one layers deep."""
    parsed = parse_arguments(arguments, variant="dnorm", seed=0, data="")
    config = image_text_config(variant=parsed["variant"], seed=parsed["seed"])
    if parsed["data"]:
        config.data.source = "folder"
        config.data.path = parsed["data"]
    config.data.augmentation = "placed"  # tests show black on white, as the fonts do
    config.model.update(image_layers=3, text_layers=1)
    config.text.max_length = 10
    config.batch_size = 128
    config.optimizer.update(learning_rate=2e-3, weight_decay=0.1, warmup_fraction=0.05)
    config.loop.update(steps=3000, evaluate_every=250, save_every=500, log_every=50)
    return config
