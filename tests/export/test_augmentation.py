"""Inner product as nearest neighbours: the ranking is the same, whatever the lengths."""

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.export import augment_documents, augment_queries, largest_norm

_VALUES = st.floats(-100, 100, width=32, allow_subnormal=False)
_SHAPES = st.tuples(st.integers(1, 12), st.just(5))


def _distances(queries, documents, kind):
    """What the engine would sort by, ascending, in float64."""
    q, d = queries.astype(np.float64), documents.astype(np.float64)
    if kind == "euclidean":
        return ((q[:, None] - d[None]) ** 2).sum(axis=2)
    lengths = np.linalg.norm(q, axis=1, keepdims=True)
    q = q / np.where(lengths > 0, lengths, 1.0)
    return -(q @ d.T) / np.linalg.norm(d, axis=1)


@hypothesis.settings(deadline=None, max_examples=60, derandomize=True)
@hypothesis.given(
    documents=arrays.arrays(np.float32, _SHAPES, elements=_VALUES),
    queries=arrays.arrays(np.float32, _SHAPES, elements=_VALUES),
    kind=st.sampled_from(["euclidean", "cosine"]),
    spare=st.sampled_from([1.0, 1.7]),
)
def test_the_ranking_is_that_of_the_inner_product(documents, queries, kind, spare):
    norm = largest_norm(documents) * spare
    turned = augment_documents(documents, norm, kind)
    asked = augment_queries(queries, norm if kind == "euclidean" else None)
    order = np.argsort(_distances(asked, turned, kind), axis=1, kind="stable")
    products = queries.astype(np.float64) @ documents.astype(np.float64).T
    ranked = np.take_along_axis(products, order, axis=1)
    # Falling, up to what a float32 coordinate of size M can swap.
    scale = np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True) * norm
    assert (np.diff(ranked, axis=1) <= 1e-6 * np.maximum(scale, 1e-12)).all()


@pytest.mark.parametrize("kind", ["euclidean", "cosine"])
def test_all_documents_get_one_length_and_keep_their_products(kind):
    documents = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    queries = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    norm = largest_norm(documents)
    turned = augment_documents(documents, norm, kind)
    assert turned.shape == (50, 9)
    assert turned.dtype == np.float32
    length = norm if kind == "euclidean" else 1.0
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), length, rtol=1e-6)
    asked = augment_queries(queries)
    assert not asked[:, -1].any()
    np.testing.assert_allclose(
        asked @ turned.T * (norm / length), queries @ documents.T, rtol=1e-4, atol=1e-5
    )


def test_queries_can_be_brought_to_the_length_of_the_documents():
    asked = augment_queries(np.array([[0.3, 0.4], [0.0, 0.0]], np.float32), 7.0)
    np.testing.assert_allclose(np.linalg.norm(asked, axis=1), [7.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(asked[0], [4.2, 5.6, 0.0], rtol=1e-6)


def test_half_precision_widens_exactly():
    documents = np.random.default_rng(2).normal(size=(9, 4)).astype(ml_dtypes.bfloat16)
    wide = documents.astype(np.float32)
    assert largest_norm(documents) == largest_norm(wide)
    np.testing.assert_array_equal(
        augment_documents(documents, largest_norm(documents)),
        augment_documents(wide, largest_norm(wide)),
    )


def test_one_document_zero_documents_and_zero_vectors():
    one = np.array([[3.0, 4.0]], np.float32)
    assert augment_documents(one, largest_norm(one)).tolist() == [[3.0, 4.0, 0.0]]
    none = np.zeros((0, 2), np.float32)
    assert largest_norm(none) == 0.0
    assert augment_documents(none, 0.0).shape == (0, 3)
    zero = np.zeros((2, 2), np.float32)
    assert augment_documents(zero, 0.0).tolist() == [[0, 0, 0]] * 2
    # Cosine of a zero vector would be NaN: a direction that no query has a part in.
    assert augment_documents(zero, 0.0, "cosine").tolist() == [[0, 0, 1]] * 2
    assert augment_documents(zero, 5.0).tolist() == [[0, 0, 5]] * 2


def test_the_longest_document_never_gives_the_root_of_a_negative_number():
    rng = np.random.default_rng(3)
    for scale in (1e-20, 1.0, 1e15):
        documents = (rng.normal(size=(200, 7)) * scale).astype(np.float32)
        turned = augment_documents(documents, largest_norm(documents))
        assert np.isfinite(turned).all()
        longest = np.square(documents.astype(np.float64)).sum(axis=1).argmax()
        assert turned[longest, -1] <= 1e-7 * largest_norm(documents)


def test_a_longer_document_cannot_be_added():
    documents = np.array([[1.0, 0.0], [0.0, 5.1]], np.float32)
    with pytest.raises(InputError, match=r"document 1 has length 5\.1.*build the index anew"):
        augment_documents(documents, 5.0)
    with pytest.raises(InputError, match=r"document 'long' has length 5\.1"):
        augment_documents(documents, 5.0, ids=["short", "long"])
    with pytest.raises(InputError, match="length nan"):
        augment_documents(np.array([[np.nan, 1.0]], np.float32), 5.0)


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="unknown kind"):
        augment_documents(np.ones((1, 2), np.float32), 5.0, "manhattan")
    with pytest.raises(InputError, match="shape"):
        augment_queries(np.ones(3, np.float32))
