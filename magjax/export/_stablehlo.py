"""Encoders as StableHLO programs, which run wherever JAX does without magjax's code."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from flax import nnx
from safetensors.numpy import save_file

from magjax import __version__
from magjax.checks import InputError, choose, need
from magjax.data import SIDES, TextPreprocessor
from magjax.encoders import DualEncoder, TextEncoder
from magjax.export._shapes import padded_lengths
from magjax.export._stablehlo_folder import (
    EXPORT_FILE,
    FORMAT,
    PARAMETERS_FILE,
    PLATFORMS,
    file_record,
)
from magjax.files import open_to_readers, write_bytes, write_folder, write_json
from magjax.hub import Model
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["export_encoders"]


def export_encoders(
    model: Model,
    path: str | Path,
    *,
    platforms: Sequence[str] = ("cpu",),
    sides: Sequence[str] = SIDES,
    normalized: bool = True,
    overwrite: bool = False,
) -> None:
    """Writes each side's encoder, its normalization included, as a program of its own.

    A program takes the parameters and token batches and gives float32 embeddings
    ``[batch, dim]`` whose inner product is the trained score. It is what ``jax.export``
    serializes: StableHLO in a flatbuffer, no pickle. JAX reads it back for at least six months of
    releases; longer-lived is the model folder that it was made from.

    Files: ``query.stablehlo`` and ``document.stablehlo``; ``parameters.safetensors``;
    ``tokenizer.json`` and ``tokenizer_config.json``; ``export.json``, which says what they are,
    with the SHA-256 of each. The parameters are arguments of the programs, in one file for both:
    as constants, a shared tower would be stored twice and every new shape compiled with all of its
    weights inside. Batch and length are free, so that one program serves all shapes up to the
    side's length; where the encoder computes position distances in Python (MPNet) there is one
    program a padded length, ``query.16.stablehlo`` and so on, each with a free batch.

    To read a side without magjax::

        about = json.load(open("export.json"))["sides"]["query"]
        program = jax.export.deserialize(bytearray(open("query.stablehlo", "rb").read()))
        stored = safetensors.numpy.load_file("parameters.safetensors")
        parameters = {name: stored[name] for name in about["parameters"]}
        embeddings = jax.jit(program.call)(parameters, input_ids, attention_mask)

    Args:
        model: what to export; its score must be stated if ``normalized``.
        path: folder to write; it appears as a whole or not at all.
        platforms: where the programs can run: cpu, cuda, rocm, tpu. None of them is needed here.
        sides: ``query``, ``document`` or both.
        normalized: apply the score's normalization; otherwise raw embeddings come out.
        overwrite: replace an earlier export at ``path``.

    Raises:
        InputError: an unknown platform or side, a model without a score or with towers of CLIP or
            SigLIP, a ``path`` that exists
            (or, with ``overwrite``, holds something else than an export), or no flatbuffers.

    >>> import tempfile
    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)
    >>> folder = Path(tempfile.mkdtemp(), "exported")
    >>> export_encoders(model, folder, sides=["query"])
    >>> sorted(file.name for file in folder.iterdir())
    ['export.json', 'parameters.safetensors', 'query.stablehlo', 'tokenizer.json', 'tokenizer_config.json']
    >>> export_encoders(model, folder, platforms=["metal"])
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown platform 'metal'; known: cpu, cuda, rocm, tpu.
    """
    need("flatbuffers", "stablehlo")  # jax.export needs it to serialize, and says so much later
    _check_names("platform", platforms, PLATFORMS)
    _check_names("side", sides, SIDES)
    target = Path(path)
    _check_target(target, overwrite)
    model.require_bert("a StableHLO export")
    score = model.require_score() if normalized else model.score
    text = TextPreprocessor(model.tokenizer, model.text).settings  # the limits in force
    stored: dict[str, np.ndarray] = {}
    described: dict[str, Any] = {}
    with write_folder(target) as folder:
        for side in (side for side in SIDES if side in sides):
            tower = _Side(model.encoder, side, score if normalized else None)
            stored |= tower.parameters
            written = []
            for length in tower.lengths(text.max_length(side)):
                name = f"{side}.stablehlo" if length is None else f"{side}.{length}.stablehlo"
                program = tower.export(length, text.max_length(side), platforms)
                write_bytes(folder / name, bytes(program.serialize()))
                written.append({"file": name, "length": length})
            described[side] = {
                "programs": written,
                "max_length": text.max_length(side),
                "parameters": sorted(tower.parameters),
            }
        save_file(stored, folder / PARAMETERS_FILE)
        open_to_readers(folder / PARAMETERS_FILE)
        model.tokenizer.save(folder)
        write_json(
            folder / EXPORT_FILE,
            {
                "format": FORMAT,
                "magjax": __version__,
                "jax": jax.__version__,
                "calling_convention_version": program.calling_convention_version,
                "platforms": list(platforms),
                "score": None if score is None else score.to_json(),
                "normalized": normalized,
                "metric": "inner product" if normalized else None,
                "text": text.to_json(),
                "pooling": model.encoder.pooling,
                "dim": model.encoder.dim,
                "pad_id": model.tokenizer.pad_id,
                "sides": described,
                "files": {file.name: file_record(file) for file in sorted(folder.iterdir())},
            },
        )


class _Side:
    """One side of a dual encoder: the parameters that it uses, and its program."""

    def __init__(self, encoder: DualEncoder, side: Side, score: Score | None):
        self._side = side
        self._score = score
        tower = encoder.tower(side)
        assert isinstance(tower, TextEncoder)
        self._tower = tower
        # Only what the side uses: the other side's tower would otherwise be an argument too.
        own = DualEncoder(
            self._tower, pooling=encoder.pooling, projection=encoder.side_projection(side)
        )
        self._graph, state = nnx.split(own)
        self._state = list(nnx.to_flat_state(state))
        renamed = {}
        if side == "document" and encoder.document_tower is not None:
            renamed["query_tower"] = "document_tower"
        if side == "document" and encoder.document_projection is not None:
            renamed["projection"] = "document_projection"
        self._names = [
            "/".join([renamed.get(str(path[0]), str(path[0])), *map(str, path[1:])])
            for path, _ in self._state
        ]
        self.parameters = {
            name: np.ascontiguousarray(np.asarray(variable[...]))
            for name, (_, variable) in zip(self._names, self._state, strict=True)
        }

    def lengths(self, limit: int) -> Sequence[int | None]:
        """One program for every length (None), or one for each of these."""
        return padded_lengths(limit) if self._tower.config.family.relative_bias else (None,)

    def export(
        self, length: int | None, limit: int, platforms: Sequence[str]
    ) -> jax.export.Exported:
        """The program of one length, or of all from 1 to ``limit``."""
        constraint = [f"length <= {limit}"] if length is None else []
        shape = jax.export.symbolic_shape(
            f"batch, {'length' if length is None else length}", constraints=constraint
        )
        tokens = jax.ShapeDtypeStruct(cast(Any, shape), np.int32)
        parameters = {
            name: jax.ShapeDtypeStruct(value.shape, value.dtype)
            for name, value in self.parameters.items()
        }
        with _without_source_lines():
            return jax.export.export(jax.jit(self._function()), platforms=tuple(platforms))(
                parameters, tokens, tokens
            )

    def _function(self) -> Callable[..., jax.Array]:
        def embed(
            parameters: Mapping[str, jax.Array], input_ids: jax.Array, attention_mask: jax.Array
        ) -> jax.Array:
            filled = [
                (path, variable.replace(parameters[name]))
                for name, (path, variable) in zip(self._names, self._state, strict=True)
            ]
            encoder = nnx.merge(self._graph, nnx.from_flat_state(filled))
            batch = {"input_ids": input_ids, "attention_mask": attention_mask}
            embeddings = encoder.embed(batch, "query")  # the only side of this encoder
            return (
                embeddings if self._score is None else self._score.normalize(embeddings, self._side)
            )

        return embed


@contextlib.contextmanager
def _without_source_lines() -> Iterator[None]:
    """Programs without the paths of this machine, so that the same model gives the same bytes."""
    before = getattr(jax.config, "jax_traceback_in_locations_limit")  # noqa: B009  (made at run time)
    jax.config.update("jax_traceback_in_locations_limit", 0)
    try:
        yield
    finally:
        jax.config.update("jax_traceback_in_locations_limit", before)


def _check_names(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(names, str) or not names or len(set(names)) != len(names):
        raise InputError(
            f"{kind}s={names!r} must list at least one of {', '.join(known)}, each once."
        )
    for name in names:
        choose(kind, name, known)


def _check_target(target: Path, overwrite: bool) -> None:
    if target.exists() and not overwrite:
        raise InputError(f"{target} exists; name another folder, or ask to overwrite it.")
    if target.exists() and not (target / EXPORT_FILE).is_file():
        raise InputError(
            f"{target} holds something else than an export, which writing would replace; name a "
            "new folder."
        )
