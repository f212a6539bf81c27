"""Checkpoints of the whole training state through Orbax, behind one small class.

Orbax alone is not enough: its newest step can be an empty or damaged folder, and it restores
float32 into a bfloat16 target silently. Both are checked here.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

from magjax.checks import InputError, positive_integer
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
    the input, best metric so far). Saving is synchronous, so a donated state may be overwritten
    right after.

    Args:
        folder: where the numbered folders lie; made when missing.
        keep: how many of the newest steps stay.
        read_only: only :meth:`restore` and :meth:`steps` will be called; nothing is made or removed.

    >>> import tempfile, jax.numpy as jnp
    >>> store = Checkpoints(tempfile.mkdtemp())
    >>> store.save(5, {"w": jnp.arange(3.0)}, {"position": 5})
    >>> state, record = store.restore({"w": jnp.zeros(3)})
    >>> state["w"].tolist(), record["position"], store.steps()
    ([0.0, 1.0, 2.0], 5, [5])
    """

    def __init__(self, folder: str | Path, *, keep: int = 2, read_only: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self._manager = ocp.CheckpointManager(
            self.folder,
            # Handlers by item, so that a fresh process can read metadata before its first restore.
            item_handlers={
                "state": ocp.StandardCheckpointHandler(),
                "record": ocp.JsonCheckpointHandler(),
            },
            options=ocp.CheckpointManagerOptions(
                max_to_keep=positive_integer("keep", keep),
                enable_async_checkpointing=False,
                create=not read_only,
                read_only=read_only,
            ),
        )

    def save(self, step: int, state: Any, record: Mapping[str, Any]) -> None:
        """Writes ``state`` and ``record`` as ``step``; a complete step already there is kept."""
        if self._is_complete(step):
            return
        if step in self._manager.all_steps():
            self._manager.delete(step)  # damaged: Orbax would refuse to write over it
        named, _ = flatten_named(state)
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(named), record=ocp.args.JsonSave(dict(record))
            ),
            force=True,
        )
        self._manager.wait_until_finished()

    def steps(self) -> list[int]:
        """The complete steps in the folder, ascending; damaged ones are left out."""
        return sorted(step for step in self._manager.all_steps() if self._is_complete(step))

    def _is_complete(self, step: int) -> bool:
        folder = self.folder / str(step)
        return all((folder / part).exists() for part in _PARTS)

    def restore(self, target: State, step: int | None = None) -> tuple[State, dict[str, Any]]:
        """Reads the state of ``step`` (default: the newest complete one) in the form of ``target``.

        Args:
            target: a state of the wanted structure, shapes, dtypes and shardings.
            step: which step to read.

        Returns:
            The state, placed as ``target`` is, and the JSON record.

        Raises:
            InputError: no such step, or names, shapes or dtypes differ from ``target``.
        """
        complete = self.steps()
        skipped = sorted(set(self._manager.all_steps()) - set(complete))
        if step is None and skipped and (not complete or max(skipped) > max(complete)):
            _log.warning("%s: steps %s are incomplete and skipped.", self.folder, skipped)
        if step is None and not complete:
            raise InputError(f"{self.folder} holds no complete checkpoint; start without --resume.")
        chosen = complete[-1] if step is None else step
        if chosen not in complete:
            raise InputError(f"{self.folder} has no complete step {chosen}; it has: {complete}.")

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
        """Ends Orbax's background threads."""
        self._manager.close()


_PARTS = ("_CHECKPOINT_METADATA", "state/_METADATA", "state/manifest.ocdbt", "record/metadata")


def _dtype(leaf: Any) -> str:
    return str(np.dtype(leaf.dtype))
