"""Random changes of training images, each a function of its seed."""

import dataclasses
import math

import numpy as np

from magjax.checks import InputError, choose, positive_number

__all__ = ["AUGMENTATIONS", "ImageAugmentation"]

AUGMENTATIONS = ("none", "photo", "icon", "placed")
"""The names that :meth:`ImageAugmentation.named` knows."""

# Dark and light colours are drawn from these ranges of each channel, so that ink and ground
# always differ by 35 or more.
_DARK, _LIGHT = (0, 110), (145, 255)
_LIGHT_GROUNDS = 0.75  # evaluation shows black on white
_DRAWS = 16  # numbers per image: 4 of the crop, 1 flip, 3 of the placement, 7 of the colours


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageAugmentation:
    """What training may do to an image; by default nothing.

    Args:
        crop_scale: a rectangle of this share of the area, drawn evenly between the two bounds,
            takes the place of the whole image (random resized crop); (1, 1) keeps the whole.
        crop_ratio: width by height of that rectangle before it is stretched to the square, drawn
            evenly in the logarithm.
        flip: whether every other image, by chance, is mirrored left to right. Wrong for writing
            and arrows.
        placement: the picture is shrunk to this share of the square's side and put somewhere on
            a white ground; (1, 1) leaves it.
        colour: whether grey images get an ink and a ground colour, dark on light three times out
            of four, else light on dark. Coloured images keep theirs.

    Raises:
        InputError: bounds that are not in order, or outside of (0, 1] for shares.

    >>> ImageAugmentation.named("photo").flip, ImageAugmentation.named("icon").flip
    (True, False)
    """

    crop_scale: tuple[float, float] = (1.0, 1.0)
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = False
    placement: tuple[float, float] = (1.0, 1.0)
    colour: bool = False

    def __post_init__(self):
        for name, highest in (("crop_scale", 1.0), ("crop_ratio", math.inf), ("placement", 1.0)):
            bounds = getattr(self, name)
            if len(bounds) != 2:
                raise InputError(f"{name}={bounds!r} must be two numbers, the lower one first.")
            low, high = (positive_number(name, bound) for bound in bounds)
            if not low <= high <= highest:
                limit = "" if highest == math.inf else ", and none above 1"
                raise InputError(f"{name}={bounds!r} must have the lower number first{limit}.")
            object.__setattr__(self, name, (low, high))

    @classmethod
    def named(cls, name: str) -> "ImageAugmentation":
        """The usual settings for a kind of image.

        ``"photo"``: crops of half the area and more, mirrored. ``"icon"``: 60 to 100 % of the
        side, anywhere, in any colours, never mirrored. ``"placed"``: 70 to 100 % of the side,
        anywhere, as it is.

        >>> ImageAugmentation.named("icon").placement
        (0.6, 1.0)
        """
        known = {
            "none": cls(),
            "photo": cls(crop_scale=(0.5, 1.0), flip=True),
            "icon": cls(placement=(0.6, 1.0), colour=True),
            "placed": cls(placement=(0.7, 1.0)),
        }
        return known[choose("augmentation", name, AUGMENTATIONS)]

    def draw(self, *seed: int) -> "AugmentationDraw":
        """The random numbers of one image.

        Args:
            seed: any numbers from 0; the same give the same draw in every NumPy version.

        >>> augmentation = ImageAugmentation.named("photo")
        >>> augmentation.draw(0, 1) == augmentation.draw(0, 1) != augmentation.draw(0, 2)
        True
        """
        # As in _epoch_plan: streams of bit generators are guaranteed, those of Generator are not.
        bits = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(_DRAWS)
        return AugmentationDraw(self, tuple(((bits >> np.uint64(11)) * 2.0**-53).tolist()))


@dataclasses.dataclass(frozen=True)
class AugmentationDraw:
    """One image's share of chance: ``uniform`` numbers in [0, 1) and what they decide.

    >>> ImageAugmentation(crop_scale=(0.25, 0.25), crop_ratio=(1.0, 1.0)).draw(0).crop(8, 8)[2:]
    (4.0, 4.0)
    """

    augmentation: ImageAugmentation
    uniform: tuple[float, ...]

    def crop(self, width: int, height: int) -> tuple[float, float, float, float] | None:
        """Left, top, width and height of the rectangle to keep; None for the whole image."""
        low, high = self.augmentation.crop_scale
        if low == high == 1.0:
            return None
        scale, ratio, left, top = self.uniform[:4]
        area = width * height * (low + scale * (high - low))
        first, last = map(math.log, self.augmentation.crop_ratio)
        proportion = math.exp(first + ratio * (last - first))
        # Where the rectangle sticks out in one direction it is cut there.
        kept_width = min(math.sqrt(area * proportion), float(width))
        kept_height = min(math.sqrt(area / proportion), float(height))
        return left * (width - kept_width), top * (height - kept_height), kept_width, kept_height

    def mirrored(self) -> bool:
        """Whether to flip left to right."""
        return self.augmentation.flip and self.uniform[4] < 0.5

    def place(self, side: int) -> tuple[int, int, int] | None:
        """Left, top and side of the shrunken picture in the square; None to leave it."""
        low, high = self.augmentation.placement
        if low == high == 1.0:
            return None
        share, left, top = self.uniform[5:8]
        inner = max(round(side * (low + share * (high - low))), 1)
        return int(left * (side - inner + 1)), int(top * (side - inner + 1)), inner

    def colours(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Ink and ground, ``float32[3]`` each; None to keep the image's own."""
        if not self.augmentation.colour:
            return None
        numbers = np.array(self.uniform[9:15], np.float32).reshape(2, 3)
        dark, light = (
            low + part * (high - low)
            for part, (low, high) in zip(numbers, (_DARK, _LIGHT), strict=True)
        )
        return (dark, light) if self.uniform[8] < _LIGHT_GROUNDS else (light, dark)
