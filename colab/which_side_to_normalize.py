# %% [markdown]
# # Which side to normalize?
#
# `cosine` normalizes queries and documents, `dot` neither, `qnorm` and `dnorm` one of them. Training all
# four to find out is dear. The paper *Beyond the Unit Hypersphere* (arXiv 2602.09229) says that it can be
# foreseen: the **Fisher information matrix** of the start model tells how evenly a step of training can
# move the predictions, and its condition number is said to predict which side to normalize.
#
# This notebook asks for the advice first, trains every variant afterwards with several seeds, and puts
# the two side by side.

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
QUERIES, FUNCTIONS = (40, 150) if SMALL else (200, 1000)
QUERY_LENGTH, DOCUMENT_LENGTH = (16, 16) if SMALL else (32, 64)  # tokens
WIDTH = 32 if SMALL else 64
STEPS = 6 if SMALL else 150
VARIANTS = ("cosine", "dnorm") if SMALL else ("cosine", "dot", "qnorm", "dnorm")
SEEDS = (0,) if SMALL else (0, 1, 2)

# %%
import tempfile

import jax
from IPython.display import Image, Markdown, display

from magjax.analysis import figure_png

WORK = Path(tempfile.mkdtemp(prefix="magjax-"))  # everything that this notebook writes
print(jax.devices())


def show(figure):
    """Draws a figure below the cell."""
    display(Image(figure_png(figure), width=900))


# %% [markdown]
# ## Task and start model
#
# Code search: the first sentence of a docstring asks for its function. The start model has random
# weights. Advice and training use the same config, so that the measurement sees the very batches,
# lengths and candidates that training would.

# %%
from magjax.config import fisher_config, retrieval_config, to_json
from magjax.data import mine_code_search, write_beir, write_pairs_jsonl

code = mine_code_search(PACKAGES, OTHER_PACKAGES, queries=QUERIES, functions=FUNCTIONS)
write_pairs_jsonl(WORK / "train.jsonl.gz", code.train)
write_beir(WORK / "in_domain", code.in_domain)
write_beir(WORK / "out_of_domain", code.out_of_domain)


def shared(config):
    """Data and model, the same for advice and training."""
    config.data.update(
        source="jsonl",
        path=str(WORK / "train.jsonl.gz"),
        test_paths=(str(WORK / "in_domain"), str(WORK / "out_of_domain")),
        dev_queries=min(QUERIES, 200),
        dev_documents=FUNCTIONS // 2,
    )
    config.model.update(layers=1, width=WIDTH, heads=2, vocab_size=4096)
    config.text.update(query_max_length=QUERY_LENGTH, document_max_length=DOCUMENT_LENGTH)
    return config


# %% [markdown]
# ## Advice
#
# A query sees its answer among 64 candidates; the model is the softmax over their scores. The Fisher
# matrix of one side's embeddings says how strongly a small move in each direction changes that softmax.
# If a few directions dominate, steps that suit them are too small for all others.
#
# The paper's condition number (largest over smallest eigenvalue) is *infinite* whenever some direction
# changes nothing, and that happens often. So several measures are taken, each with its interval over
# independent batches. What decides by default is the **effective rank** of the document side: roughly,
# how many directions count. That is a choice of ours, which the paper does not make.

# %%
from magjax.analysis import measures_figure
from magjax.fisher import format_report, intervals_by_variant
from magjax.study import measure_fisher

config = shared(fisher_config(init="random", seed=0))
if SMALL:
    config.fisher.update(candidates=16, examples=32, parameter_examples=32, batches=3, orders=(10,))
report = measure_fisher(to_json(config), WORK / "fisher")
print(format_report(report))

# %%
show(
    measures_figure(
        [
            (f"{space}: effective rank", variant, found.mean, found.low, found.high)
            for space in ("query", "document")
            for variant, found in report.intervals(space, "effective_rank").items()
        ],
        title="Before training: effective rank of the Fisher matrix (more is better)",
    )
)
print("advice:", report.advice.verdict)
print(report.advice.reason)

# %% [markdown]
# "Undecided" is an answer: the intervals overlap, and the measurement cannot tell those variants apart.
#
# ## Training
#
# A study trains every variant with every seed, and tests the untrained model and BM25 besides. It stores
# each run in a small file, so that an interrupted study goes on where it was. Claims are written down
# *before* the results are known.

# %%
from magjax.config import study_claim, study_config
from magjax.study import StudyGrid, run_study, study_rows, verdicts

base = shared(retrieval_config(variant="cosine", seed=0))
base.loop.update(steps=STEPS, evaluate_every=STEPS, save_every=STEPS, log_every=STEPS)
study = study_config(base, name="notebook")
study.variants = VARIANTS
study.seeds = SEEDS
study.resamples = 200 if SMALL else 10_000
one_sided = [name for name in VARIANTS if name in ("qnorm", "dnorm")]
others = [name for name in VARIANTS if name not in one_sided]
study.claims = tuple(
    study_claim(f"The best one-sided score beats the others {where} domain.", **claim, domain=where)
    for where in ("in", "out")
    for claim in [{"better": one_sided, "than": others}]
)

grid = StudyGrid.of(to_json(study))
state = run_study(grid, WORK / "studies", workdir=WORK / "runs")
print(len(state.cells), "cells, complete:", state.complete)

# %%
from magjax.analysis import ValueOfSystem, values_figure

rows = study_rows(state.cells, "ndcg@10", reference="cosine")
values, lines = [], {}
for row in rows:
    panel = row.unit.domain
    if row.trained:
        values.append(ValueOfSystem(panel, row.system, row.mean, row.low, row.high, row.seeds))
    elif row.system == "bm25":
        lines[panel] = ("BM25", row.mean)
show(values_figure(values, lines=lines, label="nDCG@10", title="After training: mean over seeds"))

# %% [markdown]
# Bars are 95 % intervals over seeds, small dots single seeds. With two or three seeds they are wide, as
# they should be.
#
# ## Verdicts
#
# A claim is *supported* or *not supported* only if chance is an unlikely explanation, over queries and
# over seeds, after correction for the number of claims. Otherwise it stays *undecided*.

# %%
found = verdicts(state.cells, grid.claims, resamples=study.resamples)
lines = ["| claim | verdict | difference | corrected p |", "|---|---|---|---|"]
lines += [
    f"| {one.claim.text} | **{one.decision}** | {one.difference:+.3f} ({one.best} over {one.rival}) "
    f"| {one.corrected:.3g} |"
    for one in found
]
display(Markdown("\n".join(lines)))

# %% [markdown]
# ## Advice against training

# %%
ranks = intervals_by_variant(report.measurements, "document", "effective_rank")
inside = {row.system: row.mean for row in rows if row.trained and row.unit.domain == "in_domain"}
print(f"{'variant':8s} {'effective rank':>15s} {'nDCG@10 in domain':>18s}")
for variant in sorted(VARIANTS, key=lambda name: -ranks[name].mean):
    print(f"{variant:8s} {ranks[variant].mean:15.2f} {inside[variant]:18.3f}")
best = max(inside, key=inside.get)
print(f"\nadvised: {report.advice.verdict}; best mean after training: {best}")

# %% [markdown]
# Whether they agree here decides **nothing**. It is one start model, one task, one learning rate and a
# handful of seeds; the best mean counts as the winner, whether or not the verdicts above can tell it
# from the others; and an adviser that always names the commonest winner can look clever. What would count is the hit rate over many start models and tasks against that base
# rate, which `magjax.fisher.score_adviser` computes with its exact interval. With this single cell it
# refuses to judge:

# %%
from magjax.fisher import Cell, format_scores, score_adviser

cell = Cell(
    "random/code",
    best,
    {"document|ggn|effective_rank": {name: ranks[name].mean for name in VARIANTS}},
)
print(format_scores(score_adviser([cell], variants=VARIANTS, prefer={"effective_rank": "high"})))

# %% [markdown]
# ## Your own model and data
#
# ```
# python launch/fisher.py --config=configs/fisher.py:checkpoint=MODEL_FOLDER,data=BEIR_FOLDER
# python launch/study.py --config=configs/study_toy.py
# ```
#
# The measures are explained in `docs/fisher.md`, studies and their statistics in `docs/studies.md`.
