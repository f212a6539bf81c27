import json

import jax
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.data import (
    TextPreprocessor,
    TextSettings,
    TextTokenizer,
    TrainingBatches,
    TrainingSet,
    batch_iterator,
)

COUNT = 23
DATA = TrainingSet(
    [f"q{i}" for i in range(COUNT)],
    [f"query {i}" for i in range(COUNT)],
    [(i,) for i in range(COUNT)],
    [(COUNT + i,) for i in range(COUNT)],
    [f"d{i}" for i in range(2 * COUNT)],
    [f"document {i}" for i in range(2 * COUNT)],
)
PREPROCESSOR = TextPreprocessor(
    TextTokenizer.train(DATA.documents, 300),
    TextSettings(query_max_length=16, document_max_length=16),
)


def make(**changes):
    return TrainingBatches(DATA, PREPROCESSOR, **{"batch_size": 8, "seed": 0, **changes})


def assert_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("prefetch", [0, 3])
def test_iterator_yields_the_sequence_across_epochs(prefetch):
    batches = make()
    with batch_iterator(batches, 1, prefetch=prefetch) as iterator:
        for step in range(1, 7):
            assert iterator.get_state()["step"] == step
            assert_equal(next(iterator), batches.batch_at(step))


@pytest.mark.parametrize("before", [0, 1, 2, 3, 5])
def test_iterator_resumes_exactly(before):
    # Before the first batch, inside an epoch, at its exact end, and past it.
    with batch_iterator(make(), prefetch=2) as first:
        for _ in range(before):
            next(first)
        state = json.loads(json.dumps(first.get_state()))
        tail = [next(first) for _ in range(4)]
    with batch_iterator(make(), prefetch=0) as second:
        next(second)
        second.set_state(state)
        assert second.get_state() == state
        for batch in tail:
            assert_equal(next(second), batch)


def test_iterator_goes_back_in_the_same_process():
    with batch_iterator(make(), prefetch=3) as iterator:
        state = iterator.get_state()
        first = next(iterator)
        next(iterator)
        iterator.set_state(state)
        assert_equal(next(iterator), first)


def test_iterator_resumes_with_another_number_of_processes():
    with batch_iterator(make(), 3, prefetch=0) as one:
        state = one.get_state()
    with batch_iterator(make(process_index=1, process_count=2), prefetch=0) as two:
        two.set_state(state)
        np.testing.assert_array_equal(next(two)["row"], make().batch_at(3)["row"][4:])


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"batch_size": 4}, {"negatives_per_query": 1}, {"accumulation": 2}]
)
def test_state_of_other_batches_is_refused(changes):
    with batch_iterator(make(), prefetch=0) as one:
        state = one.get_state()
    other = batch_iterator(make(**changes), prefetch=0)
    with other, pytest.raises(InputError, match="resume with the same data"):
        other.set_state(state)


def test_wrong_steps_are_refused():
    with pytest.raises(InputError, match="step=-1"):
        batch_iterator(make(), -1, prefetch=0)
    iterator = batch_iterator(make(), prefetch=0)
    with iterator, pytest.raises(InputError, match="step=None"):
        iterator.set_state({**iterator.get_state(), "step": None})


def test_error_in_a_prefetch_thread_arrives(monkeypatch):
    batches = make()
    monkeypatch.setattr(batches, "batch_at", lambda step: 1 / 0)
    with batch_iterator(batches, prefetch=2) as iterator, pytest.raises(ZeroDivisionError):
        next(iterator)
