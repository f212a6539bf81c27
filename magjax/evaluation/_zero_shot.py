"""Zero-shot classification: the class whose sentence fits an image best."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax import hub
from magjax.checks import InputError
from magjax.data import ImagePreprocessor, ImageTextSet, TextPreprocessor
from magjax.evaluation._encode import encode
from magjax.evaluation._encode_images import encode_images
from magjax.evaluation._image_text_direction import side_of_modality
from magjax.evaluation._search import search
from magjax.similarity import Score
from magjax.typing import Float, Side

__all__ = [
    "PROMPT_TEMPLATES",
    "ZeroShotResult",
    "check_templates",
    "class_embeddings",
    "evaluate_zero_shot",
]

PROMPT_TEMPLATES = ("a photo of a {}", "an icon of {}", "{}")
"""Sentences that a class is put into unless others are named."""

_DEPTH = 5


@dataclasses.dataclass(frozen=True, eq=False)
class ZeroShotResult:
    """How often the right class was among the best.

    Attributes:
        name: the data set's.
        system: what results call the score.
        score: what compared images and classes.
        classes: their names, in the order of first appearance.
        accuracy: ``top1``, and ``top5`` where there are more than five classes.
        per_class: ``top1`` over each class's images.
        predictions: per image id the best class.
        chance: share that the most frequent class alone would reach.
        templates: the sentences that were averaged.
        fingerprint: of the images and their classes.

    >>> [field.name for field in dataclasses.fields(ZeroShotResult)][:3]
    ['name', 'system', 'score']
    """

    name: str
    system: str
    score: Score
    classes: tuple[str, ...]
    accuracy: Mapping[str, float]
    per_class: Mapping[str, float]
    predictions: Mapping[str, str]
    chance: float
    templates: tuple[str, ...]
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """All of it but the predictions, as JSON values."""
        value = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "predictions"
        }
        return value | {
            "score": self.score.to_json(),
            "classes": list(self.classes),
            "accuracy": dict(self.accuracy),
            "per_class": dict(self.per_class),
            "templates": list(self.templates),
        }


def check_templates(templates: Sequence[str]) -> tuple[str, ...]:
    """``templates``, once each has exactly one ``{}`` for the class.

    Raises:
        InputError: none, or one without a place for the class, or with several.

    >>> check_templates(["a photo of a {}"])
    ('a photo of a {}',)
    """
    if isinstance(templates, str) or not templates:
        raise InputError(
            f"templates={templates!r} must list sentences such as 'a photo of a {{}}'."
        )
    for template in templates:
        if template.count("{}") != 1:
            raise InputError(
                f"the template {template!r} must hold {{}} once, where the name of the class goes."
            )
    return tuple(templates)


def class_embeddings(
    embeddings: Float[np.ndarray, "classes templates dim"], score: Score, side: Side
) -> Float[np.ndarray, "classes dim"]:
    r"""One vector a class from those of its sentences.

    .. math:: c = \frac{1}{T} \sum_t e_t \lVert e_t \rVert^{-\gamma}

    with the power that the score has on the side of texts; ranking by the score then normalizes
    the mean by that power once more. At :math:`\gamma = 1` this is CLIP's way (Radford et al.,
    arXiv 2103.00020). At :math:`\gamma = 0` it is the mean of raw vectors, in which a longer
    sentence vector weighs more, and classes keep their lengths.

    Args:
        embeddings: raw embeddings of every class in every sentence.
        score: the model's.
        side: which side texts are.

    >>> x = np.array([[[3.0, 4.0], [0.0, 1.0]]], np.float32)
    >>> class_embeddings(x, Score.of("qnorm"), "query").round(2).tolist()
    [[0.30000001192092896, 0.8999999761581421]]
    """
    wide = embeddings.astype(np.float64)
    lengths = np.sqrt((wide**2).sum(axis=-1, keepdims=True))
    factors = np.where(lengths > 0, np.maximum(lengths, 1e-300) ** -score.gamma(side), 0.0)
    return (wide * factors).mean(axis=1).astype(np.float32)


def evaluate_zero_shot(
    model: hub.Model,
    data: ImageTextSet,
    *,
    name: str,
    templates: Sequence[str] = PROMPT_TEMPLATES,
    scores: Mapping[str, Score] | None = None,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    images_per_batch: int = 64,
    progress: Callable[[Side, int, int], None] | None = None,
) -> list[ZeroShotResult]:
    """Classifies images by the names of classes alone, under every score.

    Classes are ranked for each image by the trained score, with the roles it was trained in; equal
    scores stand by the class's name, descending, as in search.

    Args:
        model: a side of texts and one of images.
        data: images whose one caption is the name of their class
            (:func:`magjax.data.read_image_classes`).
        name: what results call the data.
        templates: sentences with ``{}`` for the class; their vectors are averaged
            (:func:`class_embeddings`).
        scores: by system's name; default: ``{"model": model.require_score()}``.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of a batch on each device.
        images_per_batch: images of a batch on each device.
        progress: called with (side, done, in all).

    Raises:
        InputError: an image with several captions, fewer than two classes, templates without a
            place for the class, or a model without a side of images.

    >>> evaluate_zero_shot(model, read_image_classes("shapes"), name="shapes")  # doctest: +SKIP
    """
    sentences = check_templates(templates)
    chosen = {"model": model.require_score()} if scores is None else scores
    for image, captions in zip(data.image_ids, data.captions, strict=True):
        if len(captions) != 1:
            raise InputError(
                f"{name}: image {image!r} has {len(captions)} captions; a class is one name."
            )
    labels = [captions[0] for captions in data.captions]
    classes = tuple(dict.fromkeys(labels))
    if len(classes) < 2:
        raise InputError(f"{name} holds the class {classes[0]!r} only; two or more are needed.")
    text, image_side = (side_of_modality(model.encoder, kind) for kind in ("text", "image"))
    assert model.images is not None

    def on(side: Side) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(side, done, total)

    flat = encode(
        model.encoder,
        TextPreprocessor(model.tokenizer, model.text),
        [sentence.replace("{}", label) for label in classes for sentence in sentences],
        text,
        mesh=mesh,
        tokens_per_batch=tokens_per_batch,
        progress=on(text),
    )
    images = encode_images(
        model.encoder,
        ImagePreprocessor(model.images),
        data.images,
        image_side,
        ids=data.image_ids,
        mesh=mesh,
        batch_size=images_per_batch,
        progress=on(image_side),
    )
    results = []
    for system, score in chosen.items():
        vectors = class_embeddings(flat.reshape(len(classes), len(sentences), -1), score, text)
        ranking = search(
            images,
            vectors,
            score=Score.power(score.gamma(image_side), score.gamma(text)),
            k=min(_DEPTH, len(classes)),
            query_ids=data.image_ids,
            document_ids=classes,
            mesh=mesh,
        )
        hits = np.array(
            [
                [place == label for place in found] + [False] * (_DEPTH - len(found))
                for found, label in zip(ranking.documents, labels, strict=True)
            ]
        )
        accuracy = {"top1": float(hits[:, 0].mean())}
        if len(classes) > _DEPTH:
            accuracy["top5"] = float(hits.any(axis=1).mean())
        members = {
            label: [row for row, own in enumerate(labels) if own == label] for label in classes
        }
        results.append(
            ZeroShotResult(
                name=name,
                system=system,
                score=score,
                classes=classes,
                accuracy=accuracy,
                per_class={label: float(hits[rows, 0].mean()) for label, rows in members.items()},
                predictions={
                    image: found[0]
                    for image, found in zip(data.image_ids, ranking.documents, strict=True)
                },
                chance=max(map(len, members.values())) / len(labels),
                templates=sentences,
                fingerprint=data.fingerprint,
            )
        )
    return results
