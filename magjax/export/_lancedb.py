"""LanceDB: a table a side in a folder.

LanceDB keeps a distance with an index only; without one each search names its own, and the
default is l2. So the description stands in the schema's metadata, and a flat table is asked with
``table.search(query).distance_type("dot")``.

Its dot and cosine distances are 1 minus the product in float32: products far below 1 lose their
digits (at products of some 1e-7, 0.76 of the best ten of 300 random documents were found).
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from magjax.checks import need
from magjax.export._description import VectorDescription
from magjax.export._engine import Engine, Hits, Place, Table
from magjax.export._parquet import arrow_batch, arrow_schema

__all__ = ["ENGINE"]

_log = logging.getLogger(__name__)

_SHORT = 1e-2  # unit queries then have products with less than five digits
_METRICS = {"inner_product": "dot", "cosine": "cosine", "euclidean": "l2"}


def _index(table: Table) -> Any:
    index = need("lancedb.index", "lancedb")
    options = table.description.index_options
    distance = _METRICS[table.description.metric]
    if table.index == "hnsw":
        return index.HnswFlat(
            distance_type=distance,
            num_partitions=1,
            m=options["m"],
            ef_construction=options["ef_construction"],
        )
    return index.IvfFlat(distance_type=distance, num_partitions=options["lists"])


def _write(place: Place, tables: Sequence[Table], overwrite: bool) -> None:
    pa = need("pyarrow", "lancedb")
    database = need("lancedb", "lancedb").connect(str(place))
    for table in tables:
        schema = arrow_schema(table)
        made = database.create_table(table.name, schema=schema)
        longest = 0.0
        for block in table.blocks:
            longest = max(longest, float(np.linalg.norm(block.vectors, axis=1).max(initial=0.0)))
            made.add(pa.Table.from_batches([arrow_batch(block, schema)]))
        if table.index != "flat":
            made.create_index("vector", config=_index(table))
        if table.side == "document" and table.description.metric == "inner_product":
            _warn_of_short(longest)


def _warn_of_short(longest: float) -> None:
    if longest < _SHORT:
        _log.warning(
            "the longest document has length %.2g: LanceDB compares by 1 minus the product in "
            "float32 and cannot tell such products apart; multiply the embeddings by a constant, "
            "or use another target.",
            longest,
        )


def _search(
    place: Place, description: VectorDescription, queries: np.ndarray, k: int
) -> list[Hits]:
    database = need("lancedb", "lancedb").connect(str(place))
    table = database.open_table(description.name("document"))
    options = description.index_options
    found: list[Hits] = []
    for query in np.asarray(queries, np.float32):
        asked = table.search(query, vector_column_name="vector")
        asked = (
            asked.distance_type(_METRICS[description.metric]).limit(k).select(["id", "_distance"])
        )
        if description.index == "hnsw":
            asked = asked.ef(max(options["ef_search"], k))
        if description.index == "ivf":
            asked = asked.nprobes(options["probes"])
        answer = asked.to_arrow()
        values = answer.column("_distance").to_numpy().astype(np.float64)
        if description.metric != "euclidean":  # dot and cosine alike are 1 minus the product
            values = 1.0 - values
        found.append((answer.column("id").to_pylist(), values))
    return found


ENGINE = Engine(
    extra="lancedb",
    packages=("lancedb", "pyarrow"),
    metrics=_METRICS,
    options={
        "flat": {},
        "hnsw": {"m": 20, "ef_construction": 300, "ef_search": 64},
        "ivf": {"lists": 0, "probes": 0},
    },
    write=_write,
    search=_search,
)
