"""Texts that people sorted into groups, for clustering."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.data._lines import fail_at, find_file, text_lines
from magjax.data._records import content_fingerprint
from magjax.data._tables import (
    SUFFIXES,
    cell,
    column,
    first_line,
    nothing_found,
    split_files,
    table_rows,
    table_suffix,
)

__all__ = ["LabelledTexts", "find_labelled_texts", "read_labelled_texts"]

_TEXT = ("text", "sentence", "sentences")
_LABEL = ("label", "labels")


@dataclasses.dataclass(frozen=True)
class LabelledTexts:
    """Texts with the label of each, in one batch or in several that are clustered apart.

    Args:
        name: what results call the set.
        batches: texts and labels of each; every batch has two labels or more.
        fingerprint: names this content; made from it when left out.

    Raises:
        InputError: no batch, lengths that disagree, or a batch with one label.

    >>> data = LabelledTexts("s", [(["a cat", "a dog", "a car"], ["animal", "animal", "thing"])])
    >>> len(data), data.labels
    (3, 2)
    """

    name: str
    batches: Sequence[tuple[Sequence[str], Sequence[str]]]
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if not self.batches:
            raise InputError(f"{self.name} holds no text; clustering needs texts with labels.")
        for number, (texts, labels) in enumerate(self.batches, start=1):
            where = self.name if len(self.batches) == 1 else f"{self.name}, batch {number}"
            if len(texts) != len(labels):
                raise InputError(f"{where}: {len(texts)} texts and {len(labels)} labels.")
            if len(set(labels)) < 2:
                raise InputError(
                    f"{where}: all {len(texts)} texts have one label; clustering needs two labels "
                    "or more."
                )
        if not self.fingerprint:
            parts = (part for batch in self.batches for part in batch)
            object.__setattr__(self, "fingerprint", content_fingerprint(*parts))

    def __len__(self) -> int:
        return sum(len(texts) for texts, _ in self.batches)

    @property
    def empty(self) -> int:
        """Empty texts, which some published sets hold; they are embedded like any other."""
        return sum(not text.strip() for texts, _ in self.batches for text in texts)

    @property
    def labels(self) -> int:
        """Different labels of all batches."""
        return len({label for _, labels in self.batches for label in labels})


def find_labelled_texts(root: str | os.PathLike[str], split: str = "test") -> list[LabelledTexts]:
    r"""All sets of labelled texts under a folder.

    A folder is a set if it holds ``SPLIT.tsv``, ``SPLIT.csv`` or ``SPLIT.jsonl``, plain or gzipped.

    Args:
        root: the folder; all below it is searched.
        split: ``test``, ``dev``, ``train`` or another.

    Raises:
        InputError: no such folder, no set in it, or a file that :func:`read_labelled_texts`
            refuses.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "news")
    >>> folder.mkdir()
    >>> _ = (folder / "test.tsv").write_text("animal\ta cat\nthing\ta car\n")
    >>> [(data.name, len(data)) for data in find_labelled_texts(folder.parent)]
    [('news', 2)]
    """
    found = split_files(root, [split + suffix for suffix in SUFFIXES])
    if not found:
        forms = f"{split}.tsv, {split}.csv or {split}.jsonl (label, text)"
        raise nothing_found(root, "set of labelled texts", forms, split)
    return [read_labelled_texts(file, name=name) for name, file in found]


def read_labelled_texts(path: str | os.PathLike[str], *, name: str | None = None) -> LabelledTexts:
    r"""One file of labelled texts.

    TSV (without quoting) and CSV have the columns ``label`` and ``text`` (or MTEB's ``labels``
    and ``sentences``) in the first line; a TSV of two columns without them is label, tab, text.
    JSONL holds the same by name, a text a line, or a batch a line as two lists; each batch is
    clustered on its own, as in MTEB's ``{"sentences": [...], "labels": [...]}``.

    Args:
        path: ``.tsv``, ``.csv`` or ``.jsonl``, plain or gzipped.
        name: what results call the set; default: the file's name.

    Raises:
        InputError: with file and line: a missing column, text or label, lists of different
            lengths; or a batch with one label.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "test.jsonl")
    >>> _ = file.write_text('{"sentences": ["a cat", "a car"], "labels": ["animal", "thing"]}')
    >>> read_labelled_texts(file).batches
    [(['a cat', 'a car'], ['animal', 'thing'])]
    """
    source = find_file(path)
    batches: list[tuple[list[str], list[str]]] = []
    texts: list[str] = []
    labels: list[str] = []
    for line, text, label in _rows(source):
        if isinstance(text, list) and isinstance(label, list):
            if len(text) != len(label):
                fail_at(source, line, f"{len(text)} texts and {len(label)} labels; give one each.")
            batches.append(([], []))
            for one, its in zip(text, label, strict=True):
                _add(*batches[-1], source, line, one, its)
        else:
            _add(texts, labels, source, line, text, label)
    if texts and batches:
        raise InputError(f"{source} mixes lines of one text with lines of many; choose one form.")
    return LabelledTexts(
        name or source.name.partition(".")[0], batches or ([(texts, labels)] if texts else [])
    )


def _rows(source: Path) -> Iterator[tuple[int, Any, Any]]:
    tabbed = table_suffix(source) not in (".jsonl", ".csv")
    names = [name.strip() for name in first_line(source)]
    if tabbed and len(names) == 2 and not (column(names, *_TEXT) and column(names, *_LABEL)):
        for line, row in text_lines(source):
            cells = row.split("\t")
            if len(cells) != 2:
                fail_at(source, line, f"{len(cells)} columns where 2 were needed: label and text.")
            yield line, cells[1], cells[0]
        return
    for line, values in table_rows(source):
        yield line, cell(source, line, values, *_TEXT), cell(source, line, values, *_LABEL)


def _add(texts: list[str], labels: list[str], path: Path, line: int, text: Any, label: Any) -> None:
    if not isinstance(text, str):
        fail_at(path, line, f"the text is {text!r}, but must be a string.")
    if isinstance(label, bool) or not isinstance(label, str | int) or not str(label).strip():
        fail_at(path, line, f"the label is {label!r}; give a name or a whole number.")
    texts.append(text)
    labels.append(str(label))
