"""Prompts: a template with two places, filled literally."""

import os
import string
from collections.abc import Sequence
from pathlib import Path

from magjax.checks import InputError, choose

__all__ = ["CLOSED_BOOK_TEMPLATE", "DEFAULT_TEMPLATE", "PromptTemplate"]

_PLACES = ("question", "passages")

DEFAULT_TEMPLATE = """\
Answer the question from the passages below. Reply with the shortest answer that is complete: a \
name, a number, a date, yes or no. Do not explain.

{passages}

Question: {question}
Answer:"""
"""The prompt where passages are given."""

CLOSED_BOOK_TEMPLATE = """\
Answer the question. Reply with the shortest answer that is complete: a name, a number, a date, \
yes or no. Do not explain.

Question: {question}
Answer:"""
"""The prompt without passages: what the generator knows by itself."""


class PromptTemplate:
    r"""A text with the places ``{question}`` and ``{passages}``; ``{{`` and ``}}`` are braces.

    What is put in stands as it is: braces in a question or passage are never read as places.

    Args:
        text: the template.
        passages: how many each prompt will hold; with 0 the place ``{passages}`` is refused,
            otherwise it is required.
        source: what messages call it.

    Raises:
        InputError: an unknown place, a missing one, or a single brace.

    >>> template = PromptTemplate("{passages}\nQ: {question}\nA:", passages=1)
    >>> print(template.fill("who wrote {Emma}?", [("Emma", "by Jane {Austen}")]))
    [1] Emma
    by Jane {Austen}
    Q: who wrote {Emma}?
    A:
    >>> PromptTemplate("{context}", passages=1)
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: the prompt template: unknown place in braces 'context'; known: question, passages.
    """

    def __init__(self, text: str, *, passages: int, source: str = "the prompt template"):
        self.text = text
        self._pieces: list[tuple[str, str | None]] = []
        try:
            for literal, place, form, conversion in string.Formatter().parse(text):
                name = place if not form and not conversion else f"{place}!{conversion}:{form}"
                if name is not None:
                    choose("place in braces", name, _PLACES)
                self._pieces.append((literal, name))
        except ValueError as error:  # InputError is one
            hint = "" if isinstance(error, InputError) else "; write {{ and }} for braces."
            raise InputError(f"{source}: {error}{hint}") from error
        found = {place for _, place in self._pieces}
        if "question" not in found:
            raise InputError(f"{source} has no place {{question}}; write it where it belongs.")
        if ("passages" in found) != bool(passages):
            told = f"{passages} passages are to be shown" if passages else "no passage is shown"
            had = "has a" if "passages" in found else "has no"
            raise InputError(f"{source} {had} place {{passages}}, but {told}.")

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, passages: int) -> "PromptTemplate":
        """Reads a template from a text file (UTF-8); one line break at its end is dropped.

        Raises:
            InputError: the file is missing or no UTF-8, or as above.

        >>> PromptTemplate.read("/nowhere/prompt.txt", passages=5)
        Traceback (most recent call last):
            ...
        magjax.checks.InputError: /nowhere/prompt.txt: the prompt template cannot be read (No such file or directory).
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise InputError(
                f"{path}: the prompt template cannot be read ({error.strerror})."
            ) from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: the prompt template is not UTF-8 ({error.reason})."
            ) from error
        return cls(text.removesuffix("\n"), passages=passages, source=str(path))

    def fill(self, question: str, passages: Sequence[tuple[str, str]]) -> str:
        """The prompt of one question.

        Args:
            question: the text.
            passages: (title, text) of each, best first, numbered from 1; a title may be empty.
        """
        shown = [
            f"[{place}] {title}\n{text}" if title else f"[{place}] {text}"
            for place, (title, text) in enumerate(passages, start=1)
        ]
        values = {"question": question, "passages": "\n\n".join(shown), None: ""}
        return "".join(literal + values[place] for literal, place in self._pieces)
