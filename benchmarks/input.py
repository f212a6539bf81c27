"""Images a second that the input pipeline delivers, beside what training a model takes up.

    python benchmarks/input.py
    python benchmarks/input.py --config.batch_size=512 --threads=4 --json=input.json

Three rows take turns on one machine: a training step of the model of --config (both towers,
forward and backward, its batch on the device before), by default that of configs/clip_asym.py; its
images as training reads them, icons from their cache, placed, normalized and tokenized; and JPEG
files of 640 x 480 pixels, which are decoded, cropped at random, mirrored and scaled to
--image_size. The pipeline's rows run
through the same threads as training; batches that were ready before a turn are not counted.

Prints the median with minimum and maximum over --repeats turns, the same by CPU seconds of all
threads, and both as multiples of the model's. Training waits for no image where the multiple is
above 1; where other programs share the cores, trust the CPU column. The JPEG row has larger images
than the model of the first row and is no multiple of its appetite; it is there to be compared
with itself. No data set is needed.
"""

import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags
from ml_collections import config_flags
from PIL import Image

from magjax.checks import positive_integer
from magjax.config import run_main, to_json
from magjax.data import (
    Batches,
    ImageAugmentation,
    ImageFiles,
    ImagePreprocessor,
    ImageSettings,
    ImageTextBatches,
    ImageTextSet,
    TextPreprocessor,
    batch_iterator,
)
from magjax.files import write_json
from magjax.mesh import data_mesh, replicate
from magjax.similarity import SimilarityHead
from magjax.study import TASKS, Task, describe_machine
from magjax.training import (
    LossSettings,
    OptimizerSettings,
    Trainee,
    initial_state,
    make_optimizer,
    make_train_step,
    place_batch,
)

CONFIG = config_flags.DEFINE_config_file(
    "config", str(Path(__file__).parents[1] / "configs" / "clip_asym.py"), "An image-text config."
)
IMAGE_SIZE = flags.DEFINE_integer("image_size", 224, "Side to which JPEG files are scaled.")
JPEGS = flags.DEFINE_integer("jpegs", 64, "JPEG files, and images of a batch of them at most 32.")
STEPS = flags.DEFINE_integer("steps", 3, "Training steps of a turn.")
BATCHES = flags.DEFINE_integer(
    "batches", 20, "Batches of a turn of the row of the config's images."
)
THREADS = flags.DEFINE_integer("threads", 2, "Threads that make batches, as in training.")
REPEATS = flags.DEFINE_integer("repeats", 5, "Turns of every row.")
JSON = flags.DEFINE_string("json", None, "File that receives all numbers.")

AHEAD = 4  # batches held ready, as in training


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table: a turn passes ``images`` images; ``prepare`` is not timed."""

    name: str
    images: int
    turn: Callable[[], Any]
    prepare: Callable[[], Any] = lambda: None


def input_row(name: str, batches: Batches, size: int, count: int, stack: Any) -> Row:
    """Reads ``count`` batches of an endless stream a turn."""
    stream = stack.enter_context(
        batch_iterator(batches, prefetch=AHEAD, threads=positive_integer("threads", THREADS.value))
    )

    def take(number: int) -> None:
        for _ in range(number):
            next(stream)

    return Row(name, count * size, lambda: take(count), lambda: take(AHEAD))


def model_row(task: Task, config: dict[str, Any]) -> Row:
    """Training steps of the config's start model on its first batch."""
    head = SimilarityHead(
        config["variant"], temperature=0.05, learn_temperature=True, temperature_range=(0.01, 1.0)
    )
    trainee = Trainee(task.model.encoder, head)
    optimizer = make_optimizer(OptimizerSettings(learning_rate=1e-3), 1_000)
    mesh = data_mesh(jax.devices()[:1])
    graph, state = initial_state(trainee, optimizer, seed=0)
    step = make_train_step(graph, optimizer, LossSettings(direction="both"))
    batch = place_batch(task.batches.batch_at(0), mesh)
    held = {"state": replicate(state, mesh)}
    parameters = sum(leaf.size for leaf in jax.tree.leaves(held["state"].params))

    def train() -> None:
        for _ in range(STEPS.value):
            held["state"], metrics = step(held["state"], batch)
        jax.block_until_ready(metrics)

    name = f"model of {parameters / 1e6:.1f} million parameters"
    return Row(name, STEPS.value * config["batch_size"], train)


@contextlib.contextmanager
def jpeg_set(count: int) -> Iterator[ImageTextSet]:
    """Files of 640 x 480 pixels: smooth colours under noise, as large as photographs (50 kB)."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.jpg") for number in range(count)]
        for path in paths:
            coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3)).astype(np.uint8))
            smooth = np.asarray(coarse.resize((640, 480)), np.int16)
            noisy = smooth + random.integers(-8, 8, smooth.shape)
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=85)
        names = [path.name for path in paths]
        yield ImageTextSet(names, ImageFiles(paths), [(name,) for name in names])


def take_turns(rows: list[Row], repeats: int) -> list[dict[str, Any]]:
    """Times the rows A B C A B C, so that a slow minute of the machine meets all of them."""
    taken = np.zeros((2, len(rows), repeats))
    for turn in range(-1, repeats):  # the first compiles and fills caches
        for number, row in enumerate(rows):
            row.prepare()
            before = time.perf_counter(), time.process_time()
            row.turn()
            after = time.perf_counter(), time.process_time()
            if turn >= 0:
                taken[:, number, turn] = np.subtract(after, before)
    found = []
    for number, row in enumerate(rows):
        rate, cpu_rate = row.images / taken[:, number]
        found.append(
            {
                "what": row.name,
                "images_per_second": float(np.median(rate)),
                "slowest": float(rate.min()),
                "fastest": float(rate.max()),
                "images_per_cpu_second": float(np.median(cpu_rate)),
            }
        )
    for entry in found:
        for key, name in (
            ("images_per_second", "multiple"),
            ("images_per_cpu_second", "cpu_multiple"),
        ):
            entry[name] = entry[key] / found[0][key]
    return found


def print_report(report: dict[str, Any]) -> None:
    print(", ".join(f"{name} {value}" for name, value in report["settings"].items()))
    print(f"{'what':<36}{'images/s (min to max)':>30}{'a CPU s':>10}{'multiple':>10}{'by CPU':>8}")
    for row in report["rows"]:
        rate = f"{row['images_per_second']:.0f} ({row['slowest']:.0f} to {row['fastest']:.0f})"
        multiples = f"{row['multiple']:>10.1f}{row['cpu_multiple']:>8.1f}"
        print(f"{row['what']:<36}{rate:>30}{row['images_per_cpu_second']:>10.0f}{multiples}")
    print(report["machine"])


def main() -> int:
    """Measures, prints and writes --json."""
    numbers = IMAGE_SIZE, JPEGS, STEPS, BATCHES, THREADS, REPEATS
    settings = {flag.name: positive_integer(flag.name, flag.value) for flag in numbers}
    config = to_json(CONFIG.value)
    size = settings["batch_size"] = config["batch_size"]
    with contextlib.ExitStack() as stack:
        task = TASKS["image_text"].make_task(config)
        several = min(settings["jpegs"], 32)
        large = ImageTextBatches(
            stack.enter_context(jpeg_set(settings["jpegs"])),
            ImagePreprocessor(
                ImageSettings(size=settings["image_size"]),
                augmentation=ImageAugmentation.named("photo"),
            ),
            TextPreprocessor(task.model.tokenizer, task.model.text),
            batch_size=several,
            seed=0,
        )
        scaled = f"JPEG 640 x 480 to {settings['image_size']}"
        rows = [
            model_row(task, config),
            input_row(
                f"{config['data']['source']}, augmented",
                task.batches,
                size,
                settings["batches"],
                stack,
            ),
            input_row(scaled, large, several, 2, stack),
        ]
        report = {
            "settings": settings,
            "rows": take_turns(rows, settings["repeats"]),
            "machine": describe_machine(),
        }
    print_report(report)
    if JSON.value:
        write_json(JSON.value, report)
    return 0


if __name__ == "__main__":
    run_main(main)
