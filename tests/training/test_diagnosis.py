import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.similarity import PRESETS, scores
from magjax.training import LossSettings, diagnose, start_temperature, tiny_trainee


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)

    def tokens():
        ids = rng.integers(5, 64, (16, 6)).astype(np.int32)
        return {"input_ids": ids, "attention_mask": np.ones((16, 6), np.int32)}

    return {"query": tokens(), "document": tokens(), "row": np.arange(16)}


@pytest.mark.parametrize("variant", PRESETS)
def test_calibrated_logits_spread_like_cosine_at_a_twentieth(variant, batch):
    encoder = tiny_trainee(variant).encoder
    gamma_query, gamma_document = PRESETS[variant]
    temperature = start_temperature(
        encoder, batch, gamma_query=gamma_query, gamma_document=gamma_document
    )
    queries, documents = (
        encoder.embed(batch["query"], "query"),
        encoder.embed(batch["document"], "document"),
    )
    own = scores(queries, documents, gamma_query=gamma_query, gamma_document=gamma_document)
    cosine = scores(queries, documents, gamma_query=1.0, gamma_document=1.0)
    np.testing.assert_allclose(np.std(own / temperature), np.std(cosine / 0.05), rtol=1e-4)


def test_a_stack_of_micro_batches_counts_as_its_first(batch):
    encoder = tiny_trainee("dot").encoder
    stacked = jax.tree.map(lambda leaf: np.stack([leaf, leaf[::-1]]), batch)
    powers = {"gamma_query": 1.0, "gamma_document": 0.0}
    assert start_temperature(encoder, stacked, **powers) == start_temperature(
        encoder, batch, **powers
    )


@pytest.mark.parametrize(("temperature", "word"), [(1e-3, "saturated"), (1e4, "flat"), (0.2, None)])
def test_warns_of_logits_that_cannot_teach(temperature, word, batch):
    model = tiny_trainee("dot")
    model.head.log_temperature[...] = jnp.log(temperature)
    warning = diagnose(model, batch, LossSettings(), suggestion=0.25)
    if word is None:
        assert warning is None
    else:
        assert f"logits are {word}" in warning
        assert "--config.temperature.initial=0.25" in warning
