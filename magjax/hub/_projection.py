"""Dense layers after pooling, from and to safetensors in torch's layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from magjax.checks import InputError
from magjax.encoders import Projection
from magjax.hub._parameters import restored
from magjax.hub._tensors import read_file

__all__ = ["projection_settings", "projection_tensors", "read_projections"]

_SETTINGS = ("inputs", "outputs", "bias", "activation")


def projection_settings(projection: Projection) -> dict[str, Any]:
    """What a projection's weights alone do not say.

    >>> projection_settings(Projection(3, 2, rngs=nnx.Rngs(0)))
    {'inputs': 3, 'outputs': 2, 'bias': True, 'activation': 'identity'}
    """
    linear = projection.linear
    return {
        "inputs": linear.in_features,
        "outputs": linear.out_features,
        "bias": linear.bias is not None,
        "activation": projection.activation,
    }


def projection_tensors(projections: Mapping[str, Projection]) -> dict[str, np.ndarray]:
    """``NAME.weight`` ``[outputs, inputs]`` and ``NAME.bias`` of each named projection.

    >>> projection_tensors({"linear": Projection(3, 2, rngs=nnx.Rngs(0))})["linear.weight"].shape
    (2, 3)
    """
    tensors = {}
    for name, projection in projections.items():
        linear = projection.linear
        tensors[f"{name}.weight"] = np.asarray(linear.kernel[...]).T
        if linear.bias is not None:
            tensors[f"{name}.bias"] = np.asarray(linear.bias[...])
    return tensors


def read_projections(file: Path, stated: Mapping[str, Any]) -> dict[str, Projection]:
    """The projections that ``stated`` lists as ``{name: settings}``, from one file.

    Raises:
        InputError: a missing or damaged file, settings that are incomplete or do not fit the
            weights, or a tensor too few or too many.
    """
    tensors = read_file(file)
    projections = {}
    for name, settings in stated.items():
        if not isinstance(settings, Mapping) or set(settings) != set(_SETTINGS):
            raise InputError(
                f"{file}: a projection is stated by {', '.join(_SETTINGS)}; got {settings}."
            )
        parts = {"kernel": f"{name}.weight"}
        if settings["bias"]:
            parts["bias"] = f"{name}.bias"
        missing = [part for part in parts.values() if part not in tensors]
        if missing:
            raise InputError(f"{file} lacks {', '.join(missing)}; restore it from its source.")
        arrays = {
            ("linear", ours): (theirs, tensors.pop(theirs).T) for ours, theirs in parts.items()
        }
        projections[name] = restored(_builder(settings), arrays, file)
    if tensors:
        raise InputError(f"{file} holds {', '.join(sorted(tensors))}, which no setting mentions.")
    return projections


def _builder(settings: Mapping[str, Any]) -> Any:
    return lambda: Projection(
        settings["inputs"],
        settings["outputs"],
        use_bias=settings["bias"],
        activation=settings["activation"],
        rngs=nnx.Rngs(0),
    )
