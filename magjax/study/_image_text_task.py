"""Training two towers, one of images and one of captions, from a config."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from magjax import hub
from magjax.analysis import draw_retrieval_sheet
from magjax.data import (
    ImageAugmentation,
    ImageDecoder,
    ImagePreprocessor,
    ImageTextBatches,
    ImageTextBenchmark,
    TextPreprocessor,
)
from magjax.evaluation import RetrievalResult, chance_level, evaluate_image_text, other_scores
from magjax.similarity import Score
from magjax.study._image_text_data import load_image_text_data
from magjax.study._image_text_model import start_image_text_model
from magjax.study._task import Task

__all__ = ["image_text_task"]

_log = logging.getLogger("magjax")


def image_text_task(config: Mapping[str, Any]) -> Task:
    """Images, captions, start model and tests of an image-text run.

    Each test is searched in both directions. The development value of a metric is its mean over
    both; each direction's stands beside it.

    Args:
        config: as :func:`magjax.config.image_text_config`, in JSON form.

    Raises:
        InputError: settings or data that cannot be used.

    >>> image_text_task({"data": {"source": "icns"}, "seed": 0})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown data.source 'icns'; known: icons, folder, table, tfds. Did you mean 'icons'?
    """
    data = load_image_text_data(config["data"], seed=config["seed"])
    model = start_image_text_model(config, data.train)
    assert model.images is not None  # a model of images states how they are read
    text = TextPreprocessor(model.tokenizer, model.text)
    decoder = ImageDecoder(transparency=config["data"]["transparency"])
    augmentation = ImageAugmentation.named(config["data"]["augmentation"])
    plain = ImagePreprocessor(model.images, decoder=decoder)
    depth = {"k": config["evaluation"]["k"], "metrics": config["evaluation"]["metrics"]}
    batches = ImageTextBatches(
        data.train,
        ImagePreprocessor(model.images, augmentation=augmentation, decoder=decoder),
        text,
        batch_size=config["batch_size"],
        seed=config["seed"],
        query_modality=config["query_modality"],
        accumulation=config["accumulation"],
        length_multiple=8,  # captions are short
        process_index=jax.process_index(),
        process_count=jax.process_count(),
    )

    def evaluate(
        current: hub.Model, scores: Mapping[str, Score], tests: Sequence[ImageTextBenchmark]
    ) -> list[RetrievalResult]:
        results = []
        for test in tests:
            _log.info("evaluating %s on %s", ", ".join(scores), test.name)
            results += evaluate_image_text(
                current,
                test,
                scores,
                text_preprocessor=text,
                image_preprocessor=plain,
                **depth,
            )
        return results

    def develop(current: hub.Model) -> Mapping[str, float]:
        one, other = evaluate(current, {"model": current.require_score()}, [data.development])
        means = {
            name: (value + other.evaluation.mean[name]) / 2
            for name, value in one.evaluation.mean.items()
        }
        for result in (one, other):
            direction = result.domain.rpartition(":")[2]
            means |= {f"{direction}/{name}": v for name, v in result.evaluation.mean.items()}
        return means

    def measure(current: hub.Model, scores: Mapping[str, Score]) -> Sequence[RetrievalResult]:
        if config["evaluation"]["all_scores"]:
            scores = other_scores(scores)
        return evaluate(current, scores, data.tests)

    def chance() -> list[RetrievalResult]:
        return [
            result
            for test in data.tests
            for result in chance_level(test, metrics=depth["metrics"], k=depth["k"])
        ]

    def draw(results: Sequence[RetrievalResult], folder: Path) -> None:
        for test in data.tests:
            name = test.name.rpartition("/")[2]
            for result in results:
                if result.system == "model" and result.domain == f"{test.name}:text_to_image":
                    draw_retrieval_sheet(
                        folder / "results" / f"retrieval_{name}.png",
                        test,
                        result,
                        title=f"{test.name}: images found by captions, {config['variant']}",
                    )

    return Task(
        model=model,
        batches=batches,
        names=lambda batch: [data.train.image_ids[i] for i in batch["row"].ravel()],
        fingerprints=data.fingerprints,
        develop=develop,
        measure=measure,
        lexical=chance,
        describe=lambda: (
            f"{len(data.train)} images, {len(data.train.flat_captions)} captions, "
            f"{data.train.skipped} images skipped; {text.describe()}"
        ),
        draw=draw,
    )
