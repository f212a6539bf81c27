"""Routes to the spectrum agree, the trace is spread rightly, null directions are found and named."""

import fisher_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.fisher import (
    CandidateSets,
    FisherModel,
    ParameterFisher,
    dual_embedding,
    measure,
    null_parameters,
    parameter_spectrum,
    select,
    trace_by_parameter,
)
from magjax.losses import candidate_logits
from magjax.mesh import data_mesh
from magjax.similarity import Score

SETS, SIZE = 2, 4
EMBED = reference.Tiny()
CONFIG = EncoderConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
)


def tiny_fisher(model=None, space="all", dtype=np.float64):
    rng = np.random.default_rng(1)
    batch = {
        name: rng.normal(size=(SETS, SIZE, reference.INPUTS)).astype(dtype)
        for name in ("query", "document")
    }
    parameters = reference.tiny_parameters(rng, dtype)
    selection = select({name: jnp.asarray(x) for name, x in parameters.items()}, space)
    sets = CandidateSets.from_batch(batch)
    mesh = data_mesh(jax.devices()[:1])
    return ParameterFisher(EMBED, selection, sets, model or FisherModel(), mesh=mesh)


def encoder_fisher(space, *, dtype=None, memory_gib=1.0, devices=1):
    rng = np.random.default_rng(2)
    encoder = DualEncoder.create(CONFIG)
    embed, parameters = dual_embedding(encoder)
    if dtype is not None:
        parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
    mask = np.ones((1, 8, 6), np.int32)
    mask[0, ::2, 4:] = 0
    batch = {
        side: {"input_ids": rng.integers(5, 20, (1, 8, 6)).astype(np.int32), "attention_mask": mask}
        for side in ("query", "document")
    }
    sets = CandidateSets.from_batch(batch)
    mesh = data_mesh(jax.devices()[:devices])
    fisher = ParameterFisher(
        embed,
        select(parameters, space),
        sets,
        FisherModel(),
        micro_batch=3,
        memory_gib=memory_gib,
        mesh=mesh,
    )
    return embed, parameters, sets, fisher


def test_the_three_routes_agree_and_count_the_rank():
    with jax.enable_x64(True):
        fisher = tiny_fisher(space="up")
        arguments = fisher.arguments(Score.of("dot", 0.7))
        dense = parameter_spectrum(fisher, arguments, method="dense")
        gram = parameter_spectrum(fisher, arguments, method="gram")
        lanczos = parameter_spectrum(fisher, arguments, method="lanczos", steps=12)
    assert (dense.dimension, gram.dimension, lanczos.steps) == (12, 12, 12)
    np.testing.assert_allclose(gram.eigenvalues, dense.eigenvalues, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(lanczos.eigenvalues, dense.eigenvalues, rtol=1e-8, atol=1e-14)
    values = [measure(spectrum) for spectrum in (dense, gram, lanczos)]
    for name in ("effective_rank", "lambda1_over_lambda10", "participation_ratio", "kappa"):
        first, *rest = (value[name] for value in values)
        np.testing.assert_allclose(rest, first, rtol=1e-6)


def test_auto_takes_the_smaller_exact_route():
    fisher = tiny_fisher(dtype=np.float32)  # 24 parameters, 32 outcomes
    assert parameter_spectrum(fisher, fisher.arguments(Score.of("dot", 0.7))).method == "dense"
    sampled = tiny_fisher(FisherModel("monte_carlo", samples=2), dtype=np.float32)  # 16 outcomes
    found = parameter_spectrum(sampled, sampled.arguments(Score.of("dot", 0.7)))
    assert found.method == "gram"
    assert found.rank_bound == 16
    assert found.rank <= 16
    with pytest.raises(InputError, match="unknown method 'grams'"):
        parameter_spectrum(fisher, fisher.arguments(Score.of("dot", 0.7)), method="grams")


def test_traces_by_parameter_converge_to_the_diagonal():
    with jax.enable_x64(True):
        fisher = tiny_fisher()
        arguments = fisher.arguments(Score.of("qnorm", 0.7))
        columns = jax.jit(jax.vmap(fisher.product, in_axes=(0, None)))
        diagonal = np.diag(np.asarray(columns(jnp.eye(24), arguments)))
        found = trace_by_parameter(fisher, arguments, probes=400)
    assert found["down"] == pytest.approx(diagonal[:12].sum(), rel=0.1)
    assert found["up"] == pytest.approx(diagonal[12:].sum(), rel=0.1)


def test_a_whole_encoder_product_equals_the_naive_one():
    """Chunked, padded, recomputed or kept, on one device or eight: J' H J v of all logits at once."""
    embed, parameters, sets, fisher = encoder_fisher("all", memory_gib=0.0)
    score = Score.of("qnorm", 0.3)
    v = np.random.default_rng(3).normal(size=fisher.dimension).astype(np.float32)

    def logits(tree):
        found = embed(tree, sets.rows)
        return candidate_logits(
            found.queries, found.documents, gamma_query=1.0, gamma_document=0.0, temperature=0.3
        ).logits

    def naive(tree, tangent):
        values, moved = jax.jvp(logits, (tree,), (tangent,))
        p = jax.nn.softmax(values)
        weighed = p * (moved - jnp.sum(p * moved, axis=1, keepdims=True))
        return jax.vjp(logits, tree)[1](weighed)[0]

    tangent = jax.tree.unflatten(
        fisher.selection.structure,
        [fisher.program.unravel(jnp.asarray(v))[name] for name in fisher.selection.names],
    )
    expected = jax.jit(naive)(parameters, tangent)
    expected = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(expected)]) / 8
    size = np.abs(expected).max()
    found = jax.jit(fisher.product)(v, fisher.arguments(score))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6 * size)
    for settings in ({"memory_gib": 1.0}, {"memory_gib": 0.0, "devices": 8}):
        *_, other = encoder_fisher("all", **settings)
        assert other.program.keeps_residuals == (settings["memory_gib"] > 0)
        again = jax.jit(other.product)(v, other.arguments(score))
        np.testing.assert_allclose(again, expected, rtol=1e-4, atol=2e-6 * size)


def test_null_directions_of_a_block_are_named():
    """Counting, the key bias, and the output scale under cosine; under dot the scale acts."""
    *_, fisher = encoder_fisher("last_block")
    reasons = {}
    for variant in ("cosine", "dot"):
        arguments = fisher.arguments(Score.of(variant, 0.3))
        spectrum = parameter_spectrum(fisher, arguments, method="gram")
        reasons[variant] = null_parameters(fisher, arguments, spectrum)
        assert spectrum.nullity >= fisher.dimension - 56
    for found in reasons.values():
        assert any(text.startswith("counting: 8 examples have at most 56") for text in found)
        assert any("layers/0/attention/key/bias (16 numbers)" in text for text in found)
    assert any("scale of the last layer norms" in text for text in reasons["cosine"])
    assert not any("scale of the last layer norms" in text for text in reasons["dot"])
    assert len(reasons["cosine"]) == 3


def test_rows_of_unused_tokens_are_counted():
    *_, fisher = encoder_fisher("embeddings")
    arguments = fisher.arguments(Score.of("dot", 0.3))
    spectrum = parameter_spectrum(fisher, arguments, method="lanczos", steps=4)
    found = [text for text in null_parameters(fisher, arguments, spectrum) if "word" in text]
    used = set()
    for side in ("query", "document"):
        tokens = fisher.sets.rows[side]
        used |= set(tokens["input_ids"][tokens["attention_mask"] == 1].tolist())
    assert len(found) == 1
    assert f"{30 - len(used)} of 30 rows" in found[0]


def test_half_width_parameters_give_float32_products():
    *_, fisher = encoder_fisher("projection|output_norm", dtype=jnp.bfloat16)
    assert fisher.dtype == jnp.float32
    assert "turned into float32" in fisher.selection.notes[0]
    arguments = fisher.arguments(Score.of("dot", 0.3))
    assert parameter_spectrum(fisher, arguments, method="gram").float_width == 32
