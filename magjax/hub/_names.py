"""One table per family: the checkpoint's tensor names, ours, and the layout between them."""

import dataclasses
from collections.abc import Mapping

from magjax.encoders import EncoderConfig
from magjax.hub._parameters import ParameterPath

__all__ = ["IGNORED_PREFIXES", "LEGACY_SUFFIXES", "Target", "name_table"]


@dataclasses.dataclass(frozen=True)
class Target:
    """Where one tensor of a checkpoint lives in ``TextEncoder``, and whether it is transposed."""

    path: ParameterPath
    transpose: bool


# torch keeps a dense weight as [outputs, inputs], Flax as [inputs, outputs]. Square kernels hide a
# forgotten transpose from shape checks, so the layout is stated here and never inferred.
_LINEAR = (("weight", "kernel", True), ("bias", "bias", False))
_NORM = (("weight", "scale", False), ("bias", "bias", False))
_TABLE = (("weight", "embedding", False),)

_Rows = tuple[tuple[str, str, tuple[tuple[str, str, bool], ...]], ...]

_WORDS: _Rows = (
    ("embeddings.word_embeddings", "embeddings.word", _TABLE),
    ("embeddings.position_embeddings", "embeddings.position", _TABLE),
    ("embeddings.LayerNorm", "embeddings.norm", _NORM),
)
_TOKEN_TYPES: _Rows = (("embeddings.token_type_embeddings", "embeddings.token_type", _TABLE),)
_FEED_FORWARD: _Rows = (
    ("encoder.layer.{}.intermediate.dense", "layers.{}.up", _LINEAR),
    ("encoder.layer.{}.output.dense", "layers.{}.down", _LINEAR),
    ("encoder.layer.{}.output.LayerNorm", "layers.{}.output_norm", _NORM),
)
_BERT: _Rows = (
    *_WORDS,
    *_TOKEN_TYPES,
    ("encoder.layer.{}.attention.self.query", "layers.{}.attention.query", _LINEAR),
    ("encoder.layer.{}.attention.self.key", "layers.{}.attention.key", _LINEAR),
    ("encoder.layer.{}.attention.self.value", "layers.{}.attention.value", _LINEAR),
    ("encoder.layer.{}.attention.output.dense", "layers.{}.attention.output", _LINEAR),
    ("encoder.layer.{}.attention.output.LayerNorm", "layers.{}.attention_norm", _NORM),
    *_FEED_FORWARD,
)
_MPNET: _Rows = (
    *_WORDS,
    ("encoder.relative_attention_bias", "relative_bias", _TABLE),
    ("encoder.layer.{}.attention.attn.q", "layers.{}.attention.query", _LINEAR),
    ("encoder.layer.{}.attention.attn.k", "layers.{}.attention.key", _LINEAR),
    ("encoder.layer.{}.attention.attn.v", "layers.{}.attention.value", _LINEAR),
    ("encoder.layer.{}.attention.attn.o", "layers.{}.attention.output", _LINEAR),
    ("encoder.layer.{}.attention.LayerNorm", "layers.{}.attention_norm", _NORM),
    *_FEED_FORWARD,
)
_DISTILBERT: _Rows = (
    *_WORDS,
    ("transformer.layer.{}.attention.q_lin", "layers.{}.attention.query", _LINEAR),
    ("transformer.layer.{}.attention.k_lin", "layers.{}.attention.key", _LINEAR),
    ("transformer.layer.{}.attention.v_lin", "layers.{}.attention.value", _LINEAR),
    ("transformer.layer.{}.attention.out_lin", "layers.{}.attention.output", _LINEAR),
    ("transformer.layer.{}.sa_layer_norm", "layers.{}.attention_norm", _NORM),
    ("transformer.layer.{}.ffn.lin1", "layers.{}.up", _LINEAR),
    ("transformer.layer.{}.ffn.lin2", "layers.{}.down", _LINEAR),
    ("transformer.layer.{}.output_layer_norm", "layers.{}.output_norm", _NORM),
)

_FAMILIES: Mapping[str, _Rows] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "distilbert": _DISTILBERT,
    "mpnet": _MPNET,
}

# Parts of published checkpoints that no embedding uses: the pooler, pre-training and task heads,
# and a counting buffer that old releases stored.
IGNORED_PREFIXES = (
    "pooler.",
    "cls.",
    "lm_head.",
    "classifier.",
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
    "embeddings.position_ids",
)

# TensorFlow's names of layer norm's parameters, still found in the first published BERTs.
LEGACY_SUFFIXES = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}


def name_table(config: EncoderConfig) -> dict[str, Target]:
    """Every tensor that a checkpoint of this configuration has, and its place in ``TextEncoder``.

    >>> table = name_table(EncoderConfig(num_hidden_layers=1))
    >>> target = table["encoder.layer.0.attention.self.query.weight"]
    >>> ".".join(map(str, target.path)), target.transpose
    ('layers.0.attention.query.kernel', True)
    """
    table = {}
    for theirs, ours, parts in _FAMILIES[config.model_type]:
        for layer in range(config.num_hidden_layers) if "{}" in theirs else (0,):
            module = tuple(int(p) if p.isdigit() else p for p in ours.format(layer).split("."))
            for their_part, our_part, transpose in parts:
                table[f"{theirs.format(layer)}.{their_part}"] = Target(
                    (*module, our_part), transpose
                )
    return table
