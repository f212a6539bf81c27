"""Training a text retriever from a config."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from magjax import hub
from magjax.data import Benchmark, TextPreprocessor, TrainingBatches
from magjax.evaluation import RetrievalResult, embed_benchmark, evaluate_bm25, rank_benchmark
from magjax.similarity import Score
from magjax.study._task import Task
from magjax.study._text_data import load_text_data
from magjax.study._text_model import start_model

__all__ = ["text_task"]

_log = logging.getLogger("magjax")


def text_task(config: Mapping[str, Any]) -> Task:
    """Texts, start model and tests of a text retriever.

    Args:
        config: as :func:`magjax.config.retrieval_config`, in JSON form.

    Raises:
        InputError: settings or data that cannot be used.

    >>> text_task({"data": {"source": "bier"}, "seed": 0})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown data.source 'bier'; known: code, beir, jsonl, hf_dataset, msmarco, msmarco_triples. Did you mean 'beir'?
    """
    data = load_text_data(config["data"], seed=config["seed"])
    model = start_model(config, data.train)
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    depth = {"k": config["evaluation"]["k"], "metrics": config["evaluation"]["metrics"]}

    def evaluate(
        current: hub.Model, scores: Mapping[str, Score], tests: Sequence[Benchmark]
    ) -> list[RetrievalResult]:
        results = []
        for test in tests:
            _log.info("evaluating %s on %s", ", ".join(scores), test.name)
            found = embed_benchmark(current.encoder, preprocessor, test)
            results += [
                rank_benchmark(test, found, score, system=system, **depth)
                for system, score in scores.items()
            ]
        return results

    def develop(current: hub.Model) -> Mapping[str, float]:
        (result,) = evaluate(current, {"model": current.require_score()}, [data.development])
        return result.evaluation.mean

    def lexical() -> list[RetrievalResult]:
        return [evaluate_bm25(test, **depth) for test in data.tests]

    return Task(
        model=model,
        batches=TrainingBatches(
            data.train,
            preprocessor,
            batch_size=config["batch_size"],
            seed=config["seed"],
            negatives_per_query=config["loss"]["negatives_per_query"],
            accumulation=config["accumulation"],
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        ),
        names=lambda batch: [data.train.query_ids[i] for i in batch["row"].ravel()],
        fingerprints=data.fingerprints,
        develop=develop,
        measure=lambda current, scores: evaluate(current, scores, data.tests),
        lexical=lexical if config["evaluation"]["bm25"] else list,
        describe=lambda: f"{len(data.train)} pairs; {preprocessor.describe()}",
    )
