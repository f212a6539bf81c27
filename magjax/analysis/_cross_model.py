"""Cross-evaluation of models: embeds each benchmark once with each, ranks, compares."""

import collections
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath

from magjax import hub
from magjax.analysis._cross import ModelEmbeddings, evaluate_under_scores
from magjax.analysis._cross_domains import DomainGap, domain_gaps
from magjax.analysis._cross_table import DIRECTIONS, CrossEvaluation, CrossRow, score_name
from magjax.checks import InputError
from magjax.data import Benchmark, TextPreprocessor
from magjax.evaluation import METRICS, check_depth, embed_benchmark
from magjax.similarity import PRESETS, Score
from magjax.typing import Side

__all__ = ["all_domain_gaps", "cross_evaluate_models", "model_names"]

Told = contextlib.AbstractContextManager[Callable[[Side, int, int], None]]
"""What shows the progress of one model on one benchmark."""


def model_names(checkpoints: Sequence[str | os.PathLike[str]]) -> list[str]:
    """A name for each checkpoint: that of its folder, with parents where two are equal.

    The folder ``model`` of a run is called by the run's name.

    Args:
        checkpoints: paths or hub ids.

    Raises:
        InputError: one checkpoint twice.

    >>> model_names(["runs/cosine", "runs/dot/model", "other/dot"])
    ['cosine', 'runs/dot', 'other/dot']
    """
    parts = []
    for checkpoint in checkpoints:
        text = os.fspath(checkpoint)
        for prefix in ("package:", "hf:"):
            text = text.removeprefix(prefix)
        path = PurePath(text)
        if path.name == "model" and len(path.parts) > 1:
            path = path.parent
        parts.append(path.parts or (".",))
    depths = [1] * len(parts)
    while True:
        names = ["/".join(path[-depth:]) for path, depth in zip(parts, depths, strict=True)]
        twice = [name for name, count in collections.Counter(names).items() if count > 1]
        if not twice:
            return names
        for i, name in enumerate(names):
            if name in twice:
                if depths[i] >= len(parts[i]) and parts.count(parts[i]) > 1:
                    raise InputError(
                        f"the checkpoint {os.fspath(checkpoints[i])} is named twice; name each once."
                    )
                depths[i] += 1


def cross_evaluate_models(
    models: Mapping[str, hub.Model],
    benchmarks: Sequence[Benchmark],
    scores: Sequence[Score] | None = None,
    metrics: Sequence[str] = METRICS,
    *,
    k: int = 100,
    both_directions: bool = False,
    ignore_identical_ids: bool = False,
    tokens_per_batch: int = 2048,
    progress: Callable[[str], Told] | None = None,
) -> Iterator[CrossEvaluation]:
    """One table a benchmark and direction, as they are done; :func:`cross_evaluate` says what of.

    One pass of each encoder over a benchmark serves all scores and directions, and only one model's
    embeddings are held at a time. Each model has its own tokenizer, prompts, lengths and pooling.

    Args:
        models: by the name that tables call them.
        benchmarks: what to search.
        scores: default: the four presets, and every model's own that is none of them.
        metrics: names as in :func:`magjax.evaluation.evaluate_run`.
        k: documents a query.
        both_directions: also rank queries for documents.
        ignore_identical_ids: never return the document whose id is the query's.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: as :func:`magjax.evaluation.progress_bar`, entered once a model and benchmark.

    Yields:
        :class:`CrossEvaluation`, benchmark by benchmark.

    Raises:
        InputError: no model, an unknown metric, a score named twice, or an embedding
            that is not finite.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> model = hub.Model(DualEncoder.create(config), Score.of("dot"), tokenizer,
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> benchmark = Benchmark("b", ["q"], ["a b"], ["d", "e"], ["b", "a b"], {"q": {"e": 1}})
    >>> (table,) = cross_evaluate_models({"m": model}, [benchmark], metrics=["recall@2"], k=2)
    >>> table.score_names, table.cell("m", "dot").mean("recall@2")
    (['cosine', 'dnorm', 'dot', 'qnorm'], 1.0)
    """
    check_depth(metrics, k)
    if not models:
        raise InputError("there is no model to evaluate; give at least one.")
    if scores is None:
        columns = {name: Score.of(name) for name in PRESETS}
        for model in models.values():
            if model.score is not None:
                columns.setdefault(score_name(model.score), model.score)
        scores = list(columns.values())
    directions = list(DIRECTIONS) if both_directions else ["query_to_document"]
    for benchmark in benchmarks:
        rows: dict[str, list[CrossRow]] = {direction: [] for direction in directions}
        for name, model in models.items():
            preprocessor = TextPreprocessor(model.tokenizer, model.text)
            bar = (
                contextlib.nullcontext()
                if progress is None
                else progress(f"{name}, {benchmark.name}")
            )
            with bar as told:
                embedded = embed_benchmark(
                    model.encoder,
                    preprocessor,
                    benchmark,
                    tokens_per_batch=tokens_per_batch,
                    progress=told,
                )
            held = ModelEmbeddings(name, model.score, embedded["query"], embedded["document"])
            for direction in directions:
                rows[direction].append(
                    evaluate_under_scores(
                        held,
                        benchmark,
                        scores,
                        metrics,
                        k=k,
                        direction=direction,
                        ignore_identical_ids=ignore_identical_ids,
                    )
                )
            del embedded, held
        for direction in directions:
            yield CrossEvaluation(
                benchmark.name,
                benchmark.fingerprint,
                direction,
                k,
                tuple(metrics),
                tuple(rows[direction]),
            )


def all_domain_gaps(
    evaluations: Sequence[CrossEvaluation],
    *,
    baseline: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> list[DomainGap]:
    """:func:`domain_gaps` of every pair of tables ``NAME/in_domain`` and ``NAME/out_of_domain``.

    Args:
        evaluations: tables; those without a partner have no gap.
        baseline: as in :func:`domain_gaps`.
        resamples: of the bootstraps.
        seed: of the bootstraps.

    Raises:
        InputError: as :func:`domain_gaps`.

    >>> all_domain_gaps([])
    []
    """
    partner = {(table.domain, table.direction): table for table in evaluations}
    found = []
    for table in evaluations:
        name, slash, part = table.domain.rpartition("/")
        outside = partner.get((f"{name}{slash}out_of_domain", table.direction))
        if part == "in_domain" and outside is not None:
            for metric in table.metrics:
                found += domain_gaps(
                    table, outside, metric, baseline=baseline, resamples=resamples, seed=seed
                )
    return found
