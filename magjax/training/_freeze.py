"""Parameters that training leaves as they are, chosen by name."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from flax import nnx

from magjax.checks import InputError
from magjax.similarity import Constant

__all__ = ["check_patterns", "freeze_parameters", "frozen_names"]


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """``patterns`` as a tuple, once each is a regular expression.

    Raises:
        InputError: a plain string, an empty pattern or a broken one.

    >>> check_patterns(["query_tower"])
    ('query_tower',)
    """
    if isinstance(patterns, str):
        raise InputError(f"optimizer.freeze={patterns!r} must be a list of patterns.")
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise InputError(f"optimizer.freeze has {pattern!r}; each entry names parameters.")
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(
                f"optimizer.freeze has {pattern!r}, which is no regular expression ({error})."
            ) from error
    return tuple(patterns)


def frozen_names(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Those of ``names`` in which one of ``patterns`` is found.

    >>> names = ["encoder/query_tower/layers/0/up/kernel", "encoder/document_tower/class_token"]
    >>> frozen_names(names, ["document_tower"])
    ['encoder/document_tower/class_token']
    """
    compiled = [re.compile(pattern) for pattern in patterns]
    return [name for name in names if any(pattern.search(name) for pattern in compiled)]


def freeze_parameters(model: nnx.Module, patterns: Sequence[str]) -> None:
    """Makes the parameters of ``model`` that ``patterns`` name constants, in place.

    A constant has no gradient (so a frozen tower costs no backward pass), no optimizer state, no
    decay, and no part in the clipped gradient norm; it is saved with the model all the same. This
    changes the module's structure: split it anew.

    Args:
        model: whatever holds parameters.
        patterns: regular expressions, searched for in names such as
            ``encoder/document_tower/layers/0/attention/query/kernel``.

    Raises:
        InputError: a pattern that names no parameter, or nothing left to train.

    >>> linear = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    >>> freeze_parameters(linear, ["kernel"])
    >>> [path for path, _ in nnx.to_flat_state(nnx.state(linear, nnx.Param))]
    [('bias',)]
    """
    paths: dict[str, tuple[Any, ...]] = {
        "/".join(map(str, path)): tuple(path)
        for path, _ in nnx.to_flat_state(nnx.state(model, nnx.Param))
    }
    for pattern in check_patterns(patterns):
        if not frozen_names(paths, [pattern]):
            parts = dict.fromkeys("/".join(name.split("/")[:2]) for name in paths)
            raise InputError(
                f"optimizer.freeze: no parameter matches {pattern!r}; the model has "
                f"{', '.join(parts)}."
            )
    chosen = frozen_names(paths, patterns)
    if len(chosen) == len(paths):
        raise InputError("optimizer.freeze leaves no parameter to train; name fewer.")
    for name in chosen:
        *parents, last = paths[name]
        module: Any = model
        for part in parents:
            module = module[part] if isinstance(part, int) else getattr(module, part)
        setattr(module, last, Constant(getattr(module, last)[...]))
