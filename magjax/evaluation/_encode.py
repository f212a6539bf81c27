"""Texts to embeddings: batches of about equal cost, few shapes, rows over all devices."""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from magjax.checks import InputError, positive_integer
from magjax.data import TextPreprocessor
from magjax.encoders import DualEncoder
from magjax.mesh import data_mesh, replicate, rows
from magjax.typing import Side

__all__ = ["embed_batches", "encode", "encode_tokens"]

_IN_FLIGHT = 4  # batches on the devices while the host pads the next ones


def encode(
    encoder: DualEncoder,
    preprocessor: TextPreprocessor,
    texts: Sequence[str],
    side: Side,
    *,
    ids: Sequence[str] | None = None,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    block_size: int = 16_384,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Embeds ``texts``: raw float32 embeddings ``[texts, dim]`` in the order given.

    Texts are tokenized and sorted by length a block at a time, so that tokens of one block are
    all that is held beside the result. Each batch has about ``tokens_per_batch`` tokens a device,
    padded to one of few lengths, and compiles once per shape; parameters are arguments of the
    compiled function, so evaluating the next training step compiles nothing.

    Args:
        encoder: embeds both sides; not changed.
        preprocessor: the model's prompts, tokenizer and lengths.
        texts: any number, empty strings allowed.
        side: ``"query"`` or ``"document"``.
        ids: one name a text, for messages.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of a batch on each device.
        block_size: texts tokenized at a time.
        progress: called with (texts done, texts in all) after each batch.

    Raises:
        InputError: an embedding is not finite (its id is named), or a count is below 1.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> preprocessor = TextPreprocessor(tokenizer, TextSettings(query_max_length=8, document_max_length=8))
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> encode(DualEncoder.create(config), preprocessor, ["a", "b a", ""], "query").shape
    (3, 16)
    """
    block_size = positive_integer("block_size", block_size)
    if ids is not None and len(ids) != len(texts):
        raise InputError(f"{len(ids)} ids for {len(texts)} texts; give one each.")
    blocks = (
        preprocessor.tokenize(texts[start : start + block_size], side)
        for start in range(0, len(texts), block_size)
    )
    return encode_tokens(
        encoder,
        preprocessor,
        blocks,
        side,
        count=len(texts),
        ids=ids,
        mesh=mesh,
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )


def encode_tokens(
    encoder: DualEncoder,
    preprocessor: TextPreprocessor,
    blocks: Iterable[Sequence[np.ndarray]],
    side: Side,
    *,
    count: int,
    ids: Sequence[str] | None = None,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """As :func:`encode`, of texts that are tokens already.

    Args:
        encoder: embeds both sides; not changed.
        preprocessor: pads the tokens.
        blocks: token ids, one array a text, a block of texts at a time.
        side: ``"query"`` or ``"document"``.
        count: texts of all blocks.
        ids: one name a text, for messages.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of a batch on each device.
        progress: called with (texts done, texts in all) after each batch.

    Raises:
        InputError: an embedding is not finite (its id is named), or a count is below 1.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> preprocessor = TextPreprocessor(tokenizer, TextSettings(query_max_length=8, document_max_length=8))
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> blocks = [[np.array([2, 5, 3]), np.array([2, 3])]]
    >>> encode_tokens(DualEncoder.create(config), preprocessor, blocks, "query", count=2).shape
    (2, 16)
    """
    budget = positive_integer("tokens_per_batch", tokens_per_batch)
    mesh = mesh or data_mesh(jax.local_devices())
    limit = preprocessor.settings.max_length(side)

    def batches() -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        start = 0
        for tokens in blocks:
            lengths = np.array([len(row) for row in tokens])
            for places, length, size in _batches(lengths, limit, budget, mesh.size):
                # Rows of padding only: finite by the encoder's contract, and dropped again.
                filled = [tokens[place] for place in places] + [tokens[0][:0]] * (
                    size - len(places)
                )
                yield preprocessor.pad(filled, length=length), places + start
            start += len(tokens)

    return embed_batches(
        encoder, batches(), side, count=count, ids=ids, mesh=mesh, progress=progress
    )


def embed_batches(
    encoder: DualEncoder,
    batches: Iterable[tuple[dict[str, np.ndarray], np.ndarray]],
    side: Side,
    *,
    count: int,
    ids: Sequence[str] | None,
    mesh: Mesh,
    progress: Callable[[int, int], None] | None,
) -> np.ndarray:
    """Raw embeddings of batches of any modality, float32 ``[count, dim]``.

    Args:
        encoder: embeds both sides; not changed.
        batches: rows in numbers that all devices share evenly, each with the places of its first
            rows in the result; the rows after them are padding.
        side: ``"query"`` or ``"document"``.
        count: places in all.
        ids: one name a place, for messages.
        mesh: devices to use.
        progress: called with (done, in all) after each batch.
    """
    graph, state = nnx.split(encoder)
    state = replicate(state, mesh)
    result = np.empty((count, encoder.dim), np.float32)
    in_flight: collections.deque[tuple[jax.Array, np.ndarray]] = collections.deque()
    done = 0

    def collect(most: int) -> None:
        nonlocal done
        while len(in_flight) > most:
            embeddings, places = in_flight.popleft()
            result[places] = jax.device_get(embeddings)[: len(places)]
            _check_finite(result, places, side, ids)
            done += len(places)
            if progress is not None:
                progress(done, count)

    for batch, places in batches:
        in_flight.append((_embed(graph, state, jax.device_put(batch, rows(mesh)), side), places))
        collect(_IN_FLIGHT)
    collect(0)
    return result


@functools.partial(jax.jit, static_argnums=(0, 3))
def _embed(graph: Any, state: Any, batch: dict, side: Side) -> jax.Array:
    return nnx.merge(graph, state).embed(batch, side)


def _padded_length(length: int, limit: int) -> int:
    """The padded length of a row: steps of 16 up to 128, of 32 up to 256, of 64 beyond.

    >>> [_padded_length(length, 256) for length in (3, 17, 130, 250)]
    [16, 32, 160, 256]
    """
    step = 16 if length <= 128 else 32 if length <= 256 else 64
    return min(-(-max(length, 1) // step) * step, limit)


def _batches(
    lengths: np.ndarray, limit: int, budget: int, devices: int
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Places, padded length and padded number of rows of each batch, longest texts first.

    The number of rows is the budget's, the same on each device; a batch with less than half of
    it, the last as a rule, is padded to a half, a quarter and so on.

    >>> [(places.tolist(), *shape) for places, *shape in _batches(np.array([9, 20, 3]), 64, 64, 1)]
    [([1, 0], 32, 2), ([2], 16, 1)]
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        length = _padded_length(int(lengths[order[start]]), limit)
        rows_each = max(1, budget // length)
        places = order[start : start + rows_each * devices]
        start += len(places)
        while rows_each > 1 and -(-rows_each // 2) * devices >= len(places):
            rows_each = -(-rows_each // 2)
        yield places, length, rows_each * devices


def _check_finite(
    result: np.ndarray, places: np.ndarray, side: Side, ids: Sequence[str] | None
) -> None:
    broken = ~np.isfinite(result[places]).all(axis=1)
    if broken.any():
        place = int(places[np.argmax(broken)])
        name = f"number {place}" if ids is None else repr(ids[place])
        raise InputError(
            f"the embedding of {side} {name} is not finite (NaN or infinity); check the model, or "
            "embed in float32."
        )
