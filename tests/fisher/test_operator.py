"""Products against explicit matrices (float64), on any micro-batch and any number of devices."""

import functools

import fisher_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.fisher import CandidateSets, FisherModel, ParameterFisher, select
from magjax.mesh import data_mesh
from magjax.similarity import Score

SETS, SIZE = 2, 5
GAMMAS = [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.25)]
EMBED = reference.Tiny()  # one object: equal programs compile once


def make_batch(seed=0, hard=0, masked=False):
    rng = np.random.default_rng(seed)
    batch = {
        name: rng.normal(size=(SETS, SIZE, reference.INPUTS)) for name in ("query", "document")
    }
    if hard:
        batch["negatives"] = rng.normal(size=(SETS, SIZE * hard, reference.INPUTS))
    if masked:
        # In the first set documents 0 and 3 are one and the same; in the second the last row pads.
        batch["document_ids"] = np.array([[0, 1, 2, 0, 4], [5, 6, 7, 8, 9]])
        batch["where"] = np.array([[True] * 5, [True] * 4 + [False]])
    return batch


def everyone(batch, ways, share=True):
    """Which candidates are present, by loops over the batch's masks."""
    hard = batch["negatives"].shape[1] // SIZE if "negatives" in batch else 0
    where = batch.get("where", np.ones((SETS, SIZE), bool))
    ids = batch.get("document_ids", np.arange(SETS * SIZE).reshape(SETS, SIZE))
    found = []
    for way in ways:
        extra = 0 if way == "document_to_query" else hard * (SIZE if share else 1)
        present = np.zeros((SETS, SIZE, SIZE + extra), bool)
        for s in range(SETS):
            for i in range(SIZE):
                for j in range(SIZE):
                    twin = i != j and ids[s, i] == ids[s, j]
                    present[s, i, j] = where[s, i] and where[s, j] and not twin
                # Shared hard negatives of a padding row are nobody's candidates either.
                owners = np.repeat(where[s], hard) if share else np.ones(hard, bool)
                present[s, i, SIZE:] = where[s, i] & owners[: present.shape[2] - SIZE]
        found.append(present)
    return found


def build(batch, model, *, space="all", seed=0, dtype=np.float64, **settings):
    parameters = reference.tiny_parameters(np.random.default_rng(seed + 100), dtype)
    selection = select({name: jnp.asarray(x) for name, x in parameters.items()}, space)
    batch = {name: x.astype(dtype) if x.dtype == np.float64 else x for name, x in batch.items()}
    sets = CandidateSets.from_batch(batch)
    settings.setdefault("mesh", data_mesh(jax.devices()[:1]))
    return parameters, ParameterFisher(EMBED, selection, sets, model, **settings)


@functools.partial(jax.jit, static_argnums=0)
def _columns(program, basis, arguments):
    return jax.vmap(program, in_axes=(0, None))(basis, arguments)


def matrix_of(fisher, arguments):
    basis = jnp.eye(fisher.dimension, dtype=fisher.dtype)
    return np.asarray(_columns(fisher.program, basis, arguments))


@pytest.mark.parametrize("memory_gib", [0.0, 1.0], ids=["recomputed", "kept"])
@pytest.mark.parametrize(
    ("model", "hard", "masked"),
    [
        (FisherModel("ggn"), 0, False),
        (FisherModel("ggn", "both"), 2, True),
        (FisherModel("ggn", "document_to_query"), 0, True),
        (FisherModel("ggn", share_negatives=False), 2, False),
        (FisherModel("monte_carlo", "both", samples=3), 0, True),
        (FisherModel("empirical"), 2, True),
    ],
    ids=["ggn", "both-hard-masked", "backward-masked", "own-negatives", "sampled", "empirical"],
)
def test_products_equal_the_explicit_matrix_for_every_variant(model, hard, masked, memory_gib):
    batch = make_batch(hard=hard, masked=masked)
    with jax.enable_x64(True):
        parameters, fisher = build(batch, model, micro_batch=3, memory_gib=memory_gib)
        assert fisher.program.keeps_residuals == (memory_gib > 0)
        present = everyone(batch, model.ways, model.share_negatives)
        for gammas in GAMMAS:
            arguments = fisher.arguments(Score.power(*gammas, 0.7), seed=3)
            drawn = arguments["labels"]
            labels = None if model.kind == "ggn" else [np.asarray(x) for x in drawn]
            expected = reference.parameter_fisher(
                reference.flat(parameters),
                batch,
                gammas,
                0.7,
                model.ways,
                labels,
                present,
                model.share_negatives,
            )
            found = matrix_of(fisher, arguments)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * expected.max())


def test_the_labels_of_the_empirical_fisher_are_the_data():
    with jax.enable_x64(True):
        _, fisher = build(make_batch(), FisherModel("empirical"))
        (labels,) = fisher.arguments(Score.of("dot", 1.0))["labels"]
    assert np.array_equal(np.asarray(labels)[..., 0], np.tile(np.arange(SIZE), (SETS, 1)))


def test_a_subset_is_a_block_of_the_whole():
    with jax.enable_x64(True):
        score = Score.of("qnorm", 0.5)
        _, whole = build(make_batch(), FisherModel())
        _, part = build(make_batch(), FisherModel(), space="up")
        full = matrix_of(whole, whole.arguments(score))
        block = matrix_of(part, part.arguments(score))
    assert part.dimension == 12
    np.testing.assert_allclose(block, full[12:, 12:], rtol=1e-10, atol=1e-12)


def test_sampled_fishers_converge_to_the_exact_one_at_the_root_of_the_samples():
    """Errors at 16 and 1,024 labels, averaged over seeds: a factor 8 apart."""
    errors = {}
    with jax.enable_x64(True):
        score = Score.of("dnorm", 0.7)
        _, exact = build(make_batch(), FisherModel())
        truth = matrix_of(exact, exact.arguments(score))
        for samples in (16, 1024):
            _, fisher = build(make_batch(), FisherModel("monte_carlo", samples=samples))
            found = [matrix_of(fisher, fisher.arguments(score, seed=seed)) for seed in range(12)]
            errors[samples] = np.mean([np.linalg.norm(x - truth) for x in found])
            assert np.linalg.norm(np.mean(found, axis=0) - truth) < errors[samples]
    assert 5.0 < errors[16] / errors[1024] < 12.0


@pytest.mark.parametrize(("micro_batch", "devices"), [(1, 1), (3, 1), (10, 1), (1000, 1), (3, 8)])
def test_neither_micro_batches_nor_devices_change_the_product(micro_batch, devices):
    batch = make_batch(masked=True)
    mesh = data_mesh(jax.devices()[:devices])
    _, fisher = build(
        batch, FisherModel(), dtype=np.float32, micro_batch=micro_batch, memory_gib=0.0, mesh=mesh
    )
    _, plain = build(batch, FisherModel(), dtype=np.float32, mesh=data_mesh(jax.devices()[:1]))
    score = Score.of("dnorm", 0.7)
    v = np.random.default_rng(5).normal(size=24).astype(np.float32)
    found = jax.jit(fisher.product)(v, fisher.arguments(score))
    expected = jax.jit(plain.product)(v, plain.arguments(score))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_half_width_parameters_are_raised_and_said():
    parameters = {
        name: jnp.asarray(x, jnp.bfloat16)
        for name, x in reference.tiny_parameters(np.random.default_rng(0)).items()
    }
    selection = select(parameters, "all")
    assert {leaf.dtype.name for leaf in selection.varying.values()} == {"float32"}
    assert selection.notes == ("2 parameters of type bfloat16 were turned into float32",)


def test_embeddings_that_are_not_finite_stop_before_any_product():
    batch = make_batch()
    batch["document"][1, 2, 0] = np.nan
    with pytest.raises(InputError, match="documents are not finite"):
        build(batch, FisherModel(), dtype=np.float32)


def test_a_score_without_temperature_is_refused():
    _, fisher = build(make_batch(), FisherModel(), dtype=np.float32)
    with pytest.raises(InputError, match="no temperature"):
        fisher.arguments(Score.of("dot"))
