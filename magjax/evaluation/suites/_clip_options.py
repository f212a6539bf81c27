"""What the suite of images and captions takes as ``--option=``."""

from collections.abc import Mapping

__all__ = ["CLIP_OPTIONS"]

CLIP_OPTIONS: Mapping[str, str] = {
    "all_scores": "true: also rank by the scores that the model was not trained for.",
    "zero_shot": "a folder of classes (CLASS/IMAGE), or icons: the families of the icon set.",
    "templates": "sentences with {} for the class, separated by |.",
    "image_field": "of a table; default: the usual names are looked for.",
    "caption_field": "of a table; default: the usual names are looked for.",
    "on_error": "skip: leave out images that cannot be read, and count them; default: raise.",
    "images_per_batch": "of a device; default: 64.",
}
"""What ``--option=`` takes, each with its meaning."""
