"""Captions with a word left out: further right captions of the same images."""

from magjax.data._image_text import ImageTextSet

__all__ = ["with_shorter_captions"]


def with_shorter_captions(data: ImageTextSet) -> ImageTextSet:
    """Each caption of n words again with each one of its words left out, drawn half of the time.

    Names are bags of words ("arrow left circle outline"), and others name the same thing with
    words of their own: a tower that has seen each word missing may lean on all of them (not measured;
    the idea came from looking at the out-of-domain icons). A shortened
    caption that another image has too is right for both. Meant for captions of a few words; one
    of n words becomes 2 n captions, n of them as they were.

    Args:
        data: images and captions; captions of one word stay as they are.

    Returns:
        The same images with more captions.

    >>> from magjax.data import ImageFiles
    >>> data = ImageTextSet(["a", "b"], ImageFiles(["a.png", "b.png"]), [("red heart",), ("x",)])
    >>> with_shorter_captions(data).captions
    [('red heart', 'red heart', 'heart', 'red'), ('x',)]
    """
    return ImageTextSet(
        image_ids=data.image_ids,
        images=data.images,
        captions=[
            tuple(text for one in texts for text in _variants(one)) for texts in data.captions
        ],
        source=data.source,
        skipped=data.skipped,
    )


def _variants(caption: str) -> list[str]:
    words = caption.split()
    if len(words) < 2:
        return [caption]
    shorter = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
    return [caption] * len(words) + shorter
