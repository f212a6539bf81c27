"""Reading an export back: queries against what was written, answered in trained scores."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magjax.checks import InputError, positive_integer
from magjax.export._augmentation import augment_queries
from magjax.export._description import VectorDescription
from magjax.export._engine import Place
from magjax.export._metric import trained_scores
from magjax.export._writers import DESCRIPTION_FILE, TARGETS, table_name
from magjax.typing import Side

__all__ = ["Found", "read_description", "search_vectors"]


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """What an engine returned, best first.

    Attributes:
        documents: per query the ids of its documents.
        scores: per query their trained scores as the engine has them, float64.

    >>> Found([["d2", "d1"]], [np.array([0.9, 0.5])]).documents[0]
    ['d2', 'd1']
    """

    documents: Sequence[Sequence[str]]
    scores: Sequence[np.ndarray]


def search_vectors(
    out: str | os.PathLike[str], query_embeddings: Any, *, k: int = 10, name: str = ""
) -> Found:
    """Asks an exported table for the best documents of each query.

    Queries are normalized, augmented and asked with the metric that the export states; what the
    engine returns is turned back into trained scores. An embedded Qdrant folder holds pickles,
    and opening it runs them: open only folders that you made.

    Args:
        out: folder or address that vectors were written to.
        query_embeddings: raw ``[queries, dim]`` of the same model.
        k: documents a query; an approximate index may find fewer.
        name: as it was written under.

    Raises:
        InputError: no export is there, or queries of another width or with NaN.

    >>> import tempfile
    >>> from magjax.export import Embeddings, write_vectors
    >>> from magjax.similarity import Score
    >>> out = Path(tempfile.mkdtemp(), "vectors")
    >>> documents = np.array([[1.0, 0.0], [10.0, 0.0]], np.float32)
    >>> _ = write_vectors([Embeddings.from_array("document", ["d1", "d2"], documents)], out,
    ...     target="numpy", score=Score.of("qnorm"))
    >>> found = search_vectors(out, np.array([[3.0, 4.0]], np.float32), k=1)
    >>> found.documents, round(float(found.scores[0][0]), 6)
    ([['d2']], 6.0)
    """
    k = positive_integer("k", k)
    place, told = _read(out, "document", name)
    queries = np.asarray(query_embeddings).astype(np.float32)
    if queries.ndim != 2 or queries.shape[1] != told.dim:
        raise InputError(
            f"queries have shape {queries.shape}, but {told.dim} dimensions were exported; embed "
            "them with the same model."
        )
    if not np.isfinite(queries).all():
        raise InputError("a query embedding is not finite (NaN or infinity); check the model.")
    stored = np.asarray(told.score.normalize(queries, "query"), np.float64)
    lengths = np.linalg.norm(stored, axis=1)
    asked, asked_lengths = stored, lengths
    if told.metric == "euclidean" and told.document_norm:
        # As long as the documents: a short query's scores drown in the documents' lengths.
        scale = told.document_norm / np.where(lengths > 0.0, lengths, 1.0)
        asked, asked_lengths = stored * scale[:, None], lengths * scale
    asked = augment_queries(asked) if told.augment != "none" else asked
    hits = TARGETS[told.target].search(place, told, asked.astype(np.float32), k)
    scores = []
    for (_, values), length, asked_length in zip(hits, lengths, asked_lengths, strict=True):
        products = trained_scores(
            values, told.metric, query_norm=asked_length, document_norm=told.document_norm
        )
        # A zero query has no cosine; its scores are zero.
        ratio = length / asked_length if asked_length else 0.0
        scores.append(products * ratio if length else np.zeros_like(products))
    return Found([ids for ids, _ in hits], scores)


def read_description(
    out: str | os.PathLike[str], *, side: Side = "document", name: str = ""
) -> VectorDescription:
    """What an export says about itself.

    Args:
        out: folder or address that vectors were written to.
        side: whose table is asked, on a server.
        name: as it was written under.

    Raises:
        InputError: nothing there was written by magjax.

    >>> read_description("/nowhere")
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: /nowhere holds no exported vectors (no vectors.json).
    """
    return _read(out, side, name)[1]


def _read(out: str | os.PathLike[str], side: Side, name: str) -> tuple[Place, VectorDescription]:
    scheme, separator, _ = os.fspath(out).partition("://")
    for engine in TARGETS.values():
        if separator and scheme in engine.schemes and engine.describe is not None:
            engine.need()
            return os.fspath(out), engine.describe(os.fspath(out), table_name(side, name))
    folder = Path(out)
    if not (folder / DESCRIPTION_FILE).is_file():
        raise InputError(f"{folder} holds no exported vectors (no {DESCRIPTION_FILE}).")
    told = VectorDescription.parse(
        (folder / DESCRIPTION_FILE).read_text(encoding="utf-8"), str(folder / DESCRIPTION_FILE)
    )
    if told.target not in TARGETS:
        raise InputError(f"{folder} was written for the unknown target {told.target!r}.")
    TARGETS[told.target].need()
    return folder, told
