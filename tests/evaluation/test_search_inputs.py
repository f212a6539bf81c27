"""What search accepts and refuses, what it leaves out on request, and the run file."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_cases import find, ids, normal, same

from magjax.checks import InputError
from magjax.evaluation import search
from magjax.similarity import PRESETS, Score


def test_half_precision_embeddings_keep_their_distinct_scores():
    documents = normal(32, 2000, 128)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    query = documents[:1]
    full = find(query, documents, Score.of("dot"), 2000)
    assert len(set(full.scores[0].tolist())) == 2000
    for dtype in (jnp.bfloat16, jnp.float16):
        half = jnp.asarray(documents, dtype)
        ranking = find(half[:1], half, Score.of("dot"), 2000)
        assert len(set(ranking.scores[0].tolist())) == 2000
        widened = np.asarray(half, np.float32)
        same(ranking, find(widened[:1], widened, Score.of("dot"), 2000))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_which_scores_rank_alike(seed, scale):
    rng = np.random.default_rng(seed)
    queries = (rng.normal(size=(2, 8)) * scale).astype(np.float32)
    documents = (rng.normal(size=(60, 8)) * rng.uniform(0.1, 10, (60, 1))).astype(np.float32)
    by = {name: find(queries, documents, Score.of(name), 60).documents for name in PRESETS}
    assert by["dot"] == by["qnorm"]
    assert by["cosine"] == by["dnorm"]


def test_excluded_documents_make_room_for_others():
    queries = np.array([[1, 0], [0, 1]], np.float32)
    documents = np.concatenate([queries, normal(33, 60, 2)])
    names = ["a", "b", *ids("d", 60)]
    options = {"query_ids": ["a", "b"], "document_ids": names}
    whole = find(queries, documents, Score.of("cosine"), 62, **options)
    cut = find(
        queries, documents, Score.of("cosine"), 10, exclude={"a": ["a"], "b": {"b", "?"}}, **options
    )
    for query, full, found in zip("ab", whole.documents, cut.documents, strict=True):
        assert found == tuple(name for name in full if name != query)[:10]
    assert "b" in cut.documents[0] or "b" in whole.documents[0]  # only its own twin is left out


@pytest.mark.parametrize("left_out", [1, 50, 399, 400])
def test_excluding_many(left_out, reached):
    queries, documents = normal(34, 2, 8), np.concatenate([normal(35, 200, 8)] * 2)
    names = ids("d", 400)
    whole = find(queries, documents, Score.of("dot"), 400)
    banned = set(whole.documents[0][:left_out])
    ranking = find(queries, documents, Score.of("dot"), 7, exclude={"q0": banned, "other": ["d1"]})
    assert ranking.documents[0] == whole.documents[0][left_out : left_out + 7]
    assert ranking.documents[1] == whole.documents[1][:7]
    assert len(names) == 400


def test_memory_maps_are_read_in_blocks(tmp_path):
    documents = normal(36, 300, 8)
    file = np.memmap(tmp_path / "documents", np.float32, "w+", shape=(300, 8))
    file[:] = documents
    queries = normal(37, 2, 8)
    same(
        find(queries, file, Score.of("cosine"), 9, block_size=50),
        find(queries, documents, Score.of("cosine"), 9),
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_embedding_that_is_not_finite_is_named(value):
    queries, documents = normal(38, 2, 4), normal(39, 700, 4)
    documents[600, 2] = value
    with pytest.raises(InputError, match="document 'd600' is not finite"):
        find(queries, documents, Score.of("cosine"), 3)
    queries[1, 0] = value
    with pytest.raises(InputError, match="query 'q1' is not finite"):
        find(queries, normal(39, 7, 4), Score.of("dot"), 3)


def test_wrong_input_is_refused():
    queries, documents, score = normal(40, 2, 4), normal(41, 3, 4), Score.of("dot")
    wrong = {
        "k=0 must be": {"k": 0},
        "block_size=0 must be": {"block_size": 0},
        "query id 'q' occurs twice": {"query_ids": ["q", "q"]},
        "document id 'd' occurs twice": {"document_ids": ["d", "e", "d"]},
        "shape (3, 4) for 2 ids": {"document_ids": ["d", "e"]},
        "dimensions and documents 3": {"document_embeddings": documents[:, :3]},
        "are float64; search ranks": {"document_embeddings": documents.astype(np.float64)},
        "are int64": {"query_embeddings": np.ones((2, 4), np.int64)},
        "shape (4,) for": {"query_embeddings": queries[0]},
    }
    usual = {
        "query_embeddings": queries,
        "document_embeddings": documents,
        "k": 2,
        "query_ids": ["q", "r"],
        "document_ids": ["d", "e", "f"],
    }
    for message, change in wrong.items():
        with pytest.raises(InputError, match=re.escape(message)):
            search(**{**usual, **change}, score=score)


def test_trec_run_file(tmp_path):
    ranking = find(normal(42, 2, 4), normal(43, 9, 4), Score.of("cosine"), 4)
    path = tmp_path / "runs" / "a.trec"
    ranking.write_trec(path, "tag")
    lines = [line.split(" ") for line in path.read_text().splitlines()]
    assert [line[3] for line in lines] == ["1", "2", "3", "4"] * 2
    assert {(line[1], line[5]) for line in lines} == {("Q0", "tag")}
    read = {}
    for query, _, document, _, value, _ in lines:
        read.setdefault(query, {})[document] = float(value)
    assert read == ranking.to_run()  # to the last bit


@pytest.mark.parametrize("name", ["a b", "", " a", "a\n", "a\u00a0b"])
def test_ids_that_a_run_file_cannot_hold(name, tmp_path):
    ranking = find(normal(44, 1, 4), normal(45, 1, 4), Score.of("dot"), 1, document_ids=[name])
    with pytest.raises(InputError, match="cannot stand in a TREC run file"):
        ranking.write_trec(tmp_path / "run", "tag")
    assert not (tmp_path / "run").exists()
