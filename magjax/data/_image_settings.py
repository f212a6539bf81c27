"""How an image becomes numbers: properties of a model, stored with it."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from magjax.checks import InputError, choose, positive_integer, positive_number

__all__ = ["ImageSettings"]

# The order is Pillow's numbering of its filters, which Hugging Face files hold.
_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
_RESIZES = ("shortest_edge", "square")
# CLIP's channel means and deviations of its training images, and SigLIP's plain halves.
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_HALF = (0.5, 0.5, 0.5)

_READ = {
    "crop_size",
    "do_center_crop",
    "do_convert_rgb",
    "do_normalize",
    "do_pad",
    "do_rescale",
    "do_resize",
    "image_mean",
    "image_std",
    "resample",
    "rescale_factor",
    "size",
}
# Written by transformers over the years without a bearing on the pixels of these two families.
_WITHOUT_EFFECT = {
    "_processor_class",
    "_valid_processor_keys",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "feature_extractor_type",
    "image_processor_type",
    "image_seq_length",
    "input_data_format",
    "pad_size",
    "processor_class",
    "return_tensors",
    "use_fast",
    "use_square_size",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """Resize, centre crop, rescale and normalize, as a ``preprocessor_config.json`` states them.

    A pixel value x of 0..255 becomes ``(x · rescale − mean) / std`` per channel. The result is
    always ``crop_size`` pixels high and wide.

    Args:
        size: length in pixels of the shorter edge after resizing (``"shortest_edge"``), or of
            both edges (``"square"``).
        crop_size: height and width cut out of the middle; 0 means ``size``. Where the
            resized image is smaller, black fills the rest.
        resize: ``"shortest_edge"`` keeps the proportions (CLIP), ``"square"`` stretches (SigLIP).
        mean: subtracted from red, green and blue after rescaling.
        std: divides what is left.
        resample: Pillow's filter: "nearest", "lanczos", "bilinear", "bicubic", "box", "hamming".
        rescale: factor of the raw values.

    Raises:
        InputError: a size or a deviation that is not positive, an unknown word, not three
            channels, or a square smaller than the crop.

    >>> settings = ImageSettings(size=32)
    >>> settings.crop_size, settings.resize, settings.resample
    (32, 'shortest_edge', 'bicubic')
    """

    size: int
    crop_size: int = 0
    resize: Literal["shortest_edge", "square"] = "shortest_edge"
    mean: tuple[float, float, float] = _CLIP_MEAN
    std: tuple[float, float, float] = _CLIP_STD
    resample: str = "bicubic"
    rescale: float = 1 / 255

    def __post_init__(self):
        put = object.__setattr__
        put(self, "size", positive_integer("size", self.size))
        put(self, "crop_size", positive_integer("crop_size", self.crop_size or self.size))
        put(self, "rescale", positive_number("rescale", self.rescale))
        choose("resize", self.resize, _RESIZES)
        choose("resample", self.resample, _FILTERS)
        for name in ("mean", "std"):
            put(self, name, _channels(name, getattr(self, name)))
        if min(self.std) <= 0:
            raise InputError(f"std={self.std} must be above 0 in every channel.")

    @classmethod
    def siglip(cls, size: int) -> "ImageSettings":
        """SigLIP's: stretched to a square, values from −1 to 1.

        >>> ImageSettings.siglip(224).mean
        (0.5, 0.5, 0.5)
        """
        return cls(size=size, resize="square", mean=_HALF, std=_HALF)

    @property
    def resample_number(self) -> int:
        """Pillow's number of the filter.

        >>> ImageSettings(size=8).resample_number
        3
        """
        return _FILTERS.index(self.resample)

    def to_json(self) -> dict[str, Any]:
        """The contents of a ``preprocessor_config.json`` that transformers reads the same way.

        >>> ImageSettings(size=224).to_json()["size"]
        {'shortest_edge': 224}
        """
        square = self.resize == "square"
        cropped = not square or self.crop_size != self.size
        both = {"height": self.size, "width": self.size}
        value: dict[str, Any] = {
            "image_processor_type": "CLIPImageProcessor" if cropped else "SiglipImageProcessor",
            "do_convert_rgb": True,
            "do_resize": True,
            "size": both if square else {"shortest_edge": self.size},
            "resample": self.resample_number,
            "do_center_crop": cropped,
            "do_rescale": True,
            "rescale_factor": self.rescale,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }
        if cropped:
            value["crop_size"] = {"height": self.crop_size, "width": self.crop_size}
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ImageSettings":
        """Reads a ``preprocessor_config.json`` of CLIP or SigLIP, or what ``to_json`` wrote.

        Keys left out have CLIP's values, or SigLIP's where the file names its processor. Old
        files with plain numbers as sizes are read too.

        Raises:
            InputError: an unknown key, or steps that this package has none for: padding, no
                resizing, an image that is not square in the end.

        >>> ImageSettings.from_json({"size": 224, "crop_size": 224}) == ImageSettings(size=224)
        True
        """
        for key in value:
            if key not in _WITHOUT_EFFECT:
                choose("key of preprocessor_config.json", key, sorted(_READ))
        names = (value.get(k) for k in ("image_processor_type", "feature_extractor_type"))
        siglip = any(str(name).casefold().startswith("siglip") for name in names if name)
        for flag, fixed in (("do_resize", True), ("do_convert_rgb", True), ("do_pad", False)):
            if value.get(flag) not in (None, fixed):
                raise InputError(
                    f"preprocessor_config.json: {flag}={value[flag]!r} is not supported; images "
                    f"are read with {flag}={fixed}."
                )
        resize, size = _read_size(value.get("size", 224), square=siglip)
        cropped = value.get("do_center_crop", not siglip)
        if resize == "shortest_edge" and not cropped:
            raise InputError(
                "preprocessor_config.json: size by the shortest edge without do_center_crop gives "
                "images of unequal shapes; state size as height and width, or crop."
            )
        kept: dict[str, Any] = {}
        if cropped:
            kept["crop_size"] = _read_square("crop_size", value.get("crop_size", 224))
        rescaled, normalized = value.get("do_rescale", True), value.get("do_normalize", True)
        default = (_HALF, _HALF) if siglip else (_CLIP_MEAN, _CLIP_STD)
        return cls(
            size=size,
            resize=resize,
            mean=_channels("image_mean", value.get("image_mean", default[0]) if normalized else 0),
            std=_channels("image_std", value.get("image_std", default[1]) if normalized else 1),
            resample=_read_filter(value.get("resample", 3)),
            rescale=value.get("rescale_factor", 1 / 255) if rescaled else 1.0,
            **kept,
        )


def _channels(name: str, values: Any) -> tuple[float, float, float]:
    numbers = (values,) * 3 if isinstance(values, int | float) else values
    if (
        not isinstance(numbers, list | tuple)
        or len(numbers) != 3
        or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in numbers)
    ):
        raise InputError(f"{name}={values!r} must be three numbers: red, green, blue.")
    red, green, blue = map(float, numbers)
    return red, green, blue


def _read_size(value: Any, *, square: bool) -> tuple[Literal["shortest_edge", "square"], int]:
    if isinstance(value, Mapping) and set(value) == {"shortest_edge"}:
        return "shortest_edge", value["shortest_edge"]
    if isinstance(value, Mapping) or square:
        return "square", _read_square("size", value)
    return "shortest_edge", value


def _read_square(name: str, value: Any) -> int:
    """One number for both edges: ``224``, or ``{"height": 224, "width": 224}``."""
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"height", "width"} or value["height"] != value["width"]:
        raise InputError(
            f"preprocessor_config.json: {name}={dict(value)} is not supported; give height and "
            "width as the same number (for size also {'shortest_edge': number})."
        )
    return value["height"]


def _read_filter(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(_FILTERS):
        raise InputError(
            f"preprocessor_config.json: resample={value!r} must be Pillow's number of a filter: "
            + ", ".join(f"{i} {name}" for i, name in enumerate(_FILTERS))
            + "."
        )
    return _FILTERS[value]
