"""Which parameters a Fisher matrix is taken over: all, a block, or those a pattern names."""

import dataclasses
import difflib
import math
import re
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from magjax.checks import InputError
from magjax.fisher._sets import Parameters
from magjax.trees import flatten_named

__all__ = ["SPACES", "Selection", "expand_spaces", "select"]

SPACES: dict[str, str] = {
    "all": r"",
    "last_block": r"(^|/)layers/LAST/",
    "projection": r"(^|/)(document_)?projection/",
    "embeddings": r"(^|/)embeddings/",
}
"""Named parameter spaces and the regular expressions that they stand for."""

_LAYER = re.compile(r"(^|/)layers/(\d+)/")


@dataclasses.dataclass(frozen=True)
class Selection:
    """Parameters split into those that vary and those that stay fixed.

    Attributes:
        space: the name or pattern that chose them.
        structure: of the whole tree.
        names: of all leaves, in tree order.
        chosen: names of the leaves that vary, in tree order.
        leaves: all leaves by name; half-width ones of the chosen are float32 here.
        notes: what a report must say about them.

    >>> selection = select({"up": jnp.ones((2, 3)), "down": jnp.ones(2)}, "up")
    >>> selection.chosen, selection.dimension
    (('up',), 6)
    """

    space: str
    structure: Any
    names: tuple[str, ...]
    chosen: tuple[str, ...]
    leaves: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """Number of parameters that vary."""
        return sum(math.prod(np.shape(self.leaves[name])) for name in self.chosen)

    @property
    def varying(self) -> dict[str, Any]:
        """The chosen leaves by name."""
        return {name: self.leaves[name] for name in self.chosen}

    @property
    def fixed(self) -> dict[str, Any]:
        """The other leaves by name."""
        return {name: leaf for name, leaf in self.leaves.items() if name not in self.chosen}


def select(parameters: Parameters, space: str) -> Selection:
    """Chooses parameters by a name in :data:`SPACES` or a regular expression of their names.

    Names are paths such as ``query_tower/layers/5/up/kernel``; ``last_block`` is the last layer of
    each tower. Chosen leaves in bfloat16 or float16 are turned into float32, which the notes say.

    Raises:
        InputError: a broken expression, or one that matches no parameter (the nearest are named).

    >>> select({"layers": {"0": {"kernel": jnp.ones(2)}}}, "kernal")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: no parameter matches 'kernal'; the nearest are layers/0/kernel. Named spaces: all, last_block, projection, embeddings, each_block.
    """
    named, structure = flatten_named(parameters)
    floating = [name for name, leaf in named.items() if jnp.issubdtype(leaf.dtype, jnp.floating)]
    matcher = _compile(space, floating)
    chosen = tuple(name for name in floating if matcher(name))
    if not chosen:
        near = _nearest(space, floating)
        raise InputError(
            f"no parameter matches {space!r}; the nearest are {', '.join(near)}. Named spaces: "
            f"{', '.join((*SPACES, 'each_block'))}."
        )
    half = [name for name in chosen if named[name].dtype.itemsize < 4]
    notes: tuple[str, ...] = ()
    if half:
        width = named[half[0]].dtype.name
        notes = (f"{len(half)} parameters of type {width} were turned into float32",)
    leaves = {
        name: leaf.astype(jnp.float32) if name in half else leaf for name, leaf in named.items()
    }
    return Selection(space, structure, tuple(named), chosen, leaves, notes)


def expand_spaces(spaces: Iterable[str], parameters: Parameters) -> list[str]:
    """Replaces ``each_block`` by one pattern a layer, with embeddings and projections where found.

    >>> tree = {"tower": {"layers": {"0": {"k": jnp.ones(1)}, "1": {"k": jnp.ones(1)}}}}
    >>> expand_spaces(["each_block"], tree)
    ['(^|/)layers/0/', '(^|/)layers/1/']
    """
    named, _ = flatten_named(parameters)
    numbers = sorted({int(match[2]) for name in named if (match := _LAYER.search(name))})
    blocks = [rf"(^|/)layers/{number}/" for number in numbers]
    ends = {
        name: [SPACES[name]] if any(re.search(SPACES[name], leaf) for leaf in named) else []
        for name in ("embeddings", "projection")
    }
    found: list[str] = []
    for space in spaces:
        if space == "each_block":
            found += [*ends["embeddings"], *blocks, *ends["projection"]]
        else:
            found.append(space)
    return list(dict.fromkeys(found))


def _compile(space: str, names: list[str]) -> Any:
    """A predicate of names; ``LAST`` stands for the highest layer number of the name's own tower."""
    if space == "last_block":
        last: dict[str, int] = {}
        for name in names:
            if match := _LAYER.search(name):
                tower = name[: match.start()]
                last[tower] = max(last.get(tower, 0), int(match[2]))
        wanted = [f"{tower}/layers/{number}/".lstrip("/") for tower, number in last.items()]
        return lambda name: any(name.startswith(prefix) for prefix in wanted)
    try:
        expression = re.compile(SPACES.get(space, space))
    except re.error as error:
        raise InputError(
            f"the parameter pattern {space!r} is no regular expression ({error}); named spaces: "
            f"{', '.join((*SPACES, 'each_block'))}."
        ) from error
    return lambda name: bool(expression.search(name))


def _nearest(space: str, names: list[str]) -> list[str]:
    """Three names whose parts look most like the pattern's."""
    words = [word for word in re.split(r"[^A-Za-z0-9_]+", space) if word]

    def likeness(name: str) -> float:
        parts = name.split("/")
        return sum(
            max(difflib.SequenceMatcher(None, word, part).ratio() for part in parts)
            for word in words
        )

    return sorted(names, key=lambda name: -likeness(name))[:3]
