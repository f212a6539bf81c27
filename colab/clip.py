# %% [markdown]
# # Images and captions: CLIP with one-sided normalization
#
# CLIP trains two towers, one for images and one for texts, so that an image and its caption get vectors
# that point the same way. Both are divided by their lengths: the score is their cosine. Then the length
# of neither can mean anything.
#
# The paper *Beyond the Unit Hypersphere* (arXiv 2602.09229) says that leaving one side's length free makes
# it learnable here too, **at a price**: an image-text model is searched in both directions, images by
# captions and captions by images, and a one-sided score is not the same thing in both.
#
# This notebook trains small CLIP models on icons and measures both directions for each score.

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

LAYERS, WIDTH = (1, 32) if SMALL else (2, 96)
BATCH, STEPS = (32, 4) if SMALL else (128, 500)
VARIANTS = ["qnorm"] if SMALL else ["cosine", "qnorm", "dnorm"]

# %%
import tempfile

import jax
import numpy as np
from IPython.display import Image, display

from magjax.analysis import figure_png

WORK = Path(tempfile.mkdtemp(prefix="magjax-"))  # everything that this notebook writes
print(jax.devices())


def show(figure):
    """Draws a figure below the cell."""
    display(Image(figure_png(figure), width=900))


# %% [markdown]
# ## Data: icons and their names
#
# The pictures are glyphs of icon fonts that come with an installed package, 32 pixels wide; captions are
# the words of their names. No name and no drawing of a test occurs in training. *In domain* are other
# icons of the families that are trained on, *out of domain* icons of other families, drawn in another
# style.

# %%
from magjax.data import icons

data = icons(32)
print(len(data.train), "images to train on;", len(data.in_domain.image_ids), "in each test")


def strip(images, rows):
    """Some images side by side, enlarged."""
    import PIL.Image

    picture = PIL.Image.fromarray(np.hstack([images[row] for row in rows]))
    display(picture.resize((picture.width * 2, picture.height * 2)))


for title, test in (("in domain", data.in_domain), ("out of domain", data.out_of_domain)):
    print(title)
    strip(test.images, range(0, 1000, 70))
print("captions:", "; ".join(data.in_domain.captions[:8]))

# %% [markdown]
# ## One score, two directions
#
# The caption is the "query" and the image the "document". Under `qnorm` captions are divided by their
# length and images are not:
#
# - *images for a caption*: images of great length rank higher, whatever the caption says;
# - *captions for an image*: the image's length multiplies the scores of all captions alike and cancels.
#   The ranking goes by direction only.
#
# Under `dnorm` it is the other way round. Here with made-up vectors:

# %%
from magjax.similarity import scores

captions = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
pictures = np.array([[0.9, 0.1], [2.0, 4.0]], np.float32)
matrix = np.asarray(scores(captions, pictures, gamma_query=1.0, gamma_document=0.0))
print(matrix)
print("best image of each caption:", matrix.argmax(axis=1).tolist())
print("best caption of each image:", matrix.argmax(axis=0).tolist())

# %% [markdown]
# The second image is so long that it wins for the first caption too, though it points elsewhere. The
# other direction is not disturbed.
#
# ## Train
#
# The loss is the mean of both directions, as in CLIP. Each variant starts at a temperature at which its
# logits spread alike.

# %%
from magjax.config import image_text_config, to_json
from magjax.study import train


def config_of(variant):
    """A small CLIP, trained from random numbers."""
    config = image_text_config(variant=variant, seed=0)
    config.batch_size = BATCH
    for tower in ("image", "text"):
        config.model.update({f"{tower}_layers": LAYERS, f"{tower}_width": WIDTH})
    config.model.update(image_heads=2, text_heads=2, vocab_size=1024 if SMALL else 4096)
    config.loop.update(
        steps=STEPS, evaluate_every=STEPS // 2, save_every=STEPS, log_every=max(STEPS // 10, 1)
    )
    return to_json(config)


for variant in VARIANTS:
    print(f"\n{variant}")
    train(config_of(variant), WORK / variant)

# %%
from magjax.analysis import read_metrics, training_curves_figure

show(
    training_curves_figure(
        read_metrics(WORK / "qnorm" / "metrics.jsonl"), metric="mrr", title="Training, qnorm"
    )
)

# %% [markdown]
# ## Both directions of every model
#
# `success@10` is how often a right answer is among the first ten. The dashed line is chance, a diamond
# the untrained model. One run each: no interval says how much is luck, so a small difference here is no
# finding.

# %%
from magjax.analysis import ValueOfSystem, values_figure
from magjax.files import read_json

values, untrained, lines = [], {}, {}
for variant in VARIANTS:
    for row in read_json(WORK / variant / "results.json")["results"]:
        panel, value = row["domain"].replace(":", "\n"), row["metrics"]["success@10"]
        if row["system"] == "model":
            values.append(ValueOfSystem(panel, variant, value, None, None, (value,)))
        elif row["system"] == "untrained":
            untrained[panel, variant] = value
        else:
            lines[panel] = ("chance", value)

show(
    values_figure(
        values, untrained=untrained, lines=lines, label="success@10", title="Icons, one run each"
    )
)

# %% [markdown]
# ## One model under other scores
#
# A model is ranked by the score that it was trained for. To see what its lengths do, rank the `qnorm`
# model by the others as well: where captions are searched, `cosine` and `qnorm` must agree, since the
# image's length cancels; where images are searched, the difference is what lengths are worth.

# %%
from magjax import hub
from magjax.evaluation import evaluate_image_text, other_scores

model = hub.load(WORK / "qnorm")
test = data.in_domain
results = evaluate_image_text(model, test, other_scores({"qnorm": model.require_score()}))
for result in results:
    direction = result.domain.rpartition(":")[2]
    found = result.evaluation.mean
    print(
        f"{direction:14s} {result.system:16s} success@1 {found['success@1']:.3f}  "
        f"success@10 {found['success@10']:.3f}  median rank {found['median_rank']:g}"
    )

# %% [markdown]
# ## Look at it
#
# Captions are spread evenly over the test, good and bad ones alike. Right images have a green frame.

# %%
from magjax.analysis import retrieval_sheet_figure

show(retrieval_sheet_figure(test, results[0], title="Icons in domain: images found by captions"))

# %% [markdown]
# ## Which images are long?
#
# Under `qnorm` nothing ties an image's length, so training may use it. The shortest and the longest
# images of the test, and how much lengths vary:

# %%
from magjax.evaluation import embed_image_text

lengths = np.linalg.norm(embed_image_text(model, test)["image"], axis=1)
order = np.argsort(lengths)
print(f"length: mean {lengths.mean():.3g}, standard deviation {lengths.std():.2g}")
print("shortest")
strip(test.images, order[:16])
print("longest")
strip(test.images, order[-16:])

# %% [markdown]
# ## On the command line
#
# ```
# python launch/train.py --config=configs/clip_asym.py
# python launch/train.py --config=configs/clip_asym.py:variant=dnorm,data=IMAGE_TEXT_FOLDER
# ```
