"""What each target returns from an export is the trained ranking with the trained scores."""

import importlib.util
import json

import export_cases as cases
import ml_dtypes
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.evaluation import search
from magjax.export import TARGETS, read_description, search_vectors, write_vectors
from magjax.similarity import Score

DOCUMENTS = cases.normal(0, 300)
QUERIES = cases.normal(1, 20)
ENGINES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            any(importlib.util.find_spec(p.partition(".")[0]) is None for p in engine.packages),
            reason=f"{name} is not installed (the {engine.extra} extra)",
        ),
    )
    for name, engine in TARGETS.items()
]


def write(out, target, score=cases.SCORES[0], documents=DOCUMENTS, **settings):
    blocks = settings.pop("block_size", 128)
    return write_vectors(
        [cases.documents_of(documents, block_size=blocks)],
        out,
        target=target,
        score=score,
        **settings,
    )


@pytest.mark.parametrize("score", cases.SCORES, ids=lambda score: score.variant)
@pytest.mark.parametrize("target", ENGINES)
def test_the_best_ten_and_their_scores_are_those_of_exact_search(target, score, place):
    out = place(target)
    told = write(out, target, score, name="parity", overwrite=True)
    found = search_vectors(out, QUERIES, k=10, name="parity")
    cases.assert_same_ranking(found, QUERIES, DOCUMENTS, score, 10)
    ranking = search(
        QUERIES,
        DOCUMENTS,
        score=score,
        k=10,
        query_ids=cases.names("q", 20),
        document_ids=cases.names("d", 300),
    )
    # Random vectors have no near-ties: the very same documents.
    assert [list(ids) for ids in found.documents] == [list(ids) for ids in ranking.documents]
    assert told == read_description(out, name="parity")
    assert (told.metric, told.index, told.dim) == ("inner_product", "flat", cases.DIM)
    assert told.score == score


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("target", ENGINES)
def test_another_metric_ranks_alike_where_documents_have_one_length(target, metric, place):
    out = place(target)
    score = Score.of("dnorm")
    if metric not in TARGETS[target].metrics:
        with pytest.raises(InputError, match=f"'{target}' knows no {metric}"):
            write(out, target, score, metric=metric)
        return
    write(out, target, score, metric=metric, name="metric", overwrite=True)
    found = search_vectors(out, QUERIES, k=10, name="metric")
    cases.assert_same_ranking(found, QUERIES, DOCUMENTS, score, 10, near=2e-6)


@pytest.mark.parametrize("augment", ["cosine", "euclidean"])
@pytest.mark.parametrize("target", ENGINES)
def test_an_augmentation_ranks_by_the_inner_product(target, augment, place):
    if augment not in TARGETS[target].metrics:
        pytest.skip("files are multiplied by their reader")
    out = place(target)
    for score in (Score.of("qnorm"), Score.of("cosine")):
        told = write(out, target, score, augment=augment, name="turned", overwrite=True)
        assert told.stored_dim == cases.DIM + 1
        found = search_vectors(out, QUERIES, k=10, name="turned")
        cases.assert_same_ranking(found, QUERIES, DOCUMENTS, score, 10, near=2e-6)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("target", ENGINES)
def test_a_metric_that_ignores_trained_lengths_is_refused(target, metric, place, tmp_path):
    with pytest.raises(InputError, match=f"metric '{metric}'.*stored document is"):
        write(place(target), target, Score.of("qnorm"), metric=metric)
    assert not (tmp_path / "vectors").exists()


@pytest.mark.parametrize("target", ENGINES)
def test_an_export_is_only_replaced_when_asked(target, place):
    out = place(target)
    write(out, target, Score.of("dot"), name="again", overwrite=True)
    with pytest.raises(InputError, match=r"already.*--overwrite"):
        write(out, target, Score.of("dot"), name="again")
    write(out, target, Score.of("dnorm"), documents=DOCUMENTS[:7], name="again", overwrite=True)
    told = read_description(out, name="again")
    assert told.score == Score.of("dnorm")
    assert told.tables["document"]["count"] == 7
    assert len(search_vectors(out, QUERIES, k=10, name="again").documents[0]) == 7


@pytest.mark.parametrize("target", ENGINES)
def test_a_failure_leaves_the_older_export_as_it_was(target, place, tmp_path):
    out = place(target)
    write(out, target, Score.of("dot"), name="kept", overwrite=True)
    before = search_vectors(out, QUERIES[:2], k=3, name="kept").documents
    broken = DOCUMENTS.copy()
    broken[260, 3] = np.nan  # in the third block: two are written by then
    with pytest.raises(InputError, match="embedding of document 'd 260' is not finite"):
        write(out, target, Score.of("dot"), documents=broken, name="kept", overwrite=True)
    assert search_vectors(out, QUERIES[:2], k=3, name="kept").documents == before
    assert [file.name for file in tmp_path.iterdir()] in ([], ["vectors"])
    fresh = out if target == "pgvector" else tmp_path / "fresh"
    with pytest.raises(InputError, match="not finite"):
        write(fresh, target, Score.of("dot"), documents=broken, name="fresh")
    with pytest.raises(InputError, match=r"holds no|has no"):
        read_description(fresh, name="fresh")
    assert not (tmp_path / "fresh").exists()


@pytest.mark.parametrize("target", ENGINES)
def test_both_sides_and_texts_are_stored(target, place):
    out = place(target)
    texts = [f"text {i} \u00e4\u4e2d" for i in range(20)]
    sides = [
        cases.documents_of(DOCUMENTS[:20], texts=texts, block_size=8),
        cases.documents_of(QUERIES, side="query", texts=texts, block_size=8),
    ]
    told = write_vectors(
        sides, out, target=target, score=Score.of("qnorm"), name="both", overwrite=True
    )
    assert {side: table["count"] for side, table in told.tables.items()} == {
        "document": 20,
        "query": 20,
    }
    found = search_vectors(out, QUERIES, k=5, name="both")
    cases.assert_same_ranking(found, QUERIES, DOCUMENTS[:20], Score.of("qnorm"), 5)
    ids, vectors, stored = _read_queries(target, out)
    order = np.argsort([int(name.removeprefix("q ")) for name in ids])
    unit = QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True)
    np.testing.assert_allclose(np.array(vectors)[order], unit, rtol=1e-6, atol=1e-7)
    assert [stored[row] for row in order] == texts


def _read_queries(target, out):
    """The stored queries by each engine's own client, without this package."""
    if target == "numpy":
        lines = (out / "both_queries.texts.jsonl").read_text().splitlines()
        ids = json.loads((out / "both_queries.ids.json").read_text())
        return ids, np.load(out / "both_queries.npy"), [json.loads(line) for line in lines]
    if target == "faiss":
        import faiss

        index = faiss.read_index(str(out / "both_queries.faiss"))
        assert index.metric_type == faiss.METRIC_INNER_PRODUCT
        ids = json.loads((out / "both_queries.ids.json").read_text())
        lines = (out / "both_queries.texts.jsonl").read_text().splitlines()
        vectors = index.reconstruct_n(0, index.ntotal)
        return ids, vectors, [json.loads(line) for line in lines]
    if target == "parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(out / "both_queries.parquet")
        assert json.loads(table.schema.metadata[b"magjax"])["metric"] == "inner_product"
    elif target == "lancedb":
        import lancedb

        table = lancedb.connect(str(out)).open_table("both_queries").to_arrow()
        assert json.loads(table.schema.metadata[b"magjax"])["metric"] == "inner_product"
    elif target == "qdrant":
        import qdrant_client

        client = qdrant_client.QdrantClient(path=str(out))
        info = client.get_collection("both_queries")
        assert info.config.params.vectors.distance == qdrant_client.models.Distance.DOT
        points, _ = client.scroll("both_queries", limit=100, with_vectors=True)
        client.close()
        return (
            [point.payload["id"] for point in points],
            [point.vector for point in points],
            [point.payload["text"] for point in points],
        )
    else:
        import psycopg

        with psycopg.connect(out) as connection:
            rows = connection.execute("SELECT id, embedding, text FROM both_queries").fetchall()
        return [row[0] for row in rows], [json.loads(row[1]) for row in rows], [r[2] for r in rows]
    columns = [table.column(name).to_pylist() for name in ("id", "vector", "text")]
    return columns[0], columns[1], columns[2]


def test_stored_vectors_multiply_to_the_exact_scores(tmp_path):
    for number, score in enumerate(cases.SCORES):
        out = tmp_path / str(number)
        sides = [cases.documents_of(DOCUMENTS), cases.documents_of(QUERIES, side="query")]
        write_vectors(sides, out, target="numpy", score=score)
        q, d = (
            np.load(out / f"{name}.npy").astype(np.float64) for name in ("queries", "documents")
        )
        expected, scale = cases.exact(QUERIES, DOCUMENTS, score)
        assert (np.abs(q @ d.T - expected) <= 1e-6 * scale[:, None]).all()


def test_half_precision_is_widened_and_other_types_are_refused(tmp_path):
    half = DOCUMENTS.astype(ml_dtypes.bfloat16)
    write(tmp_path / "half", "numpy", Score.of("dot"), documents=half)
    stored = np.load(tmp_path / "half" / "documents.npy")
    np.testing.assert_array_equal(stored, half.astype(np.float32))
    with pytest.raises(InputError, match="float64, but float32 is stored"):
        write(tmp_path / "wide", "numpy", documents=DOCUMENTS.astype(np.float64))


def test_zero_vectors_are_stored_for_the_inner_product_only(tmp_path):
    pytest.importorskip("faiss")
    pytest.importorskip("lancedb")
    documents = DOCUMENTS[:5].copy()
    documents[3] = 0
    write(tmp_path / "a", "faiss", Score.of("cosine"), documents=documents)
    found = search_vectors(tmp_path / "a", QUERIES, k=5)
    cases.assert_same_ranking(found, QUERIES, documents, Score.of("cosine"), 5)
    with pytest.raises(InputError, match=r"document 'd 3' is zero, which has no direction"):
        write(tmp_path / "b", "faiss", Score.of("cosine"), documents=documents, metric="cosine")
    write(tmp_path / "c", "lancedb", Score.of("cosine"), documents=documents, augment="cosine")
    found = search_vectors(tmp_path / "c", np.concatenate([QUERIES, 0 * QUERIES[:1]]), k=5)
    assert not found.scores[-1].any()
    cases.assert_same_ranking(
        type(found)(found.documents[:-1], found.scores[:-1]),
        QUERIES,
        documents,
        Score.of("cosine"),
        5,
        near=2e-6,
    )


def test_lancedb_warns_of_products_that_it_cannot_tell_apart(tmp_path, caplog):
    pytest.importorskip("lancedb")
    write(tmp_path / "a", "lancedb", Score.of("dot"))
    assert not caplog.records
    write(tmp_path / "b", "lancedb", Score.of("dot"), documents=DOCUMENTS * np.float32(1e-4))
    assert "cannot tell such products apart" in caplog.text


def test_a_known_largest_length_needs_one_look_only(tmp_path):
    pytest.importorskip("faiss")
    longest = float(np.linalg.norm(DOCUMENTS.astype(np.float64), axis=1).max())
    for factor in (1.0, 3.0, 30.0):
        out = tmp_path / str(factor)
        told = write(
            out, "faiss", Score.of("dot"), augment="euclidean", largest_norm=factor * longest
        )
        assert told.largest_norm == factor * longest
        found = search_vectors(out, QUERIES, k=10)
        # The coordinate is rounded relative to M: room for longer documents costs digits.
        near = 2e-6 * factor
        cases.assert_same_ranking(found, QUERIES, DOCUMENTS, Score.of("dot"), 10, near=near)
