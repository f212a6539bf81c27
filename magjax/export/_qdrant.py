"""Qdrant: a collection a side, in a local folder (embedded) or on a server.

Points are numbered by UUIDs made from the ids, so that a later upsert of the same document
replaces it; the payload keeps the id itself. On a server a collection is filled under a name of
its own and an alias is set to it at the end, so that readers see the old one or the new one.
The embedded mode stores pickles: open only folders that you made.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError, need
from magjax.export._description import VectorDescription
from magjax.export._engine import Engine, Hits, Place, Table

__all__ = ["ENGINE", "point_id"]

_METRICS = {"inner_product": "Dot", "cosine": "Cosine", "euclidean": "Euclid"}
_NAMESPACE = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562's for object ids
_POINTS = 256  # points a request: 2 MB of JSON at 384 dimensions, under the server's 32
_KEY = "magjax"


def point_id(name: str) -> str:
    """The UUID of the point of a document or query.

    >>> point_id("d1") == point_id("d1"), point_id("d1") == point_id("d2")
    (True, False)
    """
    return str(uuid.uuid5(_NAMESPACE, name))


@contextlib.contextmanager
def _client(place: Place) -> Iterator[Any]:
    """A client that is closed again; what the server refuses becomes one sentence."""
    qdrant = need("qdrant_client", "qdrant")
    errors = need("qdrant_client.http.exceptions", "qdrant")
    is_server = isinstance(place, str)
    try:
        if is_server:
            key = os.environ.get("QDRANT_API_KEY")
            client = qdrant.QdrantClient(
                url=place, api_key=key, timeout=60, check_compatibility=False
            )
        else:
            client = qdrant.QdrantClient(path=str(place))
    except RuntimeError as error:  # the lock of the embedded mode
        raise InputError(f"Qdrant cannot open {place} ({error}); close its other user.") from error
    try:
        yield client
    except (errors.UnexpectedResponse, errors.ResponseHandlingException) as error:
        text = " ".join(str(error).split())
        raise InputError(
            f"Qdrant at {place} did not do what was asked ({text}); check the address, and "
            "QDRANT_API_KEY in the environment if it wants a key."
        ) from error
    finally:
        client.close()


def _told(client: Any, collection: str) -> str | None:
    """The description in a collection's metadata; None if it is not ours."""
    metadata = client.get_collection(collection).config.metadata
    return (metadata or {}).get(_KEY)


def _aliases(client: Any) -> dict[str, str]:
    return {alias.alias_name: alias.collection_name for alias in client.get_aliases().aliases}


def _taken(client: Any, names: Sequence[str], overwrite: bool, place: Place) -> dict[str, str]:
    """The collections that stand where ``names`` are to go, by name.

    Raises:
        InputError: there is one, and it may not or should not be replaced.
    """
    aliases = _aliases(client)
    found = {}
    for name in names:
        collection = aliases.get(name, name)
        if not client.collection_exists(collection):
            continue
        if not overwrite:
            raise InputError(
                f"Qdrant at {place} has a collection {name!r} already; replace it with "
                "--overwrite, or choose another --name."
            )
        if _told(client, collection) is None:
            raise InputError(
                f"collection {name!r} of Qdrant at {place} was not written by magjax and is not "
                "replaced; choose another --name, or delete it yourself."
            )
        found[name] = collection
    return found


def _check(place: Place, names: Sequence[str], overwrite: bool) -> None:
    with _client(place) as client:
        _taken(client, names, overwrite, place)


def _fill(client: Any, collection: str, table: Table) -> None:
    models = need("qdrant_client.models", "qdrant")
    description = table.description
    options = description.index_options
    # m = 0 builds no graph: the server then scans all vectors, which is exact.
    hnsw = {"m": 0}
    if table.index == "hnsw":
        hnsw = {"m": options["m"], "ef_construct": options["ef_construction"]}
    client.create_collection(
        collection,
        vectors_config=models.VectorParams(
            size=description.stored_dim,
            distance=models.Distance(_METRICS[description.metric]),
        ),
        hnsw_config=models.HnswConfigDiff(**hnsw),
        metadata={_KEY: description.dumps()},
    )
    _hurry(client, collection)
    for block in table.blocks:
        for start in range(0, len(block.ids), _POINTS):
            part = slice(start, start + _POINTS)
            payloads: list[dict[str, str]] = [{"id": name} for name in block.ids[part]]
            for payload, text in zip(payloads, (block.texts or ())[part], strict=False):
                payload["text"] = text
            client.upsert(
                collection,
                points=models.Batch(
                    ids=[point_id(name) for name in block.ids[part]],
                    vectors=block.vectors[part].tolist(),
                    payloads=payloads,
                ),
                wait=True,
            )


def _hurry(client: Any, collection: str) -> None:
    """Lets the embedded mode write without waiting for the disk after each point.

    It commits them one by one: 5 to 20 ms each on a busy disk. What is written here is a temporary
    folder until it is whole. Its database is no public attribute, so that without it all is merely
    slow.
    """
    with contextlib.suppress(AttributeError, KeyError):
        storage = client._client.collections[collection].storage
        storage.storage.execute("PRAGMA synchronous = OFF")


def _write(place: Place, tables: Sequence[Table], overwrite: bool) -> None:
    if not isinstance(place, str):  # a temporary folder, which becomes the target as a whole
        if any(table.index != "flat" for table in tables):
            raise InputError(
                "an embedded Qdrant always searches exactly and builds no index; leave --index "
                "out, or name a server: --out=http://HOST:6333."
            )
        with _client(place) as client:
            for table in tables:
                _fill(client, table.name, table)
        return
    models = need("qdrant_client.models", "qdrant")
    with _client(place) as client:
        old = _taken(client, [table.name for table in tables], overwrite, place)
        fresh = {table.name: f"{table.name}__{uuid.uuid4().hex[:12]}" for table in tables}
        try:
            for table in tables:
                _fill(client, fresh[table.name], table)
            changes: list[Any] = []
            for name, collection in fresh.items():
                if old.get(name, name) != name:  # an alias, moved together with the others
                    changes.append(
                        models.DeleteAliasOperation(
                            delete_alias=models.DeleteAlias(alias_name=name)
                        )
                    )
                elif name in old:  # the collection itself bears the name, which must be freed
                    client.delete_collection(old.pop(name))
                changes.append(
                    models.CreateAliasOperation(
                        create_alias=models.CreateAlias(collection_name=collection, alias_name=name)
                    )
                )
            client.update_collection_aliases(change_aliases_operations=changes)
        except BaseException:
            for collection in fresh.values():
                client.delete_collection(collection)
            raise
        for collection in old.values():
            client.delete_collection(collection)


def _describe(place: Place, name: str) -> VectorDescription:
    with _client(place) as client:
        collection = _aliases(client).get(name, name)
        told = _told(client, collection) if client.collection_exists(collection) else None
    if told is None:
        raise InputError(f"Qdrant at {place} has no collection {name!r} written by magjax.")
    return VectorDescription.parse(told, f"collection {name!r}")


def _search(
    place: Place, description: VectorDescription, queries: np.ndarray, k: int
) -> list[Hits]:
    models = need("qdrant_client.models", "qdrant")
    params = None
    if isinstance(place, str):
        ef = description.index_options.get("ef_search")
        params = models.SearchParams(
            exact=description.index == "flat", hnsw_ef=None if ef is None else max(ef, k)
        )
    found: list[Hits] = []
    with _client(place) as client:
        for start in range(0, len(queries), _POINTS):
            requests = [
                models.QueryRequest(query=query, limit=k, with_payload=["id"], params=params)
                for query in queries[start : start + _POINTS].tolist()
            ]
            for answer in client.query_batch_points(description.name("document"), requests):
                values = np.array([point.score for point in answer.points], np.float64)
                if description.metric == "euclidean":
                    values = values**2
                found.append(([point.payload["id"] for point in answer.points], values))
    return found


ENGINE = Engine(
    extra="qdrant",
    packages=("qdrant_client",),
    metrics=_METRICS,
    options={"flat": {}, "hnsw": {"m": 16, "ef_construction": 200, "ef_search": 64}},
    write=_write,
    search=_search,
    check=_check,
    describe=_describe,
    schemes=("http", "https"),
)
