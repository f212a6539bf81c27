"""What holds for the package as a whole: docstrings, examples, and a light import."""

import importlib
import inspect
import subprocess
import sys

import pytest

MODULES = (
    "analysis",
    "checks",
    "config",
    "data",
    "encoders",
    "evaluation",
    "evaluation.mteb",
    "evaluation.rag",
    "evaluation.suites",
    "export",
    "files",
    "fisher",
    "hub",
    "losses",
    "mesh",
    "similarity",
    "statistics",
    "study",
    "tables",
    "training",
    "trees",
)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_docstring_with_an_example(name):
    module = importlib.import_module(f"magjax.{name}")
    assert module.__doc__
    assert module.__all__
    lacking = []
    for public in module.__all__:
        thing = getattr(module, public)
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and ">>>" not in (
            inspect.getdoc(thing) or ""
        ):
            lacking.append(public)
    assert not lacking


def test_imports_bring_no_heavy_library():
    """torch, TFDS, transformers and pictures only when asked, whatever of magjax is imported."""
    code = "\n".join(
        [f"import magjax.{name}" for name in MODULES]
        + [
            "import sys",
            "heavy = ['torch', 'tensorflow_datasets', 'transformers', 'matplotlib', 'tensorflow',",
            "         'sentence_transformers', 'faiss', 'mteb', 'lancedb', 'qdrant_client', 'psycopg', 'starlette', 'datasets', 'huggingface_hub', 'sklearn', 'PIL']",
            "print([name for name in heavy if name in sys.modules])",
        ]
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.strip() == "[]"


def test_importing_magjax_imports_nothing_else():
    code = "import magjax, sys; print([m for m in ('jax', 'flax', 'numpy') if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == "[]"
