"""What the powers of length do to gradients: identities, in float64 where it matters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.losses import candidate_logits, info_nce, info_nce_from_logits
from magjax.similarity import PRESETS, SimilarityHead

POWERS = [*PRESETS.values(), (0.3, 0.8)]


@pytest.fixture(scope="module")
def embeddings():
    rng = np.random.default_rng(0)
    queries, documents = rng.normal(size=(2, 6, 5)) * rng.lognormal(size=(2, 6, 1))
    return queries, documents, rng.normal(size=(6, 2, 5))


@pytest.mark.parametrize("powers", POWERS)
@pytest.mark.parametrize("direction", ["query_to_document", "both"])
def test_euler(embeddings, powers, direction):
    # <q, dL/dq> = (1 - gamma_q) (-tau dL/dtau), summed over the batch; the same for documents.
    with jax.enable_x64(True):

        def loss(queries, documents, negatives, temperature):
            return info_nce(
                queries,
                documents,
                negatives,
                gamma_query=powers[0],
                gamma_document=powers[1],
                temperature=temperature,
                direction=direction,
            ).sum()

        arrays = [jnp.asarray(x) for x in embeddings]
        slopes = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(*arrays, jnp.asarray(0.7))
        radial = [float(jnp.sum(x * s)) for x, s in zip(arrays, slopes[:3], strict=True)]
        heat = -0.7 * float(slopes[3])
    assert abs(heat) > 0.1
    np.testing.assert_allclose(radial[0], (1 - powers[0]) * heat, atol=1e-12)
    np.testing.assert_allclose(radial[1] + radial[2], (1 - powers[1]) * heat, atol=1e-12)


def test_at_one_the_gradient_is_tangential_and_falls_with_length(embeddings):
    queries, documents, _ = embeddings
    with jax.enable_x64(True):

        def loss(queries):
            return info_nce(
                queries, documents, gamma_query=1.0, gamma_document=0.0, temperature=0.7
            ).sum()

        slope = jax.jit(jax.grad(loss))
        short, long = (np.asarray(slope(jnp.asarray(x))) for x in (queries, 8.0 * queries))
        np.testing.assert_allclose(jnp.sum(queries * short, axis=1), 0.0, atol=1e-14)
        np.testing.assert_allclose(8.0 * long, short, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("gamma_document", [0.0, 1.0])
def test_the_length_of_a_query_is_its_own_inverse_temperature(embeddings, gamma_document):
    # d loss_i / d log|q_i| = E_p[logit] - logit of the positive.
    queries, documents, _ = embeddings
    settings = {"gamma_query": 0.0, "gamma_document": gamma_document, "temperature": 0.7}
    with jax.enable_x64(True):

        def values(log_factor):
            longer = jnp.asarray(queries) * jnp.exp(log_factor)[:, None]
            return info_nce(longer, documents, **settings)

        slope = jnp.diag(jax.jit(jax.jacobian(values))(jnp.zeros(6)))
        logits = candidate_logits(queries, documents, **settings).logits
        expected = jnp.sum(jax.nn.softmax(logits, axis=1) * logits, axis=1) - jnp.diag(logits)
        np.testing.assert_allclose(slope, expected, atol=1e-12)
        halved = info_nce(2.0 * queries, documents, **settings)
        cooler = info_nce(queries, documents, **settings | {"temperature": 0.35})
        np.testing.assert_allclose(halved, cooler, rtol=1e-12)


def test_a_longer_query_does_not_always_have_a_larger_gradient():
    # The softmax error p - y saturates: for a query that is right already a longer one learns
    # less, for one that is wrong it learns more.
    documents = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    positives = jnp.array([[True, False]])

    def size_of_gradient(query):
        def loss(q):
            return info_nce_from_logits(q @ documents.T, positives).sum()

        by_logit = jax.grad(lambda logits: info_nce_from_logits(logits, positives).sum())
        assert jax.grad(loss)(query).shape == (1, 2)
        return float(jnp.linalg.norm(by_logit(query @ documents.T)))

    easy, hard = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]])
    assert size_of_gradient(5.0 * easy) < 0.1 * size_of_gradient(easy)
    assert size_of_gradient(5.0 * hard) > 1.3 * size_of_gradient(hard)


@pytest.mark.parametrize("powers", POWERS)
@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_a_learnable_temperature_leaves_a_flat_direction(embeddings, powers, factor):
    queries, documents, _ = embeddings
    with jax.enable_x64(True):

        @jax.jit
        def values(query_factor, document_factor, temperature):
            return info_nce(
                query_factor * queries,
                document_factor * documents,
                gamma_query=powers[0],
                gamma_document=powers[1],
                temperature=temperature,
            )

        expected = values(1.0, 1.0, 0.7)
        hotter = [0.7 * factor ** (1 - power) for power in powers]
        np.testing.assert_allclose(values(factor, 1.0, hotter[0]), expected, rtol=1e-12)
        np.testing.assert_allclose(values(1.0, factor, hotter[1]), expected, rtol=1e-12)


def test_along_the_flat_direction_only_the_bound_of_the_temperature_stops(embeddings):
    queries, documents, _ = (jnp.float32(x) for x in embeddings)
    head = SimilarityHead(
        "qnorm", temperature=0.9, learn_temperature=True, temperature_range=(0.01, 1.0)
    )
    before = head(queries, documents)
    head.log_temperature[...] += jnp.log(2.0)
    np.testing.assert_allclose(head(queries, 2.0 * documents), before, rtol=1e-5, atol=1e-5)
    head.project()
    np.testing.assert_allclose(head.temperature(), 1.0, rtol=1e-6)


def test_qnorm_on_one_side_is_dnorm_on_the_other(embeddings):
    queries, documents, _ = embeddings
    left = info_nce(
        queries,
        documents,
        gamma_query=1.0,
        gamma_document=0.0,
        temperature=0.5,
        direction="query_to_document",
    )
    right = info_nce(
        documents,
        queries,
        gamma_query=0.0,
        gamma_document=1.0,
        temperature=0.5,
        direction="document_to_query",
    )
    np.testing.assert_allclose(left, right, rtol=1e-5)
