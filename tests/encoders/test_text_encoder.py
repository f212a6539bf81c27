import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from magjax.checks import InputError
from magjax.encoders import MODEL_TYPES

FAMILIES = list(MODEL_TYPES)


def arrays(batch):
    return batch["input_ids"], batch["attention_mask"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_does_not_depend_on_its_batch(tiny, build, forward, padded, family):
    encoder = build(tiny(family))
    ids, mask = arrays(padded)
    ids = np.where(mask == 1, ids, encoder.config.pad_token_id).astype(np.int32)
    together = forward(encoder, ids, mask)
    alone = forward(encoder, ids[1:2, :9], mask[1:2, :9])
    np.testing.assert_allclose(together[1, :9], alone[0], atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "dtype"), [("bert", "float32"), ("bert", "bfloat16"), ("mpnet", "bfloat16")]
)
def test_a_row_of_padding_is_finite(tiny, build, forward, padded, family, dtype):
    encoder = build(tiny(family), dtype=dtype)
    ids, mask = arrays(padded)
    plain = forward(encoder, ids, mask, output_layers=True)
    mask[3] = 0
    states = forward(encoder, ids, mask, output_layers=True)
    assert len(states) == 3
    assert all(bool(jnp.all(jnp.isfinite(state))) for state in states)
    np.testing.assert_array_equal(
        np.asarray(states[-1][:3], np.float32), np.asarray(plain[-1][:3], np.float32)
    )


def test_bfloat16_follows_float32(tiny, build, forward, padded):
    exact = forward(build(tiny()), *arrays(padded))
    rough = build(tiny(), dtype="bfloat16")
    out = forward(rough, *arrays(padded))
    assert exact.dtype == jnp.float32
    assert out.dtype == jnp.bfloat16
    assert {v[...].dtype for _, v in nnx.to_flat_state(nnx.state(rough))} == {jnp.dtype("float32")}
    # Values reach 4 after layer norm, where bfloat16 steps are 0.016 to 0.031.
    np.testing.assert_allclose(np.asarray(out, np.float32), exact, atol=0.15)


def test_remat_changes_memory_only(tiny, build, padded):
    # mpnet with dropout passes everything that a layer can take: bias and key.
    config = tiny("mpnet", num_hidden_layers=1)

    def loss(state, graph):
        hidden = nnx.merge(graph, state)(*arrays(padded), dropout_key=jax.random.key(5))
        return jnp.mean(hidden[:, 0] ** 3)

    step = jax.jit(jax.value_and_grad(loss), static_argnums=1)
    results = []
    for remat in (False, True):
        graph, state = nnx.split(build(config, remat=remat))
        results.append(step(state, graph))
        text = str(jax.make_jaxpr(lambda s, g=graph: loss(s, g))(state))
        assert ("checkpoint" in text or "remat" in text) is remat
    for plain, again in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(plain, again, rtol=1e-4, atol=1e-6)


def test_dropout_comes_from_the_key_alone(tiny, build, forward, padded):
    encoder = build(tiny(num_hidden_layers=1))
    plain = forward(encoder, *arrays(padded))
    first = forward(encoder, *arrays(padded), dropout_key=jax.random.key(0))
    again = forward(encoder, *arrays(padded), dropout_key=jax.random.key(0))
    other = forward(encoder, *arrays(padded), dropout_key=jax.random.key(1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, plain)
    none = build(tiny(num_hidden_layers=1, hidden_dropout=0.0, attention_dropout=0.0))
    np.testing.assert_array_equal(
        forward(none, *arrays(padded), dropout_key=jax.random.key(0)), plain
    )


def test_no_state_but_parameters(tiny, build):
    state = nnx.state(build(tiny("mpnet")))
    assert all(isinstance(value, nnx.Param) for _, value in nnx.to_flat_state(state))


def test_layers_end_in_the_plain_output(tiny, build, forward, padded):
    encoder = build(tiny())
    states = forward(encoder, *arrays(padded), output_layers=True)
    np.testing.assert_allclose(states[-1], forward(encoder, *arrays(padded)), rtol=1e-5, atol=5e-6)


def test_token_types_default_to_zero(tiny, build, forward, padded):
    encoder = build(tiny())
    zeros = np.zeros_like(padded["input_ids"])
    plain = forward(encoder, *arrays(padded))
    stated = forward(encoder, *arrays(padded), token_type_ids=zeros)
    np.testing.assert_allclose(plain, stated, rtol=1e-5, atol=5e-6)
    other = forward(encoder, *arrays(padded), token_type_ids=zeros + 1)
    assert float(jnp.max(jnp.abs(plain - other))) > 0.1


def test_an_id_outside_the_vocabulary_is_not_hidden(tiny, build, forward, padded):
    ids, mask = arrays(padded)
    ids[1, 3] = 60
    out = forward(build(tiny()), ids, mask)
    assert bool(jnp.all(jnp.isnan(out[1, :9])))
    assert bool(jnp.all(jnp.isfinite(out[0])))


@pytest.mark.parametrize(("family", "limit"), [("bert", 40), ("roberta", 38)])
def test_too_many_tokens(tiny, build, forward, family, limit):
    encoder = build(tiny(family))
    ids = np.full((1, limit + 1), 5, np.int32)
    with pytest.raises(InputError, match=f"length {limit + 1} does not fit the {limit} positions"):
        encoder(ids, np.ones_like(ids))
    full = forward(encoder, ids[:, :limit], np.ones((1, limit), np.int32))
    assert bool(jnp.all(jnp.isfinite(full)))


def test_token_types_for_a_family_without(tiny, build, padded):
    with pytest.raises(InputError, match="distilbert has no token types"):
        build(tiny("distilbert"))(*arrays(padded), token_type_ids=padded["input_ids"])


def test_unknown_dtype(tiny, build):
    with pytest.raises(InputError, match="unknown dtype 'float8'"):
        build(tiny(), dtype="float8")
