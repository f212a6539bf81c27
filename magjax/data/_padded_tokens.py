"""Texts by number to padded tokens: kept between epochs, few shapes, the same in all processes."""

from collections.abc import Mapping, Sequence

import numpy as np

from magjax.data._text_preprocessor import TextPreprocessor, bucket_length, length_buckets
from magjax.data._token_cache import TokenCache
from magjax.typing import Side

__all__ = ["PaddedTokens"]

# Token ids kept between epochs, over both sides: 256 MiB of int32.
_CACHED_TOKENS = 64 * 2**20


class PaddedTokens:
    """Tokenizes groups of texts and pads each group to one of few lengths.

    Args:
        preprocessor: tokenizer, prompts and lengths.
        texts: per side, the texts that numbers refer to.
        length_multiple: groups are padded to multiples of this.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> settings = TextSettings(query_max_length=8, document_max_length=8)
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["a b"] * 2, 270), settings)
    >>> tokens = PaddedTokens(preprocessor, {"query": ["a", "b"]}, length_multiple=4)
    >>> tokens.padded("query", [[0, 1]], slice(0, 1))[0]["input_ids"].shape
    (1, 4)
    """

    def __init__(
        self,
        preprocessor: TextPreprocessor,
        texts: Mapping[Side, Sequence[str]],
        *,
        length_multiple: int,
    ):
        self._preprocessor = preprocessor
        self._tokens = TokenCache(preprocessor, texts, capacity=_CACHED_TOKENS)
        self.buckets = {
            side: length_buckets(preprocessor.settings.max_length(side), length_multiple)
            for side in texts
        }

    def padded(
        self, side: Side, groups: Sequence[Sequence[int]], kept: slice
    ) -> list[dict[str, np.ndarray]]:
        """All groups at one length; ``kept`` texts of each, the length from all.

        Every process sees the whole batch and so the same length.
        """
        tokens = [self._tokens.tokenize(side, group) for group in groups]
        longest = max(len(ids) for group in tokens for ids in group)
        length = bucket_length(longest, self.buckets[side])
        return [self._preprocessor.pad(group[kept], length=length) for group in tokens]
