"""Training a text retriever from a config."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import jax

from magjax import hub
from magjax.config import check_keys, retrieval_config, to_json
from magjax.data import Benchmark, TextPreprocessor, TrainingBatches
from magjax.evaluation import RetrievalResult, evaluate_bm25, evaluate_retrieval
from magjax.study._run import train_run
from magjax.study._task import Task
from magjax.study._text_data import load_text_data
from magjax.study._text_model import start_model
from magjax.training import FitResult

__all__ = ["text_task", "train_retrieval"]

_log = logging.getLogger("magjax")


def train_retrieval(
    config: Mapping[str, Any], workdir: str | os.PathLike[str], *, resume: bool = False
) -> FitResult:
    """Trains and evaluates a text retriever; everything lands in the run folder.

    BM25, the start model and the best model are each tested in and out of domain.

    Args:
        config: as :func:`magjax.config.retrieval_config`, in JSON form.
        workdir: the run folder.
        resume: go on from its newest checkpoint.

    Returns:
        How training ended; after a signal the final evaluation is left out.

    Raises:
        InputError: settings or data that cannot be used.
        RunError: training diverged.

    >>> from magjax.config import retrieval_config, to_json
    >>> config = to_json(retrieval_config(variant="dnorm", seed=0))
    >>> train_retrieval(config, "runs/dnorm")  # doctest: +SKIP
    """
    check_keys(config, to_json(retrieval_config(variant="cosine", seed=0)))
    return train_run(config, workdir, text_task, resume=resume)


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

    def evaluate(current: hub.Model, test: Benchmark, system: str = "model") -> RetrievalResult:
        _log.info("evaluating %s on %s", system, test.name)
        score = current.require_score()
        return evaluate_retrieval(
            current.encoder, preprocessor, test, score, system=system, **depth
        )

    def test(untrained: hub.Model, best: hub.Model) -> list[RetrievalResult]:
        results = []
        for benchmark in data.tests:
            if config["evaluation"]["bm25"]:
                results.append(evaluate_bm25(benchmark, **depth))
            results.append(evaluate(untrained, benchmark, "untrained"))
            results.append(evaluate(best, benchmark))
        return results

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
        develop=lambda current: evaluate(current, data.development).evaluation.mean,
        test=test,
        describe=lambda: f"{len(data.train)} pairs; {preprocessor.describe()}",
    )
