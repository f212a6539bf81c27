"""Texts to padded token arrays of few shapes."""

import threading
from collections.abc import Sequence

import numpy as np

from magjax.checks import InputError, choose, positive_integer
from magjax.data._text_settings import SIDES, TextSettings
from magjax.data._text_tokenizer import TextTokenizer
from magjax.typing import Side

__all__ = ["TextPreprocessor", "bucket_length", "length_buckets"]


def length_buckets(max_length: int, multiple: int) -> tuple[int, ...]:
    """Padded lengths to choose from: multiples of ``multiple``, and ``max_length`` itself.

    >>> length_buckets(80, 32)
    (32, 64, 80)
    """
    longest = positive_integer("max_length", max_length)
    step = positive_integer("multiple", multiple)
    return (*range(step, longest, step), longest)


def bucket_length(length: int, buckets: Sequence[int]) -> int:
    """The least of ``buckets`` (ascending) that holds ``length``.

    Raises:
        InputError: none does.

    >>> bucket_length(33, (32, 64, 80))
    64
    """
    for bucket in buckets:
        if length <= bucket:
            return bucket
    raise InputError(f"length={length} is above the largest bucket {buckets[-1]}; truncate first.")


class TextPreprocessor:
    """Puts the side's prompt before each text, tokenizes, truncates, pads.

    The length limit of a side is the smaller of its setting and the tokenizer's own
    ``model_max_length``; ``settings`` holds the limits in force. How many texts were cut is
    counted per side. Safe to use from several threads.

    Args:
        tokenizer: the model's tokenizer.
        settings: prompts and lengths per side.

    Raises:
        InputError: a limit leaves no room for text, or a prompt alone fills it.

    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> settings = TextSettings(query_max_length=8, document_max_length=16)
    >>> preprocessor = TextPreprocessor(tokenizer, settings)
    >>> batch = preprocessor.pad(preprocessor.tokenize(["a b", ""], "query"), multiple=4)
    >>> batch["attention_mask"].tolist()
    [[1, 1, 1, 1], [1, 1, 0, 0]]
    """

    def __init__(self, tokenizer: TextTokenizer, settings: TextSettings):
        self.tokenizer = tokenizer
        self.settings = settings.limited(tokenizer.model_max_length)
        for side in SIDES:
            prompt, limit = self.settings.prompt(side), self.settings.max_length(side)
            used = len(tokenizer.encode([prompt], limit)[0])
            if prompt and used >= limit:
                raise InputError(
                    f"{side}_prompt fills {side}_max_length={limit} alone; shorten it or raise the "
                    "length."
                )
        self._lock = threading.Lock()
        self._seen = dict.fromkeys(SIDES, 0)
        self._cut = dict.fromkeys(SIDES, 0)

    def tokenize(self, texts: Sequence[str], side: Side) -> list[np.ndarray]:
        """Token ids of each text with the side's prompt, ``int32[length]`` each.

        >>> settings = TextSettings(query_max_length=8, document_max_length=8)
        >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270), settings)
        >>> [len(ids) for ids in preprocessor.tokenize(["", "a b a b a b a b"], "document")]
        [2, 8]
        """
        prompt, limit = self.settings.prompt(side), self.settings.max_length(side)
        ids, cut = self.tokenizer.encode_counted([prompt + text for text in texts], limit)
        with self._lock:
            self._seen[side] += len(ids)
            self._cut[side] += cut
        return ids

    def truncated_share(self, side: Side) -> float:
        """The share of texts of ``side`` cut so far; 0 before the first.

        >>> settings = TextSettings(query_max_length=3, document_max_length=8)
        >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270), settings)
        >>> _ = preprocessor.tokenize(["a", "a b a b"], "query")
        >>> preprocessor.truncated_share("query")
        0.5
        """
        choose("side", side, SIDES)
        with self._lock:
            return self._cut[side] / max(self._seen[side], 1)

    def describe(self) -> str:
        """One line for the log: both limits and the shares cut so far.

        >>> settings = TextSettings(query_max_length=8, document_max_length=8)
        >>> TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270), settings).describe()
        'query: at most 8 tokens, 0.0% of texts cut; document: at most 8 tokens, 0.0% of texts cut'
        """
        return "; ".join(
            f"{side}: at most {self.settings.max_length(side)} tokens, "
            f"{self.truncated_share(side):.1%} of texts cut"
            for side in SIDES
        )

    def pad(
        self, token_lists: Sequence[np.ndarray], *, multiple: int = 16, length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Rows of equal length: ``input_ids`` and ``attention_mask``, ``int32[rows, length]``.

        The length is ``length``, or the longest row rounded up to a multiple of ``multiple``, but
        never above the larger of the two limits: positions beyond them may not exist.

        Raises:
            InputError: a row is longer than ``length`` or both limits.

        >>> settings = TextSettings(query_max_length=8, document_max_length=20)
        >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270), settings)
        >>> preprocessor.pad([np.arange(17, dtype=np.int32)], multiple=16)["input_ids"].shape
        (1, 20)
        """
        longest = max((len(ids) for ids in token_lists), default=1)
        if length is None:
            limit = max(self.settings.max_length(side) for side in SIDES)
            length = bucket_length(longest, length_buckets(limit, multiple))
        elif longest > length:
            raise InputError(f"a row of {longest} tokens does not fit length={length}.")
        input_ids = np.full((len(token_lists), length), self.tokenizer.pad_id, np.int32)
        attention_mask = np.zeros((len(token_lists), length), np.int32)
        for row, ids in enumerate(token_lists):
            input_ids[row, : len(ids)] = ids
            attention_mask[row, : len(ids)] = 1
        return {"input_ids": input_ids, "attention_mask": attention_mask}
