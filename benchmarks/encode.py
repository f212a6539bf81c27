"""Passages to embeddings, tokenization included, beside sentence-transformers on torch.

    python benchmarks/encode.py
    python benchmarks/encode.py --texts=200 --shortest=16 --longest=64 --json=encode.json

Both sides load one checkpoint and embed the same texts, random words of its vocabulary whose lengths
are spread evenly in their logarithm between --shortest and --longest tokens. sentence-transformers
runs ``encode`` at its default batch of 32 (it sorts texts by length), magjax
``magjax.evaluation.encode``. The embeddings must agree, or the run ends with status 1. Memory is the
peak of a process that loads the model and embeds the texts once. The checkpoint and the peer come with
the ``parity`` extra.
"""

from typing import Any

import harness
import numpy as np
import peers
from absl import flags

from magjax.checks import RunError, positive_integer
from magjax.config import run_main
from magjax.data import TextPreprocessor
from magjax.evaluation import encode
from magjax.files import read_json

CHECKPOINT = flags.DEFINE_string("checkpoint", peers.MINILM, "Folder, or package:NAME/FOLDER.")
TEXTS = flags.DEFINE_integer("texts", 500, "Passages.")
SHORTEST = flags.DEFINE_integer("shortest", 16, "Tokens of the shortest passage.")
LONGEST = flags.DEFINE_integer("longest", 256, "Tokens of the longest passage.")
REPEATS = flags.DEFINE_integer("repeats", 5, "Turns of every side.")
JSON = flags.DEFINE_string("json", None, "File that receives all numbers.")
MARKDOWN = flags.DEFINE_string("markdown", None, "File that receives the table.")

AGREEMENT = 1e-4  # relative, of a raw embedding


def passages(checkpoint: str, texts: int, shortest: int, longest: int) -> list[str]:
    """Random words of the vocabulary, a token each; start and end tokens count."""
    vocabulary = read_json(peers.folder_of(checkpoint) / "tokenizer.json")["model"]["vocab"]
    words = sorted(w for w in vocabulary if w.isalpha() and w.isascii() and w.islower())
    random = np.random.default_rng(0)
    lengths = np.exp(random.uniform(np.log(shortest), np.log(longest), texts)).round().astype(int)
    return [" ".join(random.choice(words, max(length - 2, 1))) for length in lengths]


def magjax_side(checkpoint: str, longest: int) -> tuple[Any, Any]:
    """What tokenizes, and what embeds."""
    model = peers.magjax_model(checkpoint, query_max_length=longest, document_max_length=longest)
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    return preprocessor, lambda texts: encode(model.encoder, preprocessor, texts, "document")


def torch_side(checkpoint: str, longest: int) -> Any:
    """What embeds with sentence-transformers."""
    model = peers.sentence_transformer(checkpoint)
    model.max_seq_length = longest
    return lambda texts: model.encode(texts, show_progress_bar=False)


def memory(side: str, checkpoint: str, texts: int, shortest: int, longest: int) -> None:
    """One pass of a side; in a process of its own."""
    found = passages(checkpoint, texts, shortest, longest)
    embed = (
        magjax_side(checkpoint, longest)[1] if side == "magjax" else torch_side(checkpoint, longest)
    )
    embed(found)


def main() -> int:
    """Measures, prints and writes the reports."""
    numbers = TEXTS, SHORTEST, LONGEST
    settings: dict[str, Any] = {f.name: positive_integer(f.name, f.value) for f in numbers}
    settings["checkpoint"] = CHECKPOINT.value
    repeats = positive_integer("repeats", REPEATS.value)
    harness.check_outputs(JSON.value, MARKDOWN.value)
    names = ("sentence-transformers", "magjax")
    peaks = {name: harness.peak_memory(memory, side=name, **settings) for name in names}
    preprocessor, ours = magjax_side(CHECKPOINT.value, LONGEST.value)
    theirs = torch_side(CHECKPOINT.value, LONGEST.value)
    texts = passages(CHECKPOINT.value, TEXTS.value, SHORTEST.value, LONGEST.value)
    lengths = [len(row) for row in preprocessor.tokenize(texts, "document")]
    expected, found = theirs(texts), ours(texts)
    difference = np.abs(expected - found).max() / np.abs(expected).max()
    if not difference <= AGREEMENT:
        raise RunError(f"embeddings are {difference:.2g} apart; both sides must compute the same.")
    rows = harness.take_turns(
        [
            harness.Side(names[0], len(texts), lambda: theirs(texts)),
            harness.Side(names[1], len(texts), lambda: ours(texts)),
        ],
        repeats=repeats,
    )
    for row in rows:
        row["memory"] = peaks[row["what"]]
    harness.report(
        {"Encoding": rows},
        unit="texts",
        settings=settings | {"mean tokens": round(float(np.mean(lengths)), 1), "repeats": repeats},
        json=JSON.value,
        to=MARKDOWN.value,
        difference=float(difference),
    )
    return 0


if __name__ == "__main__":
    run_main(main)
