"""Vectors into a database or files, so that its inner product is the trained score."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence

from magjax.checks import InputError, choose, positive_number
from magjax.export import _faiss, _lancedb, _numpy, _parquet, _pgvector, _qdrant
from magjax.export._description import VectorDescription
from magjax.export._engine import Engine, Place, Table, index_options
from magjax.export._metric import choose_metric
from magjax.export._stored import StoredSide
from magjax.export._vectors import Embeddings
from magjax.files import write_folder, write_text
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["DESCRIPTION_FILE", "TARGETS", "table_name", "write_vectors"]

TARGETS: dict[str, Engine] = {
    "numpy": _numpy.ENGINE,
    "parquet": _parquet.ENGINE,
    "faiss": _faiss.ENGINE,
    "qdrant": _qdrant.ENGINE,
    "pgvector": _pgvector.ENGINE,
    "lancedb": _lancedb.ENGINE,
}
"""Where vectors can be written."""

DESCRIPTION_FILE = "vectors.json"
_NAMES: dict[Side, str] = {"document": "documents", "query": "queries"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


def write_vectors(
    embeddings: Sequence[Embeddings],
    out: str | os.PathLike[str],
    *,
    target: str,
    score: Score,
    metric: str | None = None,
    index: str = "flat",
    options: Mapping[str, int] | None = None,
    augment: str = "none",
    largest_norm: float | None = None,
    name: str = "",
    overwrite: bool = False,
    model: str = "",
    fingerprints: Mapping[str, str] | None = None,
    text: Mapping[str, object] | None = None,
) -> VectorDescription:
    r"""Stores :math:`x\lVert x\rVert^{-\gamma}` of each side, whole or not at all.

    The inner product of a stored document and a query normalized alike is the trained score, and
    the engine is told to compare by it. Embeddings are taken a block at a time; only an
    augmentation whose M is not given, and indexes that are trained, keep all of them in a
    temporary file (in ``TMPDIR``) for a second look.

    Args:
        embeddings: raw, one a side.
        out: a folder, or the address of a server: ``http://...`` for Qdrant (its key in
            ``QDRANT_API_KEY``), ``postgresql://...`` for pgvector. A folder holds
            ``vectors.json`` beside the engine's files; servers keep it with each table.
        target: a name in :data:`TARGETS`.
        score: the trained score.
        metric: what the engine compares by; None takes the right one, see
            :func:`choose_metric`.
        index: ``flat``, ``hnsw`` or ``ivf``, of the documents, where the engine has it.
        options: of the index: ``m``, ``ef_construction``, ``ef_search``, ``lists``, ``probes``.
        augment: ``euclidean`` or ``cosine`` appends a coordinate that makes them rank as the
            inner product does, see :func:`augment_documents`.
        largest_norm: M of the augmentation; None takes the longest document.
        name: put before ``documents`` and ``queries`` as the tables' names.
        overwrite: replace an older export; never replaces anything else.
        model: where the model came from, for the description.
        fingerprints: of model and data, for the description.
        text: prompts and lengths, for the description.

    Returns:
        The description that the export carries.

    Raises:
        InputError: anything that cannot be stored or would rank otherwise than the score.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> out = pathlib.Path(tempfile.mkdtemp(), "vectors")
    >>> documents = Embeddings.from_array("document", ["d"], np.array([[3.0, 4.0]], np.float32))
    >>> told = write_vectors([documents], out, target="numpy", score=Score.of("dnorm"))
    >>> np.load(out / "documents.npy").tolist(), told.metric
    ([[0.6000000238418579, 0.800000011920929]], 'inner_product')
    """
    engine = TARGETS[choose("target", target, TARGETS)]
    chosen = choose_metric(score, metric, augment)
    if chosen not in engine.metrics:
        raise InputError(
            f"target {target!r} knows no {chosen}; known: {', '.join(engine.metrics)}."
        )
    dim = _one_dim(embeddings)
    names: dict[Side, str] = {one.side: table_name(one.side, name) for one in embeddings}
    if len(names) != len(embeddings):
        raise InputError("one side was given twice; give documents and queries once each.")
    counts: dict[Side, int] = {one.side: len(one.ids) for one in embeddings}
    settings = index_options(engine, index, options or {}, counts.get("document", 0))
    stored = dim + (augment != "none")
    if stored > engine.largest_dim.get(index, stored):
        raise InputError(
            f"{target} has at most {engine.largest_dim[index]} dimensions with index {index!r}, "
            f"but vectors have {stored}; try --index=flat, or another target."
        )
    place = engine.place(out)
    engine.need()
    _check_place(engine, place, list(names.values()), overwrite)
    if largest_norm is not None:
        if augment == "none":
            raise InputError(
                f"largest_norm={largest_norm} belongs to an augmentation, and none was named."
            )
        positive_number("largest_norm", largest_norm)
    with contextlib.ExitStack() as stack:
        sources = {
            one.side: StoredSide.of(
                one,
                score,
                metric=chosen,
                augment=augment,
                norm=largest_norm,
                twice=index in engine.trained,
                stack=stack,
            )
            for one in embeddings
        }
        norms = [source.norm for source in sources.values() if source.norm is not None]
        if augment != "none" and not norms:
            raise InputError(
                "queries alone do not tell how long documents are; give largest_norm=, or export the "
                "documents too."
            )
        description = VectorDescription(
            target=target,
            score=score,
            metric=chosen,
            dim=dim,
            tables={side: {"name": names[side], "count": counts[side]} for side in names},
            augment=augment,
            largest_norm=norms[0] if norms else None,
            index=index if "document" in names else "flat",
            index_options=settings if "document" in names else {},
            model=model,
            fingerprints=dict(fingerprints or {}),
            text=text,
        )
        tables = [
            Table(
                side=one.side,
                name=names[one.side],
                count=counts[one.side],
                index=index if one.side == "document" else "flat",
                description=description,
                has_texts=one.texts is not None,
                blocks=sources[one.side].blocks(),
                training=sources[one.side].training,
            )
            for one in embeddings
        ]
        if isinstance(place, str):
            engine.write(place, tables, overwrite)
        else:
            with write_folder(place) as folder:
                engine.write(folder, tables, overwrite)
                write_text(folder / DESCRIPTION_FILE, description.dumps() + "\n")
    return description


def table_name(side: Side, name: str = "") -> str:
    """What one side's table, collection or file is called.

    Raises:
        InputError: a name that not every engine admits.

    >>> table_name("document"), table_name("query", "code")
    ('documents', 'code_queries')
    """
    if not name:
        return _NAMES[side]
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name {name!r} must be a letter and up to 39 letters, digits or underscores."
        )
    return f"{name}_{_NAMES[side]}"


def _one_dim(embeddings: Sequence[Embeddings]) -> int:
    dims = {one.dim for one in embeddings}
    if len(dims) != 1:
        raise InputError(
            f"embeddings have {' and '.join(map(str, sorted(dims)))} dimensions; embed both sides "
            "with the same model."
            if dims
            else "there are no embeddings to write."
        )
    return dims.pop()


def _check_place(engine: Engine, place: Place, names: Sequence[str], overwrite: bool) -> None:
    """Refuses before anything is embedded what could not be written afterwards."""
    if isinstance(place, str):
        if engine.check is not None:
            engine.check(place, names, overwrite)
        return
    if not place.exists():
        return
    if not overwrite:
        raise InputError(f"{place} exists already; replace it with --overwrite, or name another.")
    if not place.is_dir() or (any(place.iterdir()) and not (place / DESCRIPTION_FILE).is_file()):
        raise InputError(
            f"{place} was not written by magjax (it has no {DESCRIPTION_FILE}) and is not "
            "replaced; name another."
        )
