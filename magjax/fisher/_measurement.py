"""Measurements of one start model: spaces x variants x batches."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np

from magjax.files import json_safe
from magjax.fisher._candidate_model import FisherModel
from magjax.fisher._embedding_space import embedding_fisher, embedding_rank_bound
from magjax.fisher._measures import explain, measure
from magjax.fisher._null_directions import find_null_directions
from magjax.fisher._operator import ParameterFisher
from magjax.fisher._parameter_space import (
    diagonal_by_parameter,
    null_parameters,
    parameter_spectrum,
)
from magjax.fisher._sets import CandidateSets, Embedded
from magjax.fisher._spectrum import Spectrum, dense_spectrum
from magjax.similarity import Score, norm
from magjax.typing import Side

__all__ = [
    "Measurement",
    "Norms",
    "measure_embeddings",
    "measure_norms",
    "measure_parameters",
    "variant_name",
]

# Embeddings are float32: a direction that is null by construction still holds two roundings of
# 1.2e-7 an entry, 1e-14 of λ1 in the matrix; times dim and 64. (Seen on all-MiniLM-L6-v2 and a
# random start: null eigenvalues at most 2e-15 of λ1, all others at least 6e-6.)
_EMBEDDING_NOISE = 64 * float(np.finfo(np.float32).eps) ** 2


def variant_name(score: Score) -> str:
    """What tables call a score: its preset, or its two powers.

    >>> variant_name(Score.of("qnorm", 0.1)), variant_name(Score.power(0.5, 1, 0.1))
    ('qnorm', '0.5,1')
    """
    if score.variant in ("power", "learnable"):
        return f"{score.gamma_query:g},{score.gamma_document:g}"
    return score.variant


@dataclasses.dataclass(frozen=True, eq=False)
class Measurement:
    """One spectrum and its measures, with everything that they depend on.

    Attributes:
        space: ``query``, ``document``, or a parameter space.
        kind: the Fisher's kind, as :attr:`FisherModel.label`.
        score: powers and temperature.
        batch: number of the batch, from 0.
        examples: queries that the mean runs over.
        spectrum: the eigenvalues and how far to trust them.
        values: the measures by name.
        reasons: why a measure is None or infinite, by name.
        nulls: why directions are null, in sentences.
        traces: parameter spaces: the trace of each parameter's diagonal block.
        notes: what else a reader must know.

    >>> [field.name for field in dataclasses.fields(Measurement)][:4]
    ['space', 'kind', 'score', 'batch']
    """

    space: str
    kind: str
    score: Score
    batch: int
    examples: int
    spectrum: Spectrum
    values: dict[str, float | None]
    reasons: dict[str, str]
    nulls: tuple[str, ...]
    traces: dict[str, float] | None = None
    notes: tuple[str, ...] = ()

    @property
    def variant(self) -> str:
        """The name of the score in tables."""
        return variant_name(self.score)

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        plain = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("score", "spectrum")
        }
        return json_safe(
            {
                "variant": self.variant,
                **plain,
                "score": self.score.to_json(),
                "spectrum": self.spectrum.to_json(),
            }
        )


@dataclasses.dataclass(frozen=True)
class Norms:
    """How much the length of one side's embeddings varies.

    Attributes:
        side: ``query`` or ``document``.
        mean: mean length.
        deviation: standard deviation of the length.

    >>> Norms("query", 2.0, 0.5).variation
    0.25
    """

    side: str
    mean: float
    deviation: float

    @property
    def variation(self) -> float:
        """Coefficient of variation: deviation over mean; 0 if all lengths are 0."""
        return self.deviation / self.mean if self.mean else 0.0

    def to_json(self) -> dict[str, Any]:
        """The fields and the variation as JSON values."""
        return {**dataclasses.asdict(self), "variation": self.variation}


def measure_norms(batches: Iterable[Embedded]) -> dict[str, Norms]:
    """Lengths of both sides' embeddings over all batches.

    >>> found = measure_norms([Embedded(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))])
    >>> found["query"].mean, found["document"].variation
    (5.0, 0.0)
    """
    lengths: dict[str, list[np.ndarray]] = {side: [] for side in get_args(Side)}
    for batch in batches:
        for side, x in (("query", batch.queries), ("document", batch.documents)):
            lengths[side].append(np.asarray(norm(np.asarray(x)), np.float64).ravel())
    pooled = {side: np.concatenate(parts) for side, parts in lengths.items()}
    return {side: Norms(side, float(x.mean()), float(x.std())) for side, x in pooled.items()}


def measure_embeddings(
    embedded: Embedded,
    sets: CandidateSets,
    scores: Sequence[Score],
    sides: Sequence[str],
    *,
    model: FisherModel,
    batch: int = 0,
    seed: int = 0,
    dampings: Sequence[float] = (0.1, 0.01, 0.001),
    orders: Sequence[int] = (10, 64),
    known: dict[str, dict[str, np.ndarray]] | None = None,
) -> list[Measurement]:
    """Measures the embedding-space matrices of one batch, for every side and score.

    Args:
        embedded: ``[examples, dim]``.
        sets: their candidate sets.
        scores: with temperatures.
        sides: of ``query`` and ``document``.
        model: probabilities and kind.
        batch: its number, for the record.
        seed: of the labels of ``monte_carlo``.
        dampings: of :func:`measure`.
        orders: of :func:`measure`.
        known: for each side, directions that the encoder cannot vary.

    >>> q, d = np.random.default_rng(0).normal(size=(2, 8, 3)).astype("float32")
    >>> sets = CandidateSets.from_batch({"query": q[None], "document": d[None]})
    >>> found = measure_embeddings(Embedded(q, d), sets, [Score.of("dot", 1.0)], ["query"],
    ...                            model=FisherModel())
    >>> found[0].variant, found[0].spectrum.rank
    ('dot', 3)
    """
    found = []
    dim = int(np.shape(embedded.queries)[-1])
    for side in sides:
        bound = embedding_rank_bound(sets, model, side, dim)
        for score in scores:
            matrix = embedding_fisher(embedded, sets, score, side, model=model, seed=seed)
            spectrum = dense_spectrum(
                matrix, rank_bound=bound, relative_cutoff=dim * _EMBEDDING_NOISE
            )
            nulls = find_null_directions(
                matrix,
                cutoff=spectrum.cutoff,
                rank_bound=bound,
                known=(known or {}).get(side),
            )
            values = measure(spectrum, dampings=dampings, orders=orders)
            found.append(
                Measurement(
                    space=side,
                    kind=model.label,
                    score=score,
                    batch=batch,
                    examples=sets.real_examples,
                    spectrum=spectrum,
                    values=values,
                    reasons=_reasons(spectrum, values),
                    nulls=tuple(nulls.sentences()),
                )
            )
    return found


def measure_parameters(
    fisher: ParameterFisher,
    scores: Sequence[Score],
    *,
    batch: int = 0,
    seed: int = 0,
    steps: int = 48,
    probes: int = 1,
    method: str = "auto",
    dampings: Sequence[float] = (0.1, 0.01, 0.001),
    orders: Sequence[int] = (10, 64),
) -> list[Measurement]:
    """Measures one parameter space of one batch under every score.

    Args:
        fisher: the operator.
        scores: with temperatures.
        batch: its number, for the record.
        seed: of start vectors and labels.
        steps: of Lanczos.
        probes: of Lanczos.
        method: as in :func:`parameter_spectrum`.
        dampings: of :func:`measure`.
        orders: of :func:`measure`.

    >>> from magjax.fisher import select
    >>> class Linear:
    ...     def __call__(self, parameters, rows):
    ...         return Embedded(rows["query"] @ parameters["w"], rows["document"] @ parameters["w"])
    >>> q, d = np.random.default_rng(0).normal(size=(2, 1, 4, 3)).astype("float32")
    >>> fisher = ParameterFisher(Linear(), select({"w": np.eye(3, dtype="float32")}, "all"),
    ...                          CandidateSets.from_batch({"query": q, "document": d}), FisherModel())
    >>> found = measure_parameters(fisher, [Score.of("dot", 1.0), Score.of("qnorm", 1.0)])
    >>> [item.variant for item in found], found[0].spectrum.dimension
    (['dot', 'qnorm'], 9)
    """
    found = []
    for score in scores:
        arguments = fisher.arguments(score, seed=seed)
        spectrum = parameter_spectrum(
            fisher, arguments, method=method, steps=steps, probes=probes, seed=seed
        )
        values = measure(spectrum, dampings=dampings, orders=orders)
        diagonal = diagonal_by_parameter(fisher, arguments, probes=4, seed=seed)
        nulls = null_parameters(fisher, arguments, spectrum, diagonal=diagonal)
        found.append(
            Measurement(
                space=fisher.selection.space,
                kind=fisher.model.label,
                score=score,
                batch=batch,
                examples=fisher.sets.real_examples,
                spectrum=spectrum,
                values=values,
                reasons=_reasons(spectrum, values),
                nulls=tuple(nulls),
                traces={name: float(np.sum(part)) for name, part in diagonal.items()},
                notes=fisher.selection.notes,
            )
        )
    return found


def _reasons(spectrum: Spectrum, values: dict[str, float | None]) -> dict[str, str]:
    said = {
        name: explain(spectrum, name)
        for name, value in values.items()
        if value is None or not np.isfinite(value)
    }
    return {name: reason for name, reason in said.items() if reason}
