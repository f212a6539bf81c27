"""A training step beside sentence-transformers on torch: same model, loss, optimizer and batch.

    python benchmarks/train.py
    python benchmarks/train.py --batch=128 --tokens=64 --json=train.json

In-batch InfoNCE by cosine at temperature 0.05, gradients clipped to norm 1, AdamW; batches are on
both sides pairs of random token ids, all --tokens long, that are ready in memory. The peer is
``MultipleNegativesRankingLoss`` with torch's AdamW and ``clip_grad_norm_``, as the trainer of
sentence-transformers puts them together. Dropout is off on both sides (--dropout=0.1 turns it on on
both). The first loss of both sides must agree where dropout is off, or the run ends with status 1.
Memory is the peak of a process that loads one side and makes three steps. The checkpoint and the
peer come with the ``parity`` extra.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import harness
import jax
import numpy as np
import peers
from absl import flags

from magjax.checks import RunError, positive_integer
from magjax.config import run_main
from magjax.mesh import data_mesh, replicate
from magjax.similarity import SimilarityHead
from magjax.study._text_model import with_dropout
from magjax.training import (
    LossSettings,
    OptimizerSettings,
    Trainee,
    initial_state,
    make_optimizer,
    make_train_step,
    place_batch,
)

CHECKPOINT = flags.DEFINE_string("checkpoint", peers.MINILM, "Folder, or package:NAME/FOLDER.")
BATCH = flags.DEFINE_integer("batch", 32, "Pairs of a batch.")
TOKENS = flags.DEFINE_integer("tokens", 64, "Tokens of every text.")
DROPOUT = flags.DEFINE_float("dropout", 0.0, "Rate of every dropout on both sides.")
STEPS = flags.DEFINE_integer("steps", 2, "Steps of a turn.")
REPEATS = flags.DEFINE_integer("repeats", 7, "Turns of every side.")
JSON = flags.DEFINE_string("json", None, "File that receives all numbers.")
MARKDOWN = flags.DEFINE_string("markdown", None, "File that receives the table.")

TEMPERATURE = 0.05
RATE, DECAY = 2e-5, 0.01
AGREEMENT = 1e-3


@dataclasses.dataclass(frozen=True)
class Settings:
    """One comparison in plain values."""

    checkpoint: str
    batch: int
    tokens: int
    dropout: float

    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """Token ids of queries and documents."""
        random = np.random.default_rng(0)
        shape = (2, self.batch, self.tokens)
        return tuple(random.integers(1_000, 30_000, shape, dtype=np.int32))


def magjax_steps(settings: Settings) -> Callable[[int], float]:
    """Makes so many steps and returns the last loss."""
    model = peers.magjax_model(settings.checkpoint)
    head = SimilarityHead(
        "cosine",
        temperature=TEMPERATURE,
        learn_temperature=False,
        temperature_range=(TEMPERATURE, TEMPERATURE),
    )
    trainee = Trainee(with_dropout(model.encoder, settings.dropout), head)
    options = OptimizerSettings(
        learning_rate=RATE, schedule="constant", warmup_fraction=0.0, weight_decay=DECAY
    )
    optimizer = make_optimizer(options, 1_000)
    mesh = data_mesh(jax.devices()[:1])
    graph, state = initial_state(trainee, optimizer, seed=0)
    step = make_train_step(graph, optimizer, LossSettings())
    texts = [{"input_ids": ids, "attention_mask": np.ones_like(ids)} for ids in settings.ids()]
    batch = place_batch({"query": texts[0], "document": texts[1]}, mesh)
    held = {"state": replicate(state, mesh)}

    def run(steps: int) -> float:
        for _ in range(steps):
            held["state"], metrics = step(held["state"], batch)
        return float(metrics["loss_sum"] / metrics["count"])

    return run


def torch_steps(settings: Settings) -> Callable[[int], float]:
    """The same with torch."""
    import torch
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    model = peers.sentence_transformer(settings.checkpoint, dropout=settings.dropout).train()
    loss = MultipleNegativesRankingLoss(model, scale=1.0 / TEMPERATURE)
    # Biases and layer norms do not decay, as in the trainer and in magjax.
    decayed = {True: [], False: []}
    for name, parameter in model.named_parameters():
        decayed[not (name.endswith("bias") or "LayerNorm" in name)].append(parameter)
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed[True], "weight_decay": DECAY},
            {"params": decayed[False], "weight_decay": 0.0},
        ],
        lr=RATE,
    )
    features = [
        {
            "input_ids": torch.tensor(ids, dtype=torch.long),
            "attention_mask": torch.ones(ids.shape, dtype=torch.long),
        }
        for ids in settings.ids()
    ]

    def run(steps: int) -> float:
        for _ in range(steps):
            value = loss([dict(f) for f in features], None)
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return float(value.detach())

    return run


SIDES = {"sentence-transformers": torch_steps, "magjax": magjax_steps}


def memory(side: str, **settings: Any) -> None:
    """Three steps of a side; in a process of its own."""
    SIDES[side](Settings(**settings))(3)


def main() -> int:
    """Measures, prints and writes the reports."""
    settings = Settings(
        CHECKPOINT.value,
        positive_integer("batch", BATCH.value),
        positive_integer("tokens", TOKENS.value),
        DROPOUT.value,
    )
    steps = positive_integer("steps", STEPS.value)
    repeats = positive_integer("repeats", REPEATS.value)
    harness.check_outputs(JSON.value, MARKDOWN.value)
    values = dataclasses.asdict(settings)
    peaks = {name: harness.peak_memory(memory, side=name, **values) for name in SIDES}
    runs = {name: make(settings) for name, make in SIDES.items()}
    first = {name: run(1) for name, run in runs.items()}
    theirs, ours = first.values()
    if not settings.dropout and not abs(theirs - ours) <= AGREEMENT * abs(theirs):
        raise RunError(f"the first losses are {first}; both sides must compute the same.")
    rows = harness.take_turns(
        [
            harness.Side(name, steps * settings.batch, lambda run=run: run(steps))
            for name, run in runs.items()
        ],
        repeats=repeats,
    )
    for row in rows:
        row["memory"] = peaks[row["what"]]
    harness.report(
        {"Training": rows},
        unit="pairs",
        settings=values | {"steps": steps, "repeats": repeats},
        json=JSON.value,
        to=MARKDOWN.value,
        first_loss=first,
    )
    return 0


if __name__ == "__main__":
    run_main(main)
