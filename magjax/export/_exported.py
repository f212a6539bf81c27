"""Reading exported encoders back; no encoder code of magjax takes part."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from magjax.checks import InputError, choose, need, positive_integer
from magjax.data import SIDES, TextPreprocessor, TextSettings, TextTokenizer
from magjax.export._shapes import batches
from magjax.export._stablehlo_folder import (
    check_files,
    check_versions,
    read_about,
    read_parameters,
    read_program,
)
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["ExportedEncoders", "load_exported"]


class ExportedEncoders:
    """The programs of an export folder, ready to embed texts; made by :func:`load_exported`.

    Attributes:
        score: what the model was trained for, or None if it stated none.
        normalized: whether embeddings carry the score's normalization, so that their inner
            product is the score.
        text: prompts and lengths in force.
        dim: dimensions of an embedding.
        sides: the sides that were exported.

    >>> ExportedEncoders.__name__
    'ExportedEncoders'
    """

    def __init__(
        self,
        about: Mapping[str, Any],
        programs: Mapping[str, Mapping[int | None, jax.export.Exported]],
        parameters: Mapping[str, np.ndarray],
        tokenizer: TextTokenizer,
    ):
        self.score = None if about["score"] is None else Score.from_json(about["score"])
        self.normalized: bool = about["normalized"]
        self.text = TextSettings.from_json(about["text"])
        self.dim: int = about["dim"]
        self.sides: tuple[str, ...] = tuple(side for side in SIDES if side in programs)
        self._preprocessor = TextPreprocessor(tokenizer, self.text)
        placed = {name: jax.device_put(value) for name, value in parameters.items()}
        self._parameters = {
            side: {name: placed[name] for name in about["sides"][side]["parameters"]}
            for side in self.sides
        }
        self._programs = {
            side: {length: jax.jit(program.call) for length, program in programs[side].items()}
            for side in self.sides
        }

    def encode(
        self, texts: Sequence[str], side: Side, *, tokens_per_batch: int = 2048
    ) -> np.ndarray:
        """Embeds ``texts``: float32 ``[texts, dim]`` in the order given.

        The side's prompt is put before each, and what is longer than its length is cut, as the
        model itself does. Texts of about equal length share a batch; each shape compiles once.

        Args:
            texts: any number, empty strings allowed.
            side: ``"query"`` or ``"document"``.
            tokens_per_batch: tokens of a batch, padding included.

        Raises:
            InputError: a side that was not exported, or a count below 1.
        """
        budget = positive_integer("tokens_per_batch", tokens_per_batch)
        choose("exported side", side, self.sides)
        tokens = self._preprocessor.tokenize(list(texts), side)
        result = np.empty((len(tokens), self.dim), np.float32)
        limit = self._preprocessor.settings.max_length(side)
        for places, length, size in batches([len(row) for row in tokens], limit, budget):
            filled = [tokens[place] for place in places] + [tokens[0][:0]] * (size - len(places))
            result[places] = self.encode_tokens(
                **self._preprocessor.pad(filled, length=length), side=side
            )[: len(places)]
        return result

    def encode_tokens(
        self, input_ids: np.ndarray, attention_mask: np.ndarray, *, side: Side
    ) -> np.ndarray:
        """Embeds one padded batch: float32 ``[batch, dim]``.

        Args:
            input_ids: int32 ``[batch, length]``, at least one row.
            attention_mask: the same shape, 1 at tokens and 0 at padding.
            side: ``"query"`` or ``"document"``.

        Raises:
            InputError: a side or a length that was not exported.
        """
        programs = self._programs[choose("exported side", side, self.sides)]
        length = input_ids.shape[1]
        limit = self._preprocessor.settings.max_length(side)
        program = programs.get(None if None in programs else length)
        if program is None or length > limit:
            known = f"1 to {limit}" if None in programs else ", ".join(map(str, programs))
            raise InputError(f"a batch of length {length} fits no {side} program; known: {known}.")
        return np.asarray(program(self._parameters[side], input_ids, attention_mask))


def load_exported(path: str | os.PathLike[str]) -> ExportedEncoders:
    """Reads a folder that ``export_encoders`` wrote, checking all of it first.

    The hashes find damage and files of another export. They do not make a stranger's folder
    trustworthy, so programs that call anything but what encoders need are refused as well.

    Raises:
        InputError: a missing, unknown, damaged or foreign file; a format or calling convention
            that the installed versions do not read; or programs for other platforms than JAX's
            default one here.

    >>> load_exported("/nowhere/exported")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere/exported/export.json does not exist.
    """
    need("flatbuffers", "stablehlo")
    folder = Path(path)
    about = read_about(folder)
    check_versions(folder, about)
    check_files(folder, about)
    parameters = read_parameters(folder, about)
    programs = {
        side: {
            entry["length"]: read_program(folder / entry["file"], about, side, parameters)
            for entry in described["programs"]
        }
        for side, described in about["sides"].items()
    }
    tokenizer = TextTokenizer.load(folder)
    if tokenizer.pad_id != about["pad_id"]:
        raise InputError(f"{folder}: the tokenizer pads with {tokenizer.pad_id}; export it again.")
    return ExportedEncoders(about, programs, parameters, tokenizer)
