"""No folder of exported programs is taken on trust."""

import json
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from safetensors.numpy import load_file, save_file
from serving_cases import tiny_model

from magjax.checks import InputError
from magjax.export._exported import load_exported
from magjax.export._stablehlo import export_encoders
from magjax.export._stablehlo_folder import file_record

pytest.importorskip("flatbuffers", reason="flatbuffers is not installed (the stablehlo extra)")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Model and folder of an ordinary export."""
    model = tiny_model()
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_encoders(model, folder)
    return model, folder


@pytest.fixture
def copy(exported, tmp_path):
    """A copy of the export that a test may spoil."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in exported[1].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"platforms": ("gpu",)}, "unknown platform 'gpu'; known: cpu, cuda, rocm, tpu"),
        ({"platforms": ()}, "must list at least one"),
        ({"platforms": "cpu"}, "must list at least one"),
        ({"sides": ("query", "query")}, "each once"),
        ({"sides": ("doc",)}, "unknown side 'doc'"),
    ],
)
def test_wrong_settings_are_refused(exported, tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        export_encoders(exported[0], tmp_path / "model", **settings)
    assert list(tmp_path.iterdir()) == []


def test_only_an_earlier_export_is_replaced_and_only_when_asked(exported, copy, tmp_path):
    with pytest.raises(InputError, match="exists; name another folder"):
        export_encoders(exported[0], copy)
    export_encoders(exported[0], copy, sides=["query"], overwrite=True)
    assert load_exported(copy).sides == ("query",)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="something else than an export"):
        export_encoders(exported[0], tmp_path / "other", overwrite=True)
    assert (tmp_path / "other" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize(
    "name",
    ["query.stablehlo", "document.stablehlo", "parameters.safetensors", "tokenizer.json"],
)
def test_damaged_missing_and_unknown_files_are_refused(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is not the file"):
        load_exported(copy)
    (copy / name).unlink()
    with pytest.raises(InputError, match=rf"the folder lacks, {name}"):
        load_exported(copy)


def test_a_file_that_nobody_listed_is_refused(copy):
    (copy / "extra.py").write_text("print('hello')")
    with pytest.raises(InputError, match=r"beside it: extra\.py"):
        load_exported(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2; this version of magjax reads 1"),
        ({"calling_convention_version": 1}, "calling convention 1, and jax .* reads 9 to"),
        ({"calling_convention_version": "10"}, "calling convention '10'"),
        ({"platforms": ["tpu"]}, "exported for tpu, and JAX runs on cpu here"),
        ({"platforms": ["cpu", "tpu"]}, "not the program that"),
        ({"dim": 8}, "not the program that"),
        ({"dim": -1}, "damaged"),
        ({"pad_id": 4}, "pads with 0"),
        ({"score": {"variant": "qnorm"}}, "damaged"),
        ({"sides": {}}, "damaged"),
        ({"sides": []}, "damaged"),
        ({"files": {}}, "damaged"),
        ({"more": 1}, "needs exactly the fields"),
    ],
    ids=str,
)
def test_a_changed_description_is_refused(copy, change, message):
    about = json.loads((copy / "export.json").read_text())
    (copy / "export.json").write_text(json.dumps(about | change))
    with pytest.raises(InputError, match=message):
        load_exported(copy)


def replace_file(folder: Path, name: str, content: bytes) -> None:
    """As a forger would: with the hash made to fit."""
    (folder / name).write_bytes(content)
    about = json.loads((folder / "export.json").read_text())
    about["files"][name] = file_record(folder / name)
    (folder / "export.json").write_text(json.dumps(about))


def program_of(function, *arguments) -> bytes:
    return bytes(jax.export.export(jax.jit(function))(*arguments).serialize())


def test_a_program_that_is_another_or_calls_strange_functions_is_refused(copy):
    replace_file(copy, "query.stablehlo", program_of(lambda x: x + 1, jnp.ones(2)))
    with pytest.raises(InputError, match="is not the program that"):
        load_exported(copy)
    replace_file(copy, "query.stablehlo", program_of(jnp.linalg.eigvalsh, jnp.eye(2)))
    with pytest.raises(InputError, match=r"calls lapack_ssyevd_ffi, which no encoder does"):
        load_exported(copy)
    replace_file(copy, "query.stablehlo", b"no program at all")
    with pytest.raises(InputError, match="is no program that jax"):
        load_exported(copy)
    replace_file(copy, "query.stablehlo", pickle.dumps(print))
    with pytest.raises(InputError, match="is no program that jax"):
        load_exported(copy)


def test_parameters_of_another_model_are_refused(copy):
    stored = load_file(copy / "parameters.safetensors")
    name = sorted(stored)[0]
    fewer = {key: value for key, value in stored.items() if key != name}
    save_file(fewer, copy / "other.safetensors")
    replace_file(copy, "parameters.safetensors", (copy / "other.safetensors").read_bytes())
    (copy / "other.safetensors").unlink()
    with pytest.raises(InputError, match="differ in query_tower/"):
        load_exported(copy)
    save_file(stored | {name: stored[name][:-1].copy()}, copy / "other.safetensors")
    replace_file(copy, "parameters.safetensors", (copy / "other.safetensors").read_bytes())
    (copy / "other.safetensors").unlink()
    with pytest.raises(InputError, match="is not the program that"):
        load_exported(copy)
