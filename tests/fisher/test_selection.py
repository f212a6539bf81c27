"""Which parameters a pattern names, and what a batch must hold."""

import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.fisher import (
    CandidateSets,
    dual_embedding,
    expand_spaces,
    find_null_directions,
    known_directions,
    select,
)

CONFIG = EncoderConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=12,
)


def parameters(**settings):
    return dual_embedding(DualEncoder.create(CONFIG, **settings))[1]


def test_named_spaces_choose_blocks_of_every_tower():
    tree = parameters(shared=False, projection_dim=4)
    last = select(tree, "last_block").chosen
    assert {name.split("/")[0] for name in last} == {"query_tower", "document_tower"}
    assert all("/layers/1/" in name for name in last)
    projection = select(tree, "projection").chosen
    assert {name.split("/")[0] for name in projection} == {"projection", "document_projection"}
    everything = select(tree, "all")
    assert set(everything.chosen) == set(everything.names)
    assert not everything.fixed


def test_each_block_expands_to_a_partition():
    tree = parameters(projection_dim=4)
    spaces = expand_spaces(["each_block", "all"], tree)
    assert spaces[-1] == "all"
    chosen = [name for space in spaces[:-1] for name in select(tree, space).chosen]
    assert sorted(chosen) == sorted(select(tree, "all").names)


def test_varying_and_fixed_split_the_leaves():
    selection = select(parameters(), "up/kernel$")
    assert all(name.endswith("up/kernel") for name in selection.varying)
    assert len(selection.varying) == 2
    assert set(selection.varying) | set(selection.fixed) == set(selection.names)
    assert selection.dimension == 2 * 8 * 12


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("projection", r"no parameter matches 'projection'; the nearest are .*each_block"),
        ("outptu_norm", r"the nearest are .*output_norm"),
        ("layers/(", r"is no regular expression"),
    ],
)
def test_patterns_that_name_nothing_are_refused(pattern, message):
    with pytest.raises(InputError, match=message):
        select(parameters(), pattern)


def test_integer_leaves_never_vary():
    selection = select({"count": jnp.arange(3), "w": jnp.ones(2)}, "all")
    assert selection.chosen == ("w",)


def test_negatives_are_grouped_by_query():
    batch = {
        "query": np.arange(8.0).reshape(2, 2, 2),
        "document": np.zeros((2, 2, 2)),
        "negatives": np.arange(24.0).reshape(2, 6, 2),
    }
    sets = CandidateSets.from_batch(batch)
    assert sets.rows["negatives"].shape == (4, 3, 2)
    assert np.array_equal(sets.rows["negatives"][1], batch["negatives"][0, 3:])


def test_padding_does_not_count_as_an_example():
    where = np.array([[True, True, False]])
    sets = CandidateSets.from_batch(
        {"query": np.zeros((1, 3, 2)), "document": np.zeros((1, 3, 2)), "where": where}
    )
    assert (sets.examples, sets.real_examples) == (3, 2)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"query": np.zeros((1, 2, 3))}, "no 'document'"),
        (
            {"query": np.zeros((1, 2, 3)), "document": np.zeros((1, 3, 3))},
            r"document of the batch has leading axes \(1, 3\), not \(1, 2\)",
        ),
        (
            {
                "query": np.zeros((1, 2, 3)),
                "document": np.zeros((1, 2, 3)),
                "where": np.ones((2, 1), bool),
            },
            "where of the batch",
        ),
    ],
)
def test_batches_that_do_not_fit_are_refused(batch, message):
    with pytest.raises(InputError, match=message):
        CandidateSets.from_batch(batch)


def test_null_directions_are_named_counted_or_left_open():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 6))
    rows[:, 2] = 0.0  # a dead dimension
    rows[:, :2] -= rows[:, :2].mean(axis=1, keepdims=True)  # the first two sum to zero
    matrix = rows.T @ rows
    plane = np.array([1.0, 1.0, 0, 0, 0, 0])
    found = find_null_directions(matrix, cutoff=1e-9, rank_bound=6, known={"zero sum": plane})
    assert (found.count, found.dead, found.named, found.unexplained) == (2, (2,), ("zero sum",), 0)
    unnamed = find_null_directions(matrix, cutoff=1e-9, rank_bound=6)
    assert unnamed.unexplained == 1
    few = find_null_directions(rows[:3].T @ rows[:3], cutoff=1e-9, rank_bound=3)
    assert (few.count, few.by_counting, few.unexplained) == (3, 2, 0)
    regular = find_null_directions(np.eye(3), cutoff=1e-9, rank_bound=3, known={"no": np.ones(3)})
    assert regular.sentences() == []


def test_the_zero_sum_of_a_layer_norm_is_weighted_and_hidden_by_a_projection():
    encoder = DualEncoder.create(CONFIG)
    norm = encoder.query_tower.layers[-1].output_norm
    norm.scale[...] = jnp.asarray([1.0, 2, 4, 1, 1, 1, 1, 0.0])
    (direction,) = known_directions(encoder, "query").values()
    assert direction.tolist() == [1.0, 0.5, 0.25, 1, 1, 1, 1, 0]
    assert known_directions(DualEncoder.create(CONFIG, projection_dim=4), "query") == {}
