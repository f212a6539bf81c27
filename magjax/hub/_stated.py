"""What a folder says about the model in it; None where it says nothing."""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.data import TextSettings
from magjax.encoders import Projection
from magjax.files import read_json
from magjax.similarity import Score

__all__ = ["Stated", "read_statement"]


@dataclasses.dataclass(frozen=True)
class Stated:
    """The one form that every kind of folder is read into, before weights are.

    Attributes:
        query_folder: config, weights and tokenizer of queries (and documents when shared).
        document_folder: the same for documents when their tower is its own.
        lower_case: whether its own library lowers the case of texts.
        query_modality: ``"text"`` or ``"image"`` where the two sides differ.

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
    query_modality: str | None = None


def read_statement(
    file: Path, keys: Collection[str], version: int, *, optional: Collection[str] = ()
) -> tuple[dict[str, Any], Score | None, TextSettings]:
    """A JSON file of magjax's own with ``format``, ``score`` and ``text`` among its fields.

    Raises:
        InputError: other fields than ``keys`` and any of ``optional``, another format, or a damaged
            score or text.
    """
    content = read_json(file)
    if not isinstance(content, dict) or set(content) - set(optional) != set(keys):
        found = ", ".join(map(str, content)) if isinstance(content, dict) else repr(content)
        raise InputError(f"{file} needs exactly the fields {', '.join(keys)}; it has {found}.")
    if content["format"] != version:
        raise InputError(
            f"{file} has format {content['format']!r}; this version of magjax reads {version}."
        )
    try:
        score = None if content["score"] is None else Score.from_json(content["score"])
        return content, score, TextSettings.from_json(content["text"])
    except (InputError, TypeError) as error:
        raise InputError(f"{file}: {error}") from error
