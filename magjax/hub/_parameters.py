"""Arrays of a file into a module that was never randomly started."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from flax import nnx

from magjax.checks import InputError

__all__ = ["ParameterPath", "restored"]

ParameterPath = tuple[Any, ...]  # attribute names and list positions

_Module = TypeVar("_Module", bound=nnx.Module)


def restored(
    build: Callable[[], _Module],
    arrays: Mapping[ParameterPath, tuple[str, np.ndarray]],
    folder: str | os.PathLike[str],
) -> _Module:
    """The module that ``build`` describes, holding the given arrays as float32.

    ``build`` runs on shapes alone, so no random start is made and thrown away.

    Args:
        build: makes the module.
        arrays: for each parameter path, the tensor's name in its file and its value.
        folder: where the tensors came from, for messages.

    Raises:
        InputError: a tensor of another shape.

    >>> build = lambda: nnx.Linear(1, 2, use_bias=False, rngs=nnx.Rngs(0))
    >>> arrays = {("kernel",): ("weight", np.ones((1, 2), np.float32))}
    >>> restored(build, arrays, "folder").kernel[...].tolist()
    [[1.0, 1.0]]
    """
    graph, empty = nnx.split(nnx.eval_shape(build))
    filled = []
    for path, variable in nnx.to_flat_state(empty):
        name, array = arrays[path]
        if array.shape != variable.shape:
            raise InputError(
                f"{folder}: {name} has shape {array.shape} where the configuration needs "
                f"{tuple(variable.shape)} (inputs before outputs); configuration and weights differ."
            )
        value = jnp.asarray(np.ascontiguousarray(array), jnp.float32)
        filled.append((path, variable.replace(value)))
    return nnx.merge(graph, nnx.from_flat_state(filled))
