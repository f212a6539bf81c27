"""Tokenizers of checkpoints from before ``tokenizer.json``."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from magjax.checks import InputError

__all__ = ["VOCABULARY_FILES", "convert_vocabulary"]

# One of these is in every folder that transformers can convert.
VOCABULARY_FILES = ("vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")


def convert_vocabulary(root: Path, config: dict[str, Any]) -> tuple[Tokenizer, dict[str, Any]]:
    """The fast form and the settings of a folder without ``tokenizer.json``, by transformers.

    Raises:
        InputError: transformers cannot load it, or has no fast form of it.

    >>> import tempfile, pathlib
    >>> convert_vocabulary(pathlib.Path(tempfile.mkdtemp()), {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: ... add the checkpoint's tokenizer.json.
    """
    # Seconds to import, and only such folders need it.
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(
            str(root), local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # whatever a foreign vocabulary makes it raise
        raise InputError(
            f"{root} holds a vocabulary that transformers cannot load ({error}); "
            "add the checkpoint's tokenizer.json."
        ) from error
    tokenizer = getattr(loaded, "backend_tokenizer", None)
    if tokenizer is None:
        raise InputError(
            f"{root} has a {type(loaded).__name__}, which has no fast form; "
            "add the checkpoint's tokenizer.json."
        )
    stated = {"pad_token": loaded.pad_token, "model_max_length": loaded.model_max_length}
    return tokenizer, {**{k: v for k, v in stated.items() if v is not None}, **config}
