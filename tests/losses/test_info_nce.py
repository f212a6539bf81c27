"""InfoNCE on embeddings: values and gradients, masks, ids, hard negatives, padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from magjax.checks import InputError
from magjax.losses import (
    LOSSES,
    batch_mean,
    candidate_logits,
    info_nce,
    info_nce_from_logits,
    logit_statistics,
)

GAMMAS = (0.4, 0.8)
SETTINGS = {"gamma_query": 0.4, "gamma_document": 0.8, "temperature": 0.7}


def problem(seed=0, rows=6, hard=2, dim=4):
    """A batch with repeated queries and documents, known positives, and absent parts."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape) * rng.lognormal(sigma=0.5, size=(*shape[:-1], 1))

    return {
        "queries": draw(rows, dim),
        "documents": draw(rows, dim),
        "negatives": draw(rows, hard, dim),
        "query_ids": rng.integers(0, rows - 1, rows),
        "document_ids": rng.integers(0, rows - 1, rows),
        "negative_ids": rng.integers(-1, 2 * rows, (rows, hard)),
        "positive_ids": rng.integers(-1, 2 * rows, (rows, 2)),
        "where": np.arange(rows) != 3,
        "negatives_where": rng.random((rows, hard)) < 0.8,
    }


def call(batch, **settings):
    """info_nce of a batch as a dictionary, compiled as a whole: many small steps take longer."""
    return jax.jit(lambda batch: info_nce(**batch, **SETTINGS | settings))(batch)


WAYS = [
    ("query_to_document", True, False),
    ("query_to_document", False, True),
    ("both", True, True),
    ("both", False, False),
]


@pytest.mark.parametrize(("direction", "share", "average"), WAYS)
@pytest.mark.parametrize("seed", range(4))
def test_value_equals_the_reference(direction, share, average, seed):
    batch = problem(seed)
    found = call(
        batch,
        direction=direction,
        share_negatives=share,
        multiple_positives="average" if average else "mask",
        label_smoothing=0.1,
        weights=jnp.arange(6.0),
    )
    assert found.shape == (6,)
    assert found.dtype == jnp.float32
    expected = reference.info_nce(
        reference.full_batch(**batch), GAMMAS, 0.7, direction, share, average, 0.1, np.arange(6.0)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert found[3] == 0.0


@pytest.mark.parametrize("average", [False, True])
def test_document_to_query_equals_the_reference(average):
    batch = problem(5)
    plain = {k: v for k, v in batch.items() if not k.startswith("negative")}
    found = call(
        plain,
        direction="document_to_query",
        multiple_positives="average" if average else "mask",
    )
    expected = reference.info_nce(
        reference.full_batch(**batch), GAMMAS, 0.7, "document_to_query", average=average
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("direction", "share", "average"), WAYS)
def test_every_gradient_equals_the_reference(direction, share, average):
    batch = problem(1)
    names = ("queries", "documents", "negatives")

    def ours(arrays, gammas, temperature):
        values = call(
            batch | arrays,
            direction=direction,
            share_negatives=share,
            multiple_positives="average" if average else "mask",
            gamma_query=gammas[0],
            gamma_document=gammas[1],
            temperature=temperature,
        )
        return values.sum()

    def theirs(**changes):
        arrays = {name: changes.get(name, batch[name]) for name in names}
        return reference.info_nce(
            reference.full_batch(**batch | arrays),
            changes.get("gammas", GAMMAS),
            changes.get("temperature", 0.7),
            direction,
            share,
            average,
        ).sum()

    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(batch[name]) for name in names}
        found = jax.jit(jax.grad(ours, argnums=(0, 1, 2)))(
            arrays, jnp.asarray(GAMMAS), jnp.asarray(0.7)
        )
    assert found[1].dtype == jnp.float64
    for name in names:
        expected = reference.gradient(lambda x, name=name: theirs(**{name: x}), batch[name])
        np.testing.assert_allclose(found[0][name], expected, atol=1e-7, err_msg=name)
    expected = reference.gradient(lambda x: theirs(gammas=tuple(x)), GAMMAS)
    np.testing.assert_allclose(found[1], expected, atol=1e-7)
    expected = reference.gradient(lambda x: theirs(temperature=float(x)), 0.7)
    np.testing.assert_allclose(found[2], expected, atol=1e-7)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_padding_of_any_content_is_the_smaller_problem(name):
    batch = {k: np.float32(v) if v.dtype == float else v for k, v in problem(2).items()}
    absent = ~batch["where"]
    kept = np.flatnonzero(batch["where"])
    extra = {"bias": -2.0} if name == "sigmoid" else {"direction": "both"}

    def total(arrays, rest):
        values = LOSSES[name](**arrays, **rest, **SETTINGS, **extra)
        return values.sum(), values

    def split(batch):
        arrays = {k: batch[k] for k in ("queries", "documents", "negatives")}
        return arrays, {k: v for k, v in batch.items() if k not in arrays}

    padded = dict(batch)
    for key, value in (("queries", np.nan), ("documents", np.inf), ("negatives", np.nan)):
        padded[key] = batch[key].copy()
        padded[key][absent] = value
    padded["negatives"][~batch["negatives_where"]] = np.nan
    small = {key: value[kept] for key, value in batch.items()}
    run = jax.jit(jax.value_and_grad(total, has_aux=True))
    (_, values), slopes = run(*split(padded))
    (_, expected), expected_slopes = run(*split(small))
    np.testing.assert_allclose(values[kept], expected, rtol=1e-6)
    np.testing.assert_array_equal(values[absent], 0.0)
    for key, slope in slopes.items():
        np.testing.assert_allclose(slope[kept], expected_slopes[key], rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(slope[absent], 0.0)
    np.testing.assert_array_equal(slopes["negatives"][~batch["negatives_where"]], 0.0)


def test_absent_negatives_are_the_problem_without_them():
    batch = problem(3)
    none = call(batch | {"negatives_where": np.zeros((6, 2), bool)})
    plain = call({k: v for k, v in batch.items() if not k.startswith("negative")})
    np.testing.assert_allclose(none, plain, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_embeddings_give_float32_losses(dtype):
    batch = {k: v for k, v in problem(4).items() if k in ("queries", "documents")}
    half = {k: jnp.asarray(v, dtype) for k, v in batch.items()}
    exact = reference.info_nce(
        reference.full_batch(**{k: np.float64(v) for k, v in half.items()}), GAMMAS, 0.7
    )
    found = call(half)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, exact, rtol=1e-5)
    half["queries"] = half["queries"].at[0].set(0.0)
    slopes = jax.jit(jax.grad(lambda batch: call(batch).sum()))(half)["queries"]
    assert slopes.dtype == dtype
    assert np.isfinite(np.float32(slopes)).all()


@pytest.mark.parametrize("gammas", [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])
def test_a_zero_embedding_leaves_all_gradients_finite(gammas):
    batch = problem(6)
    arrays = {k: jnp.float32(batch[k]).at[0].set(0.0) for k in ("queries", "documents")}

    def loss(arrays, gamma_query, gamma_document):
        powers = {"gamma_query": gamma_query, "gamma_document": gamma_document}
        return info_nce(**arrays, **powers, temperature=0.05, direction="both").sum()

    run = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    slopes = run(arrays, *(jnp.float32(g) for g in gammas))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_both_directions_are_weighted():
    batch = problem(0)
    one_way = {k: v for k, v in batch.items() if not k.startswith("negative")}
    parts = [
        call(batch, direction="query_to_document"),
        call(one_way, direction="document_to_query"),
    ]
    for shares in ((0.5, 0.5), (1.0, 0.0), (0.3, 0.9)):
        found = call(batch, direction="both", direction_weights=shares)
        expected = shares[0] * parts[0] + shares[1] * parts[1]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_vmap_equals_a_loop():
    batches = [problem(seed) for seed in range(3)]
    stacked = {k: np.stack([b[k] for b in batches]) for k in batches[0]}
    stacked = {k: jnp.asarray(v) for k, v in stacked.items()}
    found = jax.jit(jax.vmap(lambda batch: call(batch, direction="both")))(stacked)
    once = jax.jit(lambda batch: call(batch, direction="both"))
    expected = [once(batch) for batch in batches]
    np.testing.assert_allclose(found, jnp.stack(expected), rtol=1e-5, atol=1e-6)


def test_statistics_beside_the_loss_cost_no_second_product():
    batch = problem(0)
    arrays = [jnp.float32(batch[k]) for k in ("queries", "documents")]

    def separate(q, d):
        return info_nce(q, d, **SETTINGS), logit_statistics(*candidate_logits(q, d, **SETTINGS))

    def joint(q, d):
        found = candidate_logits(q, d, **SETTINGS)
        return info_nce_from_logits(*found), logit_statistics(*found)

    products = [
        jax.jit(function).lower(*arrays).compile().as_text().count(" dot(")
        for function in (separate, joint)
    ]
    assert products == [1, 1]
    jax.tree.map(np.testing.assert_array_equal, jax.jit(separate)(*arrays), jax.jit(joint)(*arrays))


def test_accumulating_half_batches_is_another_objective():
    # Why gradient accumulation adds no negatives: the halves are easier than the whole.
    batch = {k: v for k, v in problem(7, rows=8).items() if k in ("queries", "documents")}
    whole = batch_mean(info_nce(**batch, **SETTINGS))
    halves = [
        batch_mean(info_nce(**{k: v[part] for k, v in batch.items()}, **SETTINGS))
        for part in (slice(4), slice(4, 8))
    ]
    assert whole > sum(halves) / 2 + 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"direction": "sideways"}, "unknown direction"),
        ({"multiple_positives": "sum"}, "unknown multiple_positives"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"gamma_query": 2.0}, "gamma"),
        ({"label_smoothing": -0.1}, "label_smoothing"),
        ({"negatives": None}, "without negatives"),
        ({"direction": "document_to_query"}, "hard negatives have no part"),
        ({"document_ids": None}, "compared with document_ids"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    batch = problem(0)
    parts = {k: changes.pop(k) for k in list(changes) if k in batch}
    with pytest.raises(InputError, match=message):
        call(batch | parts, **changes)
