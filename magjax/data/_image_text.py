"""Images with captions: what to train on and what to be tested by."""

import dataclasses
from collections.abc import Mapping, Sequence

from magjax.checks import InputError
from magjax.data._images import ChosenImages, Images, decodable
from magjax.data._record_checks import check_ids, content_fingerprint, text_key

__all__ = ["ImageTextBenchmark", "ImageTextData", "ImageTextSet"]


def _check_images(ids: Sequence[str], images: Images, source: str) -> None:
    check_ids("image", ids, ids, source)
    if len(images) != len(ids):
        raise InputError(f"{source}: {len(images)} images for {len(ids)} ids; give one each.")


@dataclasses.dataclass(frozen=True)
class ImageTextSet:
    """Images, each with one or more captions.

    Captions of one image are all right for it, and a caption that two images share is right for
    both, also where the sets meet in a batch or a benchmark.

    Args:
        image_ids: one name an image, unique.
        images: the pictures, decoded when asked for.
        captions: per image, its captions, at least one, none empty.
        source: where the records come from, for messages.
        skipped: how many images the source holds that are not here.
        fingerprint: names this content; made from it when left out.

    Raises:
        InputError: lengths disagree, an id repeats, an image has no caption or an empty one, or
            there is no image at all.

    >>> import numpy as np
    >>> from magjax.data import ImageArrays
    >>> images = ImageArrays(np.zeros((2, 4, 4), np.uint8), ["a", "b"])
    >>> data = ImageTextSet(["a", "b"], images, [("a heart", "love"), ("a star",)])
    >>> len(data), data.flat_captions, data.positives
    (2, ['a heart', 'love', 'a star'], [(0, 1), (2,)])
    """

    image_ids: Sequence[str]
    images: Images
    captions: Sequence[tuple[str, ...]]
    source: str = "image-text set"
    skipped: int = 0
    fingerprint: str = ""

    def __post_init__(self):
        if not self.image_ids:
            raise InputError(f"{self.source} holds no image with a caption.")
        _check_images(self.image_ids, self.images, self.source)
        if len(self.captions) != len(self.image_ids):
            raise InputError(
                f"{self.source}: captions of {len(self.captions)} images for "
                f"{len(self.image_ids)} ids; give a list each."
            )
        for name, texts in zip(self.image_ids, self.captions, strict=True):
            if not texts or not all(text.strip() for text in texts):
                raise InputError(
                    f"{self.source}: image {name!r} has no caption or an empty one; remove the "
                    "image or give its caption."
                )
        if not self.fingerprint:
            made = content_fingerprint(self.image_ids, self.captions, [self.images.fingerprint])
            object.__setattr__(self, "fingerprint", made)

    def __len__(self) -> int:
        return len(self.image_ids)

    @property
    def flat_captions(self) -> list[str]:
        """All captions, image by image.

        >>> from magjax.data import ImageFiles
        >>> ImageTextSet(["a"], ImageFiles(["a.png"]), [("a heart", "love")]).flat_captions
        ['a heart', 'love']
        """
        return [text for texts in self.captions for text in texts]

    @property
    def positives(self) -> list[tuple[int, ...]]:
        """Per image, where its captions stand in ``flat_captions``.

        >>> from magjax.data import ImageFiles
        >>> ImageTextSet(["a"], ImageFiles(["a.png"]), [("a heart", "love")]).positives
        [(0, 1)]
        """
        ends, found = 0, []
        for texts in self.captions:
            found.append(tuple(range(ends, ends + len(texts))))
            ends += len(texts)
        return found

    def select(self, rows: Sequence[int], source: str | None = None) -> "ImageTextSet":
        """The images of these numbers, in this order.

        >>> import numpy as np
        >>> from magjax.data import ImageArrays
        >>> images = ImageArrays(np.zeros((2, 4, 4), np.uint8), ["a", "b"])
        >>> ImageTextSet(["a", "b"], images, [("a heart",), ("a star",)]).select([1]).captions
        [('a star',)]
        """
        return ImageTextSet(
            image_ids=[self.image_ids[row] for row in rows],
            images=ChosenImages(self.images, rows),
            captions=[self.captions[row] for row in rows],
            source=self.source if source is None else source,
            skipped=self.skipped,
        )

    def decodable(self, *, threads: int = 2) -> "ImageTextSet":
        """The images that decode; the others are named in the log and counted in ``skipped``.

        Every image is decoded once, which takes as long as an epoch of reading.

        Raises:
            InputError: none decodes.

        >>> from magjax.data import ImageFiles
        >>> ImageTextSet(["a"], ImageFiles(["/nowhere.png"]), [("a heart",)]).decodable()
        Traceback (most recent call last):
            ...
        magjax.checks.InputError: image-text set: none of 1 images can be read, the first because /nowhere.png cannot be read (No such file or directory).
        """
        good, problems = decodable(self.images, threads=threads)
        if not good:
            raise InputError(
                f"{self.source}: none of {len(self)} images can be read, the first because "
                f"{problems[0]}"
            )
        if not problems:
            return self
        kept = self.select(good)
        return dataclasses.replace(kept, skipped=self.skipped + len(problems), fingerprint="")


@dataclasses.dataclass(frozen=True)
class ImageTextBenchmark:
    """A retrieval test in both directions over the same images and captions.

    Equal captions are one text, whose answers are all their images.

    Args:
        name: what results call it.
        image_ids: one name an image, unique.
        images: the pictures.
        caption_ids: one name a distinct caption, unique.
        captions: the texts; none empty.
        text_to_image: per caption id, the grade 1 of each of its images' ids.
        fingerprint: names this content; made from it when left out.

    Raises:
        InputError: lengths disagree, an id repeats, a judgement names none of the ids, or an image
            or caption has no answer.

    >>> import numpy as np
    >>> from magjax.data import ImageArrays
    >>> images = ImageArrays(np.zeros((2, 4, 4), np.uint8), ["a", "b"])
    >>> data = ImageTextSet(["a", "b"], images, [("a heart", "love"), ("a heart",)])
    >>> benchmark = ImageTextBenchmark.of(data, "hearts")
    >>> benchmark.captions, benchmark.text_to_image["caption:0"]
    (['a heart', 'love'], {'a': 1, 'b': 1})
    >>> benchmark.image_to_text["a"]
    {'caption:0': 1, 'caption:1': 1}
    """

    name: str
    image_ids: Sequence[str]
    images: Images
    caption_ids: Sequence[str]
    captions: Sequence[str]
    text_to_image: Mapping[str, Mapping[str, int]]
    fingerprint: str = ""

    def __post_init__(self):
        _check_images(self.image_ids, self.images, self.name)
        check_ids("caption", self.caption_ids, self.captions, self.name)
        judged = {image for row in self.text_to_image.values() for image in row}
        for kind, ids, found in (
            ("image", self.image_ids, judged),
            ("caption", self.caption_ids, set(self.text_to_image)),
        ):
            odd = sorted(found.symmetric_difference(ids))
            if odd:
                known = "no answer" if odd[0] in set(ids) else "judgements but is not there"
                raise InputError(f"{self.name}: {kind} {odd[0]!r} has {known}.")
        if not self.fingerprint:
            made = content_fingerprint(
                self.image_ids,
                [self.images.fingerprint],
                self.caption_ids,
                self.captions,
                sorted((key, sorted(row.items())) for key, row in self.text_to_image.items()),
            )
            object.__setattr__(self, "fingerprint", made)

    @classmethod
    def of(cls, data: ImageTextSet, name: str) -> "ImageTextBenchmark":
        """All images and captions of a set.

        >>> from magjax.data import ImageFiles
        >>> data = ImageTextSet(["a"], ImageFiles(["a.png"]), [("a heart", "love")])
        >>> ImageTextBenchmark.of(data, "hearts").caption_ids
        ['caption:0', 'caption:1']
        """
        numbers: dict[str, int] = {}
        captions: list[str] = []
        answers: dict[str, dict[str, int]] = {}
        for image, texts in zip(data.image_ids, data.captions, strict=True):
            for text in texts:
                number = numbers.setdefault(text_key(text), len(numbers))
                if number == len(captions):
                    captions.append(text)
                answers.setdefault(f"caption:{number}", {})[image] = 1
        return cls(
            name=name,
            image_ids=data.image_ids,
            images=data.images,
            caption_ids=[f"caption:{number}" for number in range(len(captions))],
            captions=captions,
            text_to_image=answers,
        )

    @property
    def image_to_text(self) -> dict[str, dict[str, int]]:
        """The judgements of the other direction.

        >>> from magjax.data import ImageFiles
        >>> data = ImageTextSet(["a"], ImageFiles(["a.png"]), [("a heart", "love")])
        >>> ImageTextBenchmark.of(data, "hearts").image_to_text
        {'a': {'caption:0': 1, 'caption:1': 1}}
        """
        found: dict[str, dict[str, int]] = {image: {} for image in self.image_ids}
        for caption, row in self.text_to_image.items():
            for image, grade in row.items():
                found[image][caption] = grade
        return found


@dataclasses.dataclass(frozen=True)
class ImageTextData:
    """What an image-text run trains on and is tested by.

    Args:
        train: images to learn from.
        development: chooses the best step.
        in_domain: reported; images like those of training.
        out_of_domain: reported too, where the source has one; images of another kind.

    >>> [field.name for field in dataclasses.fields(ImageTextData)]
    ['train', 'development', 'in_domain', 'out_of_domain']
    """

    train: ImageTextSet
    development: ImageTextBenchmark
    in_domain: ImageTextBenchmark
    out_of_domain: ImageTextBenchmark | None = None

    @property
    def tests(self) -> tuple[ImageTextBenchmark, ...]:
        """What results report, in domain first.

        >>> from magjax.data import ImageFiles
        >>> data = ImageTextSet(["a"], ImageFiles(["a.png"]), [("a heart",)])
        >>> test = ImageTextBenchmark.of(data, "test")
        >>> [test.name for test in ImageTextData(data, test, test).tests]
        ['test']
        """
        outside = () if self.out_of_domain is None else (self.out_of_domain,)
        return (self.in_domain, *outside)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Names the content of every part; results carry it.

        >>> from magjax.data import ImageFiles
        >>> data = ImageTextSet(["a"], ImageFiles(["a.png"]), [("a heart",)])
        >>> test = ImageTextBenchmark.of(data, "test")
        >>> list(ImageTextData(data, test, test).fingerprints)
        ['train', 'development', 'test']
        """
        first = {"train": self.train.fingerprint, "development": self.development.fingerprint}
        return first | {test.name: test.fingerprint for test in self.tests}
