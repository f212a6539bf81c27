"""Checkpoints of the whole training state through Orbax, behind one small class.

Orbax alone is not enough: its newest step can be an empty or damaged folder, and it restores
float32 into a bfloat16 target silently. Both are checked here.
"""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

from magjax.checks import InputError, RunError
from magjax.training._retention import Retention, RetentionPolicy
from magjax.trees import flatten_named

__all__ = ["Checkpoints", "leaf_names"]

State = TypeVar("State")
_log = logging.getLogger("magjax")


def leaf_names(state: Any) -> list[str]:
    """The names under which the leaves of ``state`` are stored, in tree order.

    >>> leaf_names({"params": {"kernel": 1.0}, "step": 3})
    ['params/kernel', 'step']
    """
    return list(flatten_named(state)[0])


class Checkpoints:
    """The folder ``checkpoints/`` of a run: one numbered folder a step.

    A checkpoint holds every array of the state by name and a JSON record beside it (position of
    the input, best metric so far). When :meth:`save` returns, the arrays are read, so a donated
    state may be overwritten; with ``wait=False`` files are still being written. A step is there
    under its number only when it is whole.

    Args:
        folder: where the numbered folders lie; made when missing.
        keep: how many of the newest steps stay.
        keep_best: how many of the best stay, by the entry ``value`` of their records.
        keep_every: steps divisible by this stay for good; 0 for none.
        read_only: only :meth:`restore` and :meth:`steps` will be called; nothing is made or removed.

    Raises:
        InputError: a count out of its range.

    >>> import tempfile, jax.numpy as jnp
    >>> store = Checkpoints(tempfile.mkdtemp())
    >>> store.save(5, {"w": jnp.arange(3.0)}, {"position": 5})
    >>> state, record = store.restore({"w": jnp.zeros(3)})
    >>> state["w"].tolist(), record["position"], store.steps()
    ([0.0, 1.0, 2.0], 5, [5])
    >>> store.close()
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        keep: int = 2,
        keep_best: int = 0,
        keep_every: int = 0,
        read_only: bool = False,
    ) -> None:
        self.folder = Path(folder).absolute()
        self._values: dict[int, float | None] = {}
        self._damaged: set[int] = set()
        self._saving: int | None = None
        retention = Retention(keep, keep_best, keep_every)
        self._manager = ocp.CheckpointManager(
            self.folder,
            # Handlers by item, so that a fresh process can read metadata before its first restore.
            item_handlers={
                "state": ocp.StandardCheckpointHandler(),
                "record": ocp.JsonCheckpointHandler(),
            },
            options=ocp.CheckpointManagerOptions(
                preservation_policy=RetentionPolicy(retention, self._value),
                enable_async_checkpointing=not read_only,
                create=not read_only,
                read_only=read_only,
            ),
        )

    def save(self, step: int, state: Any, record: Mapping[str, Any], *, wait: bool = True) -> None:
        """Writes ``state`` and ``record`` as ``step``; a complete step already there is kept.

        Args:
            step: its number.
            state: a tree of arrays.
            record: what JSON can hold.
            wait: return only when all is on disk; else files are written in the background, at
                most one save at a time, and :meth:`wait` or the next save raises its errors.

        Raises:
            RunError: this or the save before cannot be written, as on a full disk.
        """
        self.wait()
        if step in self._complete():
            return
        with self._explained(step):
            if step in self._manager.all_steps():
                self._manager.delete(step)  # damaged: Orbax would refuse to write over it
            self._damaged.discard(step)
            # A copy, as it is written while its owner goes on to change it.
            copied = json.loads(json.dumps(dict(record)))
            self._values[step] = copied.get("value")
            self._saving = step
            named, _ = flatten_named(state)
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(named), record=ocp.args.JsonSave(copied)
                ),
                force=True,
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Returns when the save under way, if any, is whole on disk.

        Raises:
            RunError: it cannot be written, as on a full disk.
        """
        if self._saving is None:
            return
        step, self._saving = self._saving, None
        with self._explained(step):
            self._manager.wait_until_finished()

    def check(self) -> None:
        """Raises the error of a save that has already failed; does not wait for one under way.

        Raises:
            RunError: the save cannot be written, as on a full disk.
        """
        if self._saving is not None:
            with self._explained(self._saving):
                self._manager.check_for_errors()

    @contextlib.contextmanager
    def _explained(self, step: int) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            self._saving = None
            self._values.pop(step, None)
            good = [other for other in self._complete() if other != step]
            back = f"step {good[-1]} is whole: go on from it" if good else "start again"
            raise RunError(
                f"step {step} cannot be saved in {self.folder} ({_reason(error)}); make room or give "
                f"write access, then {back}{' with --resume' if good else ''}."
            ) from error

    def _value(self, step: int) -> float | None:
        """The metric of ``step`` for the retention rule; KeyError where it cannot be read."""
        if step not in self._values:
            if step in self._damaged or not self._has_files(step):
                raise KeyError(step)
            try:
                text = (self.folder / str(step) / "record" / "metadata").read_text("utf-8")
                self._values[step] = json.loads(text).get("value")
            except (OSError, ValueError) as error:
                raise KeyError(step) from error
        return self._values[step]

    def steps(self) -> list[int]:
        """The complete steps in the folder, ascending; damaged ones are left out.

        A save under way is waited for.
        """
        self.wait()
        return self._complete()

    def _complete(self) -> list[int]:
        found = set(self._manager.all_steps()) - self._damaged
        return sorted(step for step in found if self._has_files(step))

    def _has_files(self, step: int) -> bool:
        return all((self.folder / str(step) / part).exists() for part in _PARTS)

    def restore(self, target: State, step: int | None = None) -> tuple[State, dict[str, Any]]:
        """Reads the state of ``step`` (default: the newest complete one) in the form of ``target``.

        Without ``step``, steps whose files are missing or cannot be read are skipped with a
        warning that names them.

        Args:
            target: a state of the wanted structure, shapes, dtypes and shardings.
            step: which step to read.

        Returns:
            The state, placed as ``target`` is, and the JSON record.

        Raises:
            InputError: no such step, or names, shapes or dtypes differ from ``target``.
        """
        complete = self.steps()
        if step is not None:
            if step not in complete:
                raise InputError(f"{self.folder} has no complete step {step}; it has: {complete}.")
            try:
                return self._read(target, step)
            except InputError:
                raise
            except _UNREADABLE as error:
                raise InputError(
                    f"{self.folder / str(step)} is damaged ({_reason(error)}); take another step "
                    f"of {[other for other in complete if other != step]}."
                ) from error
        skipped = sorted(set(self._manager.all_steps()) - set(complete))
        if skipped and (not complete or max(skipped) > max(complete)):
            _log.warning("%s: steps %s are incomplete and skipped.", self.folder, skipped)
        for newest in reversed(complete):
            try:
                return self._read(target, newest)
            except InputError:
                raise  # of another model: an older step will not fit either
            except _UNREADABLE as error:
                self._damaged.add(newest)
                _log.warning(
                    "%s: step %d is damaged and skipped (%s).", self.folder, newest, _reason(error)
                )
        raise InputError(f"{self.folder} holds no complete checkpoint; start without --resume.")

    def _read(self, target: State, chosen: int) -> tuple[State, dict[str, Any]]:
        named, structure = flatten_named(target)
        stored = self._stored(chosen)
        problems = [f"{name} is missing" for name in sorted(named.keys() - stored.keys())]
        problems += [f"{name} is unexpected" for name in sorted(stored.keys() - named.keys())]
        for name in sorted(named.keys() & stored.keys()):
            have, want = stored[name], (tuple(np.shape(named[name])), _dtype(named[name]))
            if have != want:
                problems.append(f"{name} is {have[1]}{list(have[0])}, not {want[1]}{list(want[0])}")
        if problems:
            more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise InputError(
                f"checkpoint {self.folder / str(chosen)} is of another model or optimizer: "
                f"{'; '.join(problems[:5])}{more}. Use the config that wrote it."
            )
        restored = self._manager.restore(
            chosen,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(
                    jax.tree.map(ocp.utils.to_shape_dtype_struct, named)
                ),
                record=ocp.args.JsonRestore(),
            ),
        )
        leaves = [restored["state"][name] for name in named]
        return jax.tree_util.tree_unflatten(structure, leaves), dict(restored["record"])

    def _stored(self, step: int) -> dict[str, tuple[tuple[int, ...], str]]:
        metadata = self._manager.item_metadata(step)["state"]
        tree = getattr(metadata, "tree", metadata)
        return {name: (tuple(leaf.shape), str(np.dtype(leaf.dtype))) for name, leaf in tree.items()}

    def close(self) -> None:
        """Waits for the save under way and ends Orbax's background threads.

        Raises:
            RunError: the save cannot be written; the threads are ended all the same.
        """
        try:
            self.wait()
        finally:
            self._manager.close()


_PARTS = ("_CHECKPOINT_METADATA", "state/_METADATA", "state/manifest.ocdbt", "record/metadata")


# What Orbax and TensorStore raise for files that are cut short, missing or not what they were.
_UNREADABLE = (OSError, ValueError, KeyError)


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _dtype(leaf: Any) -> str:
    return str(np.dtype(leaf.dtype))
