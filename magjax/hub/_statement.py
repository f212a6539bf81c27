"""``magjax.json``: the trained score and settings beside a sentence-transformers folder's modules."""

import dataclasses
import filecmp
from pathlib import Path
from typing import Any

from magjax.checks import InputError
from magjax.data import SIDES, TextSettings
from magjax.hub._model import Model
from magjax.hub._router import MODULES_FILE
from magjax.hub._stated import Stated, read_statement
from magjax.similarity import Score

__all__ = ["STATEMENT_FILE", "agreed", "statement", "written_score"]

STATEMENT_FILE = "magjax.json"
_FORMAT = 1
_KEYS = ("format", "score", "written", "text", "pooling", "towers", "projections")


def written_score(score: Score, *, allow_inexact: bool = False) -> Score:
    r"""The score that a folder's modules can express: each power 0 or 1.

    A query's power between them becomes the nearer one: every score of a query is then
    :math:`\lVert q\rVert^{\gamma_q - \gamma}` times the trained one, a positive number that changes
    no ranking of documents. A document's power between them cannot be rewritten so. Allowed to be
    inexact, it becomes 0: raw embeddings, from which the trained ones can still be made.

    Raises:
        InputError: a document's power strictly between 0 and 1, and ``allow_inexact`` is not set.

    >>> written_score(Score.power(0.7, 1.0)).variant
    'cosine'
    >>> written_score(Score.power(1.0, 0.3), allow_inexact=True).variant
    'qnorm'
    """
    query, document = score.gammas
    if document not in (0.0, 1.0):
        if not allow_inexact:
            raise InputError(
                f"gamma_document={document:.6g} cannot be expressed by sentence-transformers' "
                "modules, which divide by the whole length or not at all; store exact vectors with "
                "`launch/export.py vectors`, or pass allow_inexact=True for a folder whose "
                "encode_document gives raw embeddings."
            )
        document = 0.0
    return Score.power(1.0 if query >= 0.5 else 0.0, document, score.temperature)


def statement(model: Model, text: TextSettings, written: Score) -> dict[str, Any]:
    """The content of ``magjax.json``: what the modules express, and what they cannot.

    Args:
        model: what is written; it has a score.
        text: its prompts and the lengths in force.
        written: the score of the modules.

    >>> from magjax.data import TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("dot"), tokenizer, text)
    >>> content = statement(model, text, Score.of("dot"))
    >>> content["towers"], content["projections"], content["written"]
    ('shared', 'none', [0.0, 0.0])
    """
    encoder = model.encoder
    return {
        "format": _FORMAT,
        "score": model.require_score().to_json(),
        "written": list(written.gammas),
        "text": text.to_json(),
        "pooling": encoder.pooling,
        "towers": "shared" if encoder.document_tower is None else "separate",
        "projections": _sharing(encoder.projection, encoder.document_projection),
    }


def agreed(folder: Path, read: Stated) -> Stated:
    """What the modules and ``magjax.json`` state together.

    Raises:
        InputError: a damaged ``magjax.json``, or one that the modules contradict.
    """
    file = folder / STATEMENT_FILE
    content, score, text = read_statement(file, _KEYS, _FORMAT)
    if score is None:
        raise InputError(f"{file} states no score; export the model again.")
    written = written_score(score, allow_inexact=True)
    # A shared tower with a length of its own for each side is stored once for each.
    copied = (
        content["towers"] == "shared"
        and read.document_folder is not None
        and text.query_max_length != text.document_max_length
        and _same_tower(read.query_folder, read.document_folder)
    )
    document_folder = None if copied else read.document_folder
    claims: dict[str, tuple[Any, Any]] = {
        "powers": (content["written"], list(written.gammas)),
        "score": (written.gammas, None if read.score is None else read.score.gammas),
        "pooling": (content["pooling"], read.pooling),
        "towers": (content["towers"], "shared" if document_folder is None else "separate"),
        "projections": (
            content["projections"],
            _sharing(read.projection, read.document_projection),
        ),
    }
    for side in SIDES:
        claims[f"{side}_prompt"] = (text.prompt(side), getattr(read, f"{side}_prompt") or "")
        claims[f"{side}_max_length"] = (
            text.max_length(side),
            getattr(read, f"{side}_max_length"),
        )
    for name, (claimed, found) in claims.items():
        if claimed != found:
            raise InputError(
                f"{folder}: {STATEMENT_FILE} states {name} {claimed!r}, but {MODULES_FILE} and the "
                f"files of its modules say {found!r}; one of them was edited. Export the model "
                f"again, or remove {STATEMENT_FILE} to read the rest as it is."
            )
    return dataclasses.replace(
        read,
        document_folder=document_folder,
        score=score,
        query_prompt=text.query_prompt,
        document_prompt=text.document_prompt,
    )


def _sharing(projection: Any, document_projection: Any) -> str:
    if projection is None:
        return "none"
    return "shared" if document_projection is None else "separate"


def _same_tower(first: Path, second: Path) -> bool:
    names = ("config.json", "model.safetensors")
    return filecmp.cmpfiles(first, second, names, shallow=False)[0] == list(names)
