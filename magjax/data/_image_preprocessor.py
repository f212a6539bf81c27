"""Images to the numbers that a model was trained on."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from magjax.data._image_augmentation import ImageAugmentation
from magjax.data._image_decoder import ImageDecoder
from magjax.data._image_settings import ImageSettings

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ImagePreprocessor"]

# A strip of 1 x 10,000 pixels would grow to 224 x 2,240,000 before the crop. Beyond this size only
# what the crop keeps is computed, where sharp edges may differ from transformers by a few of 255:
# Pillow then takes rows and columns in the other order.
_LARGEST = 2**24


class ImagePreprocessor:
    """Resizes, crops and normalizes; for training it augments by a seed.

    Without a seed the result is that of transformers' ``CLIPImageProcessorPil`` or
    ``SiglipImageProcessorPil`` for the same settings: Pillow's resize with antialiasing, then the
    centre crop, then ``(x · rescale − mean) / std``. Channels come last here.

    Args:
        settings: the model's.
        augmentation: of training images; default none.
        decoder: reads paths, bytes and Pillow images.

    >>> preprocessor = ImagePreprocessor(ImageSettings(size=4, mean=(0.0,) * 3, std=(1.0,) * 3))
    >>> batch = preprocessor([np.full((6, 8, 3), 255, np.uint8)])
    >>> batch["pixel_values"].shape, float(batch["pixel_values"].min())
    ((1, 4, 4, 3), 1.0)
    """

    def __init__(
        self,
        settings: ImageSettings,
        *,
        augmentation: ImageAugmentation | None = None,
        decoder: ImageDecoder | None = None,
    ):
        self.settings = settings
        self.augmentation = augmentation or ImageAugmentation()
        self.decoder = decoder or ImageDecoder()
        deviation = np.array(settings.std, np.float64)
        self._factor = (settings.rescale / deviation).astype(np.float32)
        self._offset = (np.array(settings.mean, np.float64) / deviation).astype(np.float32)

    def __call__(self, images: Iterable[Any]) -> dict[str, np.ndarray]:
        """A batch as models take it, without augmentation.

        Args:
            images: arrays ``uint8[height, width]`` or ``[height, width, 3]``, Pillow images,
                paths or bytes of encoded images, of any sizes.

        Returns:
            ``{"pixel_values": float32[images, side, side, 3]}``.

        Raises:
            InputError: an image that cannot be read.

        >>> ImagePreprocessor(ImageSettings(size=4))([])["pixel_values"].shape
        (0, 4, 4, 3)
        """
        return self.batch([self.pixels(image) for image in images])

    def batch(self, pixels: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Normalizes what :meth:`pixels` or :meth:`augmented` gave.

        Args:
            pixels: ``uint8[side, side, 3]`` each.

        Returns:
            ``{"pixel_values": float32[images, side, side, 3]}``.

        >>> preprocessor = ImagePreprocessor(ImageSettings.siglip(2))
        >>> preprocessor.batch([np.zeros((2, 2, 3), np.uint8)])["pixel_values"][0, 0, 0].tolist()
        [-1.0, -1.0, -1.0]
        """
        side = self.settings.crop_size
        values = np.empty((len(pixels), side, side, 3), np.float32)
        for row, image in zip(values, pixels, strict=True):
            np.multiply(image, self._factor, out=row)
            np.subtract(row, self._offset, out=row)
        return {"pixel_values": values}

    def pixels(self, image: Any) -> np.ndarray:
        """One image at the model's size, ``uint8[side, side, 3]``, before normalization.

        Args:
            image: as in a call.

        >>> ImagePreprocessor(ImageSettings(size=4)).pixels(np.zeros((9, 5), np.uint8)).shape
        (4, 4, 3)
        """
        return _three_channels(np.asarray(self._shaped(self._pillow(image))))

    def augmented(self, image: Any, *seed: int) -> np.ndarray:
        """One training image, ``uint8[side, side, 3]``: a function of the image and the seed.

        Args:
            image: as in a call.
            seed: numbers from 0, such as (seed, epoch, row).

        >>> icon = ImageAugmentation.named("icon")
        >>> preprocessor = ImagePreprocessor(ImageSettings(size=8), augmentation=icon)
        >>> image = np.eye(8, dtype=np.uint8) * 255
        >>> first, again, other = (preprocessor.augmented(image, 0, row) for row in (1, 1, 2))
        >>> np.array_equal(first, again), np.array_equal(first, other)
        (True, False)
        """
        from PIL import Image, ImageOps

        side, resample = self.settings.crop_size, self.settings.resample_number
        source = self._pillow(image)
        draw = self.augmentation.draw(*seed)
        rectangle = draw.crop(*source.size)
        if rectangle is None:
            found = self._shaped(source)
        else:
            left, top, width, height = rectangle
            box = (left, top, min(left + width, source.width), min(top + height, source.height))
            found = source.resize((side, side), resample, box=box)
        if draw.mirrored():
            found = ImageOps.mirror(found)
        place = draw.place(side)
        if place is not None:
            left, top, inner = place
            canvas = Image.new(found.mode, (side, side), "white")
            canvas.paste(found.resize((inner, inner), resample), (left, top))
            found = canvas
        array = np.asarray(found)
        colours = draw.colours()
        if colours is None or array.ndim == 3:
            return _three_channels(array)
        ink, ground = colours
        lightness = array[:, :, None] * np.float32(1 / 255)
        return np.rint(ink + (ground - ink) * lightness).astype(np.uint8)

    def _pillow(self, image: Any) -> "Image.Image":
        from PIL import Image

        return Image.fromarray(self.decoder.read(image))

    def _shaped(self, image: "Image.Image") -> "Image.Image":
        settings = self.settings
        size, side, resample = settings.size, settings.crop_size, settings.resample_number
        width, height = image.size
        if settings.resize == "square":
            return _centre(image.resize((size, size), resample), side)
        # Transformers and torchvision cut the longer edge off to whole pixels.
        long = int(size * max(width, height) / min(width, height))
        target = (size, long) if width <= height else (long, size)
        if size * long <= _LARGEST or long <= side:
            return _centre(image.resize(target, resample), side)
        start = (long - side) // 2
        first, last = (at * max(width, height) / long for at in (start, start + side))
        if width <= height:
            return _centre(image.resize((size, side), resample, (0, first, width, last)), side)
        return _centre(image.resize((side, size), resample, (first, 0, last, height)), side)


def _centre(image: "Image.Image", side: int) -> "Image.Image":
    """The middle ``side`` pixels each way; what the image lacks is black."""
    if image.size == (side, side):
        return image
    left, top = ((edge - side) // 2 for edge in image.size)
    return image.crop((left, top, left + side, top + side))


def _three_channels(pixels: np.ndarray) -> np.ndarray:
    return np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels
