"""Loads exported folders in the installed sentence-transformers and compares them with magjax.

    python tests/hub/sentence_transformers_versions.py FOLDER ...
    python tests/hub/sentence_transformers_versions.py --make FOLDER ...

``--make`` first exports a tiny random model of every preset and layout into each FOLDER, which is
how a version that is not the installed one is tried: make the folders here, then run the first
command where that version is. It prints the version and, a model, the largest difference of
``encode_query`` and ``encode_document`` from magjax's embeddings, and fails above 1e-5.
"""

import functools
import itertools
import sys
from pathlib import Path

import jax
import numpy as np
from flax import nnx

from magjax.data import SIDES, TextPreprocessor, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.hub import Model, load, save_sentence_transformers
from magjax.similarity import PRESETS, Score

TOLERANCE = 1e-5
TEXTS = [
    "adds two arrays",
    "",
    "The Cosine of the ANGLE",
    "  outer   spaces\n",
    "naïve 北京 🙂 def f(x): return x",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen",
]
LAYOUTS = {
    "shared": {},
    "projection": {"projection_dim": 6, "projection_activation": "tanh"},
    "separate": {"shared": False, "pooling": "cls"},
    "separate_projections": {"shared": False, "projection_dim": 16, "projection_bias": False},
    "two_lengths": {"query_max_length": 12, "pooling": "weighted_mean"},
}


def tiny_model(score: Score, *, query_max_length: int = 24, **settings) -> Model:
    """A randomly started model with prompts; both towers and projections differ when there."""
    texts = ["adds two arrays", "def add(a, b): return a + b", "the cosine of the angle"]
    tokenizer = TextTokenizer.train(texts * 2, 300, model_max_length=32)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
    )
    encoder = DualEncoder.create(config, **settings)
    # Random biases and norms too, and lengths that are not all about 4.
    rng = np.random.default_rng(0)
    graph, state = nnx.split(encoder)
    state = jax.tree.map(lambda x: x + 0.2 * rng.normal(size=x.shape).astype(np.float32), state)
    text = TextSettings(
        query_max_length=query_max_length,
        document_max_length=24,
        query_prompt="find: ",
        document_prompt="text: ",
    )
    return Model(nnx.merge(graph, state), score, tokenizer, text)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _embed(graph, state, batch, side):
    return nnx.merge(graph, state).embed(batch, side)


def trained_embeddings(model: Model, side, texts=TEXTS) -> np.ndarray:
    """What magjax compares: raw embeddings, divided by the power of their length."""
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    batch = preprocessor.pad(preprocessor.tokenize(texts, side))
    embeddings = _embed(*nnx.split(model.encoder), batch, side)
    return np.asarray(model.require_score().normalize(embeddings, side))


def library_embeddings(folder: Path, texts=TEXTS) -> dict[str, np.ndarray]:
    """What sentence-transformers gives for the texts of each side."""
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(folder), device="cpu")
    return {"query": library.encode_query(texts), "document": library.encode_document(texts)}


def differences(folder: Path) -> dict[str, float]:
    """The largest difference of any number of any embedding, by side."""
    model = load(folder)
    theirs = library_embeddings(folder)
    result = {}
    for side in SIDES:
        ours = trained_embeddings(model, side)
        assert ours.shape == theirs[side].shape
        result[side] = float(np.abs(ours - theirs[side]).max())
    return result


def make(root: Path) -> list[Path]:
    """Exports every preset and layout; returns the folders."""
    folders = []
    for preset, (layout, settings) in itertools.product(PRESETS, LAYOUTS.items()):
        folders.append(root / f"{preset}-{layout}")
        save_sentence_transformers(tiny_model(Score.of(preset, 0.05), **settings), folders[-1])
    return folders


def main(arguments: list[str]) -> int:
    """Prints a line a model; 1 if any differs."""
    import sentence_transformers
    import transformers

    folders = [Path(name) for name in arguments if name != "--make"]
    if not folders:
        print(__doc__)
        return 2
    if "--make" in arguments:
        folders = [made for folder in folders for made in make(folder)]
    print(
        f"sentence-transformers {sentence_transformers.__version__}, "
        f"transformers {transformers.__version__}"
    )
    worst = 0.0
    for folder in folders:
        found = differences(folder)
        worst = max(worst, *found.values())
        print(f"{folder.name}: query {found['query']:.2e}, document {found['document']:.2e}")
    print(f"largest difference: {worst:.2e} (allowed: {TOLERANCE:g})")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
