"""The closed table of packages that the code-search corpus is mined from.

Each is a run-time requirement of magjax or a direct dependency of one, so that installing
magjax from its pinned versions fixes the corpus. Nothing else that happens to be installed
counts, and neither does the standard library.
"""

__all__ = ["OUT_OF_DOMAIN_PACKAGES", "TRAINING_PACKAGES"]

# Numerics, machine learning and the moving of data.
TRAINING_PACKAGES = (
    "absl-py",
    "bm25s",
    "etils",
    "flax",
    "grain",
    "huggingface_hub",
    "jax",
    "jaxtyping",
    "ml-collections",
    "numpy",
    "optax",
    "orbax-checkpoint",
    "packaging",
    "protobuf",
    "psutil",
    "pyarrow",
    "requests",
    "safetensors",
    "scipy",
    "simple_parsing",
    "tensorboardX",
    "tensorflow-datasets",
    "tokenizers",
    "transformers",
    "treescope",
)

# Pictures, fonts, parsing and text on a terminal: other words for other things.
OUT_OF_DOMAIN_PACKAGES = (
    "contourpy",
    "fonttools",
    "markdown-it-py",
    "matplotlib",
    "pillow",
    "pygments",
    "pyparsing",
    "python-dateutil",
    "regex",
    "rich",
    "tqdm",
    "typer",
)
