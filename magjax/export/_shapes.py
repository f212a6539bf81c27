"""The few shapes that batches of texts are padded to."""

from collections.abc import Iterator, Sequence

__all__ = ["batches", "padded_lengths"]


def padded_lengths(limit: int) -> list[int]:
    """The lengths that batches are padded to: few, and none more than half again too long.

    >>> padded_lengths(150)
    [16, 32, 48, 64, 80, 96, 112, 128, 150]
    """
    steps = [*range(16, 129, 16), *range(160, 257, 32), *range(320, limit, 64)]
    return [*(step for step in steps if step < limit), limit]


def batches(
    lengths: Sequence[int], limit: int, budget: int
) -> Iterator[tuple[list[int], int, int]]:
    """Places, padded length and padded number of rows of each batch, longest texts first.

    >>> list(batches([9, 20, 3], 64, 64))
    [([1, 0], 32, 2), ([2], 16, 1)]
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        longest = max(lengths[order[start]], 1)
        length = next(step for step in padded_lengths(limit) if step >= longest)
        places = order[start : start + max(1, budget // length)]
        start += len(places)
        yield places, length, 1 << (len(places) - 1).bit_length()
