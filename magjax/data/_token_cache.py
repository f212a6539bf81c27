"""Token ids of a training set's texts, kept from one epoch to the next."""

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from magjax.data._text_preprocessor import TextPreprocessor
from magjax.typing import Side

__all__ = ["TokenCache"]


class TokenCache:
    """Tokenizes texts by index and keeps the result while ``capacity`` lasts.

    Later texts are tokenized anew each time, so a large set costs time instead of memory. Safe to
    use from several threads.

    Args:
        preprocessor: tokenizer, prompts and lengths.
        texts: per side, the texts that indices refer to.
        capacity: how many token ids to keep over both sides.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> settings = TextSettings(query_max_length=8, document_max_length=8)
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["one"], 270), settings)
    >>> cache = TokenCache(preprocessor, {"query": [""], "document": []}, capacity=100)
    >>> cache.tokenize("query", [0, 0])[1].tolist()
    [2, 3]
    """

    def __init__(
        self,
        preprocessor: TextPreprocessor,
        texts: Mapping[Side, Sequence[str]],
        *,
        capacity: int,
    ):
        self._preprocessor = preprocessor
        self._texts = texts
        self._left = capacity
        self._kept: dict[tuple[Side, int], np.ndarray] = {}
        self._lock = threading.Lock()

    def tokenize(self, side: Side, indices: Sequence[int]) -> list[np.ndarray]:
        """Token ids of each indexed text, ``int32[length]`` each."""
        texts = self._texts[side]
        missing = [i for i in dict.fromkeys(indices) if (side, i) not in self._kept]
        ids = self._preprocessor.tokenize([texts[i] for i in missing], side)
        fresh = dict(zip(missing, ids, strict=True))
        with self._lock:
            for index, row in fresh.items():
                if len(row) <= self._left and (side, index) not in self._kept:
                    self._kept[side, index] = row
                    self._left -= len(row)
        return [fresh[i] if i in fresh else self._kept[side, i] for i in indices]
