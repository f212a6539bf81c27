"""Images and captions searched by each other: both directions from one pass of the towers."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import numpy as np
from jax.sharding import Mesh

from magjax import hub
from magjax.checks import choose
from magjax.data import ImagePreprocessor, ImageTextBenchmark, TextPreprocessor
from magjax.encoders import Modality
from magjax.evaluation._encode import encode
from magjax.evaluation._encode_images import encode_images
from magjax.evaluation._first_ranks import first_answer_ranks
from magjax.evaluation._image_text_direction import (
    IMAGE_TEXT_DIRECTIONS,
    image_text_direction,
    side_of_modality,
)
from magjax.evaluation._metrics import Evaluation
from magjax.evaluation._retrieval import RetrievalResult, rank_benchmark
from magjax.similarity import PRESETS, Score
from magjax.typing import Side

__all__ = [
    "IMAGE_TEXT_METRICS",
    "embed_image_text",
    "evaluate_image_text",
    "other_scores",
    "rank_image_text",
]

IMAGE_TEXT_METRICS = ("success@1", "success@5", "success@10", "mrr")
"""What is computed unless other metrics are named: recall at k as it is used for images and
captions, where one right answer among the first k counts, is trec_eval's ``success``."""

Progress = Callable[[Side, int, int], None]


def other_scores(scores: Mapping[str, Score]) -> dict[str, Score]:
    """``scores`` and, after each, the presets that it is not: a cross-evaluation.

    >>> list(other_scores({"model": Score.of("qnorm")}))
    ['model', 'model by cosine', 'model by dot', 'model by dnorm']
    """
    found = {}
    for system, own in scores.items():
        found[system] = own
        found |= {
            f"{system} by {name}": Score.of(name)
            for name, gammas in PRESETS.items()
            if gammas != own.gammas
        }
    return found


def embed_image_text(
    model: hub.Model,
    benchmark: ImageTextBenchmark,
    *,
    text_preprocessor: TextPreprocessor | None = None,
    image_preprocessor: ImagePreprocessor | None = None,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    images_per_batch: int = 64,
    progress: Progress | None = None,
) -> dict[Modality, np.ndarray]:
    """Raw embeddings of a test's captions and images, float32 ``[n, dim]`` each.

    Args:
        model: its score is not used.
        benchmark: what to embed.
        text_preprocessor: counts the captions that were cut; default: a new one of the model's.
        image_preprocessor: how images are read; default: as the model states.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of a batch on each device.
        images_per_batch: images of a batch on each device.
        progress: called with (side, done, in all).

    Raises:
        InputError: a model without a side of images and one of texts, or an image that cannot be
            read.

    >>> embed_image_text(model, benchmark)["image"].shape  # doctest: +SKIP
    (1000, 128)
    """
    text, image = (side_of_modality(model.encoder, kind) for kind in get_args(Modality))
    assert model.images is not None  # a model with a side of images states it

    def on(side: Side) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(side, done, total)

    return {
        "text": encode(
            model.encoder,
            text_preprocessor or TextPreprocessor(model.tokenizer, model.text),
            benchmark.captions,
            text,
            ids=benchmark.caption_ids,
            mesh=mesh,
            tokens_per_batch=tokens_per_batch,
            progress=on(text),
        ),
        "image": encode_images(
            model.encoder,
            image_preprocessor or ImagePreprocessor(model.images),
            benchmark.images,
            image,
            ids=benchmark.image_ids,
            mesh=mesh,
            batch_size=images_per_batch,
            progress=on(image),
        ),
    }


def rank_image_text(
    benchmark: ImageTextBenchmark,
    embeddings: Mapping[Modality, np.ndarray],
    score: Score,
    *,
    query_modality: str = "text",
    k: int = 100,
    metrics: Sequence[str] = IMAGE_TEXT_METRICS,
    system: str = "model",
    mesh: Mesh | None = None,
) -> list[RetrievalResult]:
    """Searches images by captions and captions by images, and measures both.

    The score is one function s(query, document) of a caption and an image, and ``query_modality``
    says which of them is the query. Both directions rank by it: in the one that asks with the
    document's modality, all queries are ranked for a document, so that the power of the query's
    length decides.

    Beside ``metrics`` each result holds ``mean_rank`` and ``median_rank``, of the first right
    answer among all documents, and per query ``rank``; they see everything, whatever ``k`` is.

    Args:
        benchmark: what was embedded.
        embeddings: raw ``[n, dim]`` by modality, as :func:`embed_image_text` gives them.
        score: what to rank by.
        query_modality: which modality the score's query is, ``"text"`` or ``"image"``.
        k: documents a query; at most as many as there are.
        metrics: names as in :func:`evaluate_run`.
        system: what results call the model.
        mesh: devices to use; default: all of this process.

    Returns:
        The results of :data:`IMAGE_TEXT_DIRECTIONS`, in that order.

    Raises:
        InputError: a metric looks deeper than ``k``, or an embedding is not finite.

    >>> from magjax.data import ImageFiles, ImageTextSet
    >>> data = ImageTextSet(["a", "b"], ImageFiles(["a.png", "b.png"]), [("one",), ("two",)])
    >>> x = np.eye(2, dtype=np.float32)
    >>> found = rank_image_text(ImageTextBenchmark.of(data, "two"), {"text": x, "image": 2 * x},
    ...                         Score.of("qnorm"), metrics=["success@1"])
    >>> [dict(result.evaluation.mean) for result in found]
    [{'success@1': 1.0, 'mean_rank': 1.0, 'median_rank': 1.0}, {'success@1': 1.0, 'mean_rank': 1.0, 'median_rank': 1.0}]
    """
    choose("query_modality", query_modality, get_args(Modality))
    results = []
    for direction in IMAGE_TEXT_DIRECTIONS:
        modalities: tuple[Modality, Modality] = ("text", "image")
        asking, searched = modalities if direction == "text_to_image" else modalities[::-1]
        test = image_text_direction(benchmark, direction)
        own = score
        if asking != query_modality:
            own = Score.power(score.gamma_document, score.gamma_query)
        sides: dict[Side, np.ndarray] = {
            "query": embeddings[asking],
            "document": embeddings[searched],
        }
        result = rank_benchmark(test, sides, own, k=k, metrics=metrics, system=system, mesh=mesh)
        ranks = first_answer_ranks(
            sides["query"],
            sides["document"],
            score=own,
            query_ids=test.query_ids,
            document_ids=test.document_ids,
            answers=test.qrels,
        )
        results.append(
            dataclasses.replace(result, score=score, evaluation=_with_ranks(result, ranks))
        )
    return results


def _with_ranks(result: RetrievalResult, ranks: Mapping[str, int]) -> Evaluation:
    found = result.evaluation
    places = list(ranks.values())
    mean = {
        **found.mean,
        "mean_rank": statistics.fmean(places),
        "median_rank": float(statistics.median(places)),
    }
    per_query = {
        query: {**values, "rank": float(ranks[query])} for query, values in found.per_query.items()
    }
    return Evaluation(mean, per_query, found.counts)


def evaluate_image_text(
    model: hub.Model,
    benchmark: ImageTextBenchmark,
    scores: Mapping[str, Score] | None = None,
    *,
    k: int = 100,
    metrics: Sequence[str] = IMAGE_TEXT_METRICS,
    text_preprocessor: TextPreprocessor | None = None,
    image_preprocessor: ImagePreprocessor | None = None,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    images_per_batch: int = 64,
    progress: Progress | None = None,
) -> list[RetrievalResult]:
    """Embeds captions and images once, and ranks each by the other under every score.

    Args:
        model: a side of texts and one of images; which is the query, it says itself.
        benchmark: images and captions.
        scores: by what results call the system; default: ``{"model": model.require_score()}``.
        k: documents a query.
        metrics: names as in :func:`evaluate_run`.
        text_preprocessor: as in :func:`embed_image_text`.
        image_preprocessor: as in :func:`embed_image_text`.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of a batch on each device.
        images_per_batch: images of a batch on each device.
        progress: called with (side, done, in all).

    Returns:
        Per score the results of both directions (:func:`rank_image_text`).

    Raises:
        InputError: a model without a score, or as :func:`embed_image_text`.

    >>> evaluate_image_text(model, benchmark)  # doctest: +SKIP
    """
    chosen = {"model": model.require_score()} if scores is None else scores
    embeddings = embed_image_text(
        model,
        benchmark,
        text_preprocessor=text_preprocessor,
        image_preprocessor=image_preprocessor,
        mesh=mesh,
        tokens_per_batch=tokens_per_batch,
        images_per_batch=images_per_batch,
        progress=progress,
    )
    results = []
    for system, score in chosen.items():
        results += rank_image_text(
            benchmark,
            embeddings,
            score,
            query_modality=model.encoder.modality("query"),
            k=k,
            metrics=metrics,
            system=system,
            mesh=mesh,
        )
    return results
