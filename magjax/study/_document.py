"""A report as a list of blocks, and its two forms: Markdown, and HTML in one file."""

import base64
import dataclasses
import html
import re
from collections.abc import Callable, Sequence

__all__ = [
    "Block",
    "Code",
    "Heading",
    "Items",
    "Paragraph",
    "Picture",
    "Table",
    "to_html",
    "to_latex",
    "to_markdown",
]


@dataclasses.dataclass(frozen=True)
class Heading:
    r"""A heading; level 1 is the title.

    >>> to_markdown([Heading("Results", 2)])
    '## Results\n'
    """

    text: str
    level: int = 2


@dataclasses.dataclass(frozen=True)
class Paragraph:
    r"""Text.

    >>> to_markdown([Paragraph("a < b")])
    'a &lt; b\n'
    """

    text: str


@dataclasses.dataclass(frozen=True)
class Items:
    r"""A list of points.

    >>> to_markdown([Items(["one", "two"])])
    '- one\n- two\n'
    """

    texts: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Code:
    """A command or a few lines of code.

    >>> to_html([Code("a < b")], "t").count("<pre>a &lt; b</pre>")
    1
    """

    text: str


@dataclasses.dataclass(frozen=True)
class Table:
    r"""Rows of texts; the first ``words`` columns stand left, the others, numbers, right.

    >>> print(to_markdown([Table(["variant", "mean"], [["a|b", "0.5"]], words=1)]))
    | variant | mean |
    | :--- | ---: |
    | a\|b | 0.5 |
    <BLANKLINE>
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Picture:
    r"""A PNG with what it shows in words; Markdown links to ``path``, HTML holds it.

    >>> to_markdown([Picture("toy/values.png", b"", "Means by variant")])
    '![Means by variant](toy/values.png)\n'
    """

    path: str
    content: bytes
    text: str


Block = Heading | Paragraph | Items | Code | Table | Picture


def to_markdown(blocks: Sequence[Block]) -> str:
    r"""Markdown in which no text of the blocks counts as a mark or as HTML.

    >>> print(to_markdown([Heading("A *study*", 1), Items(["x_1", "`y`"])]))
    # A \*study\*
    <BLANKLINE>
    - x\_1
    - \`y\`
    <BLANKLINE>
    """
    return "\n".join(_markdown(block) + "\n" for block in blocks)


def _markdown(block: Block) -> str:
    plain = _escape_markdown
    match block:
        case Heading():
            return f"{'#' * block.level} {plain(block.text)}"
        case Paragraph():
            return plain(block.text)
        case Items():
            return "\n".join(f"- {plain(text)}" for text in block.texts)
        case Code():
            return f"```\n{block.text}\n```"
        case Picture():
            return f"![{plain(block.text)}]({block.path})"
        case Table():
            marks = [":---"] * block.words + ["---:"] * (len(block.header) - block.words)
            lines = [list(map(plain, block.header)), marks]
            lines += [list(map(plain, row)) for row in block.rows]
            caption = [plain(block.caption), ""] if block.caption else []
            return "\n".join([*caption, *(f"| {' | '.join(line)} |" for line in lines)])


def _escape_markdown(text: str) -> str:
    marked = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", " ".join(text.split()))
    return html.escape(marked, quote=False)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 64rem; margin: 2rem auto;
  padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; margin: 0.8rem 0 1.2rem; font-size: 0.9rem; }
.wide { overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th { border-bottom: 2px solid #999; } .words { text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #f4f4f4; padding: 0.8rem; overflow-x: auto; font-size: 0.85rem; }
img { max-width: 100%; height: auto; }
"""


def to_html(blocks: Sequence[Block], title: str) -> str:
    """One HTML file that loads nothing: pictures are inside, scripts there are none.

    >>> page = to_html([Heading("<script>", 1)], "T & C")
    >>> "<title>T &amp; C</title>" in page, "<h1>&lt;script&gt;</h1>" in page
    (True, True)
    """
    body = "\n".join(map(_html, blocks))
    # Whatever a text might smuggle in, a browser loads and runs nothing.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    plain = html.escape
    match block:
        case Heading():
            return f"<h{block.level}>{plain(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p>{plain(block.text)}</p>"
        case Items():
            lines = "".join(f"<li>{plain(text)}</li>" for text in block.texts)
            return f"<ul>{lines}</ul>"
        case Code():
            return f"<pre>{plain(block.text)}</pre>"
        case Picture():
            content = base64.b64encode(block.content).decode()
            source = f"data:image/png;base64,{content}"
            return f'<p><img src="{source}" alt="{plain(block.text)}"></p>'
        case Table():
            caption = f"<caption>{plain(block.caption)}</caption>" if block.caption else ""
            head = _html_row(block.header, block.words, "th")
            rows = "\n".join(_html_row(row, block.words, "td") for row in block.rows)
            return (
                f'<div class="wide"><table>{caption}<thead>{head}</thead>\n'
                f"<tbody>{rows}</tbody></table></div>"
            )


def _html_row(cells: Sequence[str], words: int, tag: str) -> str:
    kinds = ["words"] * words + ["number"] * (len(cells) - words)
    return "".join(
        [
            "<tr>",
            *(
                f'<{tag} class="{kind}">{html.escape(cell)}</{tag}>'
                for kind, cell in zip(kinds, cells, strict=True)
            ),
            "</tr>",
        ]
    )


def to_latex(tables: Sequence[Table]) -> str:
    r"""The tables as LaTeX, each a ``tabular``; needs no package.

    >>> print(to_latex([Table(["a_b", "50 %"], [["x & y", "±0.1"]], words=1)]))
    \begin{tabular}{lr}
    \hline
    a\_b & 50 \% \\
    \hline
    x \& y & $\pm$0.1 \\
    \hline
    \end{tabular}
    <BLANKLINE>
    """
    return "\n".join(map(_latex, tables))


def _latex(table: Table) -> str:
    plain: Callable[[str], str] = _escape_latex
    columns = "l" * table.words + "r" * (len(table.header) - table.words)
    lines = [" & ".join(map(plain, row)) + r" \\" for row in (table.header, *table.rows)]
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", lines[0], r"\hline", *lines[1:]]
    caption = [f"% {' '.join(table.caption.split())}"] if table.caption else []
    return "\n".join([*caption, *parts, r"\hline", r"\end{tabular}", ""])


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "\u2212": "$-$",
    "≥": r"$\geq$",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
