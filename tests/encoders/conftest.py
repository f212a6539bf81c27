"""A small random encoder that the tests of this folder share."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from magjax.encoders import (
    ClipTextConfig,
    ClipTextEncoder,
    EncoderConfig,
    TextEncoder,
    Tower,
    VisionConfig,
    VisionEncoder,
)

TOWERS = {
    EncoderConfig: TextEncoder,
    ClipTextConfig: ClipTextEncoder,
    VisionConfig: VisionEncoder,
}


@pytest.fixture
def tiny() -> Callable[..., EncoderConfig]:
    """Makes a two-layer configuration of any family; keywords replace its fields."""

    def make(model_type: str = "bert", **changes) -> EncoderConfig:
        sizes = {
            "vocab_size": 60,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "max_position_embeddings": 40,
        }
        return EncoderConfig(model_type, **{**sizes, **changes})

    return make


@pytest.fixture
def build() -> Callable[..., Tower]:
    """Makes an encoder whose biases and scales are random too, drawn by NumPy (no compiling)."""

    def make(config: EncoderConfig | ClipTextConfig | VisionConfig, **settings) -> Tower:
        rng = np.random.default_rng(0)
        graph, empty = nnx.split(
            nnx.eval_shape(lambda: TOWERS[type(config)](config, rngs=nnx.Rngs(0), **settings))
        )

        def draw(path, variable):
            # 0.02 would leave attention flat, and a fault in it invisible.
            centre, spread = {"scale": (1.0, 0.2), "bias": (0.0, 0.2)}.get(path[-1], (0.0, 0.3))
            return variable.replace(
                jnp.asarray(rng.normal(centre, spread, variable.shape), jnp.float32)
            )

        filled = [(path, draw(path, variable)) for path, variable in nnx.to_flat_state(empty)]
        return nnx.merge(graph, nnx.from_flat_state(filled))

    return make


@functools.partial(jax.jit, static_argnums=0, static_argnames="output_layers")
def _forward(graph, state, ids, mask, token_type_ids, dropout_key, *, output_layers):
    return nnx.merge(graph, state)(
        ids,
        mask,
        token_type_ids=token_type_ids,
        dropout_key=dropout_key,
        output_layers=output_layers,
    )


@pytest.fixture
def forward() -> Callable[..., Any]:
    """Runs an encoder compiled: eager calls would compile every operation on its own."""

    def run(encoder, ids, mask, *, token_type_ids=None, dropout_key=None, output_layers=False):
        return _forward(
            *nnx.split(encoder),
            ids,
            mask,
            token_type_ids,
            dropout_key,
            output_layers=output_layers,
        )

    return run


@pytest.fixture
def padded() -> dict[str, np.ndarray]:
    """Four rows of 12, 9, 5 and 2 tokens, padded at the right."""
    rng = np.random.default_rng(1)
    ids = rng.integers(2, 60, (4, 12)).astype(np.int32)
    mask = (np.arange(12)[None] < np.array([12, 9, 5, 2])[:, None]).astype(np.int32)
    return {"input_ids": ids * mask, "attention_mask": mask}


@functools.partial(jax.jit, static_argnums=0)
def _embed(graph, state, batch):
    return nnx.merge(graph, state).embed(batch)


@pytest.fixture
def embed() -> Callable[..., jax.Array]:
    """Embeddings of a tower of CLIP or SigLIP, compiled."""
    return lambda tower, batch: _embed(*nnx.split(tower), batch)


@functools.partial(jax.jit, static_argnums=0)
def _layers(graph, state, inputs):
    return nnx.merge(graph, state)(*inputs, output_layers=True)


@pytest.fixture
def layers() -> Callable[..., tuple[jax.Array, ...]]:
    """Every layer's output of a tower of CLIP or SigLIP, compiled."""
    return lambda tower, *inputs: _layers(*nnx.split(tower), inputs)


@pytest.fixture
def clip_text() -> Callable[..., ClipTextConfig]:
    """Makes a one-layer text tower's configuration; keywords replace its fields."""

    def make(model_type: str = "clip_text_model", **changes) -> ClipTextConfig:
        sizes = {
            "vocab_size": 60,
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 10,
            "projection_dim": 8,
            "eos_token_id": 50,
        }
        return ClipTextConfig.of(model_type, **{**sizes, **changes})

    return make


@pytest.fixture
def vision() -> Callable[..., VisionConfig]:
    """Makes a one-layer vision tower's configuration; keywords replace its fields."""

    def make(model_type: str = "clip_vision_model", **changes) -> VisionConfig:
        sizes = {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "image_size": 12,
            "patch_size": 4,
        }
        if model_type == "clip_vision_model":
            sizes["projection_dim"] = 8
        return VisionConfig.of(model_type, **{**sizes, **changes})

    return make


@pytest.fixture
def pixels() -> np.ndarray:
    """Three images of 12 x 12 pixels."""
    return np.random.default_rng(3).normal(size=(3, 12, 12, 3)).astype(np.float32)
