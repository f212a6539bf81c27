"""The towers of a folder of any kind, with the score and the image settings that it states."""

import dataclasses
import logging
from pathlib import Path

from magjax.checks import InputError, choose, positive_integer
from magjax.data import ImageSettings
from magjax.encoders import ClipTextEncoder, Tower, VisionEncoder
from magjax.files import read_json, write_json
from magjax.hub._pair import is_pair, read_pair
from magjax.hub._stated import Stated
from magjax.hub._tower import read_tower
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["ReadTowers", "align_padding", "read_images", "read_towers", "write_images"]

_log = logging.getLogger(__name__)

_IMAGES_FILE = "preprocessor_config.json"
# transformers 5 saves a processor's parts in one file.
_PROCESSOR_FILE = "processor_config.json"


@dataclasses.dataclass(frozen=True)
class ReadTowers:
    """What weights and their folders say.

    Attributes:
        query: encoder of queries, and of documents when ``document`` is None.
        document: encoder of documents when it is another.
        text_folders: where the tokenizer of each text side lies.
        images: how images become numbers; None when no side is images or no file says so.
        score: as the weights state it where nothing else could; else None.
    """

    query: Tower
    document: Tower | None
    text_folders: dict[Side, Path]
    images: ImageSettings | None = None
    score: Score | None = None


def read_towers(
    stated: Stated,
    *,
    query_modality: str | None = None,
    image_size: int | None = None,
    dtype: str = "float32",
    remat: bool = False,
) -> ReadTowers:
    """Reads every tower of a folder.

    Args:
        stated: what the folder says besides weights.
        query_modality: ``"text"`` or ``"image"``; a folder that states it must agree. Texts are
            the queries where nobody says.
        image_size: read images of another size: positions are interpolated.
        dtype: compute dtype.
        remat: recompute layers in the backward pass.

    Raises:
        InputError: a missing, damaged or unsupported file, or an argument that does not fit.
    """
    if query_modality is not None:
        choose("query_modality", query_modality, ("text", "image"))
    folder = stated.query_folder
    score: Score | None = None
    towers: dict[Side, tuple[Tower, Path]]
    if stated.document_folder is None and is_pair(folder):
        text, vision, found_score = read_pair(folder, dtype=dtype, remat=remat)
        if stated.query_modality is None:  # no score.json, which says more than the weights
            score = found_score
        first = _modality(stated.query_modality, query_modality, folder) or "text"
        ordered: list[Tower] = [text, vision] if first == "text" else [vision, text]
        towers = {"query": (ordered[0], folder), "document": (ordered[1], folder)}
    else:
        towers = {"query": (read_tower(folder, dtype=dtype, remat=remat), folder)}
        if stated.document_folder is not None:
            other = read_tower(stated.document_folder, dtype=dtype, remat=remat)
            towers["document"] = (other, stated.document_folder)
        found = towers["query"][0].modality
        for named in (stated.query_modality, query_modality):
            _modality(found, named, folder)
    images = None
    for side, (tower, place) in towers.items():
        if isinstance(tower, VisionEncoder):
            images = read_images(place)
            if image_size is not None:
                towers[side] = (tower.resized(image_size), place)
                images = None if images is None else _resized(images, image_size)
    if image_size is not None and not any(
        isinstance(tower, VisionEncoder) for tower, _ in towers.values()
    ):
        raise InputError(f"image_size={image_size} was given, but {folder} embeds no images.")
    query, document = towers["query"][0], towers.get("document", (None,))[0]
    sides: dict[Side, tuple[Tower, Path]] = {"document": towers["query"], **towers}
    folders = {side: place for side, (tower, place) in sides.items() if tower.modality == "text"}
    return ReadTowers(query, document, folders, images, score)


def read_images(folder: Path) -> ImageSettings | None:
    """The settings in ``preprocessor_config.json`` or ``processor_config.json``; None without either.

    Raises:
        InputError: settings that are not supported.

    >>> read_images(Path("/nowhere")) is None
    True
    """
    file = folder / _IMAGES_FILE
    if file.is_file():
        content = read_json(file)
    else:
        file = folder / _PROCESSOR_FILE
        content = read_json(file).get("image_processor") if file.is_file() else None
    if content is None:
        return None
    try:
        return ImageSettings.from_json(content)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def write_images(images: ImageSettings, folder: Path) -> None:
    """Writes ``preprocessor_config.json``.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_images(ImageSettings(size=64), folder)
    >>> read_images(folder) == ImageSettings(size=64)
    True
    """
    write_json(folder / _IMAGES_FILE, images.to_json())


def align_padding(tower: Tower, pad_id: int, folder: Path) -> None:
    """Makes SigLIP's text tower pad as its tokenizer does.

    transformers never reads ``pad_token_id`` of the configuration, so published files may state
    another one than their tokenizer.
    """
    if not isinstance(tower, ClipTextEncoder) or not tower.config.family.fills_positions:
        return
    if tower.config.pad_token_id != pad_id:
        _log.info(
            "%s: pad_token_id=%s of its config.json is replaced by %d, the tokenizer's.",
            folder,
            tower.config.pad_token_id,
            pad_id,
        )
        tower.config = dataclasses.replace(tower.config, pad_token_id=pad_id)


def _modality(stated: str | None, given: str | None, folder: Path) -> str | None:
    if stated is not None and given is not None and stated != given:
        raise InputError(
            f"query_modality={given!r} contradicts {folder}, whose queries are {stated!r}; leave "
            "it out."
        )
    return stated or given


def _resized(images: ImageSettings, image_size: int) -> ImageSettings:
    """The same crop of the same share of an image, at another size."""
    size = positive_integer("image_size", image_size)
    edge = round(images.size * size / images.crop_size)
    return dataclasses.replace(images, size=edge, crop_size=size)
