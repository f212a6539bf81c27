"""How torch and Flax lay out the same parameter, and tables of names that say which is which."""

import dataclasses
from typing import Literal

import numpy as np

from magjax.checks import InputError
from magjax.hub._parameters import ParameterPath

__all__ = ["LINEAR", "NORM", "TABLE", "Layout", "Parts", "Rows", "Target", "targets"]

# torch keeps a dense weight as [outputs, inputs], Flax as [inputs, outputs]. Square kernels hide a
# forgotten transpose from shape checks, so the layout is stated here and never inferred.
# "patches": a convolution [outputs, 3, size, size] that is a dense layer over channels-last patches.
Layout = Literal["plain", "transposed", "patches"]
Parts = tuple[tuple[str, str, Layout], ...]
Rows = tuple[tuple[str, str, Parts], ...]

LINEAR: Parts = ((".weight", "kernel", "transposed"), (".bias", "bias", "plain"))
NORM: Parts = ((".weight", "scale", "plain"), (".bias", "bias", "plain"))
TABLE: Parts = ((".weight", "embedding", "plain"),)


@dataclasses.dataclass(frozen=True)
class Target:
    """Where one tensor of a checkpoint lives in our tower, and in which layout it is stored.

    >>> target = Target(("up", "kernel"), "transposed")
    >>> target.ours(np.ones((3, 2))).shape, target.theirs(np.ones((2, 3))).shape
    ((2, 3), (3, 2))
    """

    path: ParameterPath
    layout: Layout

    def ours(self, tensor: np.ndarray) -> np.ndarray:
        """The checkpoint's tensor as we hold it.

        Raises:
            InputError: a convolution that is not over square patches of three channels.
        """
        if self.layout == "transposed":
            return tensor.T
        if self.layout == "plain":
            return tensor
        if tensor.ndim != 4 or tensor.shape[1] != 3 or tensor.shape[2] != tensor.shape[3]:
            raise InputError(
                f"a patch embedding of shape {tensor.shape} is not [hidden, 3, size, size]."
            )
        return tensor.transpose(2, 3, 1, 0).reshape(-1, tensor.shape[0])

    def theirs(self, array: np.ndarray) -> np.ndarray:
        """Our array as the checkpoint stores it; the inverse of ``ours``."""
        if self.layout == "transposed":
            return array.T
        if self.layout == "plain":
            return array
        size = round((array.shape[0] // 3) ** 0.5)
        return array.reshape(size, size, 3, -1).transpose(3, 2, 0, 1)


def targets(rows: Rows, layers: int) -> dict[str, Target]:
    """The table that ``rows`` abbreviate, with ``{}`` running over the layers.

    >>> rows = (("h.{}.fc", "layers.{}.up", LINEAR),)
    >>> [(name, target.path) for name, target in targets(rows, 1).items()][0]
    ('h.0.fc.weight', ('layers', 0, 'up', 'kernel'))
    """
    table = {}
    for theirs, ours, parts in rows:
        for layer in range(layers) if "{}" in theirs else (0,):
            module = tuple(int(p) if p.isdigit() else p for p in ours.format(layer).split("."))
            for their_part, our_part, layout in parts:
                table[f"{theirs.format(layer)}{their_part}"] = Target((*module, our_part), layout)
    return table
