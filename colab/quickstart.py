# %% [markdown]
# # A first tour of magjax
#
# Search engines for text train two encoders: one for queries, one for documents. A pair is scored
# by comparing two vectors, nearly always by their **cosine**: both vectors are divided by their
# lengths, and only their directions count. The paper *Beyond the Unit Hypersphere* (arXiv 2602.09229)
# asks what is lost by that, and treats each side's normalization as a choice of its own:
#
# | name | query divided by its length | document divided by its length |
# |---|---|---|
# | `cosine` | yes | yes |
# | `dot` | no | no |
# | `qnorm` | yes | no |
# | `dnorm` | no | yes |
#
# This notebook shows the choice in a few numbers, trains small retrievers with it, and then saves,
# loads, searches and exports one. It runs on a CPU, a GPU or a TPU; set `MAGJAX_SMALL=1` in the
# environment for a run of seconds that shows the way and no result.

# %% [markdown]
# ## Install
#
# On Colab this cell fetches magjax and installs it, with the JAX that fits the machine (some minutes).
# Where magjax is installed already it does nothing. Colab had other versions of some packages loaded
# before: if an import below fails, choose *Runtime > Restart session* and run all cells again.

# %%
import importlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = "https://github.com/magjax/magjax.git"

if importlib.util.find_spec("magjax") is None:
    if not Path("magjax-source").is_dir():
        subprocess.run(["git", "clone", "--depth=1", REPOSITORY, "magjax-source"], check=True)
    tpu = Path("/dev/accel0").exists() or Path("/dev/vfio/0").exists()
    extra = "[gpu]" if shutil.which("nvidia-smi") else "[tpu]" if tpu else ""
    command = [sys.executable, "-m", "pip", "install", "--quiet", f"./magjax-source{extra}"]
    subprocess.run([*command, "--constraint=magjax-source/constraints.txt"], check=True)
    importlib.invalidate_caches()

# %% [markdown]
# ## Settings

# %%
import os

SMALL = bool(os.environ.get("MAGJAX_SMALL"))

PACKAGES = ["bm25s", "optax"] if SMALL else ["bm25s", "etils", "flax", "grain", "numpy", "optax"]
OTHER_PACKAGES = ["rich"] if SMALL else ["matplotlib", "pillow", "rich"]
QUERIES, FUNCTIONS = (40, 150) if SMALL else (300, 3000)
QUERY_LENGTH, DOCUMENT_LENGTH = (16, 16) if SMALL else (32, 64)  # tokens
WIDTH = 32 if SMALL else 128
STEPS = 12 if SMALL else 200
VARIANTS = ["qnorm"] if SMALL else ["cosine", "qnorm", "dnorm"]

# %%
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from IPython.display import Image, display

from magjax.analysis import figure_png

WORK = Path(tempfile.mkdtemp(prefix="magjax-"))  # everything that this notebook writes
print(jax.devices())


def show(figure):
    """Draws a figure below the cell."""
    display(Image(figure_png(figure), width=900))


# %% [markdown]
# ## The choice, by hand
#
# One query and three documents in the plane. The first document points where the query points, the
# second is turned a little and five times as long, the third points elsewhere.
#
# A score divides each side by its length to a power: 1 on the unit sphere, 0 untouched, and anything
# between is possible.

# %%
from magjax.similarity import PRESETS, normalize, scores

query = jnp.array([[3.0, 4.0]])
documents = jnp.array([[0.6, 0.8], [4.0, 3.0], [-1.0, 0.5]])

print("length to the power 1, 1/2 and 0 divided out:")
for power in (1.0, 0.5, 0.0):
    print(" ", power, normalize(query, power))

for name, (gamma_query, gamma_document) in PRESETS.items():
    found = scores(query, documents, gamma_query=gamma_query, gamma_document=gamma_document)[0]
    order = np.argsort(-found).tolist()
    print(f"{name:7s} scores {[f'{score:.2f}' for score in found]}  ranking {order}")

# %% [markdown]
# `dot` and `qnorm` rank alike: a query's own length multiplies all of its scores. So do `cosine` and
# `dnorm`. **For a finished model the document's power decides the ranking; the query's power matters
# while it is trained**, because it changes the gradients.

# %%
from magjax.losses import batch_mean, info_nce
from magjax.similarity import calibrate_temperature

queries = jax.random.normal(jax.random.key(0), (8, 16))
answers = queries + jax.random.normal(jax.random.key(1), (8, 16))

for name, (gamma_query, gamma_document) in PRESETS.items():
    powers = {"gamma_query": gamma_query, "gamma_document": gamma_document}
    temperature = calibrate_temperature(queries, answers, **powers, reference_temperature=0.2)

    def loss(q, d, powers=powers, temperature=temperature):
        return batch_mean(info_nce(q, d, **powers, temperature=temperature))

    gradients = jax.grad(loss, argnums=(0, 1))(queries, answers)
    along = [
        float(jnp.abs(jnp.sum(x * g, axis=1)).max())
        for x, g in zip((queries, answers), gradients, strict=True)
    ]
    print(f"{name:7s} pull on the length of a query {along[0]:.0e}, of a document {along[1]:.0e}")

# %% [markdown]
# Where a side is normalized the gradient has no part along the vector (what is left, 1e-7
# or less, is rounding): training cannot teach that side a length. Where it is not, length is one more thing to
# learn.

# %% [markdown]
# ## Data: find the function that a sentence describes
#
# The data is in the packages that are installed anyway: the first sentence of a function's docstring is
# the query, its source without the docstring the document. Some packages give the training pairs, and
# functions of theirs that were held out are the *in-domain* test; other packages are the *out-of-domain*
# test.
#
# The files below are also the form in which you would bring your own data: pairs as JSON lines, tests
# as BEIR folders.

# %%
from magjax.data import mine_code_search, write_beir, write_pairs_jsonl

code = mine_code_search(PACKAGES, OTHER_PACKAGES, queries=QUERIES, functions=FUNCTIONS)
write_pairs_jsonl(WORK / "train.jsonl.gz", code.train)
write_beir(WORK / "in_domain", code.in_domain)
write_beir(WORK / "out_of_domain", code.out_of_domain)

print(len(code.train), "training pairs;", len(code.in_domain.documents), "functions in each test")
print(code.train.queries[0], "\n", code.train.documents[code.train.positives[0][0]][:300])

# %% [markdown]
# ## Train
#
# Every run is described by a config; these are the settings that this notebook changes. A run writes
# its folder (`config.json`, the best model, checkpoints, metrics, results) and prints a table: BM25
# (word matching, no training), the untrained model, and the trained one, on both tests.
#
# Each variant starts at a temperature at which its logits spread as those of cosine at 0.05 do.
# Otherwise a comparison of variants would be one of temperatures.

# %%
from magjax.config import retrieval_config, to_json
from magjax.study import train


def config_of(variant):
    """A small retriever, trained from random numbers."""
    config = retrieval_config(variant=variant, seed=0)
    config.data.update(
        source="jsonl",
        path=str(WORK / "train.jsonl.gz"),
        test_paths=(str(WORK / "in_domain"), str(WORK / "out_of_domain")),
        dev_queries=min(QUERIES, 200),
        dev_documents=FUNCTIONS // 2,
    )
    config.model.update(layers=1 if SMALL else 2, width=WIDTH, heads=4, vocab_size=4096)
    config.text.update(query_max_length=QUERY_LENGTH, document_max_length=DOCUMENT_LENGTH)
    config.loop.update(steps=STEPS, evaluate_every=STEPS, save_every=STEPS, log_every=STEPS // 4)
    return to_json(config)


for variant in VARIANTS:
    print(f"\n{variant}")
    train(config_of(variant), WORK / variant)

# %% [markdown]
# ## Compare
#
# The dashed line is BM25, a diamond the untrained model. Each variant has one run here, so nothing says
# how much of a difference is chance: `which_side_to_normalize.ipynb` runs several seeds and gives
# intervals. Read the picture as what a run looks like, not as a verdict on the paper.

# %%
from magjax.analysis import ValueOfSystem, values_figure
from magjax.files import read_json

values, untrained, lines = [], {}, {}
for variant in VARIANTS:
    for row in read_json(WORK / variant / "results.json")["results"]:
        domain, value = row["domain"], row["metrics"]["ndcg@10"]
        if row["system"] == "model":
            values.append(ValueOfSystem(domain, variant, value, None, None, (value,)))
        elif row["system"] == "untrained":
            untrained[domain, variant] = value
        else:
            lines[domain] = ("BM25", value)

show(
    values_figure(
        values, untrained=untrained, lines=lines, label="nDCG@10", title="Code search, one run each"
    )
)

# %% [markdown]
# ## Load and search
#
# A saved model knows its score, temperature, prompts and lengths; `hub.load` reads run folders, Hugging
# Face folders and sentence-transformers folders alike. `search` is exact.

# %%
from magjax import hub
from magjax.data import TextPreprocessor
from magjax.evaluation import encode, search

model = hub.load(WORK / "qnorm")
print(model.score)

preprocessor = TextPreprocessor(model.tokenizer, model.text)
test = code.in_domain
document_embeddings = encode(model.encoder, preprocessor, test.documents, "document")

question = "Computes the exponential moving average of the parameters."
query_embeddings = encode(model.encoder, preprocessor, [question], "query")
ranking = search(
    query_embeddings,
    document_embeddings,
    score=model.score,
    k=5,
    query_ids=["mine"],
    document_ids=test.document_ids,
)
for name, score in ranking.to_run()["mine"].items():
    print(f"{score:8.3f}  {name}")

# %% [markdown]
# ## Export
#
# A vector database knows inner product, cosine and distance, but no `qnorm`. The export stores document
# vectors so that a plain inner product with the normalized query *is* the trained score. Here the
# target is a NumPy file; FAISS, Qdrant, pgvector, LanceDB and Parquet go the same way.

# %%
from magjax.export import export_texts, read_texts, search_vectors

told = export_texts(model, read_texts(WORK / "in_domain"), WORK / "vectors", target="numpy")
print(told.summary())

found = search_vectors(WORK / "vectors", query_embeddings, k=5)
print("the same documents:", list(found.documents[0]) == list(ranking.to_run()["mine"]))

# %% [markdown]
# ## The same on the command line
#
# ```
# python launch/train.py --config=configs/retrieval_code.py:variant=qnorm --workdir=runs/qnorm
# python launch/evaluate.py --checkpoint=runs/qnorm --data=code --bm25
# python launch/export.py vectors --checkpoint=runs/qnorm --data=code --target=faiss --out=vectors
# ```
#
# Next: `magnitude_and_gradients.ipynb` looks into what lengths carry, `which_side_to_normalize.ipynb`
# chooses a variant before training and checks the choice, `clip.ipynb` does images.
