"""Batches made ahead of the training step by Grain, resumable at any step."""

from collections.abc import Mapping
from typing import Any

from magjax.checks import InputError
from magjax.data._batch_shape import Batches

__all__ = ["BatchIterator", "batch_iterator"]

# Grain wants a length; no run reaches this many steps.
_ENDLESS = 2**62


class BatchIterator:
    """Yields ``batches.batch_at(step)`` for step = start, start + 1, ... without end.

    Use as a context manager or ``close`` it, so that its threads end.

    >>> from magjax.data import (TextPreprocessor, TextSettings, TextTokenizer, TrainingBatches,
    ...                          TrainingSet)
    >>> data = TrainingSet(["a"], ["x"], [(0,)], [()], ["a"], ["one"])
    >>> settings = TextSettings(query_max_length=8, document_max_length=8)
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["one"], 270), settings)
    >>> batches = TrainingBatches(data, preprocessor, batch_size=1, seed=0)
    >>> with batch_iterator(batches, 3) as iterator:
    ...     _ = next(iterator)
    ...     iterator.get_state()["step"]
    4
    """

    def __init__(self, batches: Batches, start_step: int, prefetch: int, threads: int):
        # Grain costs seconds to import; reading records does not need it.
        import grain

        options = grain.ReadOptions(
            num_threads=threads if prefetch else 0, prefetch_buffer_size=prefetch
        )
        self._fingerprint = batches.fingerprint
        dataset = grain.MapDataset.range(_ENDLESS).map(batches.batch_at)
        self._iterator = dataset.to_iter_dataset(options).__iter__()
        self._move(start_step)

    def _move(self, step: Any) -> None:
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise InputError(f"step={step!r} must be a whole number of at least 0.")
        self._iterator.set_state({"next_index": step})

    def __iter__(self) -> "BatchIterator":
        return self

    def __next__(self) -> dict[str, Any]:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """The step that comes next and the name of the sequence; JSON."""
        return {
            "step": int(self._iterator.get_state()["next_index"]),
            "fingerprint": self._fingerprint,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on where ``get_state`` was called, in this process or another.

        The number of processes may differ: batches are planned over all of them.

        Raises:
            InputError: the state belongs to other data, another seed or other batch settings.
        """
        if state.get("fingerprint") != self._fingerprint:
            raise InputError(
                f"the saved input state belongs to batches {state.get('fingerprint')!r}, these are "
                f"{self._fingerprint!r}; resume with the same data, seed, lengths and batch size."
            )
        self._move(state.get("step"))

    def close(self) -> None:
        """Ends the threads that read ahead; calling it twice is fine."""
        self._iterator.close()

    def __enter__(self) -> "BatchIterator":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def batch_iterator(
    batches: Batches, start_step: int = 0, *, prefetch: int = 4, threads: int = 2
) -> BatchIterator:
    """Batches from ``start_step`` on, made ahead in threads.

    Args:
        batches: the sequence.
        start_step: the first step to yield.
        prefetch: how many batches to hold ready; 0 makes each when asked for.
        threads: how many to make at once.

    Raises:
        InputError: ``start_step`` is negative or no whole number.

    >>> from magjax.data import (TextPreprocessor, TextSettings, TextTokenizer, TrainingBatches,
    ...                          TrainingSet)
    >>> data = TrainingSet(["a"], ["x"], [(0,)], [()], ["a"], ["one"])
    >>> settings = TextSettings(query_max_length=8, document_max_length=8)
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(["one"], 270), settings)
    >>> batches = TrainingBatches(data, preprocessor, batch_size=1, seed=0)
    >>> next(batch_iterator(batches, 2, prefetch=0))["row"].tolist()
    [0]
    """
    return BatchIterator(batches, start_step, prefetch, threads)
