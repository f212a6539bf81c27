"""Safetensors in and out; nothing in a weight file is ever executed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy, which has none of its own)
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from magjax.checks import InputError
from magjax.files import open_to_readers, read_json

__all__ = ["read_file", "read_tensors", "write_tensors"]

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_READABLE = ("float32", "float16", "bfloat16")
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")


def read_tensors(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Every tensor of ``model.safetensors``, or of the shards that its index names, as float32.

    float16 and bfloat16 widen without loss.

    Raises:
        InputError: no safetensors file, a shard that is missing or lacks a listed tensor, a
            damaged file, or a tensor that is no float of 16 or 32 bits.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write_tensors(f"{folder}/model.safetensors", {"a": np.ones(2, np.float32)})
    >>> read_tensors(folder)
    {'a': array([1., 1.], dtype=float32)}
    """
    root = Path(folder)
    if (root / _WEIGHTS).is_file():
        return read_file(root / _WEIGHTS)
    if not (root / _INDEX).is_file():
        raise InputError(_no_weights(root, f"{_WEIGHTS} and no {_INDEX}"))
    index = read_json(root / _INDEX)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise InputError(f'{root / _INDEX} has no "weight_map"; restore it from its source.')
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(set(shards.values())):
        if Path(name).name != name:
            raise InputError(f"{root / _INDEX} names a shard outside its folder: {name!r}.")
        if not (root / name).is_file():
            raise InputError(f"{root / name} does not exist, but {_INDEX} lists it; fetch it too.")
        tensors |= read_file(root / name)
    missing = sorted(set(shards) - set(tensors))
    if missing:
        raise InputError(f"{root}: {_INDEX} lists {_some(missing)}, which no shard holds.")
    return tensors


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any]) -> None:
    """Writes arrays (JAX or NumPy) under the names given; torch reads the file as it is.

    >>> import tempfile
    >>> write_tensors(f"{tempfile.mkdtemp()}/x.safetensors", {"a": np.zeros((2, 3)).T})
    """
    # safetensors 0.8.0 writes the memory of a non-contiguous array in its own order: a transposed
    # kernel would come back scrambled without this copy. (np.ascontiguousarray would give a number
    # an axis.)
    whole = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    save_file(whole, path, metadata={"format": "pt"})
    open_to_readers(path)


def read_file(path: Path) -> dict[str, np.ndarray]:
    """Every float tensor of one safetensors file, as float32.

    Raises:
        InputError: a missing or damaged file, or a tensor of another number format.
    """
    if not path.is_file():
        raise InputError(_no_weights(path.parent, path.name))
    tensors = {}
    try:
        with safe_open(path, framework="np") as file:
            for name in file.keys():  # noqa: SIM118  (no mapping: it only has keys())
                tensor = file.get_tensor(name)
                if tensor.dtype.name in _READABLE:
                    tensors[name] = tensor.astype(np.float32, copy=False)
                elif not name.endswith("position_ids"):  # a counting buffer, int64
                    raise InputError(
                        f"{path}: {name} is {tensor.dtype.name}; only {', '.join(_READABLE)} "
                        "weights are read. Save the checkpoint unquantized."
                    )
    except (SafetensorError, TypeError, AttributeError) as error:
        # TypeError and AttributeError: number formats that NumPy lacks.
        raise InputError(f"{path} cannot be read as safetensors ({error}).") from error
    return tensors


def _no_weights(root: Path, needed: str) -> str:
    if not root.is_dir():
        return f"{root} does not exist."
    pickled = sorted(p.name for p in root.iterdir() if p.suffix in _PICKLED)
    if not pickled:
        return f"{root} holds no {needed}; fetch the checkpoint's weights again."
    return (
        f"{root} holds {_some(pickled)} but no {needed}; such files can run code and are not "
        "read. Convert once where torch is installed: load the checkpoint there with transformers "
        "or sentence-transformers and save it again, which writes safetensors."
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
