"""The shape that every target has: what it can do, how it is written, how it is asked."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from magjax.checks import InputError, choose, need, positive_integer
from magjax.export._description import VectorDescription
from magjax.typing import Float, Side

__all__ = ["Block", "Engine", "Hits", "Place", "Table", "index_options"]

Place = Path | str
"""A folder, or the address of a server."""

Hits = tuple[list[str], np.ndarray]
"""Ids of one query's documents, best first, and what the engine compared by, float64."""


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Consecutive vectors, ready to store.

    Attributes:
        start: the number of the first among all.
        ids: one name a vector.
        vectors: float32, contiguous.
        texts: what was embedded; None where texts are not stored.
    """

    start: int
    ids: Sequence[str]
    vectors: Float[np.ndarray, "n dim"]
    texts: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """One side of an export: where its vectors go.

    Attributes:
        side: ``"document"`` or ``"query"``.
        name: of the table, collection or file.
        count: vectors in all.
        index: ``flat`` for queries, which nobody searches.
        description: of the whole export.
        has_texts: whether blocks carry texts.
        blocks: the vectors, read once.
        training: a sample of them, for indexes that are trained; read before ``blocks``.
    """

    side: Side
    name: str
    count: int
    index: str
    description: VectorDescription
    has_texts: bool
    blocks: Iterator[Block]
    training: Callable[[int], np.ndarray] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Engine:
    """A target.

    Attributes:
        extra: the extra of pyproject.toml that brings ``packages``.
        packages: what is imported when it is used.
        metrics: per metric of ours the engine's own name of it.
        options: per index the options with their defaults.
        write: stores tables at a place. A server's tables appear all at once or not at all; a
            folder is a temporary one that takes its place afterwards.
        search: ``(place, description, queries, k)`` to hits: the documents nearest to each query.
            Values are inner products, cosines, or squared Euclidean distances.
        check: of a server: refuses before anything is embedded what cannot be written later.
        describe: of a server: reads the description of a table by its name.
        schemes: of addresses; a place with one of them is a server, any other a folder.
        has_folders: whether it can write a folder at all.
        trained: indexes that need a sample of the vectors before the first is stored.
        largest_dim: per index, the most dimensions, where there is a limit.
    """

    extra: str
    packages: Sequence[str]
    metrics: Mapping[str, str]
    options: Mapping[str, Mapping[str, int]]
    write: Callable[[Place, Sequence[Table], bool], None]
    search: Callable[[Place, VectorDescription, np.ndarray, int], list[Hits]]
    check: Callable[[Place, Sequence[str], bool], None] | None = None
    describe: Callable[[Place, str], VectorDescription] | None = None
    schemes: Sequence[str] = ()
    has_folders: bool = True
    trained: Sequence[str] = ()
    largest_dim: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def place(self, out: str | os.PathLike[str]) -> Place:
        """``out`` as the address of a server or as a folder.

        Raises:
            InputError: a folder for an engine that only lives on a server, or another's address.
        """
        name = os.fspath(out)
        scheme, separator, _ = name.partition("://")
        if separator and scheme in self.schemes:
            return name
        if separator or not self.has_folders:
            known = " or ".join(f"{scheme}://..." for scheme in self.schemes)
            wanted = [known] * bool(known) + ["a folder"] * self.has_folders
            # The part before the first / may hold a password: only the scheme is repeated.
            came = f"an address that starts with {scheme}://" if separator else repr(name)
            raise InputError(f"out is {came}, but this target writes to {' or '.join(wanted)}.")
        return Path(name)

    def need(self) -> None:
        """Imports what the engine needs.

        Raises:
            InputError: a package is missing; the message names the extra.
        """
        for package in self.packages:
            need(package, self.extra)


def index_options(
    engine: Engine, index: str, given: Mapping[str, int], count: int
) -> dict[str, int]:
    """The options of an index: the given ones over the engine's defaults.

    Args:
        engine: whose index it is.
        index: its kind.
        given: options by name.
        count: documents; ``lists`` of 0 is set to about four roots of it, ``probes`` of 0 to the
            root of the lists, and to 8 at least.

    Raises:
        InputError: an option that the index does not have, or no positive whole number.

    >>> from magjax.export._faiss import ENGINE
    >>> index_options(ENGINE, "hnsw", {"m": 16}, 1000)["m"]
    16
    """
    defaults = engine.options[choose("index", index, engine.options)]
    options = dict(defaults)
    for name, value in given.items():
        if not defaults:
            raise InputError(f"index {index!r} has no options, but {name}={value} was given.")
        options[choose(f"option of index {index!r}", name, defaults)] = positive_integer(
            name, value
        )
    if "lists" in options:
        # k-means wants some 39 vectors a list; the usual number is a few roots of the count.
        options["lists"] = options["lists"] or max(1, min(int(4 * count**0.5), count // 39))
        probes = options["probes"] or max(8, round(options["lists"] ** 0.5))
        options["probes"] = min(probes, options["lists"])
    return options
