"""What ``launch/export.py`` runs: a model's texts into a target, and the table of parity."""

import functools
import logging
import os
from collections.abc import Mapping, Sequence

import numpy as np

from magjax.checks import InputError, choose
from magjax.data import SIDES
from magjax.evaluation import model_fingerprint, progress_bar
from magjax.export._description import VectorDescription
from magjax.export._parity import format_parity, parity_rows
from magjax.export._records import Texts
from magjax.export._vectors import Embeddings
from magjax.export._writers import TARGETS, write_vectors
from magjax.hub import Model
from magjax.typing import Side

__all__ = ["export_texts", "parity_table", "parse_options"]

_log = logging.getLogger(__name__)

_SIDES: dict[str, tuple[Side, ...]] = {
    "document": ("document",),
    "query": ("query",),
    "both": ("document", "query"),
}


def export_texts(
    model: Model,
    texts: Texts,
    out: str | os.PathLike[str],
    *,
    target: str,
    side: str = "document",
    store_text: bool = False,
    tokens_per_batch: int = 2048,
    block_size: int = 16_384,
    name: str = "",
    model_name: str = "",
    metric: str | None = None,
    index: str = "flat",
    options: Mapping[str, int] | None = None,
    augment: str = "none",
    largest_norm: float | None = None,
    overwrite: bool = False,
) -> VectorDescription:
    """Embeds texts and writes the vectors, block by block, with a progress bar.

    Args:
        model: states the score.
        texts: as :func:`read_texts` gives them.
        out: a folder or an address.
        target: a name in :data:`TARGETS`.
        side: ``document``, ``query`` or ``both``.
        store_text: store the texts too.
        tokens_per_batch: tokens of an encoder batch on each device.
        block_size: texts embedded and written at a time.
        name: put before the tables' names.
        model_name: where the model came from.
        metric: as in :func:`write_vectors`, like all that follow.
        index: kind of index.
        options: of the index.
        augment: the metric to append a coordinate for.
        largest_norm: M of that coordinate.
        overwrite: replace an older export.

    Returns:
        The description that the export carries.

    Raises:
        InputError: the model states no score, or as :func:`write_vectors`.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.similarity import Score
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=270, hidden_size=8, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=8, max_position_embeddings=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=8)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm"), tokenizer, text)
    >>> import pathlib, tempfile
    >>> out = pathlib.Path(tempfile.mkdtemp(), "vectors")
    >>> texts = Texts("letters", "0", {"document": (["d1", "d2"], ["a", "b"])})
    >>> export_texts(model, texts, out, target="numpy").stored_dim
    8
    """
    sides = _SIDES[choose("side", side, _SIDES)]
    with progress_bar(texts.name) as progress:

        def embeddings(one: Side) -> Embeddings:
            return Embeddings.from_texts(
                model,
                one,
                *texts.side(one),
                store_text=store_text,
                block_size=block_size,
                tokens_per_batch=tokens_per_batch,
                progress=functools.partial(progress, one),
            )

        return write_vectors(
            [embeddings(one) for one in sides],
            out,
            target=target,
            score=model.require_score(),
            metric=metric,
            index=index,
            options=options,
            augment=augment,
            largest_norm=largest_norm,
            name=name,
            overwrite=overwrite,
            model=model_name,
            fingerprints={"model": model_fingerprint(model), "data": texts.fingerprint},
            text={"pooling": model.encoder.pooling, **model.text.to_json()},
        )


def parity_table(
    model: Model,
    texts: Texts,
    *,
    targets: Sequence[str] = (),
    k: int = 10,
    tokens_per_batch: int = 2048,
    postgres: str | None = None,
) -> str:
    """Embeds both sides once and proves each target under each preset; a Markdown table.

    Args:
        model: states the score that approximate indexes are built under.
        texts: of both sides.
        targets: names in :data:`TARGETS`; none names all.
        k: documents a query.
        tokens_per_batch: tokens of an encoder batch on each device.
        postgres: address of a server with pgvector; None starts a private one.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.similarity import Score
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=270, hidden_size=8, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=8, max_position_embeddings=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=8)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm"), tokenizer, text)
    >>> texts = Texts("letters", "0",
    ...     {"document": (["d1", "d2"], ["a", "b"]), "query": (["q"], ["a b"])})
    >>> print(parity_table(model, texts, targets=["numpy"], k=1).splitlines()[4])
    | target | metric | cosine | dot | qnorm | dnorm |
    """
    score = model.require_score()
    rows: dict[Side, tuple[Sequence[str], np.ndarray]] = {}
    with progress_bar(texts.name) as progress:
        for side in SIDES:
            source = Embeddings.from_texts(
                model,
                side,
                *texts.side(side),
                tokens_per_batch=tokens_per_batch,
                progress=functools.partial(progress, side),
            )
            rows[side] = source.ids, np.concatenate(list(source.blocks()))
    found = []
    for row in parity_rows(
        rows["query"][1],
        rows["document"][1],
        query_ids=rows["query"][0],
        document_ids=rows["document"][0],
        score=score,
        targets=targets or tuple(TARGETS),
        k=k,
        postgres=postgres,
    ):
        done = row.missing or f"recall@{k} {row.recall:.4f}"
        _log.info("%s, %s, %s, %s: %s", row.target, row.score, row.index, row.augment, done)
        found.append(row)
    count = ", ".join(f"{len(ids):,} of side {side}" for side, (ids, _) in rows.items())
    about = f"{texts.name} ({count}); trained score: {score}"
    return f"{about}\n\n{format_parity(found, k)}"


def parse_options(items: Sequence[str]) -> dict[str, int]:
    """Reads the options of an index, each ``NAME=NUMBER``.

    Raises:
        InputError: an item without ``=`` or whose value is no whole number.

    >>> parse_options(["m=16", "ef_search=128"])
    {'m': 16, 'ef_search': 128}
    """
    options = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not value.strip().isdigit():
            raise InputError(f"index option {item!r} must be NAME=NUMBER, for example m=16.")
        options[name.strip()] = int(value)
    return options
