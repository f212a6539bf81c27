"""A tiny BEIR folder whose queries can be learned, and configs shrunk to it."""

import json

import numpy as np
import pytest

from magjax.config import to_json

WORDS = [
    f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "re", "so", "ti") for b in ("ban", "dor", "fex")
]


# Queries speak another language than documents, word for word: only training can find the answer.
TRANSLATED = [
    f"{a}{b}" for a in ("py", "we", "zu") for b in ("q", "xi", "vo", "hy", "gg", "ct", "jo")
]


@pytest.fixture(scope="session")
def tiny_beir(tmp_path_factory):
    """120 documents of ten words; each query is five words of its document, translated."""
    folder = tmp_path_factory.mktemp("data") / "tiny"
    (folder / "qrels").mkdir(parents=True)
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(WORDS, 10)) for _ in range(120)]
    to_query = dict(zip(WORDS, TRANSLATED, strict=True))
    queries = [
        " ".join(to_query[word] for word in rng.choice(text.split(), 5, replace=False))
        for text in documents[:80]
    ]
    with (folder / "corpus.jsonl").open("w") as file:
        for i, text in enumerate(documents):
            file.write(json.dumps({"_id": f"d{i}", "title": "", "text": text}) + "\n")
    with (folder / "queries.jsonl").open("w") as file:
        for i, text in enumerate(queries):
            file.write(json.dumps({"_id": f"q{i}", "text": text}) + "\n")
    for split, rows in (("train", range(60)), ("test", range(60, 80))):
        lines = [f"q{i}\td{i}\t1\n" for i in rows]
        text = "query-id\tcorpus-id\tscore\n" + "".join(lines)
        (folder / "qrels" / f"{split}.tsv").write_text(text)
    return folder


@pytest.fixture
def shrink(tiny_beir):
    """Turns any retrieval config into one that runs in seconds on the tiny folder."""

    def apply(config, **changes):
        config.data.update(
            source="beir", path=str(tiny_beir), dev_queries=10, dev_documents=40, test_paths=()
        )
        config.model.update(init="random", layers=1, width=16, heads=2, vocab_size=300)
        config.text.update(query_max_length=16, document_max_length=32)
        config.batch_size = 16
        config.loop.update(steps=2, evaluate_every=2, save_every=2, log_every=1)
        for key, value in changes.items():
            section, _, name = key.partition("__")
            if name:
                config[section][name] = value
            else:
                config[section] = value
        return to_json(config)

    return apply
