"""What a folder says about the model in it; None where it says nothing."""

import dataclasses
from pathlib import Path

from magjax.encoders import Projection
from magjax.similarity import Score

__all__ = ["Stated"]


@dataclasses.dataclass(frozen=True)
class Stated:
    """The one form that every kind of folder is read into, before weights are.

    Attributes:
        query_folder: config, weights and tokenizer of queries (and documents when shared).
        document_folder: the same for documents when their tower is its own.
        lower_case: whether its own library lowers the case of texts.

    >>> Stated(Path("folder")).pooling is None
    True
    """

    query_folder: Path
    document_folder: Path | None = None
    projection: Projection | None = None
    document_projection: Projection | None = None
    pooling: str | None = None
    score: Score | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    query_max_length: int | None = None
    document_max_length: int | None = None
    lower_case: bool | None = None
