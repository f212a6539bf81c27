"""One encoder from and to a Hugging Face folder."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from flax import nnx

from magjax.checks import InputError
from magjax.encoders import EncoderConfig, TextEncoder
from magjax.files import read_json, write_json
from magjax.hub._names import IGNORED_PREFIXES, LEGACY_SUFFIXES, name_table
from magjax.hub._parameters import restored
from magjax.hub._tensors import read_tensors, write_tensors

__all__ = ["read_tower", "write_tower"]

_log = logging.getLogger(__name__)


def read_tower(folder: Path, *, dtype: str = "float32", remat: bool = False) -> TextEncoder:
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
        config = EncoderConfig.from_hf(settings)
    except InputError as error:
        raise InputError(f"{folder / 'config.json'}: {error}") from error
    tensors = _canonical(read_tensors(folder))
    table = name_table(config)
    extra = sorted(set(tensors) - set(table))
    ignored = [name for name in extra if name.startswith(IGNORED_PREFIXES)]
    _raise_leftovers(
        folder,
        missing=sorted(set(table) - set(tensors)),
        extra=[name for name in extra if name not in ignored],
    )
    if ignored:
        _log.info("%s: left out, as no embedding uses them: %s", folder, ", ".join(ignored))
    return restored(
        lambda: TextEncoder(config, dtype=dtype, remat=remat, rngs=nnx.Rngs(0)),
        {
            target.path: (name, tensors[name].T if target.transpose else tensors[name])
            for name, target in table.items()
        },
        folder,
    )


def write_tower(encoder: TextEncoder, folder: Path) -> None:
    """Writes ``config.json`` and ``model.safetensors`` as Hugging Face's own class reads them.

    >>> import tempfile, pathlib
    >>> config = EncoderConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=8, max_position_embeddings=4)
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_tower(TextEncoder(config, rngs=nnx.Rngs(0)), folder)
    >>> sorted(file.name for file in folder.iterdir())
    ['config.json', 'model.safetensors']
    """
    state = {tuple(path): value[...] for path, value in nnx.to_flat_state(nnx.state(encoder))}
    table = name_table(encoder.config)
    known = {target.path for target in table.values()}
    assert known == set(state), f"name table and encoder differ: {known ^ set(state)}"
    write_json(folder / "config.json", encoder.config.to_hf())
    write_tensors(
        folder / "model.safetensors",
        {
            name: np.asarray(state[target.path]).T if target.transpose else state[target.path]
            for name, target in table.items()
        },
    )


def _canonical(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Names without the prefix of a pre-training class (``bert.``), and LayerNorm's newer ones."""
    result = {}
    for name, tensor in tensors.items():
        short = name
        for prefix in ("bert.", "roberta.", "distilbert.", "mpnet."):
            short = short.removeprefix(prefix)
        for old, new in LEGACY_SUFFIXES.items():
            if short.endswith(old):
                short = short.removesuffix(old) + new
        if short in result:
            raise InputError(f"the checkpoint holds {short} twice, once as {name}.")
        result[short] = tensor
    return result


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
