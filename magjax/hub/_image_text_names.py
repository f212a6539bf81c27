"""The tensor names of CLIP's and SigLIP's towers, as whole models and single towers hold them."""

from magjax.encoders import ClipTextConfig, VisionConfig
from magjax.hub._layouts import LINEAR, NORM, TABLE, Parts, Rows

__all__ = ["clip_text_rows", "vision_rows"]

_KERNEL: Parts = ((".weight", "kernel", "transposed"),)
_PATCH: Parts = ((".weight", "kernel", "patches"),)
_BIAS: Parts = ((".bias", "bias", "plain"),)


def clip_text_rows(config: ClipTextConfig) -> Rows:
    """Names of a text tower; CLIP's projection stands outside of ``text_model``.

    >>> rows = clip_text_rows(ClipTextConfig.of("clip_text_model"))
    >>> rows[-1][0]
    'text_projection'
    """
    projection = "text_model.head" if config.family.projection_bias else "text_projection"
    return (
        ("text_model.embeddings.token_embedding", "embeddings.word", TABLE),
        ("text_model.embeddings.position_embedding", "embeddings.position", TABLE),
        *_layers("text_model"),
        ("text_model.final_layer_norm", "final_norm", NORM),
        (projection, "projection", LINEAR if config.family.projection_bias else _KERNEL),
    )


def vision_rows(config: VisionConfig) -> Rows:
    """Names of a vision tower; "pre_layrnorm" is the checkpoints' own spelling.

    >>> rows = vision_rows(VisionConfig.of("clip_vision_model"))
    >>> rows[-1][0]
    'visual_projection'
    """
    patch = "vision_model.embeddings.patch_embedding"
    rows: Rows = (
        (patch, "embeddings.patch", (*_PATCH, *(_BIAS if config.family.patch_bias else ()))),
        ("vision_model.embeddings.position_embedding", "embeddings.position", TABLE),
        *_layers("vision_model"),
        ("vision_model.post_layernorm", "final_norm", NORM),
    )
    if config.family.class_token:
        token: Parts = (("", "class_token", "plain"),)
        rows += (
            ("vision_model.embeddings.class_embedding", "embeddings", token),
            ("vision_model.pre_layrnorm", "first_norm", NORM),
        )
    else:
        packed: Parts = (("_weight", "kernel", "transposed"), ("_bias", "bias", "plain"))
        rows += (
            ("vision_model.head.probe", "head", (("", "probe", "plain"),)),
            ("vision_model.head.attention.in_proj", "head.inputs", packed),
            ("vision_model.head.attention.out_proj", "head.output", LINEAR),
            ("vision_model.head.layernorm", "head.norm", NORM),
            ("vision_model.head.mlp.fc1", "head.feed_forward.up", LINEAR),
            ("vision_model.head.mlp.fc2", "head.feed_forward.down", LINEAR),
        )
    if config.projection_dim is not None:
        rows += (("visual_projection", "projection", _KERNEL),)
    return rows


def _layers(model: str) -> Rows:
    theirs, ours = f"{model}.encoder.layers.{{}}.", "layers.{}."
    return (
        (theirs + "layer_norm1", ours + "attention_norm", NORM),
        (theirs + "self_attn.q_proj", ours + "attention.query", LINEAR),
        (theirs + "self_attn.k_proj", ours + "attention.key", LINEAR),
        (theirs + "self_attn.v_proj", ours + "attention.value", LINEAR),
        (theirs + "self_attn.out_proj", ours + "attention.output", LINEAR),
        (theirs + "layer_norm2", ours + "feed_forward_norm", NORM),
        (theirs + "mlp.fc1", ours + "feed_forward.up", LINEAR),
        (theirs + "mlp.fc2", ours + "feed_forward.down", LINEAR),
    )
