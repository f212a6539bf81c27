"""A CLIP pair of towers with one-sided normalization on real icons, offline."""

from magjax.config import image_text_config, parse_arguments


def get_config(arguments=None):
    """Icons and their names; ``data=FOLDER`` takes an image-text folder instead."""
    parsed = parse_arguments(arguments, variant="qnorm", seed=0, data="")
    config = image_text_config(variant=parsed["variant"], seed=parsed["seed"])
    if parsed["data"]:
        config.data.source = "folder"
        config.data.path = parsed["data"]
    config.batch_size = 256
    config.text.max_length = 16
    config.optimizer.learning_rate = 1e-3
    config.loop.update(steps=900, evaluate_every=150, save_every=300, log_every=25)
    return config
