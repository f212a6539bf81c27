"""Passages to retrieve from, their titles kept apart: BEIR's corpus and DPR's Wikipedia split."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from magjax.checks import InputError
from magjax.data._answers import tab_columns
from magjax.data._beir import titled, titled_texts
from magjax.data._lines import fail_at, find_file, text_lines
from magjax.data._records import check_ids

__all__ = ["Passages", "read_passages"]


@dataclasses.dataclass(frozen=True)
class Passages:
    """A corpus whose titles and texts stand apart: both are embedded, the text is searched.

    Args:
        ids: one name a passage, unique.
        titles: empty where a passage has none.
        texts: may be empty.
        source: where they come from, for messages.

    Raises:
        InputError: lengths disagree, an id repeats, or there is no passage.

    >>> passages = Passages(["d"], ["Emma"], ["a novel by Jane Austen"])
    >>> passages.documents
    ['Emma a novel by Jane Austen']
    """

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    source: str = "corpus"

    def __post_init__(self):
        check_ids("passage", self.ids, self.texts, self.source)
        if len(self.titles) != len(self.ids):
            raise InputError(
                f"{self.source}: {len(self.titles)} titles for {len(self.ids)} passages; give one "
                "each, empty where there is none."
            )
        if not self.ids:
            raise InputError(f"{self.source} holds no passage.")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def documents(self) -> list[str]:
        """What is embedded: the title, a space and the text, as BEIR has it."""
        return [titled(*pair) for pair in zip(self.titles, self.texts, strict=True)]


def read_passages(path: str | os.PathLike[str]) -> Passages:
    r"""Reads a corpus; the name's ending decides the form, and it may be gzipped.

    - ``.jsonl``: BEIR's ``{"_id", "title", "text"}``, one a line.
    - ``.tsv``: DPR's ``id TAB text TAB title`` (``psgs_w100.tsv``), CSV's quotes included; a first
      line ``id TAB text TAB title`` is the header.

    Args:
        path: the file.

    Raises:
        InputError: a missing file, another form, no passage; with file and line: a missing or
            repeated id, a missing text, or another number of columns.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "psgs.tsv")
    >>> _ = file.write_text('id\ttext\ttitle\n1\t"a ""novel"" by Austen"\tEmma\n')
    >>> read_passages(file)
    Passages(ids=['1'], titles=['Emma'], texts=['a "novel" by Austen'], source='psgs.tsv')
    """
    source = find_file(path)
    form = source.name.removesuffix(".gz").rpartition(".")[2]
    rows: Iterator[tuple[str, str, str]]
    if form == "jsonl":
        rows = ((name, title, text) for name, _, title, text in titled_texts(source))
    elif form == "tsv":
        rows = _dpr_rows(source)
    else:
        raise InputError(f"{source}: a corpus is read from a .jsonl or .tsv file.")
    ids, titles, texts = [], [], []
    for name, title, text in rows:
        ids.append(name)
        titles.append(title)
        texts.append(text)
    return Passages(ids, titles, texts, source.name)


def _dpr_rows(source: Path) -> Iterator[tuple[str, str, str]]:
    seen = set()
    for position, (number, line) in enumerate(text_lines(source)):
        fail = partial(fail_at, source, number)
        columns = tab_columns(line, fail)
        if len(columns) != 3:
            fail(f"{len(columns)} columns where id, text and title were needed.")
        name, text, title = (column.strip() for column in columns)
        if position == 0 and (name, text, title) == ("id", "text", "title"):
            continue
        if not name or name in seen:
            fail(f"the id {name!r} is empty or occurred before; ids must be unique.")
        seen.add(name)
        yield name, title, text
