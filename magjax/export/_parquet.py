"""Parquet: one file a side, a row a vector, the description in the schema's metadata."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magjax.checks import need
from magjax.export._description import VectorDescription
from magjax.export._engine import Block, Engine, Hits, Place, Table
from magjax.export._numpy import best_rows

__all__ = ["ENGINE", "METADATA_KEY", "arrow_batch", "arrow_schema"]

METADATA_KEY = b"magjax"


def arrow_schema(table: Table) -> Any:
    """Columns id, vector (float32, fixed size) and, where stored, text; with the description."""
    pa = need("pyarrow", "parquet")
    columns = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("vector", pa.list_(pa.float32(), table.description.stored_dim), nullable=False),
    ]
    if table.has_texts:
        columns.append(pa.field("text", pa.string()))
    return pa.schema(columns, metadata={METADATA_KEY: table.description.dumps().encode()})


def arrow_batch(block: Block, schema: Any) -> Any:
    """One block as a record batch of ``schema``; vectors are not copied."""
    pa = need("pyarrow", "parquet")
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(block.vectors.reshape(-1)), block.vectors.shape[1]
    )
    columns = [pa.array(block.ids, pa.string()), vectors]
    if block.texts is not None:
        columns.append(pa.array(block.texts, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _write(place: Place, tables: Sequence[Table], overwrite: bool) -> None:
    pq = need("pyarrow.parquet", "parquet")
    for table in tables:
        schema = arrow_schema(table)
        target = Path(place) / f"{table.name}.parquet"
        # Float columns have no repeated values for a dictionary to find.
        with pq.ParquetWriter(target, schema, compression="zstd", use_dictionary=False) as writer:
            for block in table.blocks:
                writer.write_batch(arrow_batch(block, schema))


def _search(
    place: Place, description: VectorDescription, queries: np.ndarray, k: int
) -> list[Hits]:
    pq = need("pyarrow.parquet", "parquet")
    found: list[Hits] = [([], np.zeros(0)) for _ in queries]
    with pq.ParquetFile(Path(place) / f"{description.name('document')}.parquet") as file:
        for batch in file.iter_batches(columns=["id", "vector"]):
            vectors = batch.column("vector").flatten().to_numpy()
            rows, values = best_rows(queries, vectors.reshape(batch.num_rows, -1), k)
            names = batch.column("id").to_pylist()
            for i, (ids, best) in enumerate(found):
                merged = np.concatenate([best, values[i]])
                order = np.argsort(-merged, kind="stable")[:k]
                candidates = ids + [names[row] for row in rows[i]]
                found[i] = [candidates[place] for place in order], merged[order]
    return found


ENGINE = Engine(
    extra="parquet",
    packages=("pyarrow",),
    metrics={"inner_product": "inner product"},
    options={"flat": {}},
    write=_write,
    search=_search,
)
