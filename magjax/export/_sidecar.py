"""Ids and texts beside files that hold vectors only."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from magjax.checks import InputError
from magjax.export._engine import Block, Place, Table
from magjax.files import read_json, write_json

__all__ = ["read_ids", "sidecar"]


@contextlib.contextmanager
def sidecar(place: Place, table: Table) -> Iterator[Callable[[Block], None]]:
    """Gives what is to be called with each block; writes ``NAME.ids.json``, ``NAME.texts.jsonl``.

    Ids stand in the order of the rows. Texts are one JSON string a line, written as they come.
    """
    folder = Path(place)
    ids: list[str] = []
    with contextlib.ExitStack() as stack:
        texts = None
        if table.has_texts:
            target = folder / f"{table.name}.texts.jsonl"
            texts = stack.enter_context(target.open("w", encoding="utf-8"))

        def add(block: Block) -> None:
            ids.extend(block.ids)
            if texts is not None:
                texts.writelines(f"{json.dumps(text)}\n" for text in block.texts or ())

        yield add
    write_json(folder / f"{table.name}.ids.json", ids)


def read_ids(place: Place, name: str, count: int) -> list[str]:
    """The ids of a table's rows.

    Raises:
        InputError: another number of ids than of vectors.
    """
    file = Path(place) / f"{name}.ids.json"
    ids = read_json(file)
    if not isinstance(ids, list) or len(ids) != count:
        raise InputError(f"{file} does not list the ids of {count} vectors; export anew.")
    return ids
