"""Where numbers were computed: versions that they depend on, and the machine."""

import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

import jax

from magjax import __version__

__all__ = ["cache_programs", "describe_machine", "library_versions"]

_LIBRARIES = ("jax", "jaxlib", "flax", "optax", "numpy", "tokenizers")


def library_versions() -> dict[str, str]:
    """Versions of Python, magjax and the libraries that a run's numbers depend on.

    >>> sorted(library_versions())[:2]
    ['flax', 'jax']
    """
    found = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {"python": platform.python_version(), "magjax": __version__} | found


def describe_machine() -> str:
    """Processor, cores and devices in one line.

    >>> "cores" in describe_machine()
    True
    """
    source, processor = Path("/proc/cpuinfo"), platform.processor() or platform.machine()
    if source.is_file():
        text = source.read_text(encoding="utf-8", errors="replace")
        named = text.partition("model name")[2].partition("\n")[0].strip("\t :")
        processor = named or processor
    devices = jax.devices()
    return f"{processor}, {os.cpu_count()} cores, {len(devices)} x {devices[0].device_kind}"


def cache_programs(folder: str | os.PathLike[str]) -> None:
    """Keeps compiled programs on disk, so that cells of the same shapes compile once.

    A cache that the user has set (``JAX_COMPILATION_CACHE_DIR``) stays. Programs are of one kind
    of machine: each gets a folder of its own.

    Args:
        folder: of the study's runs; the cache is made inside.

    >>> cache_programs("runs/study_toy")  # doctest: +SKIP
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        flags = os.environ.get("XLA_FLAGS", "")
        name = hashlib.sha256(f"{describe_machine()} {flags}".encode()).hexdigest()[:8]
        jax.config.update(
            "jax_compilation_cache_dir", str(Path(folder).absolute() / f"compiled-{name}")
        )
        # Most programs of a small model compile in less than the default of a second.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
