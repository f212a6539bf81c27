# %% [markdown]
# # What lengths carry: magnitude and gradients
#
# An encoder gives every text a vector. Its direction says what the text is about; what does its
# **length** say? The paper *Beyond the Unit Hypersphere* (arXiv 2602.09229) makes two claims:
#
# 1. *Documents.* Where documents are not normalized, training makes relevant ones longer than others:
#    length becomes a sign of relevance.
# 2. *Queries.* A query's length changes no ranking, but it changes how fast training learns: longer
#    queries sharpen the softmax.
#
# This notebook trains a small retriever whose document lengths are free (`qnorm`), measures both, and
# lets you compare what comes out with what is claimed. It is one small model on one task: enough to
# see how such claims are tested, not enough to decide them.

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
RESAMPLES = 50 if SMALL else 1000

# %%
import dataclasses
import tempfile

import jax
from IPython.display import Image, display

from magjax.analysis import figure_png

WORK = Path(tempfile.mkdtemp(prefix="magjax-"))  # everything that this notebook writes
print(jax.devices())


def show(figure):
    """Draws a figure below the cell."""
    display(Image(figure_png(figure), width=900))


# %% [markdown]
# ## A retriever with free document lengths
#
# The task is code search: the first sentence of a docstring asks for its function. `qnorm` divides the
# query by its length and leaves the document's, so that training may use it.

# %%
from magjax import hub
from magjax.config import retrieval_config, to_json
from magjax.data import mine_code_search, write_beir, write_pairs_jsonl
from magjax.study import train

code = mine_code_search(PACKAGES, OTHER_PACKAGES, queries=QUERIES, functions=FUNCTIONS)
write_pairs_jsonl(WORK / "train.jsonl.gz", code.train)
write_beir(WORK / "in_domain", code.in_domain)

config = retrieval_config(variant="qnorm", seed=0)
config.data.update(
    source="jsonl",
    path=str(WORK / "train.jsonl.gz"),
    test_paths=(str(WORK / "in_domain"),),
    dev_queries=min(QUERIES, 200),
    dev_documents=FUNCTIONS // 2,
)
config.model.update(layers=1 if SMALL else 2, width=WIDTH, heads=4, vocab_size=4096)
config.text.update(query_max_length=QUERY_LENGTH, document_max_length=DOCUMENT_LENGTH)
config.loop.update(steps=STEPS, evaluate_every=STEPS, save_every=STEPS, log_every=STEPS // 4)
train(to_json(config), WORK / "qnorm")

model = hub.load(WORK / "qnorm")
test = code.in_domain
print(model.score)

# %% [markdown]
# ## Documents: are relevant ones longer?
#
# The answer depends on what relevant documents are compared *with*:
#
# - `random`: documents drawn by chance;
# - `top_k`: what the model retrieved by mistake. Beware: a score that uses lengths retrieves long
#   documents, so these are long by selection;
# - `all`: everything that is not relevant.
#
# **Cohen's d** is the difference of mean lengths in units of their spread: 0 is none, 0.8 is called
# large, and the paper reports up to 1.80. **AUC** is how often a relevant document is the longer one of
# a pair, 0.5 being chance. All come with 95 % bootstrap intervals.

# %%
from magjax.analysis import (
    MagnitudeSettings,
    ablation_figure,
    document_norms_figure,
    format_magnitude,
    measure_model_magnitude,
    query_norms_figure,
    relevance_figure,
)

magnitude = measure_model_magnitude(model, test, MagnitudeSettings(resamples=RESAMPLES))

for found in magnitude.contrasts:
    effect, area = found.pooled["cohens_d"], found.pooled["norm_auc"]
    print(
        f"against {found.kind:14s} d {effect.mean:5.2f} [{effect.low:5.2f}, {effect.high:5.2f}]   "
        f"AUC {area.mean:.2f} [{area.low:.2f}, {area.high:.2f}]"
    )

# %%
show(relevance_figure(magnitude))

# %% [markdown]
# If the two curves of a panel lie on each other, length says nothing of relevance. If the relevant one
# lies to the right, it says what the paper says it does; to the left, the opposite.
#
# ### What else could length be?
#
# Perhaps it follows how much text there is, or how often a document turns up among the best of *any*
# query (a hub). The next picture relates length to both.

# %%
show(document_norms_figure(magnitude))

# %% [markdown]
# ### Does the ranking need it?
#
# Give every document another length and rank again: a shuffled one, the order turned round, or none
# (all 1, which is `dnorm`'s ranking). A drop says that the lengths helped. A loss from *shuffling* alone
# is no proof: it also breaks whatever ties a length to its direction. *Removed* is the plain question.

# %%
show(ablation_figure(magnitude))

# %%
for condition in magnitude.ablation.conditions:
    change = condition.difference.get("ndcg@10")
    if change is not None:
        print(
            f"{condition.name:10s} nDCG@10 changes by {change.mean:+.3f} "
            f"[{change.low:+.3f}, {change.high:+.3f}]"
        )

# %% [markdown]
# ## Queries: length and loss
#
# `qnorm` divides by the query's length, so it can play no part in training here; the picture shows
# whether it is related to how hard a query is all the same.

# %%
show(query_norms_figure(magnitude))

# %% [markdown]
# The whole analysis in one table, with all that it says about how far to believe it:

# %%
print(format_magnitude(magnitude))

# %% [markdown]
# ## Gradients: what a longer query does
#
# Now stretch every query by a factor c and take `jax.grad` of its loss, under all four scores. What must
# come out can be worked out on paper. Where the query is not normalized, its length is its own inverse
# temperature:
#
# $$\frac{\partial \ell}{\partial \log \lVert q \rVert}
#   = (1 - \gamma_q)\,\bigl(\mathbb{E}_p[\text{logit}] - \text{logit}^+\bigr)$$
#
# So a query that is answered well (its answer's logit lies above the mean) gains from being longer, and
# one that is answered badly loses. Where it is normalized ($\gamma_q = 1$) the right side is 0, and the
# gradient is divided by the length.
#
# Lines are measurements, circles the formulae.

# %%
from magjax.analysis import (
    GradientSettings,
    format_gradients,
    gradients_figure,
    gradients_overview_figure,
    measure_gradients,
)

settings = GradientSettings(seed=0)
if SMALL:
    settings = dataclasses.replace(
        settings, queries=24, documents=24, points=5, parameter_queries=6, parameter_points=3
    )
gradients = measure_gradients(model, test, settings=settings)
show(gradients_overview_figure(gradients))

# %%
for entry in gradients.scores:
    worst = max(entry.deviations().values())
    print(f"{entry.name:7s} largest relative difference of jax.grad and formula: {worst:.0e}")

# %% [markdown]
# ### "Longer queries get larger gradients" is too simple
#
# The softmax saturates: once the answer has won, a longer query pushes its probability to 1 and the
# gradient vanishes. Under `dnorm` the query's length is free; here are its queries in three equal parts,
# from easy to hard by their loss.

# %%
by_name = {entry.name: entry for entry in gradients.scores}
show(gradients_figure(gradients, by_name["dnorm"]))

# %%
print("share of queries with a larger gradient by direction at 4 times the length:")
for name, entry in by_name.items():
    shares = entry.steeper("direction", 4)
    print(f"{name:7s}", "  ".join(f"{part} {share:4.0%}" for part, share in shares.items()))

# %%
print(format_gradients(gradients))

# %% [markdown]
# ## On the command line
#
# ```
# python launch/analyze.py magnitude --checkpoint=runs/qnorm --data=code --workdir=runs/qnorm
# python launch/analyze.py gradients --checkpoint=runs/qnorm --data=code --workdir=runs/qnorm
# ```
#
# The measures are explained in `docs/analysis.md`.
