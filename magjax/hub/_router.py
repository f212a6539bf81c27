"""The modules that each side of a sentence-transformers folder passes through, routers resolved."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from magjax.checks import InputError
from magjax.data import SIDES
from magjax.files import read_json
from magjax.typing import Side

__all__ = ["MODULES_FILE", "ROUTER_FILE", "Part", "read_chains"]

MODULES_FILE = "modules.json"
ROUTER_FILE = "router_config.json"
_OLD_ROUTER_FILE = "config.json"  # of Asym, the router's name before version 5
_ROUTERS = ("Router", "Asym")
# All that is known. A name in a file is looked up here and never imported.
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize", "Dropout", *_ROUTERS)
_ORDERS = (
    ("Transformer", "Pooling"),
    ("Transformer", "Pooling", "Dense"),
    ("Transformer", "Pooling", "Normalize"),
    ("Transformer", "Pooling", "Dense", "Normalize"),
)


@dataclasses.dataclass(frozen=True)
class Part:
    """One module: what it is, and the folder of its files.

    >>> Part("Normalize", Path("2_Normalize")).kind
    'Normalize'
    """

    kind: str
    folder: Path


def read_chains(folder: Path) -> dict[Side, dict[str, Path]]:
    """The folders of each side's modules by their kind, in the order in which they run.

    A router with the routes ``query`` and ``document`` may stand anywhere: in front, with a tower
    in each route, or behind a common tower. A route may be empty; ``Dropout`` after pooling does
    nothing outside training and is left out, so both are a route that changes nothing.

    Raises:
        InputError: a module, an order, a route or a path that is not supported; the sentence says
            which. Nothing that a file names is imported or run.

    >>> import tempfile
    >>> from magjax.files import write_json
    >>> root = Path(tempfile.mkdtemp())
    >>> kinds = ("Transformer", "Pooling", "Normalize")
    >>> write_json(root / MODULES_FILE, [{"idx": i, "path": f"{i}", "type":
    ...     f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)])
    >>> list(read_chains(root)["query"])
    ['Transformer', 'Pooling', 'Normalize']
    """
    chains: dict[Side, list[Part]] = {side: [] for side in SIDES}
    file = folder / MODULES_FILE
    for part in _listed(file):
        routes = _routes(part.folder) if part.kind in _ROUTERS else None
        for side, chain in chains.items():
            chain.extend([part] if routes is None else routes[side])
    result: dict[Side, dict[str, Path]] = {}
    for side, chain in chains.items():
        kinds = [part.kind for part in chain]
        pooled = kinds.index("Pooling") if "Pooling" in kinds else len(kinds)
        effective = [
            part
            for place, part in enumerate(chain)
            if not (part.kind == "Dropout" and place > pooled)
        ]
        if tuple(part.kind for part in effective) not in _ORDERS:
            raise InputError(
                f"{file} chains {' > '.join(kinds) or 'nothing'} for the {side} side; supported is "
                "Transformer > Pooling, then optionally Dense, then optionally Normalize, in one "
                "chain or in the routes of a Router."
            )
        result[side] = {part.kind: part.folder for part in effective}
    return result


def _listed(file: Path) -> list[Part]:
    modules = read_json(file)
    try:
        ordered = sorted(modules, key=lambda module: module["idx"])
        named = [(module["type"], module["path"]) for module in ordered]
    except (TypeError, KeyError) as error:
        raise InputError(f'{file} must list objects with "idx", "path" and "type".') from error
    return [Part(_kind(name, file), _inside(file, path)) for name, path in named]


def _routes(folder: Path) -> dict[Side, list[Part]]:
    file = folder / ROUTER_FILE
    if not file.is_file() and (folder / _OLD_ROUTER_FILE).is_file():
        file = folder / _OLD_ROUTER_FILE
    config = read_json(file)
    types = config.get("types") if isinstance(config, Mapping) else None
    structure = config.get("structure") if isinstance(config, Mapping) else None
    if not isinstance(types, Mapping) or not isinstance(structure, Mapping):
        raise InputError(f'{file} must hold "types" and "structure" of its routes.')
    if set(structure) != set(SIDES):
        raise InputError(
            f"{file} has the routes {', '.join(map(str, structure)) or 'none'}; exactly query and "
            "document are supported."
        )
    parameters = config.get("parameters")
    if isinstance(parameters, Mapping) and parameters.get("route_mappings"):
        raise InputError(
            f"{file} maps tasks and modalities to routes (route_mappings), which is not supported; "
            "name the routes query and document instead."
        )
    parts = {}
    for name, kind in types.items():
        parts[name] = Part(_kind(kind, file), _inside(file, name))
        if parts[name].kind in _ROUTERS:
            raise InputError(f"{file} holds a router within a router, which is not supported.")
    for side, names in structure.items():
        if not isinstance(names, list) or not set(names) <= set(parts):
            raise InputError(
                f'{file}: the route {side} must list names in "types"; it is {names!r}.'
            )
    return {side: [parts[name] for name in structure[side]] for side in SIDES}


def _kind(name: Any, file: Path) -> str:
    package, _, kind = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not package.startswith("sentence_transformers.") or kind not in _KINDS:
        raise InputError(
            f"{file} names the module {name!r}; known: {', '.join(_KINDS)} of "
            "sentence_transformers. Other modules would need their own code."
        )
    return kind


def _inside(file: Path, path: Any) -> Path:
    # Windows' rules know drives and both slashes: a folder is refused wherever it was written.
    pure = PureWindowsPath(path) if isinstance(path, str) else None
    if pure is None or pure.anchor or ".." in pure.parts or "\0" in path:
        raise InputError(f"{file} names a path outside its folder: {path!r}.")
    return file.parent / path
