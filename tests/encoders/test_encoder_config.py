import pytest

from magjax.checks import InputError
from magjax.encoders import MODEL_TYPES, EncoderConfig

BERT = {
    "model_type": "bert",
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
}


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_hf_round_trip_is_exact(model_type):
    config = EncoderConfig(
        model_type, hidden_dropout=0.25, attention_dropout=0.0, hidden_act="relu"
    )
    assert EncoderConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_hugging_face_reads_the_same_values(model_type):
    transformers = pytest.importorskip("transformers")
    config = EncoderConfig(model_type, hidden_size=48, num_hidden_layers=5, num_attention_heads=6)
    written = config.to_hf()
    theirs = transformers.AutoConfig.for_model(
        **{k: v for k, v in written.items() if k != "architectures"}
    )
    assert theirs.hidden_size == 48
    assert theirs.num_hidden_layers == 5
    assert theirs.num_attention_heads == 6
    assert EncoderConfig.from_hf(theirs.to_dict()) == config


@pytest.mark.parametrize(
    ("model_type", "pad", "usable"),
    [("bert", 0, 514), ("distilbert", 0, 514), ("roberta", 1, 512), ("xlm-roberta", 1, 512)],
)
def test_positions_of_offset_families_lose_the_pad_rows(model_type, pad, usable):
    config = EncoderConfig(model_type, max_position_embeddings=514)
    assert config.pad_token_id == pad
    assert config.max_length == usable


def test_defaults_that_a_file_may_leave_out():
    config = EncoderConfig.from_hf(BERT)
    assert config.layer_norm_eps == 1e-12
    assert config.hidden_act == "gelu"
    assert EncoderConfig.from_hf({**BERT, "layer_norm_eps": 1e-5}).layer_norm_eps == 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "t5"}, "unknown model_type 't5'"),
        ({"model_type": "Bert"}, "Did you mean 'bert'"),
        ({"hidden_act": "gelu_tanh"}, "unknown hidden_act 'gelu_tanh'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ({"is_decoder": True}, "is_decoder=True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"num_attention_heads": 5}, "hidden_size=32 is not a multiple of num_attention_heads=5"),
        ({"hidden_size": 0}, "hidden_size=0 must be a whole number"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout=1.0"),
        ({"pad_token_id": 100}, "pad_token_id=100 lies outside vocab_size=100"),
        ({"type_vocab_size": 0}, "type_vocab_size=0 does not fit"),
        ({"model_type": "mpnet", "pad_token_id": 0}, "mpnet, which fixes 1"),
        (
            {"model_type": "mpnet", "pad_token_id": 1, "relative_attention_num_buckets": 64},
            "relative_attention_num_buckets=64",
        ),
        ({"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": 2}, "no usable"),
    ],
)
def test_what_is_not_supported_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        EncoderConfig.from_hf({**BERT, **change})


@pytest.mark.parametrize("key", [k for k in BERT if k != "model_type"])
def test_a_missing_size_is_named(key):
    with pytest.raises(InputError, match=f"lacks {key}"):
        EncoderConfig.from_hf({k: v for k, v in BERT.items() if k != key})


def test_no_model_type():
    with pytest.raises(InputError, match="names no model_type"):
        EncoderConfig.from_hf({})


def test_distilbert_fixes_its_layer_norm():
    with pytest.raises(InputError, match="fixes 1e-12"):
        EncoderConfig("distilbert", layer_norm_eps=1e-5)
