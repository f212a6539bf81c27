"""Tables of text, as programs print them."""

import io
from collections.abc import Sequence

__all__ = ["aligned_table", "text_table"]


def text_table(
    words: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[str]:
    r"""The lines of a table: columns of words stand left, columns of numbers right.

    Args:
        words: heads of the first columns.
        numbers: heads of the columns after them.
        rows: one cell a column.

    >>> print("\n".join(text_table(["domain"], ["mrr@10"], [["adi", "0.5000"]])))
    domain   mrr@10
    ───────────────
    adi      0.5000
    """
    right = [False] * len(words) + [True] * len(numbers)
    return aligned_table([*words, *numbers], rows, right)


def aligned_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]
) -> list[str]:
    r"""The lines of a table whose columns stand left or right as told.

    Args:
        head: one word a column.
        rows: one cell a column.
        right: whether each column's cells end at one place, as numbers do.

    >>> print("\n".join(aligned_table(["k", "name"], [["10", "a"]], [True, False])))
     k   name
    ─────────
    10   a
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, numbers in zip(head, right, strict=True):
        table.add_column(Text(name), justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: a name such as [b] is no markup
    # Wide enough for every table: a narrow terminal wraps lines rather than losing columns.
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    return [line.removeprefix(" ") for line in lines if line]
