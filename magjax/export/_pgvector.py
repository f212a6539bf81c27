"""pgvector: a table a side in PostgreSQL, all of an export in one transaction.

Columns are ``id text primary key``, ``embedding vector(n)`` and, where stored, ``text``. The
description is the table's comment. Asked with ``ORDER BY embedding <#> query`` for inner product.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from magjax.checks import InputError, need
from magjax.export._description import VectorDescription
from magjax.export._engine import Engine, Hits, Place, Table

__all__ = ["ENGINE", "drop_table"]

_METRICS = {
    "inner_product": "vector_ip_ops",
    "cosine": "vector_cosine_ops",
    "euclidean": "vector_l2_ops",
}
_OPERATORS = {"inner_product": "<#>", "cosine": "<=>", "euclidean": "<->"}
_LARGEST_EF = 1000  # what pgvector admits for hnsw.ef_search


@contextlib.contextmanager
def _connect(place: Place) -> Iterator[Any]:
    """One transaction: committed when the block succeeds, else rolled back."""
    psycopg = need("psycopg", "pgvector")
    try:
        with psycopg.connect(str(place)) as connection:
            yield connection
    except psycopg.Error as error:
        # The address may hold a password, and is not repeated.
        text = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"PostgreSQL at {urlsplit(str(place)).hostname or 'its socket'} did not do what was "
            f"asked ({text})."
        ) from error


def _register(connection: Any, *, create: bool) -> None:
    """Makes the connection send and receive vectors; creates the extension if it may."""
    if create:
        row = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone()
        if row is None:  # asked first: creating takes rights that a user may lack
            connection.execute("CREATE EXTENSION vector")
    need("pgvector.psycopg", "pgvector").register_vector(connection)


def _exists(connection: Any, name: str) -> tuple[bool, str | None]:
    """Whether a table (or view, or sequence) of that name is seen, and its comment."""
    sql = need("psycopg.sql", "pgvector")
    quoted = sql.Identifier(name).as_string(connection)
    row = connection.execute(
        "SELECT to_regclass(%s), obj_description(to_regclass(%s), 'pg_class')", (quoted, quoted)
    ).fetchone()
    return row[0] is not None, row[1]


def _taken(connection: Any, names: Sequence[str], overwrite: bool) -> list[str]:
    """Those of ``names`` that are there and will be replaced.

    Raises:
        InputError: one is there, and may not or should not be replaced.
    """
    found = []
    for name in names:
        there, comment = _exists(connection, name)
        if not there:
            continue
        if not overwrite:
            raise InputError(
                f"the database has a table {name!r} already; replace it with --overwrite, or "
                "choose another --name."
            )
        try:
            VectorDescription.parse(comment or "", name)
        except InputError as error:
            raise InputError(
                f"table {name!r} was not written by magjax and is not replaced; choose another "
                "--name, or drop it yourself."
            ) from error
        found.append(name)
    return found


def _check(place: Place, names: Sequence[str], overwrite: bool) -> None:
    with _connect(place) as connection:
        _taken(connection, names, overwrite)


def _index(table: Table) -> Any:
    """The statement that builds the index."""
    sql = need("psycopg.sql", "pgvector")
    options = table.description.index_options
    if table.index == "hnsw":
        method, names = "hnsw", {"m": "m", "ef_construction": "ef_construction"}
    else:
        method, names = "ivfflat", {"lists": "lists"}
    settings = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(theirs), sql.Literal(options[ours]))
        for ours, theirs in names.items()
    )
    return sql.SQL("CREATE INDEX ON {} USING {} (embedding {}) WITH ({})").format(
        sql.Identifier(table.name),
        sql.Identifier(method),
        sql.Identifier(_METRICS[table.description.metric]),
        settings,
    )


def _fill(connection: Any, table: Table) -> None:
    sql = need("psycopg.sql", "pgvector")
    name = sql.Identifier(table.name)
    columns, types = ["id", "embedding"], ["text", "vector"]
    text = sql.SQL("")
    if table.has_texts:
        text = sql.SQL(", text text NOT NULL")
        columns, types = [*columns, "text"], [*types, "text"]
    connection.execute(
        sql.SQL("CREATE TABLE {} (id text PRIMARY KEY, embedding vector({}) NOT NULL{})").format(
            name, sql.Literal(table.description.stored_dim), text
        )
    )
    copy_in = sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT BINARY)").format(
        name, sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(copy_in) as copy:
        copy.set_types(types)
        for block in table.blocks:
            rows = [block.ids, block.vectors, *([] if block.texts is None else [block.texts])]
            for row in zip(*rows, strict=True):
                _check_text(row)
                copy.write_row(row)
    if table.index != "flat":
        connection.execute(_index(table))
    connection.execute(
        sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(table.description.dumps()))
    )


def _check_text(row: Sequence[Any]) -> None:
    for value in (row[0], *row[2:]):
        if "\0" in value:
            raise InputError(
                f"the id or text of {row[0]!r} holds a NUL character, which PostgreSQL cannot "
                "store; remove it, or leave texts out."
            )


def _write(place: Place, tables: Sequence[Table], overwrite: bool) -> None:
    sql = need("psycopg.sql", "pgvector")
    with _connect(place) as connection:
        _register(connection, create=True)
        for name in _taken(connection, [table.name for table in tables], overwrite):
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
        for table in tables:
            _fill(connection, table)


def drop_table(place: Place, name: str) -> None:
    """Drops a table that magjax wrote, if it is there."""
    sql = need("psycopg.sql", "pgvector")
    with _connect(place) as connection:
        for found in _taken(connection, [name], overwrite=True):
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(found)))


def _describe(place: Place, name: str) -> VectorDescription:
    with _connect(place) as connection:
        there, comment = _exists(connection, name)
    if not there or not comment:
        raise InputError(f"the database has no table {name!r} written by magjax.")
    return VectorDescription.parse(comment, f"table {name!r}")


def _search(
    place: Place, description: VectorDescription, queries: np.ndarray, k: int
) -> list[Hits]:
    sql = need("psycopg.sql", "pgvector")
    options = description.index_options
    distance = sql.SQL(f"embedding {_OPERATORS[description.metric]} %s")
    ask = sql.SQL("SELECT id, {distance} FROM {table} ORDER BY {distance} LIMIT %s").format(
        distance=distance, table=sql.Identifier(description.name("document"))
    )
    found: list[Hits] = []
    with _connect(place) as connection:
        _register(connection, create=False)
        if description.index != "flat":  # the planner reads small tables whole, which is exact
            connection.execute("SET LOCAL enable_seqscan = off")
        if description.index == "hnsw":  # no more than ef_search rows come back
            ef = min(max(options["ef_search"], k), _LARGEST_EF)
            connection.execute(sql.SQL("SET LOCAL hnsw.ef_search = {}").format(sql.Literal(ef)))
        if description.index == "ivf":
            probes = sql.Literal(options["probes"])
            connection.execute(sql.SQL("SET LOCAL ivfflat.probes = {}").format(probes))
        for query in np.asarray(queries, np.float32):
            rows = connection.execute(ask, (query, query, k)).fetchall()
            values = np.array([row[1] for row in rows], np.float64)
            found.append(([row[0] for row in rows], _from_distance(values, description.metric)))
    return found


def _from_distance(values: np.ndarray, metric: str) -> np.ndarray:
    """Pgvector's distances, all ascending, as products, cosines or squared distances."""
    if metric == "inner_product":
        return -values
    return 1.0 - values if metric == "cosine" else values**2


ENGINE = Engine(
    extra="pgvector",
    packages=("psycopg", "pgvector.psycopg"),
    metrics=_METRICS,
    options={
        "flat": {},
        "hnsw": {"m": 16, "ef_construction": 64, "ef_search": 64},
        "ivf": {"lists": 0, "probes": 0},
    },
    write=_write,
    search=_search,
    check=_check,
    describe=_describe,
    schemes=("postgresql", "postgres"),
    has_folders=False,
    # Rows of 8 kB pages: a vector may have 16,000 dimensions, an indexed one 2,000.
    largest_dim={"flat": 16_000, "hnsw": 2_000, "ivf": 2_000},
)
