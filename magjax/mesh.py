"""One data-parallel mesh over all devices; one device is the same code."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = ["DATA_AXIS", "data_mesh", "replicate", "replicated", "rows"]

DATA_AXIS = "data"


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A one-axis mesh named ``data`` over ``devices`` (default: all).

    >>> data_mesh().axis_names
    ('data',)
    """
    chosen = list(jax.devices() if devices is None else devices)
    # Auto: the compiler places the collectives of the batch-wide loss; JAX 0.10's default
    # (Explicit) would ask for an output sharding at every contraction of two sharded sides.
    return jax.make_mesh((len(chosen),), (DATA_AXIS,), axis_types=(AxisType.Auto,), devices=chosen)


def rows(mesh: Mesh) -> NamedSharding:
    """The sharding that splits the leading axis over the mesh.

    >>> tuple(rows(data_mesh()).spec)
    ('data',)
    """
    return NamedSharding(mesh, PartitionSpec(DATA_AXIS))


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding that keeps a whole copy on each device.

    >>> replicated(data_mesh()).is_fully_replicated
    True
    """
    return NamedSharding(mesh, PartitionSpec())


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Places every leaf of ``tree`` whole on each device of ``mesh``.

    >>> import jax.numpy as jnp
    >>> replicate({"w": jnp.ones(2)}, data_mesh())["w"].is_fully_replicated
    True
    """
    return jax.device_put(tree, replicated(mesh))
