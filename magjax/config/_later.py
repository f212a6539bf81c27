"""Keys that configs got later, so that what was stored before them stays what it is."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["with_later_keys", "without_later_keys"]

# Dotted name: the value under which a run is what it was before the key was there.
_LATER: dict[str, Any] = {
    "loop.keep_best": 0,
    "loop.keep_every": 0,
}


def with_later_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored run config with the keys that it may lack, at the values that change nothing.

    >>> with_later_keys({"seed": 0, "loop": {"steps": 5}})["loop"]
    {'steps': 5, 'keep_best': 0, 'keep_every': 0}
    """
    found = copy.deepcopy(dict(config))
    for section, key, value in _places(found):
        section.setdefault(key, copy.deepcopy(value))
    return found


def without_later_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run config without those keys where they change nothing: what names of runs are made of.

    >>> without_later_keys({"loop": {"steps": 5, "keep_best": 0, "keep_every": 10}})
    {'loop': {'steps': 5, 'keep_every': 10}}
    """
    found = copy.deepcopy(dict(config))
    for section, key, value in _places(found):
        if key in section and section[key] == value:
            del section[key]
    return found


def _places(config: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Of each later key whose section ``config`` has: section, key in it and neutral value."""
    for name, value in _LATER.items():
        *sections, key = name.split(".")
        place: Any = config
        for section in sections:
            place = place.get(section)
            if not isinstance(place, dict):
                break
        else:
            yield place, key, value
