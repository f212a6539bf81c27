"""Calibration: equal logit deviation for every score."""

import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.similarity import PRESETS, calibrate_temperature, scores


@pytest.fixture(scope="module")
def embeddings():
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(8, 16)) * rng.lognormal(1.0, 0.5, size=(8, 1))
    documents = rng.normal(size=(8, 16)) * rng.lognormal(2.0, 0.5, size=(8, 1))
    return np.float32(queries), np.float32(documents)


@pytest.mark.parametrize("gammas", [*PRESETS.values(), (0.5, 0.25)])
def test_logits_deviate_as_those_of_cosine(embeddings, gammas):
    queries, documents = embeddings
    keywords = {"gamma_query": gammas[0], "gamma_document": gammas[1]}
    found = calibrate_temperature(queries, documents, **keywords, reference_temperature=0.1)
    own = np.std(scores(queries, documents, **keywords) / found)
    cosine = np.std(scores(queries, documents, gamma_query=1.0, gamma_document=1.0) / 0.1)
    np.testing.assert_allclose(own, cosine, rtol=1e-5)


def test_cosine_keeps_the_reference(embeddings):
    assert calibrate_temperature(*embeddings, gamma_query=1.0, gamma_document=1.0) == 0.05


@pytest.mark.parametrize(
    "queries",
    [
        np.ones((4, 8), np.float32),
        np.zeros((4, 8), np.float32),
        np.full((4, 8), np.nan, np.float32),
        np.full((4, 8), 1e25, np.float32),
        np.ones((0, 8), np.float32),
    ],
    ids=["equal", "zero", "nan", "overflow", "none"],
)
def test_scores_that_do_not_vary_are_refused(queries):
    with pytest.raises(InputError, match="no temperature can be calibrated"):
        calibrate_temperature(queries, queries, gamma_query=0.0, gamma_document=0.0)


def test_one_direction_only_is_refused_for_cosine():
    # Lengths differ, directions do not: dot varies and cosine does not.
    rows = jnp.ones((4, 8)) * jnp.arange(1.0, 5.0)[:, None]
    with pytest.raises(InputError, match="the cosine scores"):
        calibrate_temperature(rows, rows, gamma_query=0.0, gamma_document=0.0)
