import numpy as np
import pytest

from magjax.checks import InputError
from magjax.data import (
    TextPreprocessor,
    TextSettings,
    TextTokenizer,
    bucket_length,
    length_buckets,
)


@pytest.fixture(scope="module")
def tokenizer():
    return TextTokenizer.train(["query: a b c d e"] * 2, 300, model_max_length=64)


def settings(**changes):
    return TextSettings(**{"query_max_length": 8, "document_max_length": 16, **changes})


def test_each_side_has_its_own_limit(tokenizer):
    preprocessor = TextPreprocessor(tokenizer, settings())
    text = "a b c d e " * 20
    assert len(preprocessor.tokenize([text], "query")[0]) == 8
    assert len(preprocessor.tokenize([text], "document")[0]) == 16


def test_limit_is_the_least_of_setting_and_tokenizer(tokenizer):
    preprocessor = TextPreprocessor(tokenizer, settings(document_max_length=256))
    assert preprocessor.settings.document_max_length == 64
    assert preprocessor.settings.query_max_length == 8
    assert len(preprocessor.tokenize(["a " * 300], "document")[0]) == 64


def test_limits_of_a_position_table_and_others_combine():
    # tokenizer.json 128 is no limit; sentence_bert_config 256, position table 512.
    assert settings(document_max_length=1000).limited(256, 512, None).document_max_length == 256
    assert settings(document_max_length=100).limited(256, 512).document_max_length == 100


def test_prompt_of_the_side_comes_first(tokenizer):
    preprocessor = TextPreprocessor(tokenizer, settings(query_prompt="a b "))
    plain = TextPreprocessor(tokenizer, settings())
    assert (
        preprocessor.tokenize(["c"], "query")[0].tolist()
        == plain.tokenize(["a b c"], "query")[0].tolist()
    )
    assert (
        preprocessor.tokenize(["c"], "document")[0].tolist()
        == plain.tokenize(["c"], "document")[0].tolist()
    )


def test_prompt_that_leaves_no_room_is_refused(tokenizer):
    with pytest.raises(InputError, match="query_prompt fills query_max_length=8"):
        TextPreprocessor(tokenizer, settings(query_prompt="a b c d e a b c d e"))


def test_share_of_truncated_texts_is_counted_per_side(tokenizer):
    preprocessor = TextPreprocessor(tokenizer, settings())
    assert preprocessor.truncated_share("query") == 0
    preprocessor.tokenize(["a", "a b c d e a b c d e", "b", "c"], "query")
    assert preprocessor.truncated_share("query") == 0.25
    assert preprocessor.truncated_share("document") == 0
    assert "query: at most 8 tokens, 25.0% of texts cut" in preprocessor.describe()


def test_tokens_do_not_depend_on_batch_mates(tokenizer):
    preprocessor = TextPreprocessor(tokenizer, settings())
    (alone,) = preprocessor.tokenize(["a"], "document")
    together = preprocessor.tokenize(["a b c d e " * 40, "a", ""], "document")
    assert together[1].tolist() == alone.tolist()
    padded = preprocessor.pad(together)
    row = padded["input_ids"][1][padded["attention_mask"][1] == 1]
    assert row.tolist() == alone.tolist()


def test_padding_fills_with_the_padding_token_and_masks_it(tokenizer):
    preprocessor = TextPreprocessor(tokenizer, settings())
    batch = preprocessor.pad([np.array([5, 6, 7], np.int32), np.array([9], np.int32)], multiple=4)
    assert batch["input_ids"].tolist() == [[5, 6, 7, 0], [9, 0, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]
    assert batch["input_ids"].dtype == batch["attention_mask"].dtype == np.int32


@pytest.mark.parametrize(
    ("longest", "multiple", "expected"), [(1, 8, 8), (8, 8, 8), (9, 8, 16), (17, 16, 20)]
)
def test_padded_length_is_a_multiple_within_the_limit(tokenizer, longest, multiple, expected):
    preprocessor = TextPreprocessor(tokenizer, settings(document_max_length=20))
    batch = preprocessor.pad([np.ones(longest, np.int32)], multiple=multiple)
    assert batch["input_ids"].shape == (1, expected)


def test_fixed_length_refuses_longer_rows(tokenizer):
    preprocessor = TextPreprocessor(tokenizer, settings())
    assert preprocessor.pad([np.ones(3, np.int32)], length=5)["input_ids"].shape == (1, 5)
    with pytest.raises(InputError, match="6 tokens does not fit length=5"):
        preprocessor.pad([np.ones(6, np.int32)], length=5)


def test_no_rows_give_an_empty_batch(tokenizer):
    assert TextPreprocessor(tokenizer, settings()).pad([])["input_ids"].shape == (0, 16)


def test_buckets():
    assert length_buckets(64, 32) == (32, 64)
    assert length_buckets(20, 32) == (20,)
    assert bucket_length(64, (32, 64)) == 64
    with pytest.raises(InputError, match="above the largest bucket 64"):
        bucket_length(65, (32, 64))


def test_settings_round_trip_through_json():
    original = settings(query_prompt="query: ")
    assert TextSettings.from_json(original.to_json()) == original


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"query_max_length": 8}, "lack document_max_length"),
        ({"query_max_length": 8, "document_max_len": 8}, "Did you mean 'document_max_length'"),
        ({"query_max_length": 0, "document_max_length": 8}, "query_max_length=0"),
    ],
)
def test_wrong_settings_are_refused(value, message):
    with pytest.raises(InputError, match=message):
        TextSettings.from_json(value)


def test_unknown_side_is_refused():
    # The type check would stop a wrong side first; the message is for callers without it.
    with pytest.raises(Exception, match="passage"):
        settings().prompt("passage")
