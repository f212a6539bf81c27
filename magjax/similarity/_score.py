"""The score that a model was trained under: two powers and a temperature, kept with the model."""

import dataclasses
import math
from numbers import Real
from typing import Any, get_args

import jax

from magjax.checks import InputError, choose, fraction, positive_number
from magjax.similarity._normalize import normalize
from magjax.typing import Array, Float, Side

__all__ = ["PRESETS", "VARIANTS", "Score"]

PRESETS: dict[str, tuple[float, float]] = {
    "cosine": (1.0, 1.0),
    "dot": (0.0, 0.0),
    "qnorm": (1.0, 0.0),
    "dnorm": (0.0, 1.0),
}
"""The powers ``(gamma_query, gamma_document)`` of each named score."""

VARIANTS: tuple[str, ...] = (*PRESETS, "learnable")
"""What a model can be trained as: a preset, or with one learned power per side."""

_SIDES = get_args(Side)
# "learnable" here: powers that were learned and are now numbers. "power": fixed by hand.
_KINDS = (*VARIANTS, "power")


@dataclasses.dataclass(frozen=True)
class Score:
    r"""The trained score :math:`\langle q\lVert q\rVert^{-\gamma_q}, d\lVert d\rVert^{-\gamma_d}\rangle`.

    Attributes:
      variant: a preset's name, ``"learnable"`` (powers found by training, now numbers), or
        ``"power"`` (any fixed powers).
      gamma_query: power of the query's length, in [0, 1].
      gamma_document: power of the document's length, in [0, 1].
      temperature: what scores were divided by in training; ``None`` if unknown. Rankings do
        not need it.
      bias: what was added to the logits in training (sigmoid loss); ``None`` if nothing was or
        it is unknown. Rankings do not need it.

    Raises:
      InputError: for an unknown variant, powers outside [0, 1] or other than the preset's, a
        temperature that is not above 0, or a bias that is no finite number.

    >>> print(Score.of("qnorm", temperature=0.05))
    qnorm (gamma_query=1, gamma_document=0, temperature=0.05)
    """

    variant: str
    gamma_query: float
    gamma_document: float
    temperature: float | None = None
    bias: float | None = None

    def __post_init__(self) -> None:
        choose("score", self.variant, _KINDS)
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "gamma_query", fraction("gamma_query", self.gamma_query))
        set_field(self, "gamma_document", fraction("gamma_document", self.gamma_document))
        if self.temperature is not None:
            set_field(self, "temperature", positive_number("temperature", self.temperature))
        if self.bias is not None:
            set_field(self, "bias", _finite("bias", self.bias))
        expected = PRESETS.get(self.variant, self.gammas)
        if self.gammas != expected:
            raise InputError(
                f"score {self.variant!r} has powers {expected}, not {self.gammas}; give "
                f"'{self.gamma_query:g},{self.gamma_document:g}' for powers of your own."
            )

    @classmethod
    def of(cls, variant: str, temperature: float | None = None) -> "Score":
        """The score of a preset.

        Raises:
          InputError: if ``variant`` is no preset's name.

        >>> Score.of("dnorm").gammas
        (0.0, 1.0)
        """
        return cls(variant, *PRESETS[choose("score", variant, PRESETS)], temperature)

    @classmethod
    def power(
        cls,
        gamma_query: float | int,
        gamma_document: float | int,
        temperature: float | int | None = None,
    ) -> "Score":
        """The score with the given powers; those of a preset get the preset's name.

        Raises:
          InputError: if a power is not in [0, 1].

        >>> Score.power(0.5, 0.25).variant, Score.power(1, 0).variant
        ('power', 'qnorm')
        """
        pair = (fraction("gamma_query", gamma_query), fraction("gamma_document", gamma_document))
        name = next((name for name, powers in PRESETS.items() if powers == pair), "power")
        if temperature is not None:
            temperature = positive_number("temperature", temperature)
        return cls(name, *pair, temperature)

    @classmethod
    def parse(cls, text: str) -> "Score":
        """Reads what a user writes after ``--score=``: a preset's name or two powers.

        Raises:
          InputError: if ``text`` is neither.

        >>> Score.parse("cosine").gammas, Score.parse("0.5, 0.25").gammas
        ((1.0, 1.0), (0.5, 0.25))
        """
        text = text.strip()
        if text in PRESETS:
            return cls.of(text)
        try:
            gamma_query, gamma_document = (float(part) for part in text.split(","))
        except ValueError:
            raise InputError(
                f"score {text!r} is neither one of {', '.join(PRESETS)} nor two powers; "
                "for powers write for example 0.5,0.25 (query, document)."
            ) from None
        return cls.power(gamma_query, gamma_document)

    @property
    def gammas(self) -> tuple[float, float]:
        """The powers of the query's and of the document's length."""
        return (self.gamma_query, self.gamma_document)

    @property
    def is_symmetric(self) -> bool:
        """Whether ``s(a, b) = s(b, a)``, as similarity between equals (STS, clustering) needs."""
        return self.gamma_query == self.gamma_document

    def gamma(self, side: Side) -> float:
        """The power of one side's length.

        >>> Score.of("qnorm").gamma("document")
        0.0
        """
        return self.gammas[_SIDES.index(choose("side", side, _SIDES))]

    def normalize(
        self, x: Float[Array, "*batch dim"], side: Side
    ) -> Float[jax.Array, "*batch dim"]:
        """Normalizes the embeddings of one side, so that scores are plain dot products.

        >>> import jax.numpy as jnp
        >>> Score.of("qnorm").normalize(jnp.array([[3.0, 4.0]]), "query")
        Array([[0.6, 0.8]], dtype=float32)
        """
        return normalize(x, self.gamma(side))

    def same_ranking_as(self, other: "Score") -> bool:
        """Whether both rank documents alike for every query.

        A query's own length scales all of its scores, so only the document's power counts.

        >>> Score.of("dot").same_ranking_as(Score.of("qnorm"))
        True
        """
        return self.gamma_document == other.gamma_document

    def agrees_with(self, other: "Score") -> bool:
        """Whether both are the same function up to what one of them does not state.

        Powers may differ by 1e-6 (numbers that went through text), temperatures by one part in
        a million, biases by 1e-6; an unknown temperature or bias agrees with any.

        >>> Score.of("dot").agrees_with(Score.of("dot", 0.05))
        True
        """
        same = all(abs(a - b) <= 1e-6 for a, b in zip(self.gammas, other.gammas, strict=True))
        if self.temperature is not None and other.temperature is not None:
            same = same and math.isclose(self.temperature, other.temperature, rel_tol=1e-6)
        if self.bias is not None and other.bias is not None:
            same = same and math.isclose(self.bias, other.bias, rel_tol=1e-6, abs_tol=1e-6)
        return same

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; ``bias`` only where there is one.

        >>> Score.of("dot").to_json()["gamma_query"]
        0.0
        """
        value = dataclasses.asdict(self)
        if self.bias is None:
            del value["bias"]
        return value

    @classmethod
    def from_json(cls, value: Any) -> "Score":
        """Reads what :meth:`to_json` wrote, checking every field.

        Raises:
          InputError: if a field is missing, unknown, or of the wrong kind.

        >>> Score.from_json(Score.of("qnorm").to_json()) == Score.of("qnorm")
        True
        """
        names = [field.name for field in dataclasses.fields(cls) if field.name != "bias"]
        if not isinstance(value, dict) or set(value) - {"bias"} != set(names):
            found = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
            raise InputError(f"a score needs exactly the fields {', '.join(names)}; got {found}.")
        gamma_query = fraction("gamma_query", value["gamma_query"])
        gamma_document = fraction("gamma_document", value["gamma_document"])
        temperature = value["temperature"]
        if temperature is not None:
            temperature = positive_number("temperature", temperature)
        variant = choose("score", value["variant"], _KINDS)
        bias = value.get("bias")
        if bias is not None:
            bias = _finite("bias", bias)
        return cls(variant, gamma_query, gamma_document, temperature, bias)

    def __str__(self) -> str:
        temperature = "unknown" if self.temperature is None else f"{self.temperature:.6g}"
        return (
            f"{self.variant} (gamma_query={self.gamma_query:.6g}, "
            f"gamma_document={self.gamma_document:.6g}, temperature={temperature}"
            + (")" if self.bias is None else f", bias={self.bias:.6g})")
        )


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(f"{name}={value!r} must be a finite number.")
    return float(value)
