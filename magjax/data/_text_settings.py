"""Prompts and lengths per side: properties of a model, stored with it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from magjax.checks import InputError, choose, positive_integer
from magjax.typing import Side

__all__ = ["SIDES", "TextSettings"]

SIDES: tuple[Side, Side] = ("query", "document")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings:
    """How a text of each side becomes tokens: its prompt, then its length limit.

    Args:
        query_max_length: the most tokens of a query, special tokens included.
        document_max_length: the same for documents.
        query_prompt: put before every query as it stands.
        document_prompt: put before every document.

    Raises:
        InputError: a length is no positive whole number, or a prompt no string.

    >>> settings = TextSettings(query_max_length=32, document_max_length=128, query_prompt="query: ")
    >>> settings.prompt("query"), settings.max_length("document")
    ('query: ', 128)
    """

    query_max_length: int
    document_max_length: int
    query_prompt: str = ""
    document_prompt: str = ""

    def __post_init__(self):
        for side in SIDES:
            name = f"{side}_max_length"
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
            prompt = getattr(self, f"{side}_prompt")
            if not isinstance(prompt, str):
                raise InputError(f"{side}_prompt={prompt!r} must be a string; '' means none.")

    def prompt(self, side: Side) -> str:
        """The prompt of ``side``.

        >>> TextSettings(query_max_length=8, document_max_length=8).prompt("query")
        ''
        """
        return getattr(self, f"{choose('side', side, SIDES)}_prompt")

    def max_length(self, side: Side) -> int:
        """The most tokens of a text of ``side``.

        >>> TextSettings(query_max_length=8, document_max_length=16).max_length("document")
        16
        """
        return getattr(self, f"{choose('side', side, SIDES)}_max_length")

    def limited(self, *limits: int | None) -> "TextSettings":
        """Both lengths brought down to the least of ``limits``; ``None`` limits nothing.

        >>> settings = TextSettings(query_max_length=32, document_max_length=1024)
        >>> settings.limited(512, None).document_max_length
        512
        """
        stated = [limit for limit in limits if limit is not None]
        return dataclasses.replace(
            self,
            query_max_length=min([self.query_max_length, *stated]),
            document_max_length=min([self.document_max_length, *stated]),
        )

    def to_json(self) -> dict[str, Any]:
        """The settings as a JSON object.

        >>> TextSettings(query_max_length=8, document_max_length=16).to_json()["document_max_length"]
        16
        """
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TextSettings":
        """Reads what ``to_json`` wrote; unknown and missing keys raise ``InputError``.

        >>> TextSettings.from_json({"query_max_length": 8, "document_max_length": 16}).query_prompt
        ''
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for key in value:
            choose("text setting", key, known)
        missing = [key for key in known[:2] if key not in value]
        if missing:
            raise InputError(
                f"text settings lack {', '.join(missing)}; state both lengths, e.g. "
                '{"query_max_length": 64, "document_max_length": 256}.'
            )
        return cls(**value)
