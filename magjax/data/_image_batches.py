"""Batches of images with captions: a function of (seed, step) in training, in order otherwise."""

import collections
import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

import numpy as np

from magjax.checks import InputError, choose, positive_integer
from magjax.data._batch_shape import BatchShape, stack_batches
from magjax.data._epochs import Epochs
from magjax.data._image_preprocessor import ImagePreprocessor
from magjax.data._image_text import ImageTextSet
from magjax.data._images import Images
from magjax.data._padded_tokens import PaddedTokens
from magjax.data._record_checks import text_key
from magjax.data._text_numbers import TextNumbers
from magjax.data._text_preprocessor import TextPreprocessor
from magjax.typing import Side

__all__ = ["MODALITIES", "ImageTextBatches", "pixel_batches"]

MODALITIES = ("text", "image")
"""What either side may be."""

# Keeps the draws of the augmentation apart from those of _epochs (0 to 2).
_AUGMENTATION = 4
# The least width of positive_ids; it doubles where a batch needs more, so that few shapes compile.
_LEAST_POSITIVES = 4


class ImageTextBatches:
    """Batches of an image-text set; ``batch_at(step)`` depends on (seed, step) and nothing else.

    A row is an image with one of its captions, drawn anew each epoch, and an epoch is a seeded
    permutation of the images; those that do not fill a batch are left out of it. Equal captions
    may meet in a batch: the ids tell losses that their images answer each other's captions. Images
    are decoded and augmented where ``batch_at`` runs: in the threads of
    :func:`magjax.data.batch_iterator`, and only this process's rows.

    A batch holds, for B = ``batch_size // process_count`` rows:

    - the text's side (``query`` or ``document``): ``{"input_ids", "attention_mask"}``,
      ``int32[B, length]``;
    - the image's side: ``{"pixel_values"}``, ``float32[B, side, side, 3]``, normalized;
    - ``query_ids[B]``, ``document_ids[B]``: ``int32``, a number per distinct caption, and the
      image's index into the set;
    - ``positive_ids[B, P]``: the document ids of this batch that are known to answer the query,
      over all captions of the images, padded by -1; P is a power of two, 4 as a rule;
    - ``where``: ``bool[B]``, all true; ``row[B]``: the image's index into the set.

    With ``accumulation`` n above 1 every leaf has a leading axis n, as in
    :class:`magjax.data.TrainingBatches`.

    Args:
        training_set: images and captions.
        image_preprocessor: the model's, with the augmentation to use.
        text_preprocessor: the model's tokenizer, prompts and lengths.
        batch_size: rows in which a query competes, over all processes.
        seed: of the order, the drawn captions and the augmentation.
        query_modality: which side asks: ``"text"`` or ``"image"``.
        accumulation: batches a step.
        length_multiple: texts are padded to multiples of this.
        process_index: which slice of each batch to return.
        process_count: into how many slices batches are cut.

    Raises:
        InputError: the batch is larger than the data or does not divide among the processes.

    >>> from magjax.data import ImageArrays, ImageSettings, TextSettings, TextTokenizer
    >>> images = ImageArrays(np.zeros((3, 8, 8), np.uint8), list("abc"))
    >>> data = ImageTextSet(list("abc"), images, [("one",), ("two",), ("three", "two")])
    >>> text = TextPreprocessor(TextTokenizer.train(data.flat_captions, 270),
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> batches = ImageTextBatches(data, ImagePreprocessor(ImageSettings(size=8)), text,
    ...     batch_size=2, seed=0)
    >>> batch = batches.batch_at(0)
    >>> batch["document"]["pixel_values"].shape, batch["query"]["input_ids"].shape
    ((2, 8, 8, 3), (2, 8))
    """

    def __init__(
        self,
        training_set: ImageTextSet,
        image_preprocessor: ImagePreprocessor,
        text_preprocessor: TextPreprocessor,
        *,
        batch_size: int,
        seed: int,
        query_modality: Literal["text", "image"] = "text",
        accumulation: int = 1,
        length_multiple: int = 32,
        process_index: int = 0,
        process_count: int = 1,
    ):
        self.training_set = training_set
        self.image_preprocessor = image_preprocessor
        self.text_preprocessor = text_preprocessor
        self.query_modality = choose("query_modality", query_modality, MODALITIES)
        self.shape = BatchShape(
            batch_size=batch_size,
            seed=seed,
            accumulation=accumulation,
            process_index=process_index,
            process_count=process_count,
        )
        if batch_size > len(training_set):
            raise InputError(
                f"batch_size={batch_size} is larger than the {len(training_set)} images of "
                f"{training_set.source}; try batch_size={len(training_set)}."
            )
        captions = training_set.flat_captions
        self._positives = training_set.positives
        numbers: dict[str, int] = {}
        self._numbers = np.array(
            [numbers.setdefault(text_key(text), len(numbers)) for text in captions], np.int32
        )
        # Of a row and of a caption each its own: nothing keeps two rows out of one batch.
        free = TextNumbers(
            queries=np.arange(len(training_set), dtype=np.int32),
            documents=np.arange(len(captions), dtype=np.int32),
            known=np.empty((0, 0), np.int32),
            negatives=[()] * len(training_set),
        )
        self._epochs = Epochs(training_set, free, batch_size=batch_size, seed=seed)
        self._steps = self.shape.steps(self._epochs.batches, training_set.source)
        self._text_side: Side = "query" if query_modality == "text" else "document"
        self._tokens = PaddedTokens(
            text_preprocessor, {self._text_side: captions}, length_multiple=length_multiple
        )

    def __len__(self) -> int:
        return self._steps

    @property
    def fingerprint(self) -> str:
        """Names the sequence of batches, whatever the number of processes.

        >>> from magjax.data import ImageArrays, ImageSettings, TextSettings, TextTokenizer
        >>> data = ImageTextSet(["a"], ImageArrays(np.zeros((1, 8, 8), np.uint8), ["a"]), [("x",)])
        >>> text = TextPreprocessor(TextTokenizer.train(["x"], 270),
        ...     TextSettings(query_max_length=8, document_max_length=8))
        >>> images = ImagePreprocessor(ImageSettings(size=8))
        >>> len(ImageTextBatches(data, images, text, batch_size=1, seed=0).fingerprint)
        16
        """
        parts = (
            self.training_set.fingerprint,
            self.query_modality,
            self.shape.seed,
            self.shape.batch_size,
            self.shape.accumulation,
            self.text_preprocessor.tokenizer.fingerprint,
            sorted(self.text_preprocessor.settings.to_json().items()),
            self._tokens.buckets,
            self.image_preprocessor.settings,
            self.image_preprocessor.augmentation,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def batch_at(self, step: int) -> dict[str, Any]:
        """The batch of ``step`` (from 0, over all epochs), as the class describes it.

        Raises:
            InputError: an image cannot be decoded; the message names it.

        >>> from magjax.data import ImageArrays, ImageSettings, TextSettings, TextTokenizer
        >>> data = ImageTextSet(["a"], ImageArrays(np.zeros((1, 8, 8), np.uint8), ["a"]), [("x",)])
        >>> text = TextPreprocessor(TextTokenizer.train(["x"], 270),
        ...     TextSettings(query_max_length=8, document_max_length=8))
        >>> images = ImagePreprocessor(ImageSettings(size=8))
        >>> batches = ImageTextBatches(data, images, text, batch_size=1, seed=0)
        >>> batches.batch_at(7)["row"].tolist()
        [0]
        """
        epoch, place = divmod(int(step), self._steps)
        plan, drawn = self._epochs.plan(epoch)
        groups = self.shape.groups(plan, place)
        kept = self.shape.kept
        chosen = [drawn[rows] for rows in groups]
        texts = self._tokens.padded(self._text_side, [one.tolist() for one in chosen], kept)
        positives = self._known(groups, chosen)
        parts = []
        for rows, captions, tokens, known in zip(groups, chosen, texts, positives, strict=True):
            ids = {"text": self._numbers[captions[kept]], "image": rows[kept].astype(np.int32)}
            batch = {"text": tokens, "image": self._pixels(rows[kept], epoch)}
            query, document = self.query_modality, _other(self.query_modality)
            parts.append(
                {
                    "query": batch[query],
                    "document": batch[document],
                    "query_ids": ids[query],
                    "document_ids": ids[document],
                    "positive_ids": known[kept],
                    "where": np.ones(len(rows[kept]), bool),
                    "row": ids["image"],
                }
            )
        return stack_batches(parts)

    def _pixels(self, rows: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        words = self.shape.seed, epoch, _AUGMENTATION
        augment, images = self.image_preprocessor.augmented, self.training_set.images
        return self.image_preprocessor.batch(
            [augment(images[row], *words, row) for row in rows.tolist()]
        )

    def _known(self, groups: np.ndarray, chosen: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Per batch, the documents that answer each row's query, of all processes' rows."""
        found: list[list[list[int]]] = []
        for rows, captions in zip(groups.tolist(), chosen, strict=True):
            drawn = self._numbers[captions].tolist()
            images_of: dict[int, list[int]] = {number: [] for number in drawn}
            captions_of = []
            for row in rows:
                own = {int(self._numbers[i]) for i in self._positives[row]}
                captions_of.append(sorted(number for number in own if number in images_of))
                for number in captions_of[-1]:
                    images_of[number].append(row)
            by_text = [sorted(set(images_of[number])) for number in drawn]
            found.append(by_text if self.query_modality == "text" else captions_of)
        widest = max(len(row) for batch in found for row in batch)
        width = max(_LEAST_POSITIVES, 1 << (widest - 1).bit_length())
        return [
            np.array([row + [-1] * (width - len(row)) for row in batch], np.int32)
            for batch in found
        ]


def pixel_batches(
    preprocessor: ImagePreprocessor,
    images: Images,
    *,
    batch_size: int,
    threads: int = 2,
    ahead: int = 4,
) -> Iterator[dict[str, np.ndarray]]:
    """All images in order, without augmentation, decoded ahead in threads.

    Args:
        preprocessor: the model's.
        images: any number.
        batch_size: images a batch; the last may hold fewer.
        threads: how many batches to make at once.
        ahead: batches to hold ready.

    Yields:
        ``{"pixel_values": float32[images, side, side, 3]}``.

    Raises:
        InputError: an image cannot be decoded; the message names it.

    >>> from magjax.data import ImageArrays, ImageSettings
    >>> images = ImageArrays(np.zeros((3, 8, 8), np.uint8), list("abc"))
    >>> preprocessor = ImagePreprocessor(ImageSettings(size=8))
    >>> [len(b["pixel_values"]) for b in pixel_batches(preprocessor, images, batch_size=2)]
    [2, 1]
    """
    size = positive_integer("batch_size", batch_size)
    positive_integer("ahead", ahead)

    def make(start: int) -> dict[str, np.ndarray]:
        stop = min(start + size, len(images))
        return preprocessor(images[index] for index in range(start, stop))

    pool = ThreadPoolExecutor(positive_integer("threads", threads), thread_name_prefix="decode")
    waiting: collections.deque[Future] = collections.deque()
    try:
        for start in range(0, len(images), size):
            waiting.append(pool.submit(make, start))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _other(modality: str) -> str:
    return "image" if modality == "text" else "text"
