"""How long a run is and how often what happens."""

import dataclasses
import math

from magjax.checks import InputError, positive_integer
from magjax.training._retention import Retention

__all__ = ["LoopSettings"]


@dataclasses.dataclass(frozen=True)
class LoopSettings:
    """How long, and how often what happens; all counts are optimizer steps.

    Attributes:
        steps: length of the run.
        log_every: steps a line of metrics sums up.
        evaluate_every: steps between evaluations (one comes before the first step and one after
            the last).
        save_every: steps between checkpoints (one comes after the last step).
        keep: how many of the newest checkpoints stay.
        keep_best: how many of the best stay beside them, by ``metric``; only steps that are both
            evaluated and saved count.
        keep_every: checkpoints of steps divisible by this stay for good; 0 for none.
        metric: the evaluation's metric that chooses the best model; higher is better.
        patience: evaluations without a better value after which the run ends; 0 never ends it.

    >>> LoopSettings(steps=100, evaluate_every=50, save_every=50).patience
    0
    """

    steps: int
    evaluate_every: int
    save_every: int
    log_every: int = 10
    keep: int = 2
    keep_best: int = 0
    keep_every: int = 0
    metric: str = "ndcg@10"
    patience: int = 0

    def __post_init__(self) -> None:
        """Refuses counts out of range, and retention that no checkpoint could meet."""
        for name in ("steps", "evaluate_every", "save_every", "log_every"):
            positive_integer(name, getattr(self, name))
        Retention(self.keep, self.keep_best, self.keep_every)
        if self.keep_every % self.save_every:
            raise InputError(
                f"keep_every={self.keep_every} is not a multiple of save_every={self.save_every}, "
                "so steps that should stay would not be saved; try "
                f"{max(round(self.keep_every / self.save_every), 1) * self.save_every}."
            )
        saved_and_evaluated = math.lcm(self.save_every, self.evaluate_every)
        if self.keep_best and saved_and_evaluated > self.steps:
            raise InputError(
                f"keep_best={self.keep_best}, but no step before the last is both evaluated "
                f"(evaluate_every={self.evaluate_every}) and saved (save_every={self.save_every}); "
                "make one a multiple of the other."
            )
        if self.patience < 0:
            raise InputError(f"patience={self.patience} must be 0 (never stop early) or more.")
