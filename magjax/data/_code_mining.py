"""Functions of installed packages: a docstring's first sentence, and the source without it."""

import ast
import dataclasses
import importlib.metadata
import re
import warnings
from collections.abc import Iterator

from magjax.checks import InputError

__all__ = ["Function", "clone_key", "first_sentence", "mine_package", "mine_source"]

# Characters kept of one function: about 1,000 word pieces, twice what the longest BERT reads.
MAX_CHARACTERS = 4_000
# Fewer tokens than this is a getter or a stub: `def name(self): return self._name` has 10.
MIN_TOKENS = 16
MIN_QUERY_WORDS = 3
MAX_QUERY_WORDS = 60

_TOKEN = re.compile(r"\w+|[^\w\s]")
_COMMENT = re.compile(r"#[^\n]*")
_CLASS_NAME = re.compile(r"\b_?[A-Z]\w*[a-z]\w*")
_ROLE = re.compile(r":[\w:]+:`~?([^`<]*?)(?:\s*<[^>`]*>)?`")
_SECTION = re.compile(
    r"^\s*(?::\w+.*:|@\w+|\.\. |>>>|-{3,}|={3,}|(?:args|arguments|param\w*|returns?|raises|yields?"
    r"|examples?|usage|notes?|see also|attributes|inputs?|outputs?|keyword \w+|references)\s*:?\s*$"
    r"|(?:args|arguments|returns|raises|yields|examples?|usage)\s*:)",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)(?:\s*->.*)?$")
# A parameter's description where the summary should be: `ids (torch.Tensor of shape (n,)): ...`.
_PARAMETER = re.compile(r"^\*{0,2}\w+(?:, \w+)*\s*(?:\(.*\))?:\s")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)\s+(?=[^a-z])")
_SKIPPED_FOLDERS = re.compile(
    r"(?:^|/)(?:_?tests?|_?testing|testdata|conftest\.py|test_[^/]*|[^/]*_test\.py|_?vendor(?:ed)?"
    r"|externals?|__pycache__|examples?|modular_[^/]*|scripts)(?:/|$)"
)


@dataclasses.dataclass(frozen=True)
class Function:
    r"""One function or method of a package.

    ``query`` is the first sentence of its docstring, empty when there is none of use; ``source``
    its text from ``def``, without the docstring and the indentation it had.

    >>> text = "def f(x, y):\n  'Adds one number to another.'\n  z = x + y\n  return 2 * z"
    >>> [(f.name, f.query) for f in mine_source(text)]
    [('f', 'Adds one number to another.')]
    """

    name: str
    query: str
    source: str
    documented: bool


def first_sentence(docstring: str) -> str:
    r"""The first sentence of a docstring as a query, or ``""`` if it holds none of use.

    Of use are 3 to 60 words before the first section (``Args:`` and its like), without template
    marks; a paragraph that repeats the signature is skipped and Sphinx roles are unwrapped.

    >>> first_sentence("Draw a :class:`~ax.Line` from a to b. It is thin.\n\nArgs:\n  a: start")
    'Draw a ax.Line from a to b.'
    >>> first_sentence("TODO")
    ''
    """
    for paragraph in re.split(r"\n\s*\n", docstring.strip())[:2]:
        lines = []
        for line in paragraph.splitlines():
            if _SECTION.match(line):
                break
            lines.append(line)
        text = " ".join(_ROLE.sub(r"\1", " ".join(lines)).replace("`", "").split())
        if not _SIGNATURE.match(text):
            break
    else:
        return ""
    sentence = _SENTENCE_END.split(text, maxsplit=1)[0].strip()
    words = re.findall(r"[A-Za-z]{2,}", sentence)
    if not MIN_QUERY_WORDS <= len(words) <= MAX_QUERY_WORDS or _PARAMETER.match(sentence):
        return ""
    if "%(" in text or "{" in sentence:
        return ""
    return sentence


def clone_key(source: str) -> str:
    r"""The source up to comments, white space, its own name and the class names inside.

    ``BertLayer`` and ``RobertaLayer`` whose methods differ only in such names have equal keys.

    >>> clone_key("def f(x):\n  return BertLayer(x)  # one") == clone_key(
    ...     "def g(x):\n\n  return RobertaLayer(x)")
    True
    """
    tokens = _TOKEN.findall(_CLASS_NAME.sub("C", _COMMENT.sub("", source)))
    start = tokens.index("def") + 1 if "def" in tokens else 0
    tokens[start : start + 1] = ["_"]
    return " ".join(tokens)


def mine_source(text: str) -> list[Function]:
    """Functions and methods of one module in order of appearance.

    Functions inside functions belong to the outer one. Stubs and near-empty bodies are left out.

    Raises:
        SyntaxError: ``text`` does not parse under this Python.

    >>> mine_source("def f(): ...")
    []
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's strings
        tree = ast.parse(text)
    # Not str.splitlines: it also breaks at form feeds, which ast does not count as lines.
    lines = re.split(r"(?<=\n)", re.sub(r"\r\n?", "\n", text))
    return [f for f in _walk(tree, "", lines) if len(_TOKEN.findall(f.source)) >= MIN_TOKENS]


def _walk(node: ast.AST, prefix: str, lines: list[str]) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _is_stub(child):
                docstring = ast.get_docstring(child)
                yield Function(
                    name=prefix + child.name,
                    query=first_sentence(docstring) if docstring else "",
                    source=_source(child, lines, docstring is not None),
                    documented=docstring is not None,
                )
        elif isinstance(child, ast.ClassDef):
            yield from _walk(child, f"{prefix}{child.name}.", lines)
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _walk(child, prefix, lines)


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    def trivial(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Raise):
            return "NotImplemented" in ast.dump(statement)
        return isinstance(statement, ast.Pass) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )

    return all(trivial(statement) for statement in function.body)


def _source(
    function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str], documented: bool
) -> str:
    end = function.end_lineno or function.lineno
    kept = list(lines[function.lineno - 1 : end])
    if documented:
        docstring = function.body[0]
        first = docstring.lineno - function.lineno
        last = (docstring.end_lineno or docstring.lineno) - function.lineno
        # Columns count UTF-8 bytes; what stands before or after on the same lines stays.
        before = kept[first].encode()[: docstring.col_offset].decode()
        after = kept[last].encode()[docstring.end_col_offset :].decode().lstrip("; ")
        line = before + ("\n" if after.startswith("#") else after)
        kept[first : last + 1] = [line] if line.strip() else []
    indent = function.col_offset
    text = "".join(line[indent:] if not line[:indent].strip() else line for line in kept)
    text = "\n".join(line.rstrip() for line in text.strip().splitlines())
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS].rsplit("\n", 1)[0]
    return text


def mine_package(name: str) -> list[Function]:
    """All functions of an installed distribution's modules, in order of path and line.

    Tests, examples, scripts, vendored code and modules that do not parse are left out; names are
    ``path:Class.function``.

    Raises:
        InputError: the distribution is not installed, or without a list of its files.

    >>> any(f.name.endswith("TqdmKeyError") for f in mine_package("tqdm"))
    False
    """
    try:
        files = importlib.metadata.files(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(
            f"the code-search corpus needs the package {name}, which is not installed; "
            "pip install -r requirements.txt -c constraints.txt."
        ) from error
    if not files:
        raise InputError(
            f"the package {name} is installed without a list of its files; reinstall it by pip."
        )
    functions: list[Function] = []
    for path in sorted(files, key=str):
        if path.suffix != ".py" or _SKIPPED_FOLDERS.search(path.as_posix()):
            continue
        try:
            mined = mine_source(path.read_text(encoding="utf-8-sig"))
        except (SyntaxError, UnicodeDecodeError, FileNotFoundError, RecursionError):
            continue
        functions.extend(dataclasses.replace(f, name=f"{path.as_posix()}:{f.name}") for f in mined)
    return functions
