"""A model of two checkpoints: one's text tower beside another's image tower."""

import os
from typing import get_args

from flax import nnx

from magjax.checks import InputError, choose
from magjax.data import SIDES, ImageSettings, TextSettings
from magjax.encoders import DualEncoder, Modality, Projection, TextEncoder, VisionEncoder
from magjax.hub._load import load
from magjax.hub._locate import locate, read_stated
from magjax.hub._model import Model
from magjax.hub._towers import read_towers

__all__ = ["combine"]


def combine(
    text: str | os.PathLike[str],
    image: str | os.PathLike[str],
    *,
    dim: int | None = None,
    query_modality: str = "text",
    prompt: str = "",
    max_length: int | None = None,
    pooling: str | None = None,
    images: ImageSettings | None = None,
    image_size: int | None = None,
    dtype: str = "float32",
    remat: bool = False,
    seed: int = 0,
) -> Model:
    """A start for training in the manner of LiT: a text and an image tower of different origin.

    A text tower of the BERT family gets a new projection without bias; so does either side whose
    embeddings are not ``dim`` wide. What the folders state of scores, prompts and lengths belongs
    to the models they were, and is left out. To train one side only, freeze the other tower.

    Args:
        text: folder or hub id of a model with a text tower.
        image: folder or hub id of a model with a vision tower: CLIP, SigLIP, a
            ``clip_vision_model`` or ``siglip_vision_model`` alone, or what ``save`` wrote.
        dim: width of the embeddings; None: that of the image tower.
        query_modality: which side is the query, ``"text"`` or ``"image"``.
        prompt: put before each text.
        max_length: most tokens of a text; None: as many as tokenizer and tower admit.
        pooling: of a BERT-family tower; None: what its folder states.
        images: how images become numbers, where the folder does not say.
        image_size: read images of another size: positions are interpolated.
        dtype: compute dtype of both towers.
        remat: recompute layers in the backward pass, to train with less memory.
        seed: of the projections' random start.

    Returns:
        The model, without a score.

    Raises:
        InputError: a folder that cannot be read, or that lacks the tower.

    Source: Zhai et al., arXiv 2111.07991.

    >>> combine("/nowhere/text", "/nowhere/image")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/text does not exist.
    """
    choose("query_modality", query_modality, get_args(Modality))
    first = load(
        text,
        dtype=dtype,
        remat=remat,
        pooling=pooling,
        query_max_length=max_length,
        document_max_length=max_length,
        cross_evaluation=True,
    )
    side = next(side for side in SIDES if first.encoder.modality(side) == "text")
    text_tower = first.encoder.tower(side)
    folder, _ = locate(image)
    read = read_towers(read_stated(folder), image_size=image_size, dtype=dtype, remat=remat)
    towers = [tower for tower in (read.query, read.document) if isinstance(tower, VisionEncoder)]
    if not towers:
        raise InputError(f"{folder} has no vision tower; name a CLIP or SigLIP folder.")
    image_tower = towers[0]
    width, rngs = image_tower.dim if dim is None else dim, nnx.Rngs(seed)

    def projection(inputs: int) -> Projection:
        return Projection(inputs, width, use_bias=False, rngs=rngs)

    of_text = isinstance(text_tower, TextEncoder) or text_tower.dim != width
    parts = {
        "text": (text_tower, projection(text_tower.dim) if of_text else None),
        "image": (image_tower, projection(image_tower.dim) if image_tower.dim != width else None),
    }
    query, document = (parts.pop(query_modality), *parts.values())
    length = first.text.max_length(side)
    prompts = {"query_prompt" if query_modality == "text" else "document_prompt": prompt}
    return Model(
        DualEncoder(
            query[0],
            document[0],
            pooling=first.encoder.pooling if isinstance(text_tower, TextEncoder) else None,
            projection=query[1],
            document_projection=document[1],
        ),
        None,
        first.tokenizer,
        TextSettings(query_max_length=length, document_max_length=length, **prompts),
        images or read.images,
    )
