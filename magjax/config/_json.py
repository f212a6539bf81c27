"""Configs in JSON form: there and back, what differs, and what is missing."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from magjax.checks import InputError, choose

__all__ = ["check_keys", "differences", "from_json", "to_json"]


def to_json(config: ConfigDict) -> dict[str, Any]:
    """The resolved config as plain dicts, lists and scalars, keys in alphabetical order.

    >>> to_json(ConfigDict({"seed": 0, "model": {"layers": 4}}))
    {'model': {'layers': 4}, 'seed': 0}
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping | ConfigDict):
            return {str(key): plain(value[key]) for key in sorted(value)}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    return plain(config)


def from_json(values: Mapping[str, Any]) -> ConfigDict:
    """The locked config whose :func:`to_json` is ``values``.

    >>> from_json({"seed": 0}).seed
    0
    """
    return ConfigDict(dict(values)).lock()


def differences(
    left: Mapping[str, Any], right: Mapping[str, Any], prefix: str = ""
) -> dict[str, tuple[Any, Any]]:
    """The leaves in which two JSON configs differ, as ``{dotted name: (left, right)}``.

    >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    {'a.c': (2, 3)}
    """
    found: dict[str, tuple[Any, Any]] = {}
    for key in dict.fromkeys([*left, *right]):
        one, other = left.get(key, "absent"), right.get(key, "absent")
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found |= differences(one, other, f"{prefix}{key}.")
        elif one != other:
            found[prefix + key] = (one, other)
    return found


def check_keys(config: Mapping[str, Any], known: Mapping[str, Any], prefix: str = "") -> None:
    """Refuses a JSON config whose keys are not exactly those of ``known``, sections included.

    Raises:
        InputError: a missing or an unknown key.

    >>> check_keys({"loop": {"stps": 1}}, {"loop": {"steps": 1}})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown config key 'loop.stps'; known: loop.steps. Did you mean 'loop.steps'?
    """
    names = [prefix + key for key in known]
    for key in config:
        choose("config key", prefix + key, names)
    for key, value in known.items():
        if key not in config:
            raise InputError(
                f"the config lacks {prefix + key}; start from a config that magjax.config builds."
            )
        if isinstance(value, Mapping):
            section = config[key]
            if not isinstance(section, Mapping):
                raise InputError(f"the config's {prefix + key} is {section!r}, not a section.")
            check_keys(section, value, f"{prefix}{key}.")
