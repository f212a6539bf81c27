"""Finished cells of a study: one small JSON file each, checked when read."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.config import with_later_keys
from magjax.files import read_json, write_text
from magjax.study._grid import Cell
from magjax.study._measured import Measured

__all__ = ["CellResult", "StoredCell", "read_cells"]

_FORMAT = 1
# What these parts of the data hold depends on the seed; tests are the same for every seed.
_OF_SEED = ("train", "development")


@dataclasses.dataclass(frozen=True)
class CellResult:
    """What computing a cell gave.

    Attributes:
        data: fingerprint of each part of the data.
        measured: one entry a test and system; empty for trials and for failed cells.
        development: of trained cells: ``metric``, ``value``, ``best_step`` and ``steps``.
        curve: of trained cells: per quantity, pairs of step and value.
        failure: why there is no model, for a run that diverged.

    >>> CellResult({"train": "f"}, [], {}, {}, failure="loss is nan at step 7").measured
    []
    """

    data: Mapping[str, str]
    measured: Sequence[Measured]
    development: Mapping[str, Any]
    curve: Mapping[str, Sequence[Sequence[float | int]]]
    failure: str | None = None


@dataclasses.dataclass(frozen=True)
class StoredCell:
    """A cell with its result and where it was computed; the contents of one file.

    Attributes:
        id: the cell's name, and the file's.
        role: as of :class:`magjax.study.Cell`, like the fields below it.
        task: as there.
        start: as there.
        variant: as there.
        seed: as there.
        trial: as there.
        metrics: as there.
        evaluations: as there.
        config: as there.
        result: what was found.
        versions: of Python, magjax and the libraries that numbers depend on.
        machine: processor, cores and devices.
        seconds: wall time.

    >>> StoredCell.read("/nowhere/a.json")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/a.json does not exist.
    """

    id: str
    role: str
    task: str
    start: str
    variant: str
    seed: int
    trial: int | None
    metrics: Sequence[str]
    evaluations: Sequence[str]
    config: Mapping[str, Any]
    result: CellResult
    versions: Mapping[str, str]
    machine: str
    seconds: float | int

    @classmethod
    def of(
        cls,
        cell: Cell,
        result: CellResult,
        *,
        versions: Mapping[str, str],
        machine: str,
        seconds: float | int,
    ) -> "StoredCell":
        """Puts together what is stored."""
        fields = {field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}
        return cls(
            id=cell.id, **fields, result=result, versions=versions, machine=machine, seconds=seconds
        )

    def cell(self) -> Cell:
        """The cell, to be computed again."""
        names = [field.name for field in dataclasses.fields(Cell)]
        values = {name: getattr(self, name) for name in names}
        for name in ("metrics", "evaluations"):
            values[name] = tuple(values[name])
        values["config"] = with_later_keys(values["config"])
        return Cell(**values)

    def write(self, folder: Path) -> None:
        """Writes ``ID.json`` in one rename: a line a field, and one a test and system."""
        value = {"format": _FORMAT, **dataclasses.asdict(self)}
        result = value.pop("result")
        measured = result.pop("measured")
        lines = [f"{_dump(key)}: {_dump(entry)}" for key, entry in (value | result).items()]
        rows = ",\n  ".join(map(_dump, measured))
        lines.append(f'"measured": [\n  {rows}\n ]' if measured else '"measured": []')
        write_text(folder / f"{self.id}.json", "{\n " + ",\n ".join(lines) + "\n}\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "StoredCell":
        """Reads and checks one file.

        Raises:
            InputError: no such file, another format, or a damaged or renamed one.
        """
        value = read_json(path)
        own = {field.name for field in dataclasses.fields(cls)} - {"result"}
        found = {field.name for field in dataclasses.fields(CellResult)}
        if not isinstance(value, dict) or value.get("format") != _FORMAT:
            raise InputError(f"{path} is no cell of format {_FORMAT}; delete it to have it anew.")
        wrong = sorted(({"format"} | own | found) ^ set(value))
        if wrong:
            raise InputError(f"{path}: field {wrong[0]!r} is missing or unknown; delete the file.")
        if value["id"] != Path(path).stem:
            raise InputError(f"{path} holds the cell {value['id']!r}; give the file its name back.")
        rows = value["measured"]
        if not isinstance(rows, list):
            raise InputError(f"{path}: 'measured' must be a list; delete the file.")
        measured = [Measured.from_json(row, f"{path}: measured[{i}]") for i, row in enumerate(rows)]
        result = CellResult(**{key: value[key] for key in found} | {"measured": measured})
        return cls(**{key: value[key] for key in own}, result=result)

    @property
    def numbers(self) -> dict[str, Any]:
        """All that a rerun must find again, to the bit."""
        result = dataclasses.asdict(self.result)
        return json.loads(_dump({key: result[key] for key in result if key != "data"}))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_cells(folder: str | os.PathLike[str]) -> list[StoredCell]:
    """All cells of a folder, by name.

    Args:
        folder: such as ``docs/studies/NAME/cells``.

    Raises:
        InputError: no such folder, a damaged file, or cells of different data or versions.

    >>> read_cells("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere is no folder; name the cells/ of a study.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{root} is no folder; name the cells/ of a study.")
    cells = [StoredCell.read(path) for path in sorted(root.glob("*.json"))]
    firsts: dict[tuple[Any, ...], StoredCell] = {}
    for cell in cells:
        for key in ((), (cell.task,), (cell.task, cell.seed)):
            other = firsts.setdefault(key, cell)
            check_alike(other, cell.task, cell.seed, cell.result.data, cell.versions, cell.id, root)
    return cells


def check_alike(
    stored: StoredCell,
    task: str,
    seed: int,
    data: Mapping[str, str],
    versions: Mapping[str, str],
    name: str,
    folder: Path,
) -> None:
    """Refuses to put a cell beside a stored one of other data or versions.

    Raises:
        InputError: they differ; the message says in what.
    """
    differ = {
        key: (stored.versions.get(key, "none"), versions.get(key, "none"))
        for key in [*stored.versions, *versions]
        if stored.versions.get(key) != versions.get(key)
    }
    if stored.task == task:
        for part in stored.result.data.keys() & data.keys():
            same_draw = stored.seed == seed or part not in _OF_SEED
            if same_draw and stored.result.data[part] != data[part]:
                differ[f"data {part!r}"] = (stored.result.data[part], data[part])
    if differ:
        shown = "; ".join(f"{key} {old} there, {new} here" for key, (old, new) in differ.items())
        raise InputError(
            f"cell {name} cannot stand beside {folder / stored.id}.json: {shown}. Install what the "
            "stored cells were made with, choose another --out, or delete them."
        )
