import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.data._epoch_plan import largest_batch_count, plan_epoch, random_order


def assert_valid(plan, queries, documents, batch_size, batches):
    assert plan.rows.shape == (batches, batch_size)
    for rows in plan.rows:
        assert len(set(queries[rows])) == batch_size
        assert len(set(documents[rows])) == batch_size
    distinct = len(np.unique(plan.rows))
    assert distinct == plan.rows.size - plan.repeated
    assert plan.left_out == len(queries) - distinct


def test_distinct_texts_keep_the_order():
    order = random_order(10, 0)
    plan = plan_epoch(np.arange(10), np.arange(10), order, 3, 3)
    assert plan.rows.ravel().tolist() == order[:9].tolist()
    assert (plan.left_out, plan.repeated) == (1, 0)


def test_clashing_row_waits_for_the_next_batch():
    queries, documents = np.array([0, 0, 1, 2]), np.array([0, 1, 2, 3])
    plan = plan_epoch(queries, documents, np.arange(4), 2, 2)
    assert plan.rows.tolist() == [[0, 2], [1, 3]]


def test_late_clash_is_solved_by_exchange():
    # The last two rows share a text: one must trade places with an earlier row.
    queries = np.array([0, 1, 2, 2])
    plan = plan_epoch(queries, np.arange(4), np.arange(4), 2, 2)
    assert_valid(plan, queries, np.arange(4), 2, 2)
    assert plan.repeated == 0


def test_crowded_texts_lower_the_number_of_batches():
    documents = np.array([0] * 10 + [1, 2, 3])
    assert largest_batch_count(np.arange(13), documents, 4) == 1
    assert largest_batch_count(np.arange(13), np.arange(13), 4) == 3
    assert largest_batch_count(np.arange(3), np.arange(3), 4) == 0


def test_passages_with_many_questions_fill_every_batch():
    documents = np.repeat(np.arange(240), 5)
    queries = np.arange(1_200)
    batches = largest_batch_count(queries, documents, 128)
    assert batches == 9
    for seed in range(5):
        plan = plan_epoch(queries, documents, random_order(1_200, seed), 128, batches)
        assert_valid(plan, queries, documents, 128, batches)
        assert plan.repeated == 0


def test_place_that_no_row_fits_is_an_error():
    with pytest.raises(ValueError, match="no row fits"):
        plan_epoch(np.zeros(4, int), np.arange(4), np.arange(4), 2, 2)


@settings(deadline=None, max_examples=80)
@given(
    texts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=60),
    batch_size=st.integers(1, 4),
    seed=st.integers(0, 5),
)
def test_batches_are_full_and_hold_no_text_twice(texts, batch_size, seed):
    queries, documents = np.array(texts).T
    batches = largest_batch_count(queries, documents, batch_size)
    order = random_order(len(texts), seed)
    try:
        plan = plan_epoch(queries, documents, order, batch_size, batches)
    except ValueError:  # fewer compatible rows than a batch holds: no plan exists
        assert batch_size > 1
        return
    assert_valid(plan, queries, documents, batch_size, batches)


def test_random_order_is_a_permutation_that_never_changes():
    assert sorted(random_order(50, 1, 2)) == list(range(50))
    assert random_order(8, 0).tolist() == random_order(8, 0).tolist()
    assert random_order(50, 1, 2).tolist() != random_order(50, 1, 3).tolist()
    assert random_order(0, 1).tolist() == []
    assert random_order(1, 1).tolist() == [0]
