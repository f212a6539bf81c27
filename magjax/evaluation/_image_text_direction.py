"""One direction of an image-text test as a retrieval test, and which side embeds what."""

from typing import get_args

from magjax.checks import InputError, choose
from magjax.data import Benchmark, ImageTextBenchmark
from magjax.encoders import DualEncoder, Modality
from magjax.typing import Side

__all__ = ["IMAGE_TEXT_DIRECTIONS", "image_text_direction", "side_of_modality"]

IMAGE_TEXT_DIRECTIONS = ("text_to_image", "image_to_text")
"""What asks, and what is searched."""


def side_of_modality(encoder: DualEncoder, modality: Modality) -> Side:
    """The side of an encoder of images and texts that embeds ``modality``.

    Raises:
        InputError: both sides embed the same.

    >>> from magjax.encoders import ClipTextConfig, VisionConfig
    >>> encoder = DualEncoder.create_image_text(VisionConfig.preset("tiny"),
    ...     ClipTextConfig.preset("tiny"), query_modality="image")
    >>> side_of_modality(encoder, "text")
    'document'
    """
    if not encoder.is_mixed:
        raise InputError(
            f"both sides of this model embed {encoder.modality('query')}; images with captions "
            "need one of each, as CLIP has them."
        )
    return next(side for side in get_args(Side) if encoder.modality(side) == modality)


def image_text_direction(benchmark: ImageTextBenchmark, direction: str) -> Benchmark:
    """One direction as a retrieval test; an image stands there by its id.

    Its name is the test's with the direction: ``"icons/in_domain:text_to_image"``.

    Args:
        benchmark: images and captions.
        direction: one of :data:`IMAGE_TEXT_DIRECTIONS`.

    >>> from magjax.data import ImageFiles, ImageTextSet
    >>> data = ImageTextSet(["a.png"], ImageFiles(["a.png"]), [("a heart", "love")])
    >>> found = image_text_direction(ImageTextBenchmark.of(data, "hearts"), "image_to_text")
    >>> found.name, found.queries, found.documents
    ('hearts:image_to_text', ['a.png'], ['a heart', 'love'])
    """
    choose("direction", direction, IMAGE_TEXT_DIRECTIONS)
    captions = benchmark.caption_ids, benchmark.captions
    images = benchmark.image_ids, benchmark.image_ids
    forward = direction == "text_to_image"
    queries, documents = (captions, images) if forward else (images, captions)
    return Benchmark(
        f"{benchmark.name}:{direction}",
        *queries,
        *documents,
        benchmark.text_to_image if forward else benchmark.image_to_text,
        fingerprint=benchmark.fingerprint,
    )
