"""One table per family: the checkpoint's tensor names, ours, and the layout between them."""

from collections.abc import Mapping

from magjax.encoders import ClipTextConfig, EncoderConfig, VisionConfig
from magjax.hub._image_text_names import clip_text_rows, vision_rows
from magjax.hub._layouts import LINEAR, NORM, TABLE, Rows, Target, targets

__all__ = ["IGNORED_PREFIXES", "LEGACY_SUFFIXES", "name_table"]

_WORDS: Rows = (
    ("embeddings.word_embeddings", "embeddings.word", TABLE),
    ("embeddings.position_embeddings", "embeddings.position", TABLE),
    ("embeddings.LayerNorm", "embeddings.norm", NORM),
)
_TOKEN_TYPES: Rows = (("embeddings.token_type_embeddings", "embeddings.token_type", TABLE),)
_FEED_FORWARD: Rows = (
    ("encoder.layer.{}.intermediate.dense", "layers.{}.up", LINEAR),
    ("encoder.layer.{}.output.dense", "layers.{}.down", LINEAR),
    ("encoder.layer.{}.output.LayerNorm", "layers.{}.output_norm", NORM),
)
_BERT: Rows = (
    *_WORDS,
    *_TOKEN_TYPES,
    ("encoder.layer.{}.attention.self.query", "layers.{}.attention.query", LINEAR),
    ("encoder.layer.{}.attention.self.key", "layers.{}.attention.key", LINEAR),
    ("encoder.layer.{}.attention.self.value", "layers.{}.attention.value", LINEAR),
    ("encoder.layer.{}.attention.output.dense", "layers.{}.attention.output", LINEAR),
    ("encoder.layer.{}.attention.output.LayerNorm", "layers.{}.attention_norm", NORM),
    *_FEED_FORWARD,
)
_MPNET: Rows = (
    *_WORDS,
    ("encoder.relative_attention_bias", "relative_bias", TABLE),
    ("encoder.layer.{}.attention.attn.q", "layers.{}.attention.query", LINEAR),
    ("encoder.layer.{}.attention.attn.k", "layers.{}.attention.key", LINEAR),
    ("encoder.layer.{}.attention.attn.v", "layers.{}.attention.value", LINEAR),
    ("encoder.layer.{}.attention.attn.o", "layers.{}.attention.output", LINEAR),
    ("encoder.layer.{}.attention.LayerNorm", "layers.{}.attention_norm", NORM),
    *_FEED_FORWARD,
)
_DISTILBERT: Rows = (
    *_WORDS,
    ("transformer.layer.{}.attention.q_lin", "layers.{}.attention.query", LINEAR),
    ("transformer.layer.{}.attention.k_lin", "layers.{}.attention.key", LINEAR),
    ("transformer.layer.{}.attention.v_lin", "layers.{}.attention.value", LINEAR),
    ("transformer.layer.{}.attention.out_lin", "layers.{}.attention.output", LINEAR),
    ("transformer.layer.{}.sa_layer_norm", "layers.{}.attention_norm", NORM),
    ("transformer.layer.{}.ffn.lin1", "layers.{}.up", LINEAR),
    ("transformer.layer.{}.ffn.lin2", "layers.{}.down", LINEAR),
    ("transformer.layer.{}.output_layer_norm", "layers.{}.output_norm", NORM),
)

_FAMILIES: Mapping[str, Rows] = {
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
    "text_model.embeddings.position_ids",
    "vision_model.embeddings.position_ids",
)

# TensorFlow's names of layer norm's parameters, still found in the first published BERTs.
LEGACY_SUFFIXES = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}


def name_table(config: EncoderConfig | ClipTextConfig | VisionConfig) -> dict[str, Target]:
    """Every tensor that a checkpoint of this configuration has, and its place in the tower.

    >>> table = name_table(EncoderConfig(num_hidden_layers=1))
    >>> target = table["encoder.layer.0.attention.self.query.weight"]
    >>> ".".join(map(str, target.path)), target.layout
    ('layers.0.attention.query.kernel', 'transposed')
    """
    if isinstance(config, EncoderConfig):
        rows = _FAMILIES[config.model_type]
    elif isinstance(config, ClipTextConfig):
        rows = clip_text_rows(config)
    else:
        rows = vision_rows(config)
    return targets(rows, config.num_hidden_layers)
