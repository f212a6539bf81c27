"""A development test out of training images that shares no caption with the rest."""

from magjax.checks import InputError, positive_integer
from magjax.data._epoch_plan import random_order
from magjax.data._image_text import ImageTextBenchmark, ImageTextSet
from magjax.data._record_checks import text_key

__all__ = ["hold_out_images"]

_STREAM = 5  # keeps this draw apart from those of the batches


def hold_out_images(
    data: ImageTextSet, *, images: int, seed: int, name: str
) -> tuple[ImageTextSet, ImageTextBenchmark]:
    """Takes images out of training and makes them a benchmark.

    An image that shares a caption with a held-out one goes with it, so that no text of the
    benchmark is trained on; the benchmark then has a few images more than asked for.

    Args:
        data: all images.
        images: how many to hold out at least.
        seed: of the draw.
        name: of the benchmark.

    Raises:
        InputError: fewer images would be left than are held out.

    >>> import numpy as np
    >>> from magjax.data import ImageArrays, ImageTextSet
    >>> pictures = ImageArrays(np.zeros((4, 4, 4), np.uint8), list("abcd"))
    >>> data = ImageTextSet(list("abcd"), pictures, [("x",), ("y",), ("x",), ("z",)])
    >>> rest, benchmark = hold_out_images(data, images=1, seed=0, name="development")
    >>> set(rest.flat_captions).isdisjoint(benchmark.captions)
    True
    """
    positive_integer("images", images)
    sharing: dict[str, list[int]] = {}
    for row, texts in enumerate(data.captions):
        for text in texts:
            sharing.setdefault(text_key(text), []).append(row)
    chosen: set[int] = set()
    for row in random_order(len(data), seed, _STREAM).tolist():
        if len(chosen) >= images:
            break
        waiting = [row]
        while waiting:
            one = waiting.pop()
            if one not in chosen:
                chosen.add(one)
                waiting += [
                    other for text in data.captions[one] for other in sharing[text_key(text)]
                ]
    kept = [row for row in range(len(data)) if row not in chosen]
    if len(kept) < len(chosen):
        raise InputError(
            f"{data.source}: holding out {images} of {len(data)} images, and those that share a "
            f"caption with them, leaves {len(kept)} to train on; hold out fewer."
        )
    return data.select(kept), ImageTextBenchmark.of(data.select(sorted(chosen)), name)
