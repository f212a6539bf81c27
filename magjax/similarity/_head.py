"""The trainable part of a score: a temperature, and one power per side."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from magjax.checks import InputError, choose, positive_number
from magjax.similarity._score import PRESETS, VARIANTS, Score
from magjax.similarity._scores import scores
from magjax.typing import Array, Float, Scalar

__all__ = ["Constant", "SimilarityHead"]

_MAX_LOGIT = 10.0  # sigmoid(10) = 0.99995: nearer to 0 or 1 its derivative is below 4.5e-5


class Constant(nnx.Variable):
    """A value that is saved with the model but that no optimizer over ``nnx.Param`` touches.

    >>> isinstance(Constant(jnp.ones(2)), nnx.Param)
    False
    """


def _number(value: jax.Array) -> float:
    """The shortest decimal that rounds to this float32: 0.05 rather than 0.0500000007."""
    return float(str(np.float32(value)))


class SimilarityHead(nnx.Module):
    r"""Logits :math:`s_{ij} / \tau` of embeddings, with what is learned about them.

    The temperature is stored as its logarithm, the two powers of the variant ``"learnable"`` as
    logits with :math:`\gamma = \operatorname{sigmoid}(\text{logit})`. What is not learned is
    stored as :class:`Constant`, so that optimizers over ``nnx.Param`` pass it by. Weight decay
    must touch none of these values.

    With a learnable temperature every power below 1 leaves a flat direction: queries ``c`` times
    as long at a temperature :math:`c^{1-\gamma_q}` times as high give the same logits (and
    likewise documents), so nothing in the loss holds lengths in place. The temperature therefore
    has bounds. They are kept by :meth:`project`, called after each optimizer step; a clamp in the
    forward pass would have a zero gradient beyond the bound and never come back.

    Args:
      variant: one of ``VARIANTS``.
      temperature: the first (or fixed) temperature.
      learn_temperature: whether it is a parameter.
      temperature_range: lowest and highest temperature that :meth:`project` lets pass.
      gamma_init: first powers of ``"learnable"``: one number, or one for query and document.
      bias: if given, the first value of a parameter added to all logits (for the sigmoid
        loss; arXiv 2303.15343 starts from -10).

    Raises:
      InputError: for an unknown variant, or a number outside its range.

    >>> head = SimilarityHead("qnorm", temperature=0.5, learn_temperature=True,
    ...                       temperature_range=(0.01, 1.0))
    >>> head(jnp.array([[3.0, 4.0]]), jnp.array([[10.0, 0.0]])).round()
    Array([[12.]], dtype=float32)
    >>> print(head.score())
    qnorm (gamma_query=1, gamma_document=0, temperature=0.5)
    """

    def __init__(
        self,
        variant: str,
        *,
        temperature: float,
        learn_temperature: bool,
        temperature_range: tuple[float, float],
        gamma_init: float | tuple[float, float] = 0.5,
        bias: float | None = None,
    ):
        self.variant = choose("variant", variant, VARIANTS)
        first = positive_number("temperature", temperature)
        low, high = (positive_number("temperature_range", bound) for bound in temperature_range)
        if not low <= first <= high:
            raise InputError(
                f"temperature={first:g} is not within temperature_range=({low:g}, {high:g}); "
                "widen the range or start inside it."
            )
        self.temperature_range = (low, high)
        self.learn_temperature = learn_temperature
        kind = nnx.Param if learn_temperature else Constant
        self.log_temperature = kind(jnp.asarray(math.log(first), jnp.float32))
        self.gamma_logits: nnx.Variable | None = nnx.data(None)
        if variant == "learnable":
            pair = gamma_init if isinstance(gamma_init, tuple) else (gamma_init, gamma_init)
            self.gamma_logits = nnx.Param(jnp.asarray([_logit(g) for g in pair], jnp.float32))
        self.logit_bias: nnx.Param | None = nnx.data(None)
        if bias is not None:
            self.logit_bias = nnx.Param(jnp.asarray(bias, jnp.float32))

    def gammas(self) -> tuple[Scalar, Scalar]:
        """The powers of query and document: numbers of the preset, or traced if learnable.

        >>> SimilarityHead("dnorm", temperature=1.0, learn_temperature=False,
        ...                temperature_range=(0.01, 1.0)).gammas()
        (0.0, 1.0)
        """
        if self.gamma_logits is None:
            return PRESETS[self.variant]
        gammas = jax.nn.sigmoid(self.gamma_logits[...])
        return gammas[0], gammas[1]

    def temperature(self) -> Float[jax.Array, ""]:
        """What scores are divided by (the exponential of what is stored)."""
        return jnp.exp(self.log_temperature[...])

    def bias(self) -> Float[jax.Array, ""] | float:
        """What is added to the logits; 0 unless a bias is learned."""
        return 0.0 if self.logit_bias is None else self.logit_bias[...]

    def __call__(
        self, queries: Float[Array, "queries dim"], documents: Float[Array, "documents dim"]
    ) -> Float[jax.Array, "queries documents"]:
        """Logits of every query against every document, in float32 at least."""
        gamma_query, gamma_document = self.gammas()
        matrix = scores(queries, documents, gamma_query=gamma_query, gamma_document=gamma_document)
        return matrix / self.temperature() + self.bias()

    def project(self) -> None:
        """Puts the parameters back into their ranges, in place; call it after each step.

        Works on a merged module inside a jitted step. The logits of learnable powers are kept
        within ±10.

        >>> head = SimilarityHead("learnable", temperature=0.5, learn_temperature=True,
        ...                       temperature_range=(0.01, 1.0))
        >>> head.log_temperature[...] = jnp.float32(-9.0)
        >>> head.project()
        >>> head.temperature().round(4)
        Array(0.01, dtype=float32)
        """
        if self.learn_temperature:
            low, high = (math.log(bound) for bound in self.temperature_range)
            self.log_temperature[...] = jnp.clip(self.log_temperature[...], low, high)
        if isinstance(self.gamma_logits, nnx.Param):
            self.gamma_logits[...] = jnp.clip(self.gamma_logits[...], -_MAX_LOGIT, _MAX_LOGIT)

    def freeze(self) -> None:
        """Makes learnable powers a :class:`Constant`; presets have none to freeze.

        This changes the module's structure: split it anew, and give the optimizer the new state.

        >>> head = SimilarityHead("learnable", temperature=0.5, learn_temperature=False,
        ...                       temperature_range=(0.01, 1.0))
        >>> head.freeze()
        >>> len(jax.tree.leaves(nnx.state(head, nnx.Param)))
        0
        """
        if self.gamma_logits is not None:
            self.gamma_logits = Constant(self.gamma_logits[...])

    def unfreeze(self) -> None:
        """Makes frozen powers a parameter again.

        >>> head = SimilarityHead("learnable", temperature=0.5, learn_temperature=False,
        ...                       temperature_range=(0.01, 1.0))
        >>> head.freeze()
        >>> head.unfreeze()
        >>> nnx.state(head, nnx.Param)["gamma_logits"].shape
        (2,)
        """
        if self.gamma_logits is not None:
            self.gamma_logits = nnx.Param(self.gamma_logits[...])

    def score(self) -> Score:
        """The score as numbers, to be saved with the model (not under ``jit``)."""
        gamma_query, gamma_document = (_number(jnp.asarray(gamma)) for gamma in self.gammas())
        bias = None if self.logit_bias is None else _number(self.logit_bias[...])
        return Score(self.variant, gamma_query, gamma_document, _number(self.temperature()), bias)


def _logit(gamma: float) -> float:
    edge = 1.0 / (1.0 + math.exp(_MAX_LOGIT))
    if not edge <= gamma <= 1.0 - edge:
        raise InputError(
            f"gamma_init={gamma!r} must lie from {edge:.6f} to {1.0 - edge:.6f}, where a sigmoid "
            "can still move; for 0 or 1 take the preset that has it."
        )
    return math.log(gamma / (1.0 - gamma))
