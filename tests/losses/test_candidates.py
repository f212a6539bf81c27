"""Which candidates count: false negatives by id, padding, shared and own hard negatives."""

import jax.numpy as jnp
import numpy as np
import pytest

from magjax.losses import candidate_logits, info_nce

SETTINGS = {"gamma_query": 0.4, "gamma_document": 0.8, "temperature": 0.7}


@pytest.mark.parametrize("direction", ["query_to_document", "document_to_query", "both"])
def test_one_positive_text_twice_is_no_negative(direction):
    # Two pairs with one positive at scale 20: ln 2 unmasked, however well trained; 0 masked.
    x = jnp.array([[1.0, 0.0], [1.0, 0.0]])
    settings = {"gamma_query": 1.0, "gamma_document": 1.0, "temperature": 1 / 20}
    unmasked = info_nce(x, x, direction=direction, **settings)
    np.testing.assert_allclose(unmasked, np.log(2.0), rtol=1e-6)
    for ids in ({"document_ids": jnp.array([4, 4])}, {"query_ids": jnp.array([4, 4])}):
        masked = info_nce(x, x, direction=direction, **ids, **settings)
        np.testing.assert_array_equal(masked, 0.0)


def test_all_of_a_query_s_documents_are_found_through_other_rows_and_hard_negatives():
    # Rows: (q1, d5), (q1, d6), (q2, d6). d6 is a document of q1 also in the row of q2, and as a
    # hard negative of any row; the known positive d9 is masked for q2 only.
    x = jnp.eye(3)
    found = candidate_logits(
        x,
        x,
        jnp.ones((3, 1, 3)),
        query_ids=jnp.array([1, 1, 2]),
        document_ids=jnp.array([5, 6, 6]),
        negative_ids=jnp.array([[6], [9], [-1]]),
        positive_ids=jnp.array([[-1], [-1], [9]]),
        **SETTINGS,
    )
    expected = [
        [True, False, False, False, True, True],
        [False, True, False, False, True, True],
        [True, False, True, False, False, True],
    ]
    np.testing.assert_array_equal(found.where, expected)
    np.testing.assert_array_equal(found.positives, np.eye(3, 6, dtype=bool))


def test_ids_below_zero_equal_nothing():
    x = jnp.eye(2)
    unknown = jnp.array([-1, -1])
    found = candidate_logits(
        x,
        x,
        x[:, None, :],
        query_ids=unknown,
        document_ids=unknown,
        negative_ids=unknown[:, None],
        positive_ids=unknown[:, None],
        **SETTINGS,
    )
    assert found.where.all()


def test_padding_rows_with_ids_mask_nothing():
    x = jnp.eye(3)
    found = candidate_logits(
        x,
        x,
        query_ids=jnp.array([1, 2, 1]),
        document_ids=jnp.array([1, 2, 2]),
        where=jnp.array([True, True, False]),
        **SETTINGS,
    )
    expected = [[True, True, False], [True, True, False], [False, False, False]]
    np.testing.assert_array_equal(found.where, expected)


def test_layout_of_shared_and_own_negatives():
    rng = np.random.default_rng(0)
    arrays = [jnp.float32(rng.normal(size=shape)) for shape in ((6, 4), (6, 4), (6, 2, 4))]
    shared = candidate_logits(*arrays, **SETTINGS)
    own = candidate_logits(*arrays, share_negatives=False, **SETTINGS)
    assert shared.logits.shape == (6, 6 + 12)
    assert own.logits.shape == (6, 6 + 2)
    for i in range(6):
        np.testing.assert_allclose(
            own.logits[i, 6:], shared.logits[i, 6 + 2 * i : 8 + 2 * i], rtol=1e-5, atol=1e-6
        )
