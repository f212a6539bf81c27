"""Images to embeddings: decoded ahead in threads, one shape, rows over all devices."""

from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError, positive_integer
from magjax.data import ImagePreprocessor, Images, pixel_batches
from magjax.encoders import DualEncoder
from magjax.evaluation._encode import embed_batches
from magjax.mesh import data_mesh
from magjax.typing import Side

__all__ = ["encode_images"]


def encode_images(
    encoder: DualEncoder,
    preprocessor: ImagePreprocessor,
    images: Images,
    side: Side,
    *,
    ids: Sequence[str] | None = None,
    mesh: Mesh | None = None,
    batch_size: int = 64,
    threads: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Embeds images, without augmentation: raw float32 embeddings ``[images, dim]`` in their order.

    The next batches are decoded and resized in threads while the devices embed.

    Args:
        encoder: embeds images on ``side``; not changed.
        preprocessor: the model's.
        images: any number.
        side: ``"query"`` or ``"document"``.
        ids: one name an image, for messages.
        mesh: devices to use; default: all of this process.
        batch_size: images of a batch on each device.
        threads: how many batches to decode at once.
        progress: called with (images done, images in all) after each batch.

    Raises:
        InputError: an image cannot be read, an embedding is not finite (its id is named), or
            ``side`` does not embed images.

    >>> from magjax.data import ImageArrays, ImageSettings
    >>> from magjax.encoders import ClipTextConfig, VisionConfig
    >>> vision = VisionConfig.preset("tiny", num_hidden_layers=1, image_size=8)
    >>> text = ClipTextConfig.preset("tiny", vocab_size=99, eos_token_id=3, num_hidden_layers=1)
    >>> encoder = DualEncoder.create_image_text(vision, text, dim=16)
    >>> images = ImageArrays(np.zeros((3, 8, 8), np.uint8), list("abc"))
    >>> encode_images(encoder, ImagePreprocessor(ImageSettings(size=8)), images, "document").shape
    (3, 16)
    """
    if encoder.modality(side) != "image":
        raise InputError(f"the {side} side of this encoder embeds text, not images.")
    if ids is not None and len(ids) != len(images):
        raise InputError(f"{len(ids)} ids for {len(images)} images; give one each.")
    mesh = mesh or data_mesh(jax.local_devices())
    each = positive_integer("batch_size", batch_size)
    while each > 1 and -(-each // 2) * mesh.size >= len(images):
        each = -(-each // 2)
    size = each * mesh.size

    def batches() -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        start = 0
        for batch in pixel_batches(preprocessor, images, batch_size=size, threads=threads):
            pixels = batch["pixel_values"]
            places = np.arange(start, start + len(pixels))
            start += len(pixels)
            padding = ((0, size - len(pixels)), (0, 0), (0, 0), (0, 0))
            yield {"pixel_values": np.pad(pixels, padding)}, places

    return embed_batches(
        encoder, batches(), side, count=len(images), ids=ids, mesh=mesh, progress=progress
    )
