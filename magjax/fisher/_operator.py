"""Products with the Fisher matrix of parameters, which is never formed."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from magjax.checks import InputError, positive_integer
from magjax.fisher._candidate_model import FisherModel, Head
from magjax.fisher._program import Arguments, Program
from magjax.fisher._selection import Selection
from magjax.fisher._sets import CandidateSets, Embed, Embedded
from magjax.mesh import DATA_AXIS, data_mesh, replicate

__all__ = ["ParameterFisher"]


class ParameterFisher:
    r"""The Fisher matrix of some parameters as a linear map, matrix-free.

    .. math:: F = \frac 1 N \sum_i J_i^\top H_i J_i, \quad J_i = \partial \text{logits}_i / \partial\theta

    with H of :func:`root_push`. J is that of whole candidate sets: a query's logits move with its
    own embedding and with every document's. A product costs a forward-mode and a reverse-mode
    pass; P x P is never formed.

    Micro-batches bound memory: embeddings and their tangents are made ``micro_batch`` examples at
    a time, so beyond N x (dim + candidates) numbers it does not grow with N. Where the residuals
    of all examples fit ``memory_gib``, they are computed once and kept, which leaves the layers
    below the chosen parameters out of every product.

    Args:
        embed: ``embed(parameters, rows)``, row-wise; hashable, equal for equal programs.
        selection: the parameters, from :func:`select`.
        sets: the examples.
        model: probabilities and kind.
        micro_batch: examples embedded at a time, rounded up to a multiple of the devices.
        memory_gib: most GiB of kept residuals; 0 never keeps them.
        mesh: devices over which the examples of a micro-batch are split; default: all.

    Raises:
        InputError: a micro-batch below 1, or an embedding that is not finite.

    >>> class Linear:  # two "towers" that share one matrix
    ...     def __call__(self, parameters, rows):
    ...         return Embedded(rows["query"] @ parameters["w"], rows["document"] @ parameters["w"])
    >>> rng = np.random.default_rng(0)
    >>> sides = {name: rng.normal(size=(1, 4, 3)).astype("float32") for name in ("query", "document")}
    >>> from magjax.fisher import select
    >>> from magjax.similarity import Score
    >>> fisher = ParameterFisher(Linear(), select({"w": jnp.eye(3)}, "all"),
    ...                          CandidateSets.from_batch(sides), FisherModel())
    >>> arguments = fisher.arguments(Score.of("dot", temperature=1.0))
    >>> fisher.product(jnp.ones(9), arguments).shape, fisher.dimension, fisher.rank_bound
    ((9,), 9, 9)
    """

    def __init__(
        self,
        embed: Embed,
        selection: Selection,
        sets: CandidateSets,
        model: FisherModel,
        *,
        micro_batch: int = 32,
        memory_gib: float | int = 2.0,
        mesh: Mesh | None = None,
    ) -> None:
        self.selection, self.sets, self.model = selection, sets, model
        mesh = mesh or data_mesh(jax.local_devices())
        whole = _round_up(sets.examples, mesh.size)
        chunk = min(_round_up(positive_integer("micro_batch", micro_batch), mesh.size), whole)

        def program(keeps: bool) -> Program:
            shapes = tuple(np.shape(leaf) for leaf in selection.varying.values())
            return Program(
                embed,
                selection.structure,
                selection.names,
                selection.chosen,
                shapes,
                model,
                sets.sets,
                sets.size,
                keeps,
            )

        varying, fixed = replicate((selection.varying, selection.fixed), mesh)
        # Shapes only: how much the residuals of all examples would take.
        one_chunk = jax.eval_shape(lambda: _chunked(sets.rows, whole, jnp))
        residuals = jax.eval_shape(program(True).linearize, varying, fixed, one_chunk)
        self.residual_gib = _gib(residuals)
        keeps = self.residual_gib <= memory_gib
        self.program = program(keeps)
        sharding = NamedSharding(mesh, PartitionSpec(None, DATA_AXIS))
        rows = jax.device_put(_chunked(sets.rows, whole if keeps else chunk, np), sharding)
        embedded = replicate(_jit_embed(self.program, varying, fixed, rows), mesh)
        _check_finite(embedded)
        self.embedded = embedded
        self._fixed = {
            "varying": varying,
            "fixed": fixed,
            "rows": rows,
            "embedded": embedded,
            "masks": replicate(sets.masks, mesh),
            "pullback": _linearize(self.program, varying, fixed, rows) if keeps else None,
            "weight": jnp.asarray(float(sets.real_examples * len(model.ways))),
        }
        self._mesh = mesh

    @property
    def dimension(self) -> int:
        """Rows of the matrix: parameters that vary."""
        return self.selection.dimension

    @property
    def rank_bound(self) -> int:
        """The largest rank that counting allows."""
        return min(self.dimension, self.model.rank_bound(self.sets))

    @property
    def dtype(self) -> Any:
        """Type of the vectors that products take."""
        return jnp.result_type(*(leaf.dtype for leaf in self.selection.varying.values()))

    def arguments(self, score: Any, *, seed: int = 0) -> Arguments:
        """The arrays of the matrix under ``score``, to be passed with every vector.

        Args:
            score: powers and temperature (:class:`magjax.similarity.Score`).
            seed: of the labels of ``monte_carlo``.
        """
        head = replicate(Head.of(score), self._mesh)
        masks, embedded = self._fixed["masks"], self._fixed["embedded"]
        labels = _labels(self.program, embedded, masks, head, jax.random.key(seed))
        return {**self._fixed, "head": head, "labels": labels}

    @property
    def product(self) -> Program:
        """``product(vector, arguments)``: the Fisher matrix times a flat vector ``[dimension]``.

        Hashable and equal for equal programs, so that it can be a static argument of ``jit``.
        """
        return self.program

    def outcomes(self) -> list[jax.ShapeDtypeStruct]:
        """Shapes ``[sets, size, outcomes]`` of ``push``: the rows of the root, one list item a way."""
        shapes = []
        for way in self.model.ways:
            count = {"ggn": self.model.candidate_count(self.sets, way), "empirical": 1}
            last = count.get(self.model.kind, self.model.samples)
            shapes.append(jax.ShapeDtypeStruct((self.sets.sets, self.sets.size, last), self.dtype))
        return shapes


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _gib(tree: Any) -> float:
    leaves: Sequence[Any] = jax.tree.leaves(tree)
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves) / 2**30


def _chunked(rows: Any, chunk: int, numpy: Any) -> Any:
    """[examples, ...] to [chunks, chunk, ...]; the last chunk is filled up with the first row."""

    def reshape(leaf: Any) -> Any:
        missing = -len(leaf) % chunk
        filled = numpy.concatenate([leaf, numpy.repeat(leaf[:1], missing, axis=0)])
        return filled.reshape(-1, chunk, *leaf.shape[1:])

    return jax.tree.map(reshape, rows)


def _check_finite(embedded: Embedded) -> None:
    for name, array in embedded._asdict().items():
        if array is not None and not bool(jnp.isfinite(array).all()):
            raise InputError(
                f"the embeddings of the {name} are not finite (NaN or infinity); check the model, "
                "or embed in float32."
            )


_jit_embed = jax.jit(Program.embed_all, static_argnums=0)
_linearize = jax.jit(Program.linearize, static_argnums=0)
_labels = jax.jit(Program.labels, static_argnums=0)
