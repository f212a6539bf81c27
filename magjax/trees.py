"""Names of the leaves of a tree of arrays: what checkpoints, reports and patterns call them."""

from typing import Any

import jax

__all__ = ["flatten_named"]


def flatten_named(tree: Any) -> tuple[dict[str, Any], Any]:
    """The leaves of ``tree`` by name, in tree order, and its structure.

    A name is the path of keys, attributes and indices, joined by ``/``. With the structure the
    leaves make the tree again: ``jax.tree.unflatten(structure, named.values())``.

    >>> named, structure = flatten_named({"layers": [{"kernel": 1.0}, {"kernel": 2.0}]})
    >>> named
    {'layers/0/kernel': 1.0, 'layers/1/kernel': 2.0}
    >>> jax.tree.unflatten(structure, named.values())
    {'layers': [{'kernel': 1.0}, {'kernel': 2.0}]}
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    named = {_name(path): leaf for path, leaf in leaves}
    assert len(named) == len(leaves), "two leaves of the tree share a name"
    return named, structure


def _name(path: tuple[Any, ...]) -> str:
    return "/".join(
        str(getattr(part, "key", getattr(part, "name", getattr(part, "idx", part))))
        for part in path
    )
