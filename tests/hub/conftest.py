"""Random torch checkpoints of each family, and the same model in magjax's own folder."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx

from magjax.data import TextSettings, TextTokenizer
from magjax.encoders import MODEL_TYPES, DualEncoder, EncoderConfig
from magjax.hub import Model
from magjax.similarity import Score

TEXTS = ["adds two arrays", "def add(a, b): return a + b", "the cosine of the angle"] * 2


@pytest.fixture(scope="session")
def tokenizer() -> TextTokenizer:
    return TextTokenizer.train(TEXTS, 300, model_max_length=64)


@pytest.fixture
def tiny_sizes() -> dict[str, Any]:
    """Sizes with square feed-forward kernels too: a missing transpose keeps every shape."""
    return {
        "vocab_size": 310,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 32,
        "max_position_embeddings": 80,
    }


@pytest.fixture
def torch_folder(tmp_path, tiny_sizes) -> Callable[..., tuple[Any, Path]]:
    """Makes a torch model with every parameter random, saved as a Hugging Face folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    def make(model_type: str, *, name: str = "torch", **saving) -> tuple[Any, Path]:
        config = EncoderConfig(model_type, **tiny_sizes).to_hf()
        config.pop("architectures")
        model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(**config))
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                centre = 1.0 if parameter_name.endswith("LayerNorm.weight") else 0.0
                parameter.copy_(centre + 0.3 * torch.randn(parameter.shape))
        folder = tmp_path / name
        model.eval().save_pretrained(folder, **saving)
        return model, folder

    return make


@pytest.fixture
def token_batch() -> Callable[[str], dict[str, np.ndarray]]:
    """A padded batch with the family's pad id, long enough for MPNet's far distance buckets."""

    def make(model_type: str) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(2)
        lengths = np.array([70, 33, 8, 2])
        mask = (np.arange(70)[None] < lengths[:, None]).astype(np.int32)
        ids = rng.integers(5, 300, mask.shape).astype(np.int32)
        ids = np.where(mask == 1, ids, MODEL_TYPES[model_type].pad_token_id).astype(np.int32)
        batch = {"input_ids": ids, "attention_mask": mask}
        if MODEL_TYPES[model_type].token_types == 2:
            batch["token_type_ids"] = rng.integers(0, 2, mask.shape).astype(np.int32)
        return batch

    return make


@functools.partial(jax.jit, static_argnums=0)
def _states(graph, state, batch):
    return nnx.merge(graph, state)(
        batch["input_ids"],
        batch["attention_mask"],
        token_type_ids=batch.get("token_type_ids"),
        output_layers=True,
    )


@pytest.fixture
def states() -> Callable[..., tuple[jax.Array, ...]]:
    """All layers' outputs of one of our encoders, compiled."""
    return lambda encoder, batch: _states(*nnx.split(encoder), batch)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _embed(graph, state, batch, side):
    return nnx.merge(graph, state).embed(batch, side)


@pytest.fixture
def embed() -> Callable[..., jax.Array]:
    """Embeddings of one side, compiled."""
    return lambda encoder, batch, side="query": _embed(*nnx.split(encoder), batch, side)


@pytest.fixture
def torch_states() -> Callable[..., list[np.ndarray]]:
    """All layers' outputs of a torch model."""
    torch = pytest.importorskip("torch")

    def run(model, batch) -> list[np.ndarray]:
        inputs = {name: torch.from_numpy(value).long() for name, value in batch.items()}
        with torch.no_grad():
            return [s.numpy() for s in model(**inputs, output_hidden_states=True).hidden_states]

    return run


@pytest.fixture
def make_model(tokenizer, tiny_sizes) -> Callable[..., Model]:
    """A randomly started model with everything that a folder can state."""

    def make(score: Score | None = None, **settings) -> Model:
        sizes = {**tiny_sizes, "num_hidden_layers": 1}
        encoder = DualEncoder.create(EncoderConfig("bert", **sizes), **settings)
        text = TextSettings(query_max_length=16, document_max_length=48, query_prompt="find: ")
        return Model(encoder, score, tokenizer, text)

    return make
