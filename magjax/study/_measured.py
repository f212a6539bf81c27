"""What one evaluation found for one system on one test."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from magjax.checks import InputError
from magjax.evaluation import RetrievalResult

__all__ = ["Measured"]


@dataclasses.dataclass(frozen=True)
class Measured:
    """Numbers of one system on one test: means and the value of every item.

    Attributes:
        domain: the test's name.
        system: ``"model"``, ``"bm25"`` or the name of the score that an untrained model ranks by.
        means: of each metric over all items.
        values: of each metric that is kept, one a item (such as a query), in the order of the
            items' ids.
        fingerprint: of the test; values of different ones are never compared.
        about: further facts, such as the score, the numbers of queries and documents.

    >>> Measured("code", "bm25", {"mrr@10": 0.5}, {"mrr@10": [0.0, 1.0]}, "f", {}).means
    {'mrr@10': 0.5}
    """

    domain: str
    system: str
    means: Mapping[str, float | int]
    values: Mapping[str, Sequence[float | int]]
    fingerprint: str
    about: Mapping[str, Any]

    @classmethod
    def of_retrieval(cls, result: RetrievalResult, metrics: Sequence[str]) -> "Measured":
        """Keeps ``metrics`` of every query, and the means of all."""
        rows = result.evaluation.per_query
        facts = result.to_json()
        about = {
            key: facts[key] for key in ("score", "norms", "counts", "queries", "documents", "k")
        }
        return cls(
            domain=result.domain,
            system=result.system,
            means=dict(result.evaluation.mean),
            values={metric: [rows[query][metric] for query in sorted(rows)] for metric in metrics},
            fingerprint=result.fingerprint,
            about=about,
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Measured":
        """Reads what ``dataclasses.asdict`` gave.

        Raises:
            InputError: a field is missing, unknown or of another kind.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(value, Mapping) or set(value) != names:
            raise InputError(f"{where} needs exactly the fields {', '.join(sorted(names))}.")
        for metric, values in value["values"].items():
            if not isinstance(values, list) or not values or not all(map(_is_number, values)):
                raise InputError(f"{where}: the values of {metric!r} must be finite numbers.")
        return cls(**value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
