"""The one loader: every program and library call reads models through it."""

import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from magjax.checks import InputError, positive_integer
from magjax.data import SIDES, ImageSettings, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, TextEncoder
from magjax.hub._locate import locate, read_stated
from magjax.hub._model import Model, text_config
from magjax.hub._stated import Stated
from magjax.hub._towers import ReadTowers, align_padding, read_towers
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["load"]

_log = logging.getLogger(__name__)


def load(
    path: str | os.PathLike[str],
    *,
    score: Score | None = None,
    cross_evaluation: bool = False,
    step: int | None = None,
    restore: Callable[[Path, int, Model], Model] | None = None,
    dtype: str = "float32",
    remat: bool = False,
    pooling: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    query_max_length: int | None = None,
    document_max_length: int | None = None,
    query_modality: str | None = None,
    images: ImageSettings | None = None,
    image_size: int | None = None,
) -> Model:
    """Reads a model from a run folder, a saved model, or a Hugging Face folder.

    Kinds of folder: a run (its ``model/``); what ``save`` wrote; a sentence-transformers folder
    (Transformer, Pooling, optionally Dense and Normalize, in one chain or in a Router's routes); a
    plain Hugging Face folder of the BERT family, which states neither score nor pooling; one of
    CLIP or SigLIP, which states cosine with its temperature. When ``path`` does not exist and
    looks like ``organization/name`` (or is ``hf:organization/name``), it is fetched from the
    Hugging Face hub: safetensors, JSON and vocabulary files only. No code from a folder is ever
    run.

    Score, pooling and prompts are properties of the trained model. Where the folder states one,
    an argument must agree with it, unless ``cross_evaluation`` asks for another. Lengths only
    lower: the limit of each side is the least of the argument, what the folder states, the
    tokenizer's limit and the position table; ``cross_evaluation`` lifts the folder's.

    Args:
        path: folder or hub id.
        score: the score to rank by.
        cross_evaluation: let arguments replace what the folder states.
        step: a step's full checkpoint of a run folder instead of its ``model/``.
        restore: reads that checkpoint, ``(run folder, step, model) -> model``; needed for
            ``step``, since checkpoints belong to training.
        dtype: compute dtype, ``float32`` or ``bfloat16``; parameters are float32.
        remat: recompute layers in the backward pass, to train with less memory.
        pooling: a name in ``magjax.encoders.POOLINGS``; ``mean`` where nobody states one.
        query_prompt: put before each query.
        document_prompt: put before each document.
        query_max_length: most tokens of a query.
        document_max_length: most tokens of a document.
        query_modality: of CLIP and SigLIP, which side the queries are: ``"text"`` (also where
            nobody says) or ``"image"``.
        images: how images become numbers, where the folder does not say.
        image_size: read images of another size than in training: the vision tower's positions are
            interpolated.

    Returns:
        The model; its ``score`` is None when neither folder nor caller states one.

    Raises:
        InputError: a missing, damaged or unsupported folder, or an argument against it.

    >>> load("/nowhere/model")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/model does not exist.
    """
    folder, run = locate(path)
    stated = read_stated(folder)
    read = read_towers(
        stated, query_modality=query_modality, image_size=image_size, dtype=dtype, remat=remat
    )
    encoder = DualEncoder(
        read.query,
        read.document,
        pooling=_pooling(stated, pooling, read, folder, cross_evaluation),
        projection=stated.projection,
        document_projection=stated.document_projection,
    )
    tokenizers = _tokenizers(read.text_folders, folder)
    # The one that admits the longest texts: each side has a limit of its own.
    tokenizer = max(tokenizers.values(), key=lambda t: t.model_max_length or math.inf)
    for side in read.text_folders:
        align_padding(encoder.tower(side), tokenizer.pad_id, folder)
    if stated.lower_case is not None:
        _check_lower_case(tokenizer, stated.lower_case, folder)
    prompts = {
        side: _agree(
            f"{side}_prompt",
            getattr(stated, f"{side}_prompt"),
            query_prompt if side == "query" else document_prompt,
            folder,
            cross_evaluation,
        )
        for side in SIDES
    }
    wanted: dict[Side, int | None] = {"query": query_max_length, "document": document_max_length}
    lengths = {
        side: _length(side, wanted[side], stated, tokenizers[side], encoder, cross_evaluation)
        for side in SIDES
    }
    model = Model(
        encoder,
        _score(stated.score or read.score, score, folder, cross_evaluation),
        tokenizer,
        TextSettings(
            query_max_length=lengths["query"],
            document_max_length=lengths["document"],
            query_prompt=prompts["query"] or "",
            document_prompt=prompts["document"] or "",
        ),
        _images(read.images, images, folder, cross_evaluation),
    )
    if step is None:
        return model
    if run is None:
        raise InputError(f"step={step} was asked for, but {folder} is no run folder.")
    if restore is None:
        raise InputError(f"step={step} needs restore=, the reader of training checkpoints.")
    return restore(run, step, model)


def _agree(
    name: str, stated: str | None, given: str | None, folder: Path, cross_evaluation: bool
) -> str | None:
    if given is None or stated is None or given == stated or cross_evaluation:
        return stated if given is None else given
    raise InputError(
        f"{name}={given!r} contradicts {folder}, which was trained with {stated!r}; leave it out, "
        "or ask for a cross-evaluation."
    )


def _pooling(
    stated: Stated, given: str | None, read: ReadTowers, folder: Path, cross_evaluation: bool
) -> str | None:
    chosen = _agree("pooling", stated.pooling, given, folder, cross_evaluation)
    if chosen is None and any(isinstance(t, TextEncoder) for t in (read.query, read.document)):
        chosen = "mean"
        _log.info("%s states no pooling; using mean.", folder)
    return chosen


def _images(
    stated: ImageSettings | None,
    given: ImageSettings | None,
    folder: Path,
    cross_evaluation: bool,
) -> ImageSettings | None:
    if given is None or stated is None or given == stated or cross_evaluation:
        return stated if given is None else given
    raise InputError(
        f"images={given} contradicts {folder}, which was trained with {stated}; leave it out, or "
        "ask for a cross-evaluation."
    )


def _score(
    stated: Score | None, given: Score | None, folder: Path, cross_evaluation: bool
) -> Score | None:
    if given is None or stated is None or cross_evaluation:
        return stated if given is None else given
    if not stated.agrees_with(given):
        raise InputError(
            f"the score {given} contradicts {folder}, which was trained for {stated}; leave it "
            "out, or ask for a cross-evaluation."
        )
    return stated if given.temperature is None else given


def _length(
    side: Side,
    wanted: int | None,
    stated: Stated,
    tokenizer: TextTokenizer,
    encoder: DualEncoder,
    cross_evaluation: bool,
) -> int:
    """The least of all limits; says which one lowered what the caller asked for."""
    limits = {
        "its position table": text_config(encoder, side).max_length,
        "its tokenizer": tokenizer.model_max_length,
        "its folder": None if cross_evaluation else getattr(stated, f"{side}_max_length"),
    }
    source, limit = min(
        ((name, value) for name, value in limits.items() if value is not None),
        key=lambda item: item[1],
    )
    own = limits["its folder"]
    if own is not None and own > limit:
        # sentence-transformers lets the folder's number outdo the tokenizer's.
        _log.warning(
            "%s_max_length=%d of its folder is lowered to %d, the limit of %s.",
            side,
            own,
            limit,
            source,
        )
    if wanted is None:
        return limit
    length = positive_integer(f"{side}_max_length", wanted)
    if length > limit:
        _log.warning(
            "%s_max_length=%d is lowered to %d, the limit of %s.", side, length, limit, source
        )
    return min(length, limit)


def _tokenizers(folders: Mapping[Side, Path], folder: Path) -> dict[Side, TextTokenizer]:
    """A tokenizer for each side; a side of images has the other's."""
    loaded = {place: TextTokenizer.load(place) for place in dict.fromkeys(folders.values())}
    first, *others = loaded.values()
    for other in others:
        if (first.fingerprint, first.pad_id) != (other.fingerprint, other.pad_id):
            raise InputError(
                f"{folder} tokenizes queries and documents by different tokenizers, which is not "
                "supported; one tokenizer serves both sides."
            )
    return {side: loaded[folders[side]] if side in folders else first for side in SIDES}


def _check_lower_case(tokenizer: TextTokenizer, stated: bool, folder: Path) -> None:
    upper, lower = tokenizer.encode(["Aa Bb", "aa bb"], 16)
    if (upper.tolist() == lower.tolist()) is not stated:
        asks, does = ("lower-cased", "keeps") if stated else ("cased", "drops")
        raise InputError(
            f"{folder} asks for {asks} text (do_lower_case), but its tokenizer.json {does} "
            "capitals; make its normalizer and the setting agree."
        )
