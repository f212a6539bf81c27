"""What all batches have in common: their sizes, and the part of a batch that a process makes."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from magjax.checks import InputError, positive_integer

__all__ = ["BatchShape", "Batches", "stack_batches"]


@runtime_checkable
class Batches(Protocol):
    """A sequence of batches in which every step's is a function of (seed, step).

    >>> isinstance([], Batches)
    False
    """

    @property
    def fingerprint(self) -> str:
        """Names the sequence, whatever the number of processes."""

    def __len__(self) -> int:
        """Steps of an epoch."""

    def batch_at(self, step: int) -> dict[str, Any]:
        """The batch of ``step``, from 0 over all epochs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchShape:
    """Rows of a batch over all processes, and which of them this one makes.

    Args:
        batch_size: rows in which a query competes, over all processes.
        seed: of all draws.
        accumulation: batches a step.
        process_index: which slice of each batch to make.
        process_count: into how many slices batches are cut.

    Raises:
        InputError: a number that is too small, or a batch that does not divide.

    >>> BatchShape(batch_size=8, seed=0, process_index=1, process_count=2).kept
    slice(4, 8, None)
    """

    batch_size: int
    seed: int
    accumulation: int = 1
    process_index: int = 0
    process_count: int = 1

    def __post_init__(self):
        size = positive_integer("batch_size", self.batch_size)
        positive_integer("accumulation", self.accumulation)
        if self.seed < 0:
            raise InputError(f"seed={self.seed} must be at least 0.")
        count = positive_integer("process_count", self.process_count)
        if size % count:
            raise InputError(
                f"batch_size={size} is not a multiple of process_count={count}; try "
                f"batch_size={max(size // count, 1) * count}."
            )
        if not 0 <= self.process_index < count:
            raise InputError(f"process_index={self.process_index} must be below {count}.")

    @property
    def kept(self) -> slice:
        """This process's rows of a batch.

        >>> BatchShape(batch_size=8, seed=0).kept
        slice(0, 8, None)
        """
        local = self.batch_size // self.process_count
        return slice(self.process_index * local, (self.process_index + 1) * local)

    def steps(self, batches: int, source: str) -> int:
        """Steps of an epoch of ``batches`` full batches; none is an error.

        >>> BatchShape(batch_size=8, seed=0, accumulation=2).steps(5, "pairs.jsonl")
        2
        """
        steps = batches // self.accumulation
        if not steps:
            raise InputError(
                f"accumulation={self.accumulation} batches of batch_size={self.batch_size} are "
                f"larger than {source}, which fills {batches}; lower either."
            )
        return steps

    def groups(self, plan: np.ndarray, place: int) -> np.ndarray:
        """The batches of the step at ``place`` of its epoch, ``[accumulation, batch_size]``.

        >>> BatchShape(batch_size=1, seed=0, accumulation=2).groups(np.arange(6)[:, None], 1)
        array([[2],
               [3]])
        """
        return plan[place * self.accumulation : (place + 1) * self.accumulation]


def stack_batches(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One batch as it is; several with a new leading axis on every leaf.

    >>> stack_batches([{"row": np.arange(2)}, {"row": np.arange(2)}])["row"].shape
    (2, 2)
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    return {
        key: stack_batches([part[key] for part in parts])
        if isinstance(first[key], dict)
        else np.stack([part[key] for part in parts])
        for key in first
    }
