import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from magjax.checks import InputError
from magjax.encoders import ClipTextConfig, DualEncoder, VisionConfig
from magjax.similarity import SimilarityHead
from magjax.training import (
    LossSettings,
    OptimizerSettings,
    Trainee,
    freeze_parameters,
    initial_state,
    make_optimizer,
    make_train_step,
    merge_state,
    tiny_trainee,
)


@pytest.fixture
def trainee():
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "projection_dim": 8,
    }
    encoder = DualEncoder.create_image_text(
        VisionConfig.of("clip_vision_model", image_size=8, patch_size=4, **sizes),
        ClipTextConfig.of(
            "clip_text_model", vocab_size=20, max_position_embeddings=8, eos_token_id=3, **sizes
        ),
    )
    head = SimilarityHead(
        "qnorm", temperature=0.1, learn_temperature=True, temperature_range=(0.01, 1.0)
    )
    return Trainee(encoder, head)


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return {
        "query": {
            "input_ids": jnp.array([[1, 5, 3], [1, 9, 3]]),
            "attention_mask": jnp.ones((2, 3), jnp.int32),
        },
        "document": {"pixel_values": jnp.asarray(rng.normal(size=(2, 8, 8, 3)), jnp.float32)},
    }


def arrays(tree):
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in
            jax.tree_util.tree_leaves_with_path(tree)}  # fmt: skip


@pytest.mark.parametrize("frozen", ["document_tower", "query_tower"])
def test_a_frozen_tower_stays_bitwise_and_the_other_moves(trainee, batch, frozen):
    settings = OptimizerSettings(0.1, weight_decay=0.5, warmup_fraction=0.0, freeze=[frozen])
    optimizer = make_optimizer(settings, steps=10)
    graph, state = initial_state(trainee, optimizer, seed=0, freeze=settings.freeze)
    # No gradient, no moments.
    assert not [name for name in arrays((state.params, state.opt_state)) if frozen in name]
    assert any(frozen in name for name in arrays(state.rest))
    step = make_train_step(graph, optimizer, LossSettings(direction="both"))
    for _ in range(3):
        state, metrics = step(state, batch)
    assert float(metrics["gradient_norm"]) > 0
    after = merge_state(graph, state).encoder
    for (path, old), (_, new) in zip(
        *(nnx.to_flat_state(nnx.state(m)) for m in (trainee.encoder, after)), strict=True
    ):
        same = np.array_equal(old[...], new[...])
        # A bias of keys has no gradient but rounding's; all else of the other tower moves.
        assert same if path[0] == frozen else (not same or path[-2:] == ("key", "bias")), path
    assert float(after.query_tower.projection.kernel[...].sum()) != 0.0


def test_what_stays_free_moves_as_if_alone(trainee, batch):
    """The same step as of all parameters: freezing changes no other gradient (no clipping here)."""
    steps = {}
    for freeze in ((), ("document_tower",)):
        settings = OptimizerSettings(0.01, clip_norm=1e6, warmup_fraction=0.0, freeze=freeze)
        optimizer = make_optimizer(settings, steps=5)
        graph, state = initial_state(trainee, optimizer, seed=0, freeze=freeze)
        state, _ = make_train_step(graph, optimizer, LossSettings())(state, batch)
        steps[freeze] = arrays(state.params)
    free = steps[("document_tower",)]
    assert free.keys() < steps[()].keys()
    for name, value in free.items():
        np.testing.assert_allclose(value, steps[()][name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_the_model_that_was_given_is_not_changed(trainee):
    optimizer = make_optimizer(OptimizerSettings(0.1, freeze=("query_tower",)), steps=5)
    initial_state(trainee, optimizer, seed=0, freeze=("query_tower",))
    assert isinstance(trainee.encoder.query_tower.projection.kernel, nnx.Param)


def test_a_forgotten_freeze_is_an_error():
    optimizer = make_optimizer(OptimizerSettings(0.1, freeze=("layers/0",)), steps=5)
    with pytest.raises(InputError, match=r"layers/0/.* is still to be trained"):
        initial_state(tiny_trainee("cosine"), optimizer, seed=0)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("query_tower", "must be a list of patterns"),
        (["("], "no regular expression"),
        ([""], "each entry names parameters"),
        (["document_tower"], "no parameter matches 'document_tower'; the model has .*query_tower"),
        (["encoder", "head"], "leaves no parameter to train"),
    ],
)
def test_patterns_that_do_not_fit(patterns, message):
    with pytest.raises(InputError, match=message):
        freeze_parameters(tiny_trainee("cosine"), patterns)
