"""A small model and benchmark that every evaluation test can afford."""

import pytest

from magjax.data import Benchmark, TextPreprocessor, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.evaluation import _search
from magjax.hub import Model
from magjax.similarity import Score

DOCUMENTS = {
    "add": "adds two numbers",
    "mul": "multiplies two numbers",
    "sum": "sum of all numbers of a list",
    "sort": "sorts a list",
    "empty": "",
    "twin": "sorts a list",
}
QUERIES = {"add": "adds two numbers", "q2": "multiplies", "q3": "how to sort", "q4": "unjudged"}
QRELS = {"add": {"add": 2, "sum": 1}, "q2": {"mul": 1}, "q3": {"sort": 1, "twin": 1}, "q4": {}}


@pytest.fixture(scope="session")
def small_benchmark() -> Benchmark:
    return Benchmark(
        "small set",
        list(QUERIES),
        list(QUERIES.values()),
        list(DOCUMENTS),
        list(DOCUMENTS.values()),
        QRELS,
    )


@pytest.fixture(scope="session")
def small_model() -> Model:
    tokenizer = TextTokenizer.train([*DOCUMENTS.values(), *QUERIES.values()] * 2, 300)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    text = TextSettings(query_max_length=16, document_max_length=32)
    return Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)


@pytest.fixture(scope="session")
def small_preprocessor(small_model: Model) -> TextPreprocessor:
    return TextPreprocessor(small_model.tokenizer, small_model.text)


@pytest.fixture
def reached(monkeypatch):
    """Counts the documents that the second pass brought in, per query that needed it."""
    counts = []
    original = _search._Corpus.reaching

    def counted(self, unit, floors):
        found = original(self, unit, floors)
        counts.extend(map(len, found))
        return found

    monkeypatch.setattr(_search._Corpus, "reaching", counted)
    return counts
