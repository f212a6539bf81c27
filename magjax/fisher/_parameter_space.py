"""Spectra in parameter space: which route, how the trace is spread, which directions are null."""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from magjax.checks import choose
from magjax.fisher._lanczos import lanczos_spectrum
from magjax.fisher._operator import ParameterFisher
from magjax.fisher._program import Arguments, Program
from magjax.fisher._spectrum import Spectrum, dense_spectrum, gram_spectrum

__all__ = [
    "METHODS",
    "diagonal_by_parameter",
    "null_parameters",
    "parameter_spectrum",
    "trace_by_parameter",
]

METHODS = ("auto", "dense", "gram", "lanczos")

# Products that the exact routes may cost, and vectors of a block of them.
_MOST_PRODUCTS, _BLOCK = 512, 16

# Leaves whose share of the trace is below float32's roundoff squared, summed over 1e4 entries.
_NULL_SHARE = 1e-10
# The last layer norm of each tower: scaling scale and bias together scales the embedding.
_OUTPUT = re.compile(r"^(.*/)?layers/(\d+)/output_norm/(scale|bias)$")


def parameter_spectrum(
    fisher: ParameterFisher,
    arguments: Arguments,
    *,
    method: str = "auto",
    steps: int = 48,
    probes: int = 1,
    seed: int = 0,
) -> Spectrum:
    r"""The spectrum of a parameter-space Fisher matrix by the cheapest route that answers.

    ``dense`` forms the P x P matrix from P products; ``gram`` the m x m matrix
    :math:`A A^\top / N` of the m outcomes (N times candidates for ``ggn``), whose nonzero spectrum
    is the same, from m products; both in blocks of 16 vectors, and both give every eigenvalue that
    can be nonzero. ``lanczos`` gives the extremes and sums by quadrature from ``steps`` products a
    probe. ``auto`` takes the smaller of the exact routes up to 512 products, else ``lanczos``.

    Args:
        fisher: the operator.
        arguments: from ``fisher.arguments(score)``.
        method: a name in :data:`METHODS`.
        steps: Lanczos steps.
        probes: Lanczos start vectors.
        seed: of the start vectors.

    Raises:
        InputError: an unknown method, or products that are not finite.

    >>> from magjax.fisher import CandidateSets, Embedded, FisherModel, select
    >>> from magjax.similarity import Score
    >>> class Linear:
    ...     def __call__(self, parameters, rows):
    ...         return Embedded(rows["query"] @ parameters["w"], rows["document"] @ parameters["w"])
    >>> rng = np.random.default_rng(0)
    >>> sides = {name: rng.normal(size=(1, 2, 3)).astype("float32") for name in ("query", "document")}
    >>> fisher = ParameterFisher(Linear(), select({"w": jnp.eye(3)}, "all"),
    ...                          CandidateSets.from_batch(sides), FisherModel())
    >>> found = parameter_spectrum(fisher, fisher.arguments(Score.of("dot", temperature=1.0)))
    >>> found.method, found.rank, found.nullity  # two queries of two candidates each
    ('gram', 2, 7)
    """
    choose("method", method, METHODS)
    outcomes = sum(math.prod(shape.shape) for shape in fisher.outcomes())
    if method == "auto":
        smaller = min(fisher.dimension, outcomes)
        method = "lanczos" if smaller > _MOST_PRODUCTS else "dense"
        if method == "dense" and outcomes < fisher.dimension:
            method = "gram"
    if method == "lanczos":
        return lanczos_spectrum(
            fisher.product,
            fisher.dimension,
            arguments=(arguments,),
            rank_bound=fisher.rank_bound,
            steps=steps,
            probes=probes,
            seed=seed,
            dtype=fisher.dtype,
        )
    if method == "dense":
        matrix = _columns(_dense_block, fisher, arguments, fisher.dimension)
        return dense_spectrum(matrix, rank_bound=fisher.rank_bound)
    matrix = _columns(_gram_block, fisher, arguments, outcomes)
    return gram_spectrum(matrix, dimension=fisher.dimension, rank_bound=fisher.rank_bound)


def _columns(block: Any, fisher: ParameterFisher, arguments: Arguments, size: int) -> np.ndarray:
    """A symmetric matrix from products with unit vectors, a block at a time."""
    parts = []
    for start in range(0, size, _BLOCK):
        units = np.zeros((_BLOCK, size), fisher.dtype)
        places = np.arange(start, min(start + _BLOCK, size))
        units[places - start, places] = 1.0
        found = block(fisher.program, jnp.asarray(units), arguments)
        parts.append(np.asarray(found)[: len(places)])
    matrix = np.concatenate(parts)
    return (matrix + matrix.T) / 2


@functools.partial(jax.jit, static_argnums=0)
def _dense_block(program: Program, units: jax.Array, arguments: Arguments) -> jax.Array:
    return jax.vmap(lambda unit: program(unit, arguments))(units)


@functools.partial(jax.jit, static_argnums=0)
def _gram_block(program: Program, units: jax.Array, arguments: Arguments) -> jax.Array:
    shapes = jax.eval_shape(
        program.push, jnp.zeros(sum(map(math.prod, program.shapes)), units.dtype), arguments
    )

    def product(unit: jax.Array) -> jax.Array:
        sizes = [math.prod(shape.shape) for shape in shapes]
        parts = jnp.split(unit, np.cumsum(sizes)[:-1].tolist())
        outcomes = [part.reshape(shape.shape) for part, shape in zip(parts, shapes, strict=True)]
        found = program.push(program.pull(outcomes, arguments), arguments)
        flat = jnp.concatenate([part.reshape(-1) for part in found])
        return flat / arguments["weight"]

    return jax.vmap(product)(units)


def trace_by_parameter(
    fisher: ParameterFisher, arguments: Arguments, *, probes: int = 4, seed: int = 0
) -> dict[str, float]:
    r"""The trace of each parameter's diagonal block, estimated from random outcomes.

    For random signs :math:`z`, :math:`(A^\top z)_k^2` is an unbiased estimate of N times diagonal
    entry k; sums over a parameter's entries average over many. One reverse pass a probe.

    Args:
        fisher: the operator.
        arguments: from ``fisher.arguments(score)``.
        probes: random sign vectors.
        seed: of the signs.

    Returns:
        name of each chosen parameter to its share of the trace, in the unit of the matrix.

    >>> from magjax.fisher import CandidateSets, Embedded, FisherModel, select
    >>> from magjax.similarity import Score
    >>> class Linear:
    ...     def __call__(self, parameters, rows):
    ...         return Embedded(rows["query"] @ parameters["w"], rows["document"] @ parameters["w"])
    >>> sides = {"query": np.eye(3, dtype="float32")[None], "document": np.eye(3, dtype="float32")[None]}
    >>> parameters = {"unused": jnp.ones(2), "w": jnp.eye(3)}
    >>> fisher = ParameterFisher(Linear(), select(parameters, "all"),
    ...                          CandidateSets.from_batch(sides), FisherModel())
    >>> found = trace_by_parameter(fisher, fisher.arguments(Score.of("dot", temperature=1.0)))
    >>> found["unused"], found["w"] > 0
    (0.0, True)
    """
    squares = diagonal_by_parameter(fisher, arguments, probes=probes, seed=seed)
    return {name: float(np.sum(part)) for name, part in squares.items()}


def diagonal_by_parameter(
    fisher: ParameterFisher, arguments: Arguments, *, probes: int, seed: int
) -> dict[str, np.ndarray]:
    """Estimates of the diagonal, by parameter, in float64."""
    key = jax.random.key(seed)
    total: dict[str, np.ndarray] = {}
    for probe in range(probes):
        signs = [
            jax.random.rademacher(
                jax.random.fold_in(jax.random.fold_in(key, probe), place), shape.shape, shape.dtype
            )
            for place, shape in enumerate(fisher.outcomes())
        ]
        found = fisher.program.unravel(_pull(fisher.program, signs, arguments))
        for name, part in found.items():
            square = np.asarray(part, np.float64) ** 2 / (float(arguments["weight"]) * probes)
            total[name] = total.get(name, 0.0) + square
    return total


@functools.partial(jax.jit, static_argnums=0)
def _pull(program: Program, outcomes: list[jax.Array], arguments: Arguments) -> jax.Array:
    return program.pull(outcomes, arguments)


@functools.partial(jax.jit, static_argnums=0)
def _push(program: Program, vector: jax.Array, arguments: Arguments) -> list[jax.Array]:
    return program.push(vector, arguments)


def null_parameters(
    fisher: ParameterFisher,
    arguments: Arguments,
    spectrum: Spectrum,
    *,
    diagonal: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> list[str]:
    """Why the matrix is singular, in sentences: directions that cannot move the probabilities.

    Named are the shortage of examples (by counting), parameters that nothing depends on, the bias
    of attention's keys (the softmax over keys does not see it), rows of an embedding table whose
    token these texts lack, and the scale of the embedding where both powers are 1.

    Args:
        fisher: the operator.
        arguments: from ``fisher.arguments(score)``.
        spectrum: of the same matrix; its cut-off decides what is null.
        diagonal: by parameter, where it is estimated already; it finds what has no gradient.
        seed: of the random outcomes that it is estimated from otherwise.

    >>> from magjax.fisher import CandidateSets, Embedded, FisherModel, select
    >>> from magjax.similarity import Score
    >>> class Linear:
    ...     def __call__(self, parameters, rows):
    ...         return Embedded(rows["query"] @ parameters["w"], rows["document"] @ parameters["w"])
    >>> sides = {"query": np.eye(3, dtype="float32")[None], "document": np.eye(3, dtype="float32")[None]}
    >>> parameters = {"unused": jnp.ones(2), "w": jnp.eye(3)}
    >>> fisher = ParameterFisher(Linear(), select(parameters, "all"),
    ...                          CandidateSets.from_batch(sides), FisherModel())
    >>> arguments = fisher.arguments(Score.of("dot", temperature=1.0))
    >>> for reason in null_parameters(fisher, arguments, parameter_spectrum(fisher, arguments)):
    ...     print(reason)
    counting: 3 examples have at most 6 independent outcomes, so at least 5 of 11 directions are null
    unused (2 numbers): no probability depends on it
    """
    reasons = []
    missing = fisher.dimension - fisher.rank_bound
    if missing:
        reasons.append(
            f"counting: {fisher.sets.real_examples:,} examples have at most "
            f"{fisher.model.rank_bound(fisher.sets):,} independent outcomes, so at least "
            f"{missing:,} of {fisher.dimension:,} directions are null"
        )
    squares = diagonal
    if squares is None:
        squares = diagonal_by_parameter(fisher, arguments, probes=4, seed=seed)
    total = sum(float(np.sum(part)) for part in squares.values())
    for name, part in squares.items():
        if float(np.sum(part)) <= _NULL_SHARE * total:
            why = "no probability depends on it"
            if name.endswith("key/bias"):
                why = "a constant added to all keys leaves the softmax of attention as it is"
            reasons.append(f"{name} ({part.size:,} numbers): {why}")
        elif part.ndim == 2 and name.endswith("/embedding"):
            rows = int(np.sum(~np.any(part > 0.0, axis=1)))
            if rows:
                reasons.append(
                    f"{name}: {rows:,} of {len(part):,} rows belong to tokens or positions that "
                    "these texts lack"
                )
    radial = _radial_share(fisher, arguments)
    if radial is not None and radial <= spectrum.cutoff:
        reasons.append(
            "the scale of the last layer norms (weights and biases together): it only changes the "
            "length of embeddings, which this score divides out"
        )
    return reasons


def _radial_share(fisher: ParameterFisher, arguments: Arguments) -> float | None:
    """The energy v'Fv / v'v of scaling all embeddings, or None where the space holds no such v."""
    if any("projection/" in name for name in fisher.selection.names):
        return None
    varying = fisher.selection.varying
    last: dict[str, int] = {}
    for name in fisher.selection.names:
        if match := _OUTPUT.match(name):
            tower = match[1] or ""
            last[tower] = max(last.get(tower, 0), int(match[2]))
    wanted = [
        f"{tower}layers/{number}/output_norm/{part}"
        for tower, number in last.items()
        for part in ("scale", "bias")
    ]
    if not wanted or not set(wanted) <= set(varying):
        return None
    parts = {
        name: leaf if name in wanted else jnp.zeros_like(leaf) for name, leaf in varying.items()
    }
    vector = fisher.program.ravel(parts)
    moved = _push(fisher.program, vector, arguments)
    energy = sum(float(jnp.sum(part.astype(jnp.float32) ** 2)) for part in moved)
    return energy / float(arguments["weight"]) / float(jnp.sum(vector**2))
