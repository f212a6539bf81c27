import pytest

from magjax.checks import InputError
from magjax.data import TrainingSet
from magjax.data._epochs import Epochs
from magjax.data._text_numbers import TextNumbers


def pairs_of(queries, documents):
    count = len(queries)
    return TrainingSet(
        [f"q{i}" for i in range(count)], [f"query {i}" for i in queries],
        [(i,) for i in range(count)], [()] * count,
        [f"d{i}" for i in range(count)], [f"document {i}" for i in documents],
    )  # fmt: skip


def make_epochs(texts, *, batch_size, seed=0):
    data = pairs_of(*texts)
    return Epochs(data, TextNumbers.of(data), batch_size=batch_size, seed=seed)


@pytest.mark.parametrize("seed", range(8))
def test_order_with_a_dead_end_gives_way_to_another(seed):
    # Only rows 0 and 1, or 0 and 2, go together: an order that starts with row 3 finds no batch.
    epochs = make_epochs(([1, 2, 3, 1], [1, 3, 3, 3]), batch_size=2, seed=seed)
    for epoch in range(4):
        assert sorted(epochs.plan(epoch)[0][0].tolist()) in ([0, 1], [0, 2])


def test_texts_that_no_two_rows_combine_are_refused():
    data = ([0, 0, 1, 0], [0, 1, 0, 0])
    assert make_epochs(data, batch_size=2).plan(0)[0][0].tolist() in ([1, 2], [2, 1])
    with pytest.raises(InputError, match="only 2 pairs of distinct texts"):
        make_epochs(data, batch_size=3)
    # Three distinct queries and documents each, but no three rows without a common text.
    with pytest.raises(InputError, match="repeat too often for batches of 3"):
        make_epochs(([0, 0, 0, 1, 2], [0, 1, 2, 0, 0]), batch_size=3)


def test_repeated_rows_are_reported(caplog):
    # Each side alone could fill two batches of three; both together cannot (60 orders tried).
    make_epochs(([3, 1, 0, 0, 2, 1, 0], [3, 2, 1, 1, 2, 2, 0]), batch_size=3)
    assert "texts repeat so often that 1 of 6 places" in caplog.text
