"""The notebooks of colab/: made from their sources, without outputs, and each runs to its end."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "colab"


def make_notebooks():
    spec = importlib.util.spec_from_file_location("make_notebooks", FOLDER / "make_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = make_notebooks().NAMES


def cells(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def code(name):
    return ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]


def test_every_source_and_every_notebook_is_listed():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)
    assert {path.stem for path in FOLDER.glob("*.py")} == {*NAMES, "make_notebooks"}


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_what_its_source_makes(name):
    pytest.importorskip("jupytext", reason="jupytext is not installed (the notebooks extra)")
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    made = make_notebooks().notebook_text(source)
    stored = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert made == stored, "run python colab/make_notebooks.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_holds_no_outputs_and_steady_cell_ids(name):
    found = cells(name)
    for cell in found:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
        assert cell["metadata"] == {}
    assert [cell["id"] for cell in found] == [f"cell-{i:02d}" for i in range(len(found))]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_names_no_path_of_one_machine(name):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    # Absolute paths but those of the devices by which the install cell knows a TPU.
    found = re.findall(r"(?<![\w.:/\\)$}])/(?!dev/)[a-z]+/[\w./-]*", text)
    assert not found
    assert "MAGJAX_DATA" not in text


def test_all_notebooks_install_alike_and_name_one_address():
    (install,) = {next(cell for cell in code(name) if "REPOSITORY" in cell) for name in NAMES}
    assert len(re.findall(r"https://", install)) == 1
    for name in NAMES:
        rest = [cell for cell in code(name) if cell != install]
        assert not [cell for cell in rest if "http" in cell or "subprocess" in cell]


KERNEL = "this-interpreter"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """What kernels see: small settings, this checkout, one device, and compiled programs shared."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    kept = [flag for flag in flags if "host_platform_device_count" not in flag]
    folder = tmp_path_factory.mktemp("kernels")
    # A kernel of this very interpreter, whatever kernels the machine has installed.
    spec = folder / "share" / "kernels" / KERNEL
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    text = json.dumps({"argv": argv, "display_name": KERNEL, "language": "python"})
    (spec / "kernel.json").write_text(text, encoding="utf-8")
    return os.environ | {
        "MAGJAX_SMALL": "1",
        "PYTHONPATH": str(FOLDER.parent),
        "XLA_FLAGS": " ".join(kept),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JUPYTER_PATH": str(folder / "share"),
        "IPYTHONDIR": str(folder / "ipython"),
        "TMPDIR": str(folder),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_to_its_end(name, tmp_path, environment):
    for module in ("nbclient", "ipykernel"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (the notebooks extra)")
    place = tmp_path / "elsewhere"
    place.mkdir()
    shutil.copy(FOLDER / f"{name}.ipynb", place)
    # In a process of its own: Jupyter leaves sockets open, which tests count as errors.
    program = "from nbclient.cli import main; main()"
    settings = [f"--kernel_name={KERNEL}", "--timeout=600", "--output=executed"]
    done = subprocess.run(
        [sys.executable, "-c", program, str(place / f"{name}.ipynb"), *settings],
        env=environment,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    assert done.returncode == 0, plain[-4000:]
    executed = json.loads((place / "executed.ipynb").read_text(encoding="utf-8"))
    found = [cell for cell in executed["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in found)
    outputs = [output for cell in found for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert [output for output in outputs if "image/png" in output.get("data", {})]
    # Whatever a notebook writes is in a folder of its own making.
    assert {path.name for path in place.iterdir()} == {f"{name}.ipynb", "executed.ipynb"}
