"""The head: what is learned, what is not, and the bounds of what is learned."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from magjax.checks import InputError
from magjax.similarity import PRESETS, VARIANTS, Constant, Score, SimilarityHead, scores


def make(variant="qnorm", **changes):
    """A head with a learnable temperature of 0.07, like CLIP's."""
    settings = {
        "temperature": 0.07,
        "learn_temperature": True,
        "temperature_range": (0.01, 1.0),
    }
    return SimilarityHead(variant, **settings | changes)


@pytest.fixture(scope="module")
def embeddings():
    rng = np.random.default_rng(0)
    return np.float32(rng.normal(size=(3, 5))), np.float32(rng.normal(size=(4, 5)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_are_scores_over_temperature(embeddings, variant):
    head = make(variant, gamma_init=(0.25, 0.75))
    gammas = PRESETS.get(variant, (0.25, 0.75))
    expected = scores(*embeddings, gamma_query=gammas[0], gamma_document=gammas[1]) / 0.07
    np.testing.assert_allclose(head(*embeddings), expected, rtol=2e-6, atol=1e-5)
    score = head.score()
    assert (score.variant, score.temperature) == (variant, 0.07)
    np.testing.assert_allclose(score.gammas, gammas, rtol=1e-6)  # a sigmoid of a logit in float32
    assert variant == "learnable" or score == Score(variant, *gammas, 0.07)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"variant": "dot"}, {"log_temperature"}),
        ({"variant": "dot", "learn_temperature": False}, set()),
        ({"variant": "learnable"}, {"log_temperature", "gamma_logits"}),
        ({"variant": "learnable", "learn_temperature": False}, {"gamma_logits"}),
        ({"variant": "cosine", "bias": -10.0}, {"log_temperature", "logit_bias"}),
    ],
)
def test_only_what_is_learned_is_a_parameter(changes, expected):
    head = make(**changes)
    assert set(nnx.state(head, nnx.Param)) == expected
    everything = set(nnx.state(head))
    assert everything == expected | {"log_temperature"}


def test_the_fixed_temperature_is_saved_but_not_trained():
    head = make("dot", learn_temperature=False)
    assert isinstance(head.log_temperature, Constant)
    np.testing.assert_allclose(head.temperature(), 0.07, rtol=1e-6)


def test_freezing_turns_learned_powers_into_constants(embeddings):
    head = make("learnable", gamma_init=0.3)
    before = head(*embeddings)
    head.freeze()
    assert set(nnx.state(head, nnx.Param)) == {"log_temperature"}
    np.testing.assert_array_equal(head(*embeddings), before)

    def loss(module):
        return jnp.sum(module(*embeddings) ** 2)

    assert set(nnx.grad(loss)(head)) == {"log_temperature"}
    head.unfreeze()
    assert set(nnx.grad(loss)(head)) == {"log_temperature", "gamma_logits"}
    np.testing.assert_array_equal(head(*embeddings), before)
    preset = make("dot")
    preset.freeze()
    preset.unfreeze()
    assert preset.gamma_logits is None


def test_both_gammas_and_the_temperature_get_gradients(embeddings):
    head = make("learnable", bias=-1.0)
    grads = nnx.grad(lambda module: jnp.sum(module(*embeddings) ** 2))(head)
    assert grads["gamma_logits"].shape == (2,)
    for leaf in jax.tree.leaves(grads):
        assert np.isfinite(leaf).all()
        assert np.abs(leaf).min() > 1e-3


def test_first_value_of_the_logarithm():
    # 1 / 0.07 is CLIP's first scale: ln(1 / 0.07) = 2.6593; ours is the logarithm of 0.07.
    np.testing.assert_allclose(make().log_temperature[...], -2.6593, atol=5e-5)


def test_beyond_the_bound_a_step_comes_back_and_can_go_on_from_there():
    head = make("cosine")
    graph, params, rest = nnx.split(head, nnx.Param, ...)
    params["log_temperature"][...] = jnp.float32(-5.0)  # a scale of e^5 > 100
    optimizer = optax.sgd(0.001)
    q = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    d = jnp.array([[0.0, 1.0], [1.0, 0.0]])  # all wrong: the loss wants a higher temperature

    @jax.jit
    def step(params, state):
        def loss(params):
            logits = nnx.merge(graph, params, rest)(q, d)
            return jnp.mean(jax.nn.logsumexp(logits, axis=1) - jnp.diag(logits))

        grads = jax.grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        module = nnx.merge(graph, optax.apply_updates(params, updates), rest)
        module.project()
        return nnx.state(module, nnx.Param), state, grads

    params, state, grads = step(params, optimizer.init(params))
    first = float(params["log_temperature"][...])
    assert float(grads["log_temperature"][...]) < -1.0  # a clamp in the forward pass would give 0
    np.testing.assert_allclose(first, math.log(0.01), atol=1e-6)
    params, _, _ = step(params, state)
    assert float(params["log_temperature"][...]) > first


def test_projection_bounds_both_ends_and_the_logits_of_powers():
    head = make("learnable")
    head.log_temperature[...] = jnp.float32(3.0)
    head.gamma_logits[...] = jnp.float32([50.0, -50.0])
    head.project()
    np.testing.assert_allclose(head.temperature(), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(head.gamma_logits[...], [10.0, -10.0])
    for gamma, slope in zip(head.gammas(), (1e-5, 1e-5), strict=True):
        assert 0.0 < gamma < 1.0
        assert gamma * (1 - gamma) > slope


def test_projection_leaves_what_is_inside_and_what_is_fixed_alone():
    for head in (make("learnable"), make("learnable", learn_temperature=False)):
        head.freeze()
        before = jax.tree.map(np.asarray, nnx.to_pure_dict(nnx.state(head)))
        head.project()
        jax.tree.map(np.testing.assert_array_equal, nnx.to_pure_dict(nnx.state(head)), before)


def test_nan_is_not_hidden_by_the_projection():
    head = make()
    head.log_temperature[...] = jnp.float32(np.nan)
    head.project()
    assert np.isnan(head.temperature())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variant": "qnrom"}, "unknown variant"),
        ({"variant": "power"}, "unknown variant"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": 2.0}, "not within temperature_range"),
        ({"temperature_range": (0.1, 1.0)}, "not within temperature_range"),
        ({"temperature_range": (-1.0, 1.0)}, "temperature_range"),
        ({"variant": "learnable", "gamma_init": 0.0}, "gamma_init"),
        ({"variant": "learnable", "gamma_init": (0.5, 1.0)}, "gamma_init"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_zero_embedding_gives_finite_gradients(variant):
    head = make(variant)
    q, d = jnp.zeros((2, 3)).at[0].set(1.0), jnp.zeros((2, 3)).at[1].set(1.0)
    grads = nnx.grad(lambda m, q, d: jnp.sum(m(q, d) ** 2), argnums=(0, 1, 2))(head, q, d)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
