"""FAISS: one index file a side, its metric inside, with the ids of its rows beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magjax.checks import InputError, need
from magjax.export._description import VectorDescription
from magjax.export._engine import Engine, Hits, Place, Table
from magjax.export._sidecar import read_ids, sidecar
from magjax.files import open_to_readers

__all__ = ["ENGINE"]

# FAISS has no cosine of its own: it is the inner product of what were made unit vectors.
_METRICS = {
    "inner_product": "METRIC_INNER_PRODUCT",
    "cosine": "METRIC_INNER_PRODUCT",
    "euclidean": "METRIC_L2",
}
_SAMPLE = 256  # training vectors a list: beyond it FAISS's k-means takes a subset itself


def _new_index(table: Table) -> Any:
    faiss = need("faiss", "faiss")
    description = table.description
    options = description.index_options
    metric = getattr(faiss, _METRICS[description.metric])
    kind = {
        "flat": "Flat",
        "hnsw": f"HNSW{options.get('m')},Flat",
        "ivf": f"IVF{options.get('lists')},Flat",
    }[table.index]
    index = faiss.index_factory(description.stored_dim, kind, metric)
    if table.index == "hnsw":
        index.hnsw.efConstruction = options["ef_construction"]
        index.hnsw.efSearch = options["ef_search"]
    if table.index == "ivf":
        index.nprobe = options["probes"]
        if table.training is None:
            raise InputError("an ivf index is trained, but no sample of the vectors was given.")
        index.train(np.ascontiguousarray(table.training(_SAMPLE * options["lists"])))
    return index


def _write(place: Place, tables: Sequence[Table], overwrite: bool) -> None:
    faiss = need("faiss", "faiss")
    for table in tables:
        index = _new_index(table)
        with sidecar(place, table) as add:
            for block in table.blocks:
                index.add(block.vectors)
                add(block)
        target = Path(place) / f"{table.name}.faiss"
        faiss.write_index(index, str(target))
        open_to_readers(target)


def _search(
    place: Place, description: VectorDescription, queries: np.ndarray, k: int
) -> list[Hits]:
    faiss = need("faiss", "faiss")
    name = description.name("document")
    index = faiss.read_index(str(Path(place) / f"{name}.faiss"))
    metric = getattr(faiss, _METRICS[description.metric])
    if index.metric_type != metric or index.d != description.stored_dim:
        raise InputError(
            f"{place}/{name}.faiss has metric {index.metric_type} and {index.d} dimensions, not "
            f"{metric} and {description.stored_dim} as its description says; export anew."
        )
    ids = read_ids(place, name, index.ntotal)
    if description.index == "hnsw":
        index.hnsw.efSearch = max(index.hnsw.efSearch, k)
    asked = np.ascontiguousarray(queries, np.float32)
    if description.metric == "cosine":
        lengths = np.linalg.norm(asked.astype(np.float64), axis=1, keepdims=True)
        asked = (asked / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
    values, rows = index.search(asked, min(k, index.ntotal))
    # FAISS fills up with row -1 where an approximate search found fewer than k.
    return [
        ([ids[row] for row in found if row >= 0], one[found >= 0].astype(np.float64))
        for found, one in zip(rows, values, strict=True)
    ]


ENGINE = Engine(
    extra="faiss",
    packages=("faiss",),
    metrics=_METRICS,
    options={
        "flat": {},
        "hnsw": {"m": 32, "ef_construction": 200, "ef_search": 64},
        "ivf": {"lists": 0, "probes": 0},
    },
    write=_write,
    search=_search,
    trained=("ivf",),
)
