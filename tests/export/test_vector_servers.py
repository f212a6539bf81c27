"""Servers: refusals before work, atomic replacement, nothing of others touched, no secrets told."""

import contextlib

import export_cases as cases
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.export import (
    Embeddings,
    private_postgres,
    read_description,
    search_vectors,
    write_vectors,
)
from magjax.export import _qdrant as qdrant_module
from magjax.similarity import Score

DOCUMENTS = cases.normal(8, 40)
QUERIES = cases.normal(9, 5)
URL = "http://localhost:6333"


def write(out, target, documents=DOCUMENTS, score=Score.of("qnorm"), **settings):  # noqa: B008
    return write_vectors(
        [cases.documents_of(documents, block_size=15)], out, target=target, score=score, **settings
    )


def untouched(*_):
    raise AssertionError("embedded in vain")


@pytest.fixture
def qdrant(tmp_path, monkeypatch):
    """Qdrant's own Python engine behind the address of a server: it has aliases and metadata."""
    qdrant_client = pytest.importorskip("qdrant_client")
    client = qdrant_client.QdrantClient(path=str(tmp_path / "server"))

    @contextlib.contextmanager
    def connect(place):
        assert place == URL
        yield client

    monkeypatch.setattr(qdrant_module, "_client", connect)
    # The Python engine warns that it ignores how a server is to search.
    monkeypatch.setattr(qdrant_client.models, "SearchParams", lambda **_: None)
    yield client
    client.close()


def _collections(client):
    return sorted(one.name for one in client.get_collections().collections)


def test_a_qdrant_collection_is_replaced_by_moving_its_alias(qdrant):
    write(URL, "qdrant", index="hnsw")
    (first,) = _collections(qdrant)
    assert first.startswith("documents__")
    found = search_vectors(URL, QUERIES, k=10)
    cases.assert_same_ranking(found, QUERIES, DOCUMENTS, Score.of("qnorm"), 10)
    with pytest.raises(InputError, match=r"already.*--overwrite"):
        write_vectors(
            [Embeddings("document", ["a"], 2, untouched)],
            URL,
            target="qdrant",
            score=Score.of("dot"),
        )
    write(URL, "qdrant", DOCUMENTS[:9], overwrite=True)
    (second,) = _collections(qdrant)
    assert second != first
    assert read_description(URL).tables["document"]["count"] == 9
    assert qdrant.count("documents").count == 9


def test_a_failing_qdrant_export_leaves_the_older_one(qdrant):
    write(URL, "qdrant")
    before = _collections(qdrant)
    broken = DOCUMENTS.copy()
    broken[35] = np.inf
    with pytest.raises(InputError, match="'d 35' is not finite"):
        write(URL, "qdrant", broken, overwrite=True)
    assert _collections(qdrant) == before
    assert qdrant.count("documents").count == 40


def test_a_qdrant_collection_of_others_is_never_replaced(qdrant):
    from qdrant_client import models

    params = models.VectorParams(size=3, distance=models.Distance.COSINE)
    qdrant.create_collection("documents", vectors_config=params)
    with pytest.raises(InputError, match="was not written by magjax"):
        write(URL, "qdrant", overwrite=True)
    with pytest.raises(InputError, match="no collection 'documents' written by magjax"):
        read_description(URL)
    # One of ours that bears the name itself, as the embedded mode makes it, may be replaced.
    qdrant.delete_collection("documents")
    told = write(URL, "qdrant", name="x").dumps()
    qdrant.create_collection("documents", vectors_config=params, metadata={"magjax": told})
    write(URL, "qdrant", overwrite=True)
    assert qdrant.count("documents").count == 40


def test_points_are_named_after_their_documents(qdrant):
    write(URL, "qdrant")
    (point,) = qdrant.retrieve("documents", [qdrant_module.point_id("d 7")], with_vectors=True)
    assert point.payload == {"id": "d 7"}
    np.testing.assert_array_equal(np.array(point.vector, np.float32), DOCUMENTS[7])


def test_a_qdrant_server_that_does_not_answer_is_one_sentence():
    pytest.importorskip("qdrant_client")
    with pytest.raises(InputError, match=r"Qdrant at http://127\.0\.0\.1:9 did not do"):
        write("http://127.0.0.1:9", "qdrant")


def test_a_table_of_others_is_never_replaced(postgres):
    import psycopg

    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE mine_documents (a int)")
        connection.execute("COMMENT ON TABLE mine_documents IS 'my thesis'")
    for overwrite, message in ((False, r"already.*--overwrite"), (True, "not written by magjax")):
        with pytest.raises(InputError, match=message):
            write_vectors(
                [Embeddings("document", ["a"], 2, untouched)],
                postgres,
                target="pgvector",
                score=Score.of("dot"),
                name="mine",
                overwrite=overwrite,
            )
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT count(*) FROM mine_documents").fetchone() == (0,)


def test_both_tables_of_an_export_appear_together_or_not_at_all(postgres):
    queries = QUERIES.copy()
    queries[3] = np.nan
    with pytest.raises(InputError, match="query 'q 3' is not finite"):
        write_vectors(
            [cases.documents_of(DOCUMENTS), cases.documents_of(queries, side="query")],
            postgres,
            target="pgvector",
            score=Score.of("dot"),
            name="pair",
        )
    for side in ("document", "query"):
        with pytest.raises(InputError, match="has no table"):
            read_description(postgres, side=side, name="pair")


def test_names_are_quoted_and_nul_is_refused(postgres):
    texts = ['it\'s "quoted"; DROP TABLE x --', "tab\tand\nline", "\\N", "a\0b"]
    documents = Embeddings.from_array("document", ["'", '"', "\\", "d"], DOCUMENTS[:4], texts=texts)
    settings = {"target": "pgvector", "score": Score.of("dot"), "name": "Select"}
    with pytest.raises(InputError, match=r"text of 'd' holds a NUL"):
        write_vectors([documents], postgres, **settings)
    three = Embeddings.from_array("document", ["'", '"', "\\"], DOCUMENTS[:3], texts=texts[:3])
    write_vectors([three], postgres, **settings)
    assert set(search_vectors(postgres, QUERIES[:1], name="Select").documents[0]) == set("'\"\\")
    import psycopg

    with psycopg.connect(postgres) as connection:
        rows = connection.execute('SELECT text FROM "Select_documents" ORDER BY id').fetchall()
    assert sorted(row[0] for row in rows) == sorted(texts[:3])


def test_passwords_are_not_repeated(tmp_path):
    pytest.importorskip("psycopg")
    address = f"postgresql://me:secret@localhost/db?host={tmp_path}&connect_timeout=2"
    with pytest.raises(InputError, match="PostgreSQL at") as caught:
        write(address, "pgvector")
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        write("mysql://me:secret@localhost/db", "pgvector")
    assert "secret" not in str(caught.value)


def test_a_private_server_is_gone_afterwards(postgres):
    import psycopg

    with private_postgres() as address:
        assert address != postgres
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address)
    from pathlib import Path

    assert not Path(address.partition("host=")[2]).exists()
