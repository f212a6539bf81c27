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
)

WORDS = [f"word{i}" for i in range(23)]
TOKENIZER = TextTokenizer.train(WORDS * 2, 600)


def preprocessor(document_max_length=40):
    return TextPreprocessor(
        TOKENIZER, TextSettings(query_max_length=16, document_max_length=document_max_length)
    )


def training_set(count=23, **changes):
    """Query i asks for document i; documents 2 i + count and 2 i + count + 1 are its negatives."""
    return TrainingSet(
        **{
            "query_ids": [f"q{i}" for i in range(count)],
            "queries": [f"query {word}" for word in WORDS[:count]],
            "positives": [(i,) for i in range(count)],
            "negatives": [(count + 2 * i, count + 2 * i + 1) for i in range(count)],
            "document_ids": [f"d{i}" for i in range(3 * count)],
            "documents": [f"document {i} " + "x " * (i % 37) for i in range(3 * count)],
            **changes,
        }
    )


def make(data=None, **changes):
    given = {"batch_size": 8, "seed": 0, **changes}
    return TrainingBatches(data or training_set(), preprocessor(), **given)


def assert_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


def texts_of(tokens):
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    return [row[keep == 1].tolist() for row, keep in zip(ids, mask, strict=True)]


def test_batch_holds_what_it_promises():
    batch = make().batch_at(0)
    assert sorted(batch) == sorted(
        ["query", "document", "query_ids", "document_ids", "positive_ids", "where", "row"]
    )
    assert batch["query"]["input_ids"].shape == (8, 16)
    assert batch["document"]["attention_mask"].shape[0] == 8
    assert batch["positive_ids"].shape == (8, 1)
    assert batch["where"].all()
    for name in ("query_ids", "document_ids", "positive_ids", "row"):
        assert batch[name].dtype == np.int32


def test_rows_pair_queries_with_their_documents():
    data, batches = training_set(), make()
    for step in range(4):
        batch = batches.batch_at(step)
        rows = batch["row"].tolist()
        expected = preprocessor().tokenize([data.queries[i] for i in rows], "query")
        assert texts_of(batch["query"]) == [ids.tolist() for ids in expected]
        expected = preprocessor().tokenize([data.documents[i] for i in rows], "document")
        assert texts_of(batch["document"]) == [ids.tolist() for ids in expected]
        np.testing.assert_array_equal(batch["positive_ids"][:, 0], batch["document_ids"])


def test_last_partial_batch_is_dropped_and_len_is_exact():
    batches = make()
    assert len(batches) == 2
    rows = [batches.batch_at(step)["row"] for step in range(2)]
    assert len(np.unique(rows)) == 16


def test_batch_is_a_function_of_seed_and_step():
    batches, again = make(), make()
    late = batches.batch_at(1_000)
    for step in (5, 0, 3, 1_000):
        assert_equal(batches.batch_at(step), again.batch_at(step))
    assert_equal(late, again.batch_at(1_000))
    assert make(seed=1).batch_at(0)["row"].tolist() != make().batch_at(0)["row"].tolist()


def test_epochs_have_other_orders():
    batches = make()
    first, second = (
        [batches.batch_at(step)["row"].tolist() for step in steps] for steps in ((0, 1), (2, 3))
    )
    assert first != second


def test_no_text_is_twice_in_a_batch():
    data = training_set(
        queries=[f"query {i % 12}" for i in range(23)],
        documents=[f"document {i % 11}" for i in range(69)],
        negatives=[()] * 23,
    )
    batches = make(data, batch_size=5)
    for step in range(3 * len(batches)):
        batch = batches.batch_at(step)
        assert len(set(batch["query_ids"].tolist())) == 5
        assert len(set(batch["document_ids"].tolist())) == 5


def test_equal_texts_have_equal_numbers_and_share_their_positives():
    data = TrainingSet(
        ["a", "b", "c"],
        ["same", "same ", "other"],
        [(0,), (1,), (2, 3)],
        [(), (), ()],
        ["d0", "d1", "d2", "d3"],
        ["one", "two", "one", "three"],
    )
    batches = make(data, batch_size=1)
    seen = {}
    for step in range(30):
        batch = batches.batch_at(step)
        seen[int(batch["row"][0])] = batch
    assert seen[0]["query_ids"] == seen[1]["query_ids"] != seen[2]["query_ids"]
    assert seen[0]["document_ids"] != seen[1]["document_ids"]
    one, two, three = 0, 1, 2
    assert seen[0]["positive_ids"].tolist() == seen[1]["positive_ids"].tolist() == [[one, two]]
    assert seen[2]["positive_ids"].tolist() == [[one, three]]


def test_every_positive_is_drawn_in_time():
    data = training_set(
        count=4, positives=[(i, 4 + i, 8 + i) for i in range(4)], negatives=[()] * 4
    )
    batches = make(data, batch_size=4)
    seen = set()
    for step in range(30):
        batch = batches.batch_at(step)
        for row, document in zip(batch["row"], batch["document_ids"], strict=True):
            assert document in data.positives[row]
            seen.add((int(row), int(document)))
    assert len(seen) == 12


def test_negatives_belong_to_their_query():
    data, batches = training_set(), make(negatives_per_query=2)
    batch = batches.batch_at(3)
    assert batch["negatives"]["input_ids"].shape[0] == 16
    assert batch["negatives_where"].all()
    for row, ids in zip(batch["row"], batch["negative_ids"], strict=True):
        assert set(ids.tolist()) == set(data.negatives[row])
    expected = [data.documents[i] for i in batch["negative_ids"].ravel()]
    assert texts_of(batch["negatives"]) == [
        ids.tolist() for ids in preprocessor().tokenize(expected, "document")
    ]


def test_missing_negatives_are_masked_and_others_alternate():
    negatives = [(23, 24, 25) if i % 2 else () for i in range(23)]
    batches = make(training_set(negatives=negatives), negatives_per_query=2)
    seen = set()
    for step in range(12):
        batch = batches.batch_at(step)
        np.testing.assert_array_equal(
            batch["negatives_where"], np.repeat(batch["row"][:, None] % 2 == 1, 2, axis=1)
        )
        kept = batch["negative_ids"][batch["negatives_where"]].reshape(-1, 2)
        assert (kept[:, 0] != kept[:, 1]).all()
        seen.update(kept.ravel().tolist())
    assert seen == {23, 24, 25}


def test_negative_that_answers_the_same_question_elsewhere_is_none():
    data = TrainingSet(
        ["a", "b"], ["same", "same"], [(0,), (1,)], [(1, 2), ()], list("xyz"), ["p", "q", "r"]
    )
    batches = make(data, batch_size=1, negatives_per_query=2)
    for step in range(6):
        batch = batches.batch_at(step)
        if batch["row"][0] == 0:
            assert batch["negatives_where"].tolist() == [[True, False]]
            assert batch["negative_ids"][0, 0] == 2


def test_accumulation_stacks_consecutive_batches():
    single = make(batch_size=4, negatives_per_query=1)
    double = make(batch_size=4, negatives_per_query=1, accumulation=2)
    assert (len(single), len(double)) == (5, 2)
    stacked = double.batch_at(1)
    assert stacked["query"]["input_ids"].shape == (2, 4, 16)
    assert stacked["negative_ids"].shape == (2, 4, 1)
    for part in range(2):
        expected = single.batch_at(2 + part)
        for name in ("row", "query_ids", "document_ids", "negative_ids", "where"):
            np.testing.assert_array_equal(stacked[name][part], expected[name])
        rows = {key: value[part] for key, value in stacked["negatives"].items()}
        assert texts_of(rows) == texts_of(expected["negatives"])


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_slices_of_all_processes_are_the_whole_batch(processes, accumulation):
    settings = {"negatives_per_query": 2, "accumulation": accumulation}
    whole = make(**settings)
    parts = [make(process_index=i, process_count=processes, **settings) for i in range(processes)]
    assert {len(part) for part in parts} == {len(whole)}
    assert {part.fingerprint for part in parts} == {whole.fingerprint}
    axis = 0 if accumulation == 1 else 1
    for step in range(3 if accumulation == 1 else 2):
        slices = [part.batch_at(step) for part in parts]
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=axis), *slices)
        assert_equal(joined, whole.batch_at(step))


def test_padded_lengths_come_from_few_buckets():
    batches = TrainingBatches(
        training_set(), preprocessor(), batch_size=4, seed=0, length_multiple=16
    )
    lengths = {batches.batch_at(s)["document"]["input_ids"].shape[1] for s in range(40)}
    assert lengths <= {16, 32, 40}
    assert len(lengths) > 1


def test_ids_in_masks_find_false_negatives():
    # Bug report: two pairs of one positive text; unmasked, the loss cannot fall below ln 2.
    data = TrainingSet(
        ["a", "b", "c"], ["x", "y", "z"], [(0,), (1,), (2,)], [(), (0,), ()],
        ["d", "e", "f"], ["same text", "same  text", "other"],
    )  # fmt: skip
    assert data.negatives[1] == (0,)
    with pytest.raises(InputError, match="no hard negatives"):
        make(data, batch_size=2, negatives_per_query=1)
    batches = make(data, batch_size=2)
    assert len(batches) == 1
    for step in range(5):
        ids = batches.batch_at(step)["document_ids"]
        assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 24}, "batch_size=24 is larger than the 23 queries .*; try batch_size=23"),
        ({"batch_size": 0}, "batch_size=0 must be"),
        ({"accumulation": 3}, "accumulation=3 batches of batch_size=8 are larger than"),
        ({"process_count": 3}, "not a multiple of process_count=3; try batch_size=6"),
        ({"process_count": 2, "process_index": 2}, "process_index=2 must be below 2"),
        ({"negatives_per_query": -1}, "negatives_per_query=-1"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_batch_larger_than_the_distinct_texts_is_refused():
    data = training_set(
        documents=["document one", "document two", "three"] * 23, negatives=[()] * 23
    )
    with pytest.raises(InputError, match=r"only 3 pairs of distinct texts.*try batch_size=3"):
        make(data)


def test_crowded_documents_make_an_epoch_shorter():
    # Three documents answer all; each batch of 3 must hold each once, which 13 of "one" prevent.
    positives = [(0,)] * 13 + [(1,)] * 5 + [(2,)] * 5
    batches = make(training_set(positives=positives, negatives=[()] * 23), batch_size=3)
    assert len(batches) == 5
    assert all(len(set(batches.batch_at(s)["document_ids"].tolist())) == 3 for s in range(10))


def test_cache_does_not_change_batches(monkeypatch):
    expected = [make().batch_at(step) for step in range(5)]
    monkeypatch.setattr("magjax.data._padded_tokens._CACHED_TOKENS", 30)
    small = make()
    for step, batch in enumerate(expected):
        assert_equal(small.batch_at(step), batch)
