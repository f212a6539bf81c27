"""NumPy: one ``.npy`` a side (memory-mappable) with its ids, and texts when asked."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from magjax.export._description import VectorDescription
from magjax.export._engine import Engine, Hits, Place, Table
from magjax.export._sidecar import read_ids, sidecar

__all__ = ["ENGINE", "best_rows"]

_ROWS = 8192  # documents widened at a time: 25 MiB at 384 dimensions


def _write(place: Place, tables: Sequence[Table], overwrite: bool) -> None:
    for table in tables:
        target = Path(place) / f"{table.name}.npy"
        shape = (table.count, table.description.stored_dim)
        vectors = open_memmap(target, "w+", np.dtype("<f4"), shape)
        with sidecar(place, table) as add:
            for block in table.blocks:
                vectors[block.start : block.start + len(block.ids)] = block.vectors
                add(block)
        vectors.flush()


def best_rows(queries: np.ndarray, documents: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the k largest inner products, best first, and the products in float64.

    >>> rows, values = best_rows(np.eye(2), np.array([[1, 0], [2, 1]], np.float32), 1)
    >>> rows.tolist(), values.tolist()
    ([[1], [1]], [[2.0], [1.0]])
    """
    wide = np.asarray(queries, np.float64)
    rows = np.zeros((len(wide), 0), np.int64)
    values = np.zeros((len(wide), 0))
    for start in range(0, len(documents), _ROWS):
        part = np.asarray(documents[start : start + _ROWS], np.float64)
        values = np.concatenate([values, wide @ part.T], axis=1)
        here = np.broadcast_to(np.arange(start, start + len(part)), (len(wide), len(part)))
        rows = np.concatenate([rows, here], axis=1)
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]
        values = np.take_along_axis(values, order, axis=1)
        rows = np.take_along_axis(rows, order, axis=1)
    return rows, values


def _search(
    place: Place, description: VectorDescription, queries: np.ndarray, k: int
) -> list[Hits]:
    name = description.name("document")
    documents = np.load(Path(place) / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    ids = read_ids(place, name, len(documents))
    rows, values = best_rows(queries, documents, k)
    return [([ids[row] for row in found], one) for found, one in zip(rows, values, strict=True)]


# Files know no distance: their reader multiplies, so no other metric is on offer.
ENGINE = Engine(
    extra="",
    packages=(),
    metrics={"inner_product": "inner product"},
    options={"flat": {}},
    write=_write,
    search=_search,
)
