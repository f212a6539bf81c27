"""A checkpoint's own tokenizer, or one trained on the corpus at hand."""

import hashlib
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from magjax.checks import InputError, positive_integer
from magjax.data._tokenizer_conversion import VOCABULARY_FILES, convert_vocabulary
from magjax.files import read_json, write_json, write_text

__all__ = ["TextTokenizer"]

_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_PAD_NAMES = ("[PAD]", "<pad>", "<|pad|>")
# transformers writes 1e30 where a checkpoint states no limit.
_NO_LIMIT = 1_000_000


class TextTokenizer:
    """Turns texts into token ids, special tokens included.

    Truncation and padding settings that a ``tokenizer.json`` carries are the state of some
    earlier call, not limits of the checkpoint, and are dropped; the limit is ``model_max_length``
    of ``tokenizer_config.json``. Safe to use from several threads.

    Args:
        tokenizer: the ``tokenizers.Tokenizer``; a copy is taken.
        config: the content of ``tokenizer_config.json``: ``pad_token``, ``model_max_length`` and
            whatever else a checkpoint states; kept by ``save``.

    Raises:
        InputError: no padding token is stated or found in the vocabulary.

    >>> tokenizer = TextTokenizer.train(["adds two arrays", "def add(a, b): return a + b"], 300)
    >>> [ids.tolist() for ids in tokenizer.encode(["", "add"], max_length=8)]
    [[2, 3], [2, 264, 3]]
    """

    def __init__(self, tokenizer: Tokenizer, config: dict[str, Any] | None = None):
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # auto_map names Python code inside the checkpoint: never run, never passed on.
        self._config = {k: v for k, v in (config or {}).items() if k != "auto_map"}
        self._pad_token, self._pad_id = self._find_pad()
        self._truncating: dict[int, Tokenizer] = {}
        self._lock = threading.Lock()

    def _find_pad(self) -> tuple[str, int]:
        stated = self._config.get("pad_token")
        if isinstance(stated, dict):  # an AddedToken written out
            stated = stated.get("content")
        for name in (stated,) if stated else _PAD_NAMES:
            number = self._tokenizer.token_to_id(name)
            if number is not None:
                return name, number
        raise InputError(
            f"the tokenizer has no padding token (looked for {stated or ', '.join(_PAD_NAMES)}); "
            'name one as "pad_token" in tokenizer_config.json.'
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "TextTokenizer":
        """Reads ``tokenizer.json``, or converts an older vocabulary by transformers.

        Raises:
            InputError: the folder holds no tokenizer, or one that does not parse.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> TextTokenizer.train(["a b"] * 2, 270).save(folder)
        >>> TextTokenizer.load(folder).pad_id
        0
        """
        root = Path(folder)
        config_file = root / "tokenizer_config.json"
        config = read_json(config_file) if config_file.is_file() else {}
        file = root / "tokenizer.json"
        if file.is_file():
            try:
                tokenizer = Tokenizer.from_file(str(file))
            except Exception as error:  # tokenizers raises bare Exception
                raise InputError(
                    f"{file} cannot be read by tokenizers {tokenizers.__version__} ({error}); "
                    "restore it from the checkpoint's source."
                ) from error
            if "pad_token" not in config and tokenizer.padding:
                config = {**config, "pad_token": tokenizer.padding["pad_token"]}
            return cls(tokenizer, config)
        if not any((root / name).is_file() for name in VOCABULARY_FILES):
            raise InputError(
                f"{root} holds no tokenizer: neither tokenizer.json nor {', '.join(VOCABULARY_FILES)}; "
                "copy the tokenizer files of the checkpoint into it."
            )
        return cls(*convert_vocabulary(root, config))

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, *, model_max_length: int = 512
    ) -> "TextTokenizer":
        """Trains a byte-level BPE for prose and source code; the same texts give the same file.

        Identifiers are split before lower-casing (``getValue`` and ``get_value`` both become
        ``get value``), so that a docstring and the code it describes share tokens. Byte-level
        BPE rather than WordPiece: no text is unknown, and the WordPiece trainer numbers its
        pieces in hash order, which differs from run to run.

        Args:
            texts: the corpus; any iterable of strings.
            vocab_size: the largest number of tokens, at least 261 (5 special, 256 bytes).
            model_max_length: the limit written with the tokenizer.

        Raises:
            InputError: ``vocab_size`` is below 261.

        >>> TextTokenizer.train(["get_value getValue"] * 2, 300).vocab_size
        269
        """
        size = positive_integer("vocab_size", vocab_size)
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        if size < len(alphabet) + len(_SPECIAL):
            raise InputError(
                f"vocab_size={size} cannot hold {len(alphabet)} bytes and {len(_SPECIAL)} special "
                f"tokens; try vocab_size=4096."
            )
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.NFKC(),
                normalizers.Replace(Regex("(?<=[a-z0-9])(?=[A-Z])"), " "),
                normalizers.Replace("_", " "),
                normalizers.Lowercase(),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.BertPreTokenizer(),
                pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(
            texts,
            trainers.BpeTrainer(
                vocab_size=size,
                special_tokens=list(_SPECIAL.values()),
                initial_alphabet=alphabet,
                min_frequency=2,
                show_progress=False,
            ),
        )
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
        )
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": positive_integer("model_max_length", model_max_length),
            **_SPECIAL,
        }
        return cls(tokenizer, config)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes ``tokenizer.json`` and ``tokenizer_config.json``, as transformers reads them.

        >>> import tempfile, pathlib
        >>> folder = tempfile.mkdtemp()
        >>> TextTokenizer.train(["a b"] * 2, 270).save(folder)
        >>> sorted(path.name for path in pathlib.Path(folder).iterdir())
        ['tokenizer.json', 'tokenizer_config.json']
        """
        root = Path(folder)
        config = {"tokenizer_class": "PreTrainedTokenizerFast", **self._config}
        write_text(root / "tokenizer.json", self._tokenizer.to_str(pretty=True))
        write_json(root / "tokenizer_config.json", {**config, "pad_token": self._pad_token})

    @property
    def pad_id(self) -> int:
        """The id of the padding token.

        >>> TextTokenizer.train(["a b"] * 2, 270).pad_id
        0
        """
        return self._pad_id

    @property
    def vocab_size(self) -> int:
        """One more than the largest token id: the rows that an embedding table needs.

        >>> TextTokenizer.train(["a b"] * 2, 270).vocab_size
        263
        """
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def model_max_length(self) -> int | None:
        """The largest length that the checkpoint states for its tokenizer; ``None``: no limit.

        >>> TextTokenizer.train(["a b"] * 2, 270, model_max_length=128).model_max_length
        128
        """
        stated = self._config.get("model_max_length")
        return int(stated) if stated and stated < _NO_LIMIT else None

    @property
    def fingerprint(self) -> str:
        """Names the vocabulary and rules: equal exactly for equal tokenizers.

        >>> tokenizer = TextTokenizer.train(["a b"], 270)
        >>> tokenizer.fingerprint == TextTokenizer.train(["a b"], 270).fingerprint
        True
        """
        return hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()[:16]

    @property
    def special_count(self) -> int:
        """How many tokens are added to every text: the least length of an empty one.

        >>> TextTokenizer.train(["a b"] * 2, 270).special_count
        2
        """
        return self._tokenizer.num_special_tokens_to_add(is_pair=False)

    def encode(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """Token ids of each text, ``int32[length]``, at most ``max_length`` each.

        Truncation drops the text's tail and keeps the closing special token.

        Raises:
            InputError: ``max_length`` leaves no room beside the special tokens.

        >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
        >>> tokenizer.encode(["a b a b"], max_length=4)[0][[0, -1]].tolist()
        [2, 3]
        """
        return self.encode_counted(texts, max_length)[0]

    def encode_counted(self, texts: Sequence[str], max_length: int) -> tuple[list[np.ndarray], int]:
        """``encode``, and how many of the texts were cut.

        >>> TextTokenizer.train(["a b"] * 2, 270).encode_counted(["a", "a b a b"], 4)[1]
        1
        """
        encodings = self._for_length(max_length).encode_batch_fast(list(texts))
        ids = [np.asarray(encoding.ids, np.int32) for encoding in encodings]
        return ids, sum(bool(encoding.overflowing) for encoding in encodings)

    def _for_length(self, max_length: int) -> Tokenizer:
        """One copy a length: truncation is state of a ``Tokenizer``, and threads share this."""
        length = positive_integer("max_length", max_length)
        if length <= self.special_count:
            raise InputError(
                f"max_length={length} leaves no room beside {self.special_count} special tokens; "
                f"try max_length={self.special_count + 14}."
            )
        with self._lock:
            if length not in self._truncating:
                copy = Tokenizer.from_str(self._tokenizer.to_str())
                copy.enable_truncation(length)
                self._truncating[length] = copy
            return self._truncating[length]
