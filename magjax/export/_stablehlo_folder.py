"""What a folder of exported programs holds, and whether it still does."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from magjax.checks import InputError, choose, positive_integer
from magjax.data import SIDES, TextSettings
from magjax.files import read_json
from magjax.similarity import Score

__all__ = [
    "EXPORT_FILE",
    "FORMAT",
    "PARAMETERS_FILE",
    "PLATFORMS",
    "check_files",
    "check_versions",
    "file_record",
    "read_about",
    "read_parameters",
    "read_program",
]

EXPORT_FILE = "export.json"
PARAMETERS_FILE = "parameters.safetensors"
FORMAT = 1
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")

_FIELDS = (
    "format",
    "magjax",
    "jax",
    "calling_convention_version",
    "platforms",
    "score",
    "normalized",
    "metric",
    "text",
    "pooling",
    "dim",
    "pad_id",
    "sides",
    "files",
)
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
# What encoders lower to: checks of free dimensions, and the error function of gelu. A program is
# data, but it can name any function that the installed jaxlib registers.
_CUSTOM_CALLS = {"shape_assertion", "stablehlo.dynamic_reduce_window"}
_CUSTOM_CALL = re.compile(
    r'custom_call\s*@(?:"([^"]*)"|([\w.$-]+))|call_target_name\s*=\s*"([^"]*)"'
)


def file_record(file: Path) -> dict[str, Any]:
    """What ``export.json`` keeps of a file: its size, and its SHA-256.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "a")
    >>> _ = file.write_bytes(b"a")
    >>> file_record(file)["bytes"], file_record(file)["sha256"][:8]
    (1, 'ca978112')
    """
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}


def read_about(folder: Path) -> dict[str, Any]:
    """The content of ``export.json``, every field checked."""
    about = read_json(folder / EXPORT_FILE)
    file = folder / EXPORT_FILE
    if not isinstance(about, dict) or "format" not in about:
        raise InputError(f"{file} describes no export.")
    if about["format"] != FORMAT:
        raise InputError(
            f"{file} has format {about['format']!r}; this version of magjax reads {FORMAT}."
        )
    if set(about) != set(_FIELDS):
        raise InputError(f"{file} needs exactly the fields {', '.join(_FIELDS)}.")
    try:
        _check_fields(about)
    except (InputError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is damaged ({error}); export the model again.") from error
    return about


def _check_fields(about: Mapping[str, Any]) -> None:
    TextSettings.from_json(about["text"])
    if about["score"] is not None:
        Score.from_json(about["score"])
    positive_integer("dim", about["dim"])
    choose("normalized", str(about["normalized"]), ("True", "False"))
    for platform in about["platforms"]:
        choose("platform", platform, PLATFORMS)
    if not about["sides"]:
        raise InputError("it has no sides")
    for side, described in about["sides"].items():
        choose("side", side, SIDES)
        positive_integer("max_length", described["max_length"])
        if not isinstance(described["parameters"], list):
            raise InputError(f"{side} has no list of parameters")
        for entry in described["programs"]:
            if entry["length"] is not None:
                positive_integer("length", entry["length"])
            about["files"][entry["file"]]


def check_versions(folder: Path, about: Mapping[str, Any]) -> None:
    """Refuses what the installed JAX cannot run here."""
    version = about["calling_convention_version"]
    first = jax.export.minimum_supported_calling_convention_version
    last = jax.export.maximum_supported_calling_convention_version
    if not isinstance(version, int) or not first <= version <= last:
        raise InputError(
            f"{folder} has calling convention {version!r}, and jax {jax.__version__} reads "
            f"{first} to {last}; it was written by jax {about['jax']}: export the model again."
        )
    platform = jax.export.default_export_platform()
    if platform not in about["platforms"]:
        raise InputError(
            f"{folder} was exported for {', '.join(about['platforms'])}, and JAX runs on "
            f"{platform} here; export it for {platform} too."
        )


def check_files(folder: Path, about: Mapping[str, Any]) -> None:
    """Refuses a file too few, too many or other than it was written."""
    named = {entry["file"] for side in about["sides"].values() for entry in side["programs"]} | {
        PARAMETERS_FILE,
        *_TOKENIZER_FILES,
    }
    listed, found = set(about["files"]), {file.name for file in folder.iterdir()} - {EXPORT_FILE}
    for problem, names in (
        ("does not list", named - listed),
        ("lists, but does not use,", listed - named),
        ("lists, but the folder lacks,", listed - found),
        ("does not list what lies beside it:", found - listed),
    ):
        if names:
            raise InputError(
                f"{folder}: {EXPORT_FILE} {problem} {', '.join(sorted(names))}; export the model "
                "again."
            )
    for name, record in about["files"].items():
        if file_record(folder / name) != record:
            raise InputError(
                f"{folder / name} is not the file that {EXPORT_FILE} describes (size or SHA-256 "
                "differs); copy the folder anew."
            )


def read_parameters(folder: Path, about: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors of ``parameters.safetensors``: exactly those that the sides name."""
    file = folder / PARAMETERS_FILE
    try:
        parameters = load_file(file)
    except (SafetensorError, TypeError, AttributeError) as error:
        raise InputError(f"{file} cannot be read as safetensors ({error}).") from error
    named = {name for side in about["sides"].values() for name in side["parameters"]}
    if named != set(parameters):
        some = ", ".join(sorted(named ^ set(parameters))[:4])
        raise InputError(f"{file} and {EXPORT_FILE} differ in {some}; export the model again.")
    return parameters


def read_program(
    file: Path, about: Mapping[str, Any], side: str, parameters: Mapping[str, np.ndarray]
) -> jax.export.Exported:
    """One program, when it is what ``export.json`` says and calls nothing strange."""
    try:
        program = jax.export.deserialize(bytearray(file.read_bytes()))
        text = program.mlir_module()
    except Exception as error:  # flatbuffers and MLIR raise whatever damage leads them to
        raise InputError(
            f"{file} is no program that jax {jax.__version__} reads ({type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else ''})."
        ) from error
    called = {"".join(groups) for groups in _CUSTOM_CALL.findall(text)} - _CUSTOM_CALLS
    if called:
        raise InputError(
            f"{file} calls {', '.join(sorted(called))}, which no encoder does; it is not run."
        )
    own = {name: parameters[name] for name in about["sides"][side]["parameters"]}
    arguments: Any = jax.tree.structure(((own, 0, 0), {}))
    shapes = [(own[name].shape, own[name].dtype) for name in sorted(own)]
    agrees = (
        program.calling_convention_version == about["calling_convention_version"]
        and list(program.platforms) == about["platforms"]
        and arguments == program.in_tree
        and [(aval.shape, aval.dtype) for aval in program.in_avals[:-2]] == shapes
        and [aval.shape[1:] for aval in program.out_avals] == [(about["dim"],)]
    )
    if not agrees:
        raise InputError(f"{file} is not the program that {EXPORT_FILE} describes.")
    return program
