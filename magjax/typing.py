"""Array types that every package shares.

``Array`` admits NumPy arrays, since primitives are called with either; results
are always ``jax.Array``. ``Scalar`` is a number or a zero-dimensional array.
"""

from typing import Literal

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

Array = jax.Array | np.ndarray
Scalar = Float[Array, ""] | float | int
Side = Literal["query", "document"]

__all__ = ["Array", "Bool", "Float", "Int", "Scalar", "Side"]
