"""What an export says about itself: enough to query it rightly, and to refuse what does not fit."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from magjax import __version__
from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.export._metric import AUGMENTATIONS, METRICS
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["VectorDescription"]

_FORMAT = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorDescription:
    """The statement that every exported artifact carries.

    Attributes:
        target: the engine, such as ``"faiss"``.
        score: the trained score, which the inner product of stored vectors equals.
        metric: what the engine compares by: ``inner_product``, ``cosine`` or ``euclidean``.
        dim: dimensions of the model's embeddings.
        tables: per side its table (collection, file): ``{"name": ..., "count": ...}``.
        augment: ``none``, or the metric that one more coordinate was appended for.
        largest_norm: M of that coordinate; None without one.
        index: ``flat`` (exact), ``hnsw`` or ``ivf``.
        index_options: what the index was built with, and is searched with by default.
        model: where the model came from.
        fingerprints: of the model's weights and of the data.
        text: prompts and lengths that texts were embedded with; None where only embeddings were
            given.

    Raises:
        InputError: an unknown name or a number out of range.

    >>> told = VectorDescription(target="numpy", score=Score.of("qnorm"), metric="inner_product",
    ...     dim=2, tables={"document": {"name": "documents", "count": 3}})
    >>> VectorDescription.parse(told.dumps(), "here") == told
    True
    """

    target: str
    score: Score
    metric: str
    dim: int
    tables: Mapping[Side, Mapping[str, Any]]
    augment: str = "none"
    largest_norm: float | None = None
    index: str = "flat"
    index_options: Mapping[str, int] = dataclasses.field(default_factory=dict)
    model: str = ""
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    text: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        choose("metric", self.metric, METRICS)
        choose("augment", self.augment, AUGMENTATIONS)
        positive_integer("dim", self.dim)
        if (self.largest_norm is None) != (self.augment == "none"):
            raise InputError(
                f"largest_norm={self.largest_norm} does not fit augment={self.augment!r}."
            )
        if self.largest_norm:
            positive_number("largest_norm", self.largest_norm)

    @property
    def stored_dim(self) -> int:
        """Dimensions of a stored vector: one more where a coordinate was appended."""
        return self.dim + (self.augment != "none")

    @property
    def document_norm(self) -> float:
        """The one length of all stored documents, where the metric depends on there being one."""
        return 1.0 if self.augment == "none" else self.largest_norm or 0.0

    def name(self, side: Side) -> str:
        """The name of one side's table.

        Raises:
            InputError: the export holds no such side.
        """
        choose("side", side, self.tables)
        return str(self.tables[side]["name"])

    def summary(self) -> str:
        """A line for people: what was written and how it is to be asked."""
        sides = " and ".join(
            f"{table['count']:,} vectors of side {side} ({table['name']})"
            for side, table in self.tables.items()
        )
        turned = "" if self.augment == "none" else f", one coordinate appended for {self.augment}"
        return (
            f"{self.target}: {sides}, {self.stored_dim} dimensions{turned}; index {self.index}; "
            f"compare by {self.metric}; trained score {self.score}."
        )

    def dumps(self) -> str:
        """One line of JSON."""
        content = {"format": _FORMAT, "magjax": __version__, **dataclasses.asdict(self)}
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    @classmethod
    def parse(cls, text: str, place: str) -> "VectorDescription":
        """Reads what :meth:`dumps` wrote.

        Args:
            text: the JSON.
            place: where it stood, for messages.

        Raises:
            InputError: no JSON, another format, or a field missing, unknown or out of range.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise InputError(f"{place}: the description is not valid JSON ({error}).") from error
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
            raise InputError(
                f"{place}: this version of magjax reads descriptions of format {_FORMAT} only."
            )
        content.pop("magjax", None)
        known = [field.name for field in dataclasses.fields(cls)]
        if set(content) != set(known):
            raise InputError(
                f"{place}: a description needs exactly the fields {', '.join(known)}; it has "
                f"{', '.join(map(str, content))}."
            )
        try:
            content["score"] = Score.from_json(content["score"])
            return cls(**content)
        except (InputError, TypeError) as error:
            raise InputError(f"{place}: {error}") from error
