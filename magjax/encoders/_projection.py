"""A dense layer after pooling."""

import jax
import jax.numpy as jnp
from flax import nnx

from magjax.checks import choose, positive_integer
from magjax.typing import Float

__all__ = ["PROJECTION_ACTIVATIONS", "Projection"]

PROJECTION_ACTIVATIONS = {"identity": lambda x: x, "tanh": jnp.tanh}


class Projection(nnx.Module):
    """A dense layer after pooling, in float32: ``activation(x @ kernel + bias)``.

    Raises:
        InputError: an unknown activation, or sizes that are no positive whole numbers.

    >>> Projection(8, 4, rngs=nnx.Rngs(0))(jnp.ones((2, 8))).shape
    (2, 4)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        use_bias: bool = True,
        activation: str = "identity",
        rngs: nnx.Rngs,
    ) -> None:
        self.activation = choose("projection activation", activation, PROJECTION_ACTIVATIONS)
        self.linear = nnx.Linear(
            positive_integer("projection inputs", inputs),
            positive_integer("projection outputs", outputs),
            use_bias=use_bias,
            rngs=rngs,
        )

    def __call__(self, x: Float[jax.Array, "batch inputs"]) -> Float[jax.Array, "batch outputs"]:
        return PROJECTION_ACTIVATIONS[self.activation](self.linear(x))
