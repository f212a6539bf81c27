"""What the length of a query does to its loss's gradient with respect to the parameters."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from magjax.analysis._gradients import query_loss
from magjax.checks import InputError
from magjax.encoders import DualEncoder
from magjax.fisher import Embedded, dual_embedding, select
from magjax.similarity import Score
from magjax.typing import Array, Bool, Float

__all__ = ["parameter_gradient_sweep"]


def parameter_gradient_sweep(
    encoder: DualEncoder,
    batch: Mapping[str, Mapping[str, Array]],
    *,
    space: str,
    score: Score,
    scales: Float[Array, " scales"] | Sequence[float | int],
    where: Bool[Array, "queries queries"] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    r"""Length of each query's parameter gradient with its embedding made ``c`` times as long.

    .. math:: \lVert\nabla_\theta\, \ell\bigl(c\,f_\theta(q_i), f_\theta(d_1), \dots\bigr)\rVert

    The factor stands behind the encoder, as a longer output of its last layer would: the query's
    Jacobian is :math:`c\,\partial f/\partial\theta`. The gradient goes through the query and
    through every document that it scores. At :math:`\gamma_q = 1` it does not depend on ``c``.

    One reverse pass through the chosen parameters for each query and scale, over the activations
    of one forward pass a scale; dropout is off.

    Args:
        encoder: not changed.
        batch: tokens of ``query`` and ``document``, each leaf ``[queries, length]``; row ``i``
            answers row ``i``, and all documents are candidates.
        space: parameters, as :func:`magjax.fisher.select` names them (``all``, ``last_block``,
            ``projection``, ``embeddings``, or a regular expression of their names).
        score: powers and temperature.
        scales: factors :math:`c`, above 0.
        where: False for documents that are no candidates of a query.
        progress: called with (scales done, scales in all).

    Returns:
        float64 ``[scales, queries]``, computed in float32.

    Raises:
        InputError: no parameter matches ``space``, the score has no temperature, or sides that
            disagree.

    >>> from magjax.encoders import EncoderConfig
    >>> config = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> tokens = {"input_ids": np.array([[2, 7, 3], [2, 9, 3]]), "attention_mask": np.ones((2, 3), int)}
    >>> found = parameter_gradient_sweep(DualEncoder.create(config), {"query": tokens,
    ...     "document": tokens}, space="last_block", score=Score.of("cosine", 0.1), scales=[1, 4])
    >>> bool(np.allclose(found[0], found[1], rtol=1e-3))  # normalized queries: length has no effect
    True
    """
    if score.temperature is None:
        raise InputError(f"the score {score.variant!r} has no temperature; give one.")
    embed, parameters = dual_embedding(encoder)
    selection = select(parameters, space)
    counts = {side: len(batch[side]["input_ids"]) for side in ("query", "document")}
    size = counts["query"]
    if size < 2 or counts["document"] != size:
        raise InputError(
            f"the batch has {size} queries and {counts['document']} documents; give one document a "
            "query, and at least 2."
        )
    present = np.ones((size, size), bool) if where is None else np.asarray(where, bool)
    head = jnp.asarray([*score.gammas, np.log(score.temperature)], jnp.float32)
    arguments = (selection.varying, selection.fixed, jax.device_put(dict(batch)), present, head)
    norms = []
    for number, scale in enumerate(np.asarray(scales, np.float32), start=1):
        # TF32, a GPU's default for float32 products, keeps 11 bits of 24.
        with jax.default_matmul_precision("highest"):
            found = _norms(embed, selection.structure, selection.names, *arguments, scale)
        norms.append(np.asarray(found, np.float64))
        if progress is not None:
            progress(number, len(scales))
    return np.stack(norms)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _norms(
    embed: Callable[..., Embedded],
    structure: Any,
    names: tuple[str, ...],
    varying: dict[str, jax.Array],
    fixed: dict[str, jax.Array],
    rows: dict[str, Any],
    where: jax.Array,
    head: jax.Array,
    scale: jax.Array,
) -> jax.Array:
    gamma_query, gamma_document, log_temperature = head

    def embedded(chosen: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        merged = {**fixed, **chosen}
        found = embed(jax.tree.unflatten(structure, [merged[name] for name in names]), rows)
        return jnp.asarray(found.queries), jnp.asarray(found.documents)

    (queries, documents), pull = jax.vjp(embedded, varying)

    def of_query(item: tuple[jax.Array, jax.Array]) -> jax.Array:
        row, present = item

        def loss(queries: jax.Array, documents: jax.Array) -> jax.Array:
            x = scale * queries[row]
            return query_loss(
                x, documents, log_temperature, row, present, gamma_query, gamma_document
            )

        (by_parameter,) = pull(jax.grad(loss, argnums=(0, 1))(queries, documents))
        leaves = jax.tree.leaves(by_parameter)
        # float32 squares of small gradients underflow below 1e-23: scaled by the largest first.
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in leaves]))
        unit = jnp.where(largest > 0.0, largest, 1.0)
        return largest * jnp.sqrt(sum(jnp.sum((leaf / unit) ** 2) for leaf in leaves))

    return lax.map(of_query, (jnp.arange(where.shape[0]), where))
