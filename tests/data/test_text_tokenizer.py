import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.data import TextTokenizer

TEXTS = [
    "Returns the largest value of an array.",
    "def largest_value(anArray):\n    return max(anArray)",
    "HTTPServer naïve déjà-vu 🤗 x_1 != y2",
] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return TextTokenizer.train(TEXTS, 400)


def test_identifiers_split_the_same_way_in_every_spelling(tokenizer):
    spellings = ["largest value", "largest_value", "largestValue", "LARGEST_VALUE"]
    first, *others = (ids.tolist() for ids in tokenizer.encode(spellings, 64))
    assert all(ids == first for ids in others)


def test_no_text_is_unknown(tokenizer):
    unknown = 1
    for ids in tokenizer.encode(["日本語 \x00 ☃ ß", *TEXTS], 512):
        assert unknown not in ids


def test_training_gives_the_same_file_in_another_process(tokenizer, tmp_path):
    code = (
        "import json, sys; from magjax.data import TextTokenizer;"
        "TextTokenizer.train(json.loads(sys.argv[1]), 400).save(sys.argv[2])"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(TEXTS), tmp_path / "b"], check=True)
    tokenizer.save(tmp_path / "a")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_empty_text_is_its_special_tokens(tokenizer):
    assert tokenizer.encode([""], 8)[0].tolist() == [2, 3]
    assert tokenizer.special_count == 2


@pytest.mark.parametrize("length", [3, 4, 9])
def test_truncation_keeps_the_closing_token(tokenizer, length):
    (ids,) = tokenizer.encode([TEXTS[0]], length)
    (whole,) = tokenizer.encode([TEXTS[0]], 512)
    assert ids.dtype == np.int32
    assert ids.tolist() == [*whole[: length - 1], 3]


def test_truncated_texts_are_counted(tokenizer):
    assert tokenizer.encode_counted(["a", TEXTS[0], TEXTS[1]], 5)[1] == 2


@pytest.mark.parametrize("length", [0, 1, 2])
def test_lengths_without_room_for_text_are_refused(tokenizer, length):
    with pytest.raises(InputError, match="max_length"):
        tokenizer.encode(["a"], length)


def test_vocabulary_must_hold_every_byte():
    with pytest.raises(InputError, match="vocab_size=200 cannot hold 256 bytes"):
        TextTokenizer.train(TEXTS, 200)


def test_saved_folder_reloads_equal(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = TextTokenizer.load(tmp_path)
    assert (again.pad_id, again.vocab_size) == (tokenizer.pad_id, tokenizer.vocab_size)
    assert again.model_max_length == 512
    for a, b in zip(again.encode(TEXTS, 32), tokenizer.encode(TEXTS, 32), strict=True):
        assert a.tolist() == b.tolist()


def test_transformers_loads_the_saved_folder(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer.save(tmp_path)
    # With a model config beside it, AutoTokenizer could pick that model's own tokenizer class.
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    other = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert other.pad_token_id == tokenizer.pad_id
    assert other.model_max_length == 512
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS, 12), strict=True):
        assert other(text, truncation=True, max_length=12)["input_ids"] == ids.tolist()


def test_checkpoint_tokenizer_equals_transformers(minilm):
    transformers = pytest.importorskip("transformers")
    ours, other = (
        TextTokenizer.load(minilm),
        transformers.AutoTokenizer.from_pretrained(minilm),
    )
    for text, ids in zip(TEXTS, ours.encode(TEXTS, 16), strict=True):
        assert other(text, truncation=True, max_length=16)["input_ids"] == ids.tolist()
    assert (ours.pad_id, ours.vocab_size) == (0, 30522)


def test_truncation_written_into_a_checkpoint_is_no_limit(minilm):
    # Its tokenizer.json carries truncation to 128, its tokenizer_config.json says 512.
    ours = TextTokenizer.load(minilm)
    assert ours.model_max_length == 512
    assert len(ours.encode(["word " * 400], 300)[0]) == 300


def test_vocabulary_without_tokenizer_json_is_converted(minilm, tmp_path):
    pytest.importorskip("transformers")
    for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "config.json"):
        shutil.copy(minilm / name, tmp_path)
    converted, original = TextTokenizer.load(tmp_path), TextTokenizer.load(minilm)
    for a, b in zip(converted.encode(TEXTS, 64), original.encode(TEXTS, 64), strict=True):
        assert a.tolist() == b.tolist()


def test_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no tokenizer.*tokenizer\.json"):
        TextTokenizer.load(tmp_path)


def test_broken_tokenizer_json_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read by tokenizers"):
        TextTokenizer.load(tmp_path)


def test_tokenizer_without_padding_token_is_refused():
    tokenizers = pytest.importorskip("tokenizers")
    bare = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(InputError, match="no padding token"):
        TextTokenizer(bare)


def test_code_named_by_a_checkpoint_is_not_passed_on(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    config = {**json.loads(file.read_text()), "auto_map": {"AutoTokenizer": "evil.Evil"}}
    file.write_text(json.dumps(config))
    TextTokenizer.load(tmp_path).save(tmp_path / "again")
    assert "auto_map" not in (tmp_path / "again" / "tokenizer_config.json").read_text()


def test_no_stated_limit_is_none(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"pad_token": {"content": "[PAD]"}, "model_max_length": 1e30}))
    assert TextTokenizer.load(tmp_path).model_max_length is None


def test_threads_with_other_lengths_do_not_disturb_each_other(tokenizer):
    lengths = [3, 5, 8, 13] * 20
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: len(tokenizer.encode([TEXTS[1]], n)[0]), lengths))
    assert found == lengths
