"""Encoding: order, company, devices, blocks and shapes change nothing."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from magjax.checks import InputError
from magjax.data import TextPreprocessor, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.evaluation import _encode, encode
from magjax.mesh import data_mesh

TEXTS = ["add two numbers", "", "a", *("sum " * n for n in range(1, 60)), "multiply " * 90]


@pytest.fixture(scope="module")
def preprocessor():
    tokenizer = TextTokenizer.train(TEXTS * 2, 300)
    return TextPreprocessor(
        tokenizer, TextSettings(query_max_length=24, document_max_length=80, query_prompt="find ")
    )


def model(seed=0, shared=True):
    config = EncoderConfig(
        vocab_size=320,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=80,
    )
    return DualEncoder.create(config, seed=seed, shared=shared)


@pytest.fixture(scope="module")
def encoder():
    return model()


def one_by_one(encoder, preprocessor, texts, side):
    graph, state = nnx.split(encoder)
    embed = jax.jit(lambda state, batch: nnx.merge(graph, state).embed(batch, side))
    tokens = [preprocessor.tokenize([text], side) for text in texts]
    return np.concatenate([embed(state, preprocessor.pad(row, length=80)) for row in tokens])


@pytest.mark.parametrize("side", ["query", "document"])
def test_each_text_gets_the_embedding_it_has_alone(encoder, preprocessor, side):
    found = encode(encoder, preprocessor, TEXTS, side)
    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), 32)
    expected = one_by_one(encoder, preprocessor, TEXTS, side)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


def test_sides_have_their_own_prompt_and_tower(preprocessor):
    shared, separate = model(), model(shared=False)
    text = ["add two"]
    query, document = (encode(shared, preprocessor, text, s) for s in ("query", "document"))
    assert abs(query - document).max() > 1e-3  # the prompt
    towers = [encode(separate, preprocessor, text, s) for s in ("query", "document")]
    np.testing.assert_allclose(
        towers[1], one_by_one(separate, preprocessor, text, "document"), rtol=0, atol=2e-6
    )


@pytest.mark.parametrize(
    "options", [{"block_size": 7}, {"tokens_per_batch": 1}, {"devices": 1}, {"devices": 2}]
)
def test_how_it_runs_changes_nothing(encoder, preprocessor, options):
    devices = jax.devices()[: options.pop("devices", 8)]
    found = encode(encoder, preprocessor, TEXTS, "document", mesh=data_mesh(devices), **options)
    usual = encode(encoder, preprocessor, TEXTS, "document")
    np.testing.assert_allclose(found, usual, rtol=0, atol=2e-6)


def test_new_parameters_compile_nothing(encoder, preprocessor):
    before = encode(encoder, preprocessor, TEXTS, "query")
    shapes = _encode._embed._cache_size()
    other = model(seed=1)
    after = encode(other, preprocessor, TEXTS, "query")
    assert _encode._embed._cache_size() == shapes
    assert abs(after - before).max() > 1e-3


def test_nothing_is_baked_into_the_program(encoder):
    graph, state = nnx.split(encoder)
    batch = {key: np.ones((8, 16), np.int32) for key in ("input_ids", "attention_mask")}
    text = _encode._embed.lower(graph, state, batch, "query").as_text()
    assert len(text) < 200_000  # the parameters written out are millions of characters


def test_no_text_and_one_text(encoder, preprocessor):
    assert encode(encoder, preprocessor, [], "query").shape == (0, 32)
    assert encode(encoder, preprocessor, [""], "query").shape == (1, 32)


def test_progress_counts_every_text_once(encoder, preprocessor):
    said = []
    encode(
        encoder,
        preprocessor,
        TEXTS,
        "document",
        block_size=30,
        progress=lambda done, total: said.append((done, total)),
    )
    assert said[-1] == (len(TEXTS), len(TEXTS))
    assert all(a[0] < b[0] for a, b in itertools.pairwise(said))


def test_a_broken_embedding_is_named(preprocessor):
    broken = model()
    word = preprocessor.tokenize(["multiply"], "document")[0][1]
    table = broken.query_tower.embeddings.word
    table.embedding[...] = table.embedding[...].at[word].set(jnp.nan)
    names = [f"d{i}" for i in range(len(TEXTS))]
    with pytest.raises(InputError, match=f"document 'd{len(TEXTS) - 1}' is not finite"):
        encode(broken, preprocessor, TEXTS, "document", ids=names)
    with pytest.raises(InputError, match=f"document number {len(TEXTS) - 1} is not finite"):
        encode(broken, preprocessor, TEXTS, "document", block_size=20)


def test_wrong_input_is_refused(encoder, preprocessor):
    with pytest.raises(InputError, match="1 ids for 2 texts"):
        encode(encoder, preprocessor, ["a", "b"], "query", ids=["a"])
    for name in ("tokens_per_batch", "block_size"):
        with pytest.raises(InputError, match=f"{name}=0"):
            encode(encoder, preprocessor, ["a"], "query", **{name: 0})


@pytest.mark.parametrize("devices", [1, 3, 8])
@pytest.mark.parametrize("budget", [1, 64, 2048])
def test_batches_hold_each_text_once_in_few_shapes(devices, budget):
    lengths = np.random.default_rng(0).integers(1, 257, 2000)
    batches = list(_encode._batches(lengths, 256, budget, devices))
    places = np.concatenate([places for places, _, _ in batches])
    assert sorted(places.tolist()) == list(range(2000))
    for chosen, length, rows in batches:
        assert lengths[chosen].max() <= length <= 256
        assert len(chosen) <= rows
        assert rows % devices == 0
        assert rows // devices * length <= max(budget, length)
    assert len({shape for _, *shape in batches for shape in [tuple(shape)]}) <= 13
    if budget == 2048:
        padded = sum(length * rows for _, length, rows in batches)
        assert padded < 1.25 * lengths.sum()
