"""Dense, paired, listed and blockwise scores, and the identities between the presets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.similarity import (
    PRESETS,
    blockwise_scores,
    fold_score_blocks,
    list_scores,
    paired_scores,
    scores,
)

PAIRS = [*PRESETS.values(), (0.3, 0.8)]


def both(gammas):
    """The pair as keyword arguments."""
    return {"gamma_query": gammas[0], "gamma_document": gammas[1]}


@pytest.fixture(scope="module")
def embeddings():
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(4, 6)) * rng.lognormal(size=(4, 1))
    documents = rng.normal(size=(9, 6)) * rng.lognormal(size=(9, 1))
    return np.float32(queries), np.float32(documents)


@pytest.mark.parametrize("gammas", PAIRS)
def test_dense_paired_and_listed_equal_the_reference(embeddings, gammas):
    queries, documents = embeddings
    expected = reference.scores(queries, documents, *gammas)
    dense = scores(queries, documents, **both(gammas))
    assert dense.shape == (4, 9)
    assert dense.dtype == jnp.float32
    np.testing.assert_allclose(dense, expected, rtol=1e-5, atol=1e-6)
    pairs = paired_scores(queries, documents[:4], **both(gammas))
    assert pairs.shape == (4,)
    np.testing.assert_allclose(pairs, np.diag(expected), rtol=1e-5, atol=1e-6)
    lists = list_scores(queries, np.stack([documents[:5]] * 4), **both(gammas))
    np.testing.assert_allclose(lists, expected[:, :5], rtol=1e-5, atol=1e-6)


def test_float64_stays_float64(embeddings):
    with jax.enable_x64(True):
        queries, documents = (jnp.asarray(x, jnp.float64) for x in embeddings)
        dense = scores(queries, documents, gamma_query=1.0, gamma_document=0.5)
        assert dense.dtype == jnp.float64
        np.testing.assert_allclose(
            dense, reference.scores(*embeddings, 1.0, 0.5), rtol=1e-13, atol=1e-13
        )
        mixed = scores(embeddings[0], documents, gamma_query=1.0, gamma_document=0.5)
        assert mixed.dtype == jnp.float64


def test_one_example_of_each_preset():
    query, documents = jnp.array([[3.0, 4.0]]), jnp.array([[1.0, 0.0], [10.0, 0.0]])
    expected = {"cosine": [0.6, 0.6], "dot": [3, 30], "qnorm": [0.6, 6], "dnorm": [3, 3]}
    for name, gammas in PRESETS.items():
        found = scores(query, documents, **both(gammas))
        np.testing.assert_allclose(found[0], expected[name], rtol=1e-6, err_msg=name)


def test_on_unit_vectors_the_presets_agree(embeddings):
    units = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in embeddings]
    found = [scores(*units, **both(gammas)) for gammas in PRESETS.values()]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)


def test_rankings_of_one_query_and_of_one_document(embeddings):
    by_name = {
        name: np.asarray(scores(*embeddings, **both(gammas))) for name, gammas in PRESETS.items()
    }
    rank = {name: found.argsort(axis=1) for name, found in by_name.items()}
    np.testing.assert_array_equal(rank["dot"], rank["qnorm"])
    np.testing.assert_array_equal(rank["cosine"], rank["dnorm"])
    assert (rank["dot"] != rank["cosine"]).any()
    rank = {name: found.argsort(axis=0) for name, found in by_name.items()}
    np.testing.assert_array_equal(rank["dot"], rank["dnorm"])
    np.testing.assert_array_equal(rank["cosine"], rank["qnorm"])
    assert (rank["dot"] != rank["cosine"]).any()


def test_qnorm_and_dnorm_are_mirror_images(embeddings):
    queries, documents = embeddings
    left = scores(queries, documents, **both(PRESETS["qnorm"]))
    right = scores(documents, queries, **both(PRESETS["dnorm"]))
    np.testing.assert_allclose(left, right.T, rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.floats(-15.0, 15.0), st.floats(-15.0, 15.0), st.sampled_from(sorted(PRESETS)))
def test_each_normalized_side_is_blind_to_its_length(log_query, log_document, name):
    rng = np.random.default_rng(2)
    q, d = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
    a, b = 10.0**log_query, 10.0**log_document
    gamma_query, gamma_document = PRESETS[name]
    found = scores(jnp.float32(a * q), jnp.float32(b * d), **both(PRESETS[name]))
    scale = a ** (1 - gamma_query) * b ** (1 - gamma_document)
    expected = scale * reference.scores(q, d, *PRESETS[name])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_scores_do_not_collapse_to_ties(dtype):
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(2000, 128))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    half = jnp.asarray(documents, dtype)
    found = scores(half[:1], half, gamma_query=0.0, gamma_document=0.0)
    assert found.dtype == jnp.float32
    assert len(np.unique(found)) > 1990
    assert len(np.unique(found.astype(jnp.bfloat16))) < 1200  # what bfloat16 would have left
    exact = np.float64(half[:1]) @ np.float64(half).T
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_highest_precision_is_asked_for():
    # Else GPUs multiply in TF32; no CPU run can show the difference, the program can.
    x = jnp.ones((2, 3))
    for function, documents in [
        (scores, x),
        (paired_scores, x),
        (list_scores, x[:, None, :]),
    ]:
        text = str(
            jax.make_jaxpr(lambda q, d, f=function: f(q, d, gamma_query=0.5, gamma_document=1.0))(
                x, documents
            )
        )
        assert text.count("dot_general") == 1
        assert "Precision.HIGHEST" in text
        assert "preferred_element_type=float32" in text


@pytest.mark.parametrize("gammas", PAIRS)
@pytest.mark.parametrize("size", [1, 4, 3, 9, 100])
def test_blocks_of_any_size_equal_the_whole(embeddings, gammas, size):
    expected = scores(*embeddings, **both(gammas))
    found = blockwise_scores(*embeddings, **both(gammas), block_size=size)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1, 4, 9])
def test_gradients_through_blocks_equal_those_of_the_whole(embeddings, size):
    weights = np.random.default_rng(3).normal(size=(4, 9)).astype(np.float32)

    def total(function, **extra):
        def inner(q, d, gamma):
            return jnp.sum(weights * function(q, d, gamma_query=gamma, gamma_document=0.5, **extra))

        return jax.jit(jax.grad(inner, argnums=(0, 1, 2)))(*embeddings, jnp.float32(0.7))

    expected = total(scores)
    found = total(blockwise_scores, block_size=size)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_working_memory_is_one_block_beside_the_result(dtype):
    documents = jax.ShapeDtypeStruct((8192, 64), dtype)
    queries = jax.ShapeDtypeStruct((16, 64), dtype)

    def temporary(function, **extra):
        def call(q, d):
            return function(q, d, gamma_query=1.0, gamma_document=1.0, **extra)

        compiled = jax.jit(call).lower(queries, documents).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    block = 128 * 64 * 4  # one block of documents in float32
    assert temporary(blockwise_scores, block_size=128) < 6 * block
    assert temporary(scores) > 60 * block


def test_no_documents_and_bad_block_sizes():
    x = jnp.ones((2, 3))
    empty = blockwise_scores(x, x[:0], gamma_query=1.0, gamma_document=1.0, block_size=4)
    assert empty.shape == (2, 0)
    for size in (0, -1):
        with pytest.raises(InputError, match="block_size"):
            fold_score_blocks(
                lambda c, *_: c, 0.0, x, x, gamma_query=1.0, gamma_document=1.0, block_size=size
            )


def test_a_fold_shows_each_document_freshly_once(embeddings):
    queries, documents = embeddings

    def count(carry, block, positions, fresh):
        assert block.shape == (4, 4)
        seen, total = carry
        return seen.at[positions].add(fresh), total + jnp.sum(jnp.where(fresh, block, 0.0))

    seen, total = fold_score_blocks(
        count,
        (jnp.zeros(9, int), jnp.float32(0.0)),
        queries,
        documents,
        gamma_query=1.0,
        gamma_document=0.0,
        block_size=4,
    )
    np.testing.assert_array_equal(seen, 1)
    expected = scores(queries, documents, gamma_query=1.0, gamma_document=0.0).sum()
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_vmap_adds_an_axis_in_front(embeddings):
    queries, documents = embeddings
    stacked = jax.vmap(lambda q: scores(q, documents, gamma_query=1.0, gamma_document=0.0))(
        jnp.stack([queries, 2 * queries])
    )
    expected = scores(queries, documents, gamma_query=1.0, gamma_document=0.0)
    np.testing.assert_allclose(stacked, jnp.stack([expected, expected]), rtol=1e-6, atol=1e-6)
