"""README.md of an exported model: what it computes, and what a database must not undo."""

import json
import math
from collections.abc import Mapping, Sequence

from magjax.checks import InputError
from magjax.data import SIDES, TextSettings
from magjax.hub._model import Model
from magjax.similarity import Score

__all__ = ["DISTANCES", "model_card"]

DISTANCES = {
    "Qdrant": "`Distance.DOT`",
    "pgvector": "`vector_ip_ops`, `ORDER BY embedding <#> query` (the negative inner product)",
    "FAISS": "`METRIC_INNER_PRODUCT`",
    "LanceDB": "`dot`",
    "Milvus": "`IP`",
    "Elasticsearch": "`max_inner_product`",
    "OpenSearch": "`innerproduct`",
    "Weaviate": "`dot`",
}
"""What to set in each database so that it ranks by the inner product of what it is given."""

_HEADER = """\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- sentence-similarity
- feature-extraction
- magjax
---
"""


def model_card(
    model: Model,
    text: TextSettings,
    written: Score,
    *,
    name: str,
    training_data: str | Sequence[str] | None = None,
    figures: Mapping[str, float | str] | None = None,
) -> str:
    """The model card in Markdown with a YAML header.

    Args:
        model: what was exported; it has a score.
        text: its prompts and the lengths in force.
        written: the score that the folder's modules express.
        name: the title, and what code examples load.
        training_data: what the model was trained on; left out when None.
        figures: what it reached, by name; left out when None.

    Raises:
        InputError: a figure that is not finite.

    >>> from magjax.data import TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm"), tokenizer, text)
    >>> print(model_card(model, text, model.score, name="code").splitlines()[10])
    # code
    """
    score = model.require_score()
    sections = [
        f"{_HEADER}\n# {name}\n",
        _what_it_is(score),
        _settings(model, text, score),
        _search(score),
        _use(name, model, score, written),
        _differences(model, text, score, written),
        _training(training_data),
        _figures(figures),
    ]
    return "\n".join(section for section in sections if section)


def _what_it_is(score: Score) -> str:
    return f"""\
Turns queries and documents into embeddings for retrieval. It was trained for the score

    s(q, d) = ⟨ q / ‖q‖^{score.gamma_query:.6g}, d / ‖d‖^{score.gamma_document:.6g} ⟩

of the encoder's raw embeddings q and d: {_in_words(score)}
"""


def _in_words(score: Score) -> str:
    def says(gamma: float, side: str) -> str:
        if gamma == 1.0:
            return f"{side} are normalized to length 1"
        if gamma == 0.0:
            return f"{side} keep their length"
        return f"{side} keep a part of their length"

    both = " and ".join(
        says(score.gamma(side), word)
        for side, word in zip(SIDES, ("queries", "documents"), strict=True)
    )
    if score.gamma_document == 1.0:
        return f"{both}, so the direction alone ranks the documents of a query."
    return (
        f"{both}, so a document's length takes part in the ranking. It must not be normalized away."
    )


def _settings(model: Model, text: TextSettings, score: Score) -> str:
    encoder = model.encoder
    known = score.temperature is not None
    rows = {
        "variant": _code(score.variant),
        "power of the query's length (gamma_query)": f"{score.gamma_query:.6g}",
        "power of the document's length (gamma_document)": f"{score.gamma_document:.6g}",
        "temperature in training": f"{score.temperature:.6g}" if known else "unknown",
        "query prompt": _prompt(text.query_prompt),
        "document prompt": _prompt(text.document_prompt),
        "pooling": _code(encoder.side_pooling("query")),
        "most tokens of a query": str(text.query_max_length),
        "most tokens of a document": str(text.document_max_length),
        "dimensions": str(encoder.dim),
        "towers": "one for both sides" if encoder.document_tower is None else "one for each side",
    }
    return _table(("setting", "value"), rows, "## Settings")


def _search(score: Score) -> str:
    if score.gamma_document == 1.0:
        cosine = (
            "Documents are unit vectors (gamma_document = 1), so cosine gives the same ranking and is allowed "
            "too; only the inner product gives the trained scores of a query that is not one."
            if score.gamma_query != 1.0
            else "Queries and documents are unit vectors, so cosine is the same and is allowed too."
        )
    else:
        cosine = (
            "**Do not set cosine** (gamma_document < 1): it normalizes the documents, and the ranking is no "
            "longer the one that was trained. Euclidean distance ranks otherwise too. Elasticsearch's "
            "`dot_product` demands unit vectors and is not meant."
        )
    return (
        _table(("database", "distance"), DISTANCES, "## Distance to set in a database")
        + f"\nHigher inner products are better. {cosine}\n"
    )


def _use(name: str, model: Model, score: Score, written: Score) -> str:
    exact = score.gamma_document == written.gamma_document
    repair = (
        ""
        if exact
        else f"""\
# The modules give raw documents; the trained score divides by a power of their length:
documents /= np.linalg.norm(documents, axis=1, keepdims=True) ** {score.gamma_document!r}
"""
    )
    imports = "" if exact else "import numpy as np\n"
    return f"""\
## Use in sentence-transformers (5 or newer)

```python
{imports}from sentence_transformers import SentenceTransformer

model = SentenceTransformer({json.dumps(name)})
queries = model.encode_query(["a query"])
documents = model.encode_document(["a document", "another document"])
{repair}scores = queries @ documents.T
```
{_pooler_note(model)}
## Use in magjax

```python
from magjax.data import TextPreprocessor
from magjax.evaluation import encode
from magjax.hub import load

model = load({json.dumps(name)})
preprocessor = TextPreprocessor(model.tokenizer, model.text)
queries = encode(model.encoder, preprocessor, ["a query"], "query")
documents = encode(model.encoder, preprocessor, ["a document", "another document"], "document")
queries = model.score.normalize(queries, "query")
documents = model.score.normalize(documents, "document")
scores = queries @ documents.T
```
"""


def _pooler_note(model: Model) -> str:
    if model.encoder.query_tower.config.model_type == "distilbert":  # has none
        return ""
    return (
        "\nLoading may report `pooler` weights as missing or newly initialized: no embedding uses "
        "them.\n"
    )


def _differences(model: Model, text: TextSettings, score: Score, written: Score) -> str:
    encoder = model.encoder
    points = []
    if text.query_prompt or text.document_prompt:
        points.append("`encode()` puts no prompt before a text.")
    if written.gamma_query != written.gamma_document:
        normalized = "queries" if written.gamma_query == 1.0 else "documents"
        points.append(
            f"`encode()` treats every text as a document: only {normalized} are normalized, and "
            "only `encode_query` knows that a text is a query."
        )
    elif encoder.document_tower is not None or encoder.document_projection is not None:
        points.append("`encode()` uses the weights of the document side for every text.")
    if text.query_max_length != text.document_max_length:
        points.append(f"`encode()` cuts every text at {text.document_max_length} tokens.")
    if not points:
        points.append("`encode()`, `encode_query()` and `encode_document()` give the same.")
    if _reads_outer_spaces(model):
        points.append(
            "sentence-transformers 5.0 to 5.3 strip the white space around each text, prompt "
            "included, which this tokenizer reads: there such texts (and an empty text after a prompt "
            "that ends in a space) get other embeddings. From 5.4 on they are the same."
        )
    if score.gamma_query != written.gamma_query:
        shift = score.gamma_query - written.gamma_query
        points.append(
            f"The trained gamma_query = {score.gamma_query:.6g} is written as {written.gamma_query:g}: "
            f"queries are {'normalized' if written.gamma_query else 'raw'}, so every score of a "
            "query q that these modules give is the trained score times "
            f"‖q‖^(gamma_query - {written.gamma_query:g}) = ‖q‖^{shift:.6g}. That is one positive number a "
            "query: the ranking of documents is the same for every query, the size of scores (a "
            "threshold, a comparison between queries) is not."
        )
    if score.gamma_document != written.gamma_document:
        points.append(
            f"**`encode_document()` and `encode()` differ from the trained score**: its gamma_document = "
            f"{score.gamma_document:.6g} has no module, so they give raw documents. Divide each by "
            f"‖d‖^{score.gamma_document:.6g} before it is stored, as in the code above, or store the "
            "vectors that `launch/export.py vectors` of magjax writes, which are divided already."
        )
    return "## What plain `encode()` does\n\n" + "".join(f"- {p}\n" for p in points)


def _reads_outer_spaces(model: Model) -> bool:
    bare, spaced = model.tokenizer.encode(["a b", " a b\n"], 16)
    return bare.tolist() != spaced.tolist()


def _training(training_data: str | Sequence[str] | None) -> str:
    if training_data is None:
        return ""
    entries = [training_data] if isinstance(training_data, str) else training_data
    return "## Training data\n\n" + "".join(f"- {' '.join(entry.split())}\n" for entry in entries)


def _figures(figures: Mapping[str, float | str] | None) -> str:
    if not figures:
        return ""
    rows = {}
    for name, value in figures.items():
        if not isinstance(value, str):
            if not math.isfinite(value):
                raise InputError(f"the figure {name!r} is {value!r}; give a finite number or text.")
            value = f"{value:.4g}"
        rows[name] = value
    return _table(("measure", "value"), rows, "## Figures")


def _table(head: tuple[str, str], rows: Mapping[str, str], title: str) -> str:
    def cell(content: str) -> str:
        return " ".join(content.split()).replace("|", "\\|")

    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    lines += [f"| {cell(name)} | {cell(value)} |" for name, value in rows.items()]
    return f"{title}\n\n" + "\n".join(lines) + "\n"


def _prompt(prompt: str) -> str:
    return _code(json.dumps(prompt, ensure_ascii=False)) if prompt else "none"


def _code(content: str) -> str:
    fence = "`"
    while fence in content:
        fence += "`"
    return f"{fence}{content}{fence}"
