"""One encoder from and to a Hugging Face folder."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from magjax.checks import InputError
from magjax.encoders import (
    CLIP_TEXT_TYPES,
    VISION_TYPES,
    ClipTextConfig,
    ClipTextEncoder,
    EncoderConfig,
    TextEncoder,
    Tower,
    VisionConfig,
    VisionEncoder,
)
from magjax.files import read_json, write_json
from magjax.hub._names import IGNORED_PREFIXES, LEGACY_SUFFIXES, name_table
from magjax.hub._parameters import restored
from magjax.hub._tensors import read_tensors, write_tensors

__all__ = ["build_tower", "check_names", "read_tower", "tower_tensors", "write_tower"]

_log = logging.getLogger(__name__)
_Config = EncoderConfig | ClipTextConfig | VisionConfig


def read_tower(folder: Path, *, dtype: str = "float32", remat: bool = False) -> Tower:
    """The encoder in ``config.json`` and ``model.safetensors`` (or shards) of ``folder``.

    Raises:
        InputError: a missing or unsupported file, and any tensor too few, too many or of another
            shape; poolers and task heads are left out, with a log line that names them.

    >>> import tempfile, pathlib
    >>> config = EncoderConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=8, max_position_embeddings=4)
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_tower(TextEncoder(config, rngs=nnx.Rngs(0)), folder)
    >>> read_tower(folder).config == config
    True
    """
    settings = read_json(folder / "config.json")
    try:
        config = _config(settings)
    except InputError as error:
        raise InputError(f"{folder / 'config.json'}: {error}") from error
    tensors = _canonical(read_tensors(folder), config)
    check_names(folder, set(name_table(config)), set(tensors))
    return build_tower(config, tensors, folder, dtype=dtype, remat=remat)


def check_names(folder: Path, needed: set[str], found: set[str]) -> None:
    """Compares a folder's tensors with those that its configuration asks for.

    Raises:
        InputError: one is missing or unknown. Heads that no embedding uses, and buffers that only
            count, are a log line.

    >>> check_names(Path("folder"), {"a.weight"}, {"a.weight", "pooler.dense.weight"})
    """
    extra = sorted(found - needed)
    ignored = [name for name in extra if name.startswith(IGNORED_PREFIXES)]
    _raise_leftovers(
        folder,
        missing=sorted(needed - found),
        extra=[name for name in extra if name not in ignored],
    )
    if ignored:
        _log.info("%s: left out, as no embedding uses them: %s", folder, ", ".join(ignored))


def build_tower(
    config: _Config, tensors: Mapping[str, np.ndarray], folder: Path, *, dtype: str, remat: bool
) -> Tower:
    """The tower of ``config`` that holds the ``tensors`` of its name table.

    Raises:
        InputError: a tensor of another shape.

    >>> config = VisionConfig.preset("tiny", num_hidden_layers=1)
    >>> tensors = tower_tensors(VisionEncoder(config, rngs=nnx.Rngs(0)))
    >>> build_tower(config, tensors, Path("folder"), dtype="float32", remat=False).dim
    512
    """

    def build() -> Tower:
        settings: dict[str, Any] = {"dtype": dtype, "remat": remat, "rngs": nnx.Rngs(0)}
        if isinstance(config, EncoderConfig):
            return TextEncoder(config, **settings)
        if isinstance(config, ClipTextConfig):
            return ClipTextEncoder(config, **settings)
        return VisionEncoder(config, **settings)

    table = name_table(config)
    try:
        arrays = {t.path: (name, t.ours(tensors[name])) for name, t in table.items()}
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    return restored(build, arrays, folder)


def write_tower(encoder: Tower, folder: Path) -> None:
    """Writes ``config.json`` and ``model.safetensors`` as Hugging Face's own class reads them.

    >>> import tempfile, pathlib
    >>> config = EncoderConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=8, max_position_embeddings=4)
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_tower(TextEncoder(config, rngs=nnx.Rngs(0)), folder)
    >>> sorted(file.name for file in folder.iterdir())
    ['config.json', 'model.safetensors']
    """
    write_json(folder / "config.json", encoder.config.to_hf())
    write_tensors(folder / "model.safetensors", tower_tensors(encoder))


def tower_tensors(encoder: Tower) -> dict[str, np.ndarray]:
    """Every parameter of a tower by the name and in the layout of its checkpoints.

    >>> config = VisionConfig.preset("tiny", num_hidden_layers=1)
    >>> tensors = tower_tensors(VisionEncoder(config, rngs=nnx.Rngs(0)))
    >>> tensors["vision_model.embeddings.patch_embedding.weight"].shape
    (192, 3, 8, 8)
    """
    state = {tuple(path): value[...] for path, value in nnx.to_flat_state(nnx.state(encoder))}
    table = name_table(encoder.config)
    known = {target.path for target in table.values()}
    assert known == set(state), f"name table and encoder differ: {known ^ set(state)}"
    return {name: target.theirs(np.asarray(state[target.path])) for name, target in table.items()}


def _config(settings: Mapping[str, Any]) -> _Config:
    model_type = settings.get("model_type")
    if model_type in CLIP_TEXT_TYPES:
        return ClipTextConfig.from_hf(settings)
    if model_type in VISION_TYPES:
        return VisionConfig.from_hf(settings)
    return EncoderConfig.from_hf(settings)


def _canonical(tensors: Mapping[str, np.ndarray], config: _Config) -> dict[str, np.ndarray]:
    """Names as the tables have them, whichever class of whichever release wrote them."""
    result = {}
    for name, tensor in tensors.items():
        short = _bert_name(name) if isinstance(config, EncoderConfig) else _tower_name(name, config)
        if short in result:
            raise InputError(f"the checkpoint holds {short} twice, once as {name}.")
        result[short] = tensor
    return result


def _bert_name(name: str) -> str:
    """Without the prefix of a pre-training class (``bert.``), and LayerNorm's newer names."""
    for prefix in ("bert.", "roberta.", "distilbert.", "mpnet."):
        name = name.removeprefix(prefix)
    for old, new in LEGACY_SUFFIXES.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name


def _tower_name(name: str, config: ClipTextConfig | VisionConfig) -> str:
    """With the prefix that transformers 5 leaves out where a tower is saved alone."""
    prefix = "text_model." if isinstance(config, ClipTextConfig) else "vision_model."
    outside = name.startswith((prefix, "text_projection.", "visual_projection."))
    return name if outside else prefix + name


def _raise_leftovers(folder: Path, *, missing: list[str], extra: list[str]) -> None:
    if missing or extra:
        found = [
            f"{len(names)} {what} ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''})"
            for what, names in (("missing", missing), ("unknown", extra))
            if names
        ]
        raise InputError(
            f"{folder}: tensors do not match config.json: {'; '.join(found)}. "
            "The file belongs to another architecture or is damaged."
        )
