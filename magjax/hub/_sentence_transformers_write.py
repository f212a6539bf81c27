"""A model as a folder that sentence-transformers 5 and 6 load, score and prompts included."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from magjax import __version__
from magjax.checks import InputError
from magjax.data import SIDES, TextSettings
from magjax.files import write_folder, write_json, write_text
from magjax.hub._model import Model
from magjax.hub._model_card import model_card
from magjax.hub._module_files import Module, head, router, tail, write_chain
from magjax.hub._router import MODULES_FILE
from magjax.hub._statement import STATEMENT_FILE, statement, written_score
from magjax.similarity import Score

__all__ = ["save_sentence_transformers"]

_log = logging.getLogger(__name__)

# The first version with Router and encode_query: a larger number makes older versions warn.
_VERSION = "5.0.0"


def save_sentence_transformers(
    model: Model,
    path: str | Path,
    *,
    training_data: str | Sequence[str] | None = None,
    figures: Mapping[str, float | str] | None = None,
    allow_inexact: bool = False,
) -> None:
    r"""Writes ``model`` as a sentence-transformers folder that embeds as magjax does.

    In versions 5 and 6, ``encode_query`` and ``encode_document`` give
    :math:`q\lVert q\rVert^{-\gamma_q}` and :math:`d\lVert d\rVert^{-\gamma_d}`, prompts and lengths
    included, so that their inner product is the trained score. A one-sided score ends in a Router
    that normalizes one route. Towers of their own, or lengths of their own, stand in a Router in
    front; one tower with two lengths is then stored twice. ``load`` reads the folder back bitwise,
    with what modules cannot say in ``magjax.json``; ``README.md`` is the model card.

    Powers that were learned are written as numbers. A query's power between 0 and 1 becomes the
    nearer one, which changes no ranking: each score of a query is the trained one times
    :math:`\lVert q\rVert^{\gamma_q - \gamma}`. The log and the card say so.

    Args:
        model: with a score.
        path: the folder; an older export there is replaced as a whole.
        training_data: what the model was trained on, for the card.
        figures: what it reached, by name, for the card.
        allow_inexact: for a document's power strictly between 0 and 1, which modules cannot
            express: write raw document embeddings, and say in the card how to make the trained
            ones of them.

    Raises:
        InputError: no score, such a power, other towers than the BERT family's, or a ``path`` that
            holds something else.

    >>> import tempfile
    >>> from magjax.data import TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.files import read_json
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=8)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)
    >>> folder = Path(tempfile.mkdtemp(), "model")
    >>> save_sentence_transformers(model, folder)
    >>> [module["type"].rpartition(".")[2] for module in read_json(folder / "modules.json")]
    ['Transformer', 'Pooling', 'Router']
    """
    model.require_bert("a sentence-transformers folder")
    score = model.require_score()
    target = Path(path)
    _check_target(target)
    written = written_score(score, allow_inexact=allow_inexact)
    text = model.text.limited(model.tokenizer.model_max_length)
    _report(model, text, written, target)
    card = model_card(
        model, text, written, name=target.name, training_data=training_data, figures=figures
    )
    with write_folder(target) as folder:
        write_json(folder / MODULES_FILE, write_chain(folder, _chain(model, text, written)))
        write_json(
            folder / "config_sentence_transformers.json",
            {
                "model_type": "SentenceTransformer",
                "__version__": {
                    "sentence_transformers": _VERSION,
                    "magjax": __version__,
                },
                "prompts": {side: text.prompt(side) for side in SIDES},
                "default_prompt_name": None,
                "similarity_fn_name": "cosine" if written.gammas == (1.0, 1.0) else "dot",
            },
        )
        write_json(folder / STATEMENT_FILE, statement(model, text, written))
        write_text(folder / "README.md", card)


def _check_target(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; name a folder for the model.")
    if target.is_dir() and any(target.iterdir()) and not (target / STATEMENT_FILE).is_file():
        raise InputError(
            f"{target} holds other files, which the export would replace; name a new folder."
        )


def _report(model: Model, text: TextSettings, written: Score, target: Path) -> None:
    query, document = model.require_score().gammas
    if query != written.gamma_query:
        _log.info(
            "%s: gamma_query=%.6g is written as %g: each score of a query is the trained one times "
            "the query's length to the power %.6g, and every ranking is the same.",
            target,
            query,
            written.gamma_query,
            query - written.gamma_query,
        )
    if document != written.gamma_document:
        _log.warning(
            "%s: gamma_document=%.6g cannot be expressed; encode_document gives raw embeddings, "
            "whose inner product ranks otherwise than the trained score. The card says how to make "
            "the trained ones of them.",
            target,
            document,
        )
    if model.encoder.document_tower is None and _lengths_differ(text):
        _log.info(
            "%s: the tower is stored twice, as queries are cut at %d tokens and documents at %d.",
            target,
            text.query_max_length,
            text.document_max_length,
        )


def _lengths_differ(text: TextSettings) -> bool:
    return text.query_max_length != text.document_max_length


def _chain(model: Model, text: TextSettings, written: Score) -> list[Module]:
    encoder = model.encoder
    tails = {side: tail(encoder, side, normalized=written.gamma(side) == 1.0) for side in SIDES}
    if encoder.document_tower is not None or _lengths_differ(text):
        return [router({side: [*head(model, side, text), *tails[side]] for side in SIDES})]
    chain = head(model, "query", text)
    query, document = tails["query"], tails["document"]
    while query and document and query[0].equals(document[0]):
        chain.append(query.pop(0))
        document.pop(0)
    return [*chain, router(tails)] if query or document else chain
