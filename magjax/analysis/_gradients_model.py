"""A gradient analysis of a model: draws queries and candidates, embeds, measures."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from magjax import hub
from magjax.analysis._gradients import query_length_sweep
from magjax.analysis._gradients_closed_form import closed_form_sweep
from magjax.analysis._gradients_parameters import parameter_gradient_sweep
from magjax.analysis._gradients_report import (
    GradientReport,
    ParameterGradients,
    ScoreGradients,
    comparable_scores,
)
from magjax.analysis._gradients_sample import (
    DIFFICULTIES,
    GradientSample,
    GradientSettings,
    difficulty_classes,
)
from magjax.checks import InputError
from magjax.data import Benchmark, TextPreprocessor
from magjax.encoders import DualEncoder
from magjax.evaluation import encode
from magjax.fisher import dual_embedding, select, variant_name
from magjax.similarity import PRESETS, Score
from magjax.similarity import scores as score_matrix
from magjax.typing import Side

__all__ = ["measure_gradients"]

_log = logging.getLogger(__name__)


def measure_gradients(
    model: hub.Model,
    benchmark: Benchmark,
    scores: Sequence[Score] | None = None,
    settings: GradientSettings | None = None,
    *,
    temperature: float | None = None,
    tokens_per_batch: int = 2048,
    progress: Callable[[Side, int, int], None] | None = None,
) -> GradientReport:
    """What the length of queries does to their gradients, under every score.

    A seeded draw of queries, the first answer of each, and seeded other documents are embedded once.
    Every query's loss runs over these candidates, without its other known answers. Under each score
    :func:`query_length_sweep` measures and :func:`closed_form_sweep` predicts; easy, medium and
    hard queries are terciles under that score. Parameter gradients are measured in a batch of its
    own, whose candidates are its queries' answers (:func:`parameter_gradient_sweep`).

    Args:
        model: a score is not needed.
        benchmark: queries, documents and judgements.
        scores: default: the four presets, and the model's own if it is none of them. Scores
            without a temperature get a comparable one (:func:`comparable_scores`).
        settings: what is drawn and over which lengths.
        temperature: of every score, in place of a comparable one.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: fewer than three queries with an answer, a query without a negative, a score
            named twice, or no such parameters.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b c"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> model = hub.Model(DualEncoder.create(config), Score.of("dot", 1.0), tokenizer,
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> benchmark = Benchmark("b", list("qrs"), list("abc"), list("def"), list("abc"),
    ...     {"q": {"d": 1}, "r": {"e": 1}, "s": {"f": 1}})
    >>> settings = GradientSettings(points=3, parameters="none")
    >>> report = measure_gradients(model, benchmark, [Score.of("dot")], settings)
    >>> report.scores[0].measured.loss.shape, report.candidates
    ((3, 3), 3)
    """
    settings = settings or GradientSettings()
    sample = GradientSample.draw(
        benchmark, queries=settings.queries, documents=settings.documents, seed=settings.seed
    )
    count = len(sample.queries)
    if count < len(DIFFICULTIES):
        raise InputError(
            f"{benchmark.name} has {count} queries with an answer, too few to tell easy from hard "
            f"ones; {len(DIFFICULTIES)} are needed."
        )
    own = model.score
    if scores is None:
        scores = [Score.of(name) for name in PRESETS]
        scores += [own] if own is not None and own.variant not in PRESETS else []
    if temperature is not None:
        scores = [dataclasses.replace(score, temperature=temperature) for score in scores]
    batch = None
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    if settings.parameters != "none":
        batch = _ParameterBatch.of(model.encoder, preprocessor, sample, settings)
    queries, documents = (
        encode(
            model.encoder,
            preprocessor,
            texts,
            side,
            ids=ids,
            tokens_per_batch=tokens_per_batch,
            progress=None if progress is None else functools.partial(progress, side),
        )
        for side, texts, ids in sample.sides()
    )
    entries = []
    for score, source in comparable_scores(scores, own, queries, documents):
        problem: dict[str, Any] = {
            "gammas": score.gammas,
            "temperature": score.temperature,
            "where": sample.where,
        }
        arguments = (queries, documents, sample.positives)
        at_one = closed_form_sweep(*arguments, **problem, scales=[1.0])
        ranks = _ranks(queries, documents, sample, score)
        difficulty = difficulty_classes(at_one, ranks if settings.difficulty == "rank" else None)
        entry = ScoreGradients(
            score,
            source,
            query_length_sweep(*arguments, **problem, scales=settings.scales()),
            closed_form_sweep(*arguments, **problem, scales=settings.scales()),
            difficulty,
            None if batch is None else batch.measure(score, difficulty),
        )
        worst = max(entry.deviations().values())
        _log.info("%s, %s: jax.grad and closed form %.1g apart", benchmark.name, entry.name, worst)
        entries.append(entry)
    drawn = len(sample.documents) - len(set(sample.positives.tolist()))
    notes = [
        f"{count} queries (seed {settings.seed}) over {len(sample.documents)} candidates: their "
        f"first answers and {drawn} other documents of the corpus; "
        f"{np.count_nonzero(~sample.where)} (query, candidate) pairs are left out as other known "
        "answers or excluded documents.",
        preprocessor.describe(),
    ]
    if batch is not None:
        notes.append(
            f"Parameter gradients ({settings.parameters}, {batch.dimension:,} numbers): "
            f"{len(batch.rows)} of the queries in a batch of their own, over its answers."
        )
    return GradientReport(
        benchmark.name,
        benchmark.fingerprint,
        settings,
        sample.query_ids,
        len(sample.documents),
        tuple(entries),
        tuple(notes),
    )


def _ranks(
    queries: np.ndarray, documents: np.ndarray, sample: GradientSample, score: Score
) -> np.ndarray:
    """1 and the number of other candidates that stand above the positive."""
    matrix = np.asarray(
        score_matrix(
            queries,
            documents,
            gamma_query=score.gamma_query,
            gamma_document=score.gamma_document,
        )
    )
    own = matrix[np.arange(len(matrix)), sample.positives]
    above = (matrix > own[:, None]) & sample.where
    return 1.0 + above.sum(axis=1)


@dataclasses.dataclass(frozen=True, eq=False)
class _ParameterBatch:
    """Tokens of the queries whose parameter gradients are measured, and of their answers."""

    encoder: DualEncoder
    tokens: dict[str, dict[str, np.ndarray]]
    rows: np.ndarray
    where: np.ndarray
    settings: GradientSettings
    dimension: int

    @classmethod
    def of(
        cls,
        encoder: DualEncoder,
        preprocessor: TextPreprocessor,
        sample: GradientSample,
        settings: GradientSettings,
    ) -> "_ParameterBatch":
        selection = select(dual_embedding(encoder)[1], settings.parameters)
        rows, where = sample.batch(settings.parameter_queries, settings.seed)
        texts: dict[Side, list[str]] = {
            "query": [sample.queries[row] for row in rows],
            "document": [sample.documents[sample.positives[row]] for row in rows],
        }
        tokens = {
            str(side): preprocessor.pad(preprocessor.tokenize(some, side))
            for side, some in texts.items()
        }
        return cls(encoder, tokens, rows, where, settings, selection.dimension)

    def measure(self, score: Score, difficulty: np.ndarray) -> ParameterGradients:
        scales = self.settings.scales(self.settings.parameter_points)
        norms = parameter_gradient_sweep(
            self.encoder,
            self.tokens,
            space=self.settings.parameters,
            score=score,
            scales=scales,
            where=self.where,
            progress=lambda done, total: _log.info(
                "parameters, %s: %d of %d lengths", variant_name(score), done, total
            ),
        )
        space = self.settings.parameters
        return ParameterGradients(scales, norms, difficulty[self.rows], space, self.dimension)
