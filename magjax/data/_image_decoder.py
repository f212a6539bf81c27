"""Encoded images to arrays of bytes, with limits on what a file may ask for."""

import dataclasses
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from magjax.checks import InputError, choose, positive_integer

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ImageDecoder"]

# Formats that Pillow decodes by itself: EPS would start Ghostscript.
_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# Above this Pillow refuses by itself (twice its MAX_IMAGE_PIXELS).
_PILLOW_LIMIT = 178_956_970


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageDecoder:
    """Reads files, bytes and Pillow images as ``uint8`` arrays, grey or RGB.

    The defaults give the pixels that transformers' ``CLIPImageProcessorPil`` works on. Of an
    animation the first frame is read, CMYK and palettes become RGB. AVIF, BMP, GIF, JPEG, PNG,
    PPM, TIFF and WebP are understood. Equal decoders give equal arrays; safe in threads.

    Args:
        transparency: ``"white"`` lays a transparent image on white, as transformers does since
            version 5; ``"drop"`` forgets the transparency, as it did before, which shows
            whatever colours the hidden pixels have.
        orient: whether to turn the image as its EXIF data say.
        sixteen_bit: grey values above 255 become 255 (``"clip"``, Pillow's conversion), or all
            values are divided by 256 (``"scale"``).
        max_pixels: a larger image is refused by its header, before it is decoded: a small file
            can claim gigabytes.

    Raises:
        InputError: an unknown word, or a limit beyond Pillow's own.

    >>> from PIL import Image
    >>> ImageDecoder().read(Image.new("RGBA", (2, 1), (9, 9, 9, 0)))[0, 0].tolist()
    [255, 255, 255]
    >>> ImageDecoder(transparency="drop").read(Image.new("RGBA", (2, 1), (9, 9, 9, 0))).shape
    (1, 2, 3)
    """

    transparency: Literal["white", "drop"] = "white"
    orient: bool = False
    sixteen_bit: Literal["clip", "scale"] = "clip"
    max_pixels: int = 50_000_000

    def __post_init__(self):
        choose("transparency", self.transparency, ("white", "drop"))
        choose("sixteen_bit", self.sixteen_bit, ("clip", "scale"))
        if positive_integer("max_pixels", self.max_pixels) > _PILLOW_LIMIT:
            raise InputError(
                f"max_pixels={self.max_pixels} is above {_PILLOW_LIMIT:,}, where Pillow itself "
                "refuses; lower it."
            )

    def read(self, source: Any, name: str | None = None) -> np.ndarray:
        """The pixels of one image.

        Args:
            source: a path, the bytes of a file, a Pillow image, or an array of pixels already.
            name: of the image in messages; default: the path.

        Returns:
            ``uint8[height, width]`` for a grey image, else ``uint8[height, width, 3]``.

        Raises:
            InputError: no image, a damaged or truncated one, one above ``max_pixels``, or an
                array of another shape or type; the message names it.

        >>> ImageDecoder().read(b"not an image", "a.jpg")
        Traceback (most recent call last):
            ...
        magjax.checks.InputError: a.jpg is no image in a known format (AVIF, BMP, GIF, JPEG, PNG, PPM, TIFF or WebP).
        """
        if isinstance(source, np.ndarray):
            return _checked_array(source, name or "the array")
        if isinstance(source, str | os.PathLike):
            path = Path(source)
            name = name or str(path)
            try:
                source = path.read_bytes()
            except OSError as error:
                raise InputError(f"{name} cannot be read ({error.strerror}).") from error
        name = name or "the image"
        if isinstance(source, bytes | bytearray | memoryview):
            return self._decode(bytes(source), name)
        return self._convert(source, name)

    def _decode(self, content: bytes, name: str) -> np.ndarray:
        # Pillow costs a tenth of a second to import; text runs do without.
        from PIL import Image, UnidentifiedImageError

        try:
            image = Image.open(io.BytesIO(content), formats=_FORMATS)
        except UnidentifiedImageError as error:
            raise InputError(
                f"{name} is no image in a known format (AVIF, BMP, GIF, JPEG, PNG, PPM, TIFF or "
                "WebP)."
            ) from error
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise InputError(
                f"{name} has more pixels than Pillow accepts ({error}); scale it down."
            ) from error
        except Exception as error:  # Pillow's parsers raise nearly anything on damaged headers
            raise InputError(_damaged(name, error)) from error
        return self._convert(image, name)

    def _convert(self, image: "Image.Image", name: str) -> np.ndarray:
        width, height = image.size
        if width * height > self.max_pixels:
            raise InputError(
                f"{name} is {width} x {height} pixels, above max_pixels={self.max_pixels:,}; scale "
                "it down, or raise the limit if the file is trusted."
            )
        try:
            image.load()
            if self.orient:
                from PIL import ImageOps

                image = ImageOps.exif_transpose(image)
            return np.asarray(self._eight_bit(image))
        except Exception as error:  # as above, for the pixels
            raise InputError(_damaged(name, error)) from error

    def _eight_bit(self, image: "Image.Image") -> "Image.Image":
        """Grey or RGB; any other mode is converted as transformers does."""
        from PIL import Image

        transparent = "A" in image.getbands() or image.info.get("transparency") is not None
        if transparent and self.transparency == "white":
            colours = image.convert("RGBA")
            white = Image.new("RGBA", image.size, (255, 255, 255, 255))
            return Image.alpha_composite(white, colours).convert("RGB")
        if image.mode in ("1", "L"):
            return image.convert("L")
        if transparent:  # by way of RGBA: a palette with many transparencies warns otherwise
            return image.convert("RGBA").convert("RGB")
        if image.mode.startswith("I") and self.sixteen_bit == "scale":
            return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
        return image.convert("RGB")


def _damaged(name: str, error: Exception) -> str:
    return f"{name} is damaged or truncated ({error}); fetch it again or remove it."


def _checked_array(array: np.ndarray, name: str) -> np.ndarray:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if (
        array.dtype != np.uint8
        or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3))
        or not array.size
    ):
        raise InputError(
            f"{name} is {array.dtype}{list(array.shape)}, but images are uint8 [height, width] or "
            "[height, width, 3] and not empty."
        )
    return array
