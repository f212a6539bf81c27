"""Position embeddings of a square grid at another size, by the bicubic rule of torch."""

import jax
import jax.numpy as jnp
import numpy as np

from magjax.checks import InputError
from magjax.typing import Array, Float

__all__ = ["bicubic_weights", "interpolate_positions"]

_SHARPNESS = -0.75  # torch's; jax.image.resize takes Keys' -0.5


def bicubic_weights(inputs: int, outputs: int) -> np.ndarray:
    r"""The matrix that resizes one axis by cubic convolution, without antialiasing.

    Output :math:`i` reads the four inputs around :math:`(i + 1/2)\,n_\text{in}/n_\text{out} - 1/2`
    with the kernel of Keys (1981) at :math:`a = -3/4`; beyond an edge the edge counts again.

    Returns:
        float32 ``[outputs, inputs]``; rows sum to 1.

    Source: the definition of torch's ``interpolate(mode="bicubic", align_corners=False)``.

    >>> bicubic_weights(2, 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    centre = (np.arange(outputs) + 0.5) * (inputs / outputs) - 0.5
    first = np.floor(centre).astype(int)
    weights = np.zeros((outputs, inputs))
    for offset in (-1, 0, 1, 2):
        place = first + offset
        np.add.at(
            weights,
            (np.arange(outputs), np.clip(place, 0, inputs - 1)),
            _kernel(np.abs(centre - place)),
        )
    return weights.astype(np.float32)


def interpolate_positions(
    table: Float[Array, "positions hidden"], height: int, width: int, *, class_rows: int = 0
) -> Float[jax.Array, "resized hidden"]:
    """A position table of a square grid, resized to ``height`` x ``width`` patches.

    Args:
        table: row-major over the grid, after ``class_rows`` rows that stay as they are.
        height: patches from top to bottom.
        width: patches from left to right.
        class_rows: rows of tokens that are no patch.

    Returns:
        ``[class_rows + height * width, hidden]``.

    Raises:
        InputError: the rows form no square grid.

    >>> interpolate_positions(jnp.ones((5, 8)), 3, 3, class_rows=1).shape
    (10, 8)
    """
    first, patches = jnp.asarray(table[:class_rows]), jnp.asarray(table[class_rows:])
    side = round(patches.shape[0] ** 0.5)
    if side**2 != patches.shape[0]:
        raise InputError(f"{patches.shape[0]} patch positions form no square grid to interpolate.")
    grid = patches.reshape(side, side, -1)
    resized = jnp.einsum(
        "hi,wj,ijd->hwd",
        jnp.asarray(bicubic_weights(side, height)),
        jnp.asarray(bicubic_weights(side, width)),
        grid,
        precision="highest",
    )
    return jnp.concatenate([first, resized.reshape(height * width, -1)])


def _kernel(distance: np.ndarray) -> np.ndarray:
    a, x = _SHARPNESS, distance
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
