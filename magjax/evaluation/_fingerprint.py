"""A name for a model's numbers: what caches and unfinished files are told apart by."""

import hashlib
import json
from typing import Any, get_args

import numpy as np
from flax import nnx

from magjax.hub import Model
from magjax.typing import Side

__all__ = ["model_fingerprint"]


def model_fingerprint(model: Model) -> str:
    """16 hexadecimal digits that name all that embeddings depend on; the score is left out.

    Parameters, architecture, pooling, compute dtype, tokenizer, prompts, lengths and image settings
    count.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> models = [Model(DualEncoder.create(config, seed=seed), None, tokenizer, text)
    ...           for seed in (0, 0, 1)]
    >>> one, same, other = map(model_fingerprint, models)
    >>> len(one), one == same, one == other
    (16, True, False)
    """
    encoder = model.encoder
    towers = [encoder.tower(side) for side in get_args(Side)]
    projections = [encoder.side_projection(side) for side in get_args(Side)]
    settings: dict[str, Any] = {
        "towers": [tower.config.to_hf() for tower in towers],
        "dtypes": [tower.dtype for tower in towers],
        "activations": [None if p is None else p.activation for p in projections],
        "pooling": encoder.pooling,
        "text": model.text.to_json(),
        "tokenizer": model.tokenizer.fingerprint,
    }
    if model.images is not None:
        settings["images"] = model.images.to_json()
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    named = {"/".join(map(str, path)): v for path, v in nnx.to_flat_state(nnx.state(encoder))}
    for name in sorted(named):
        array = np.asarray(named[name][...])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]
