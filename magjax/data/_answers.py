"""Questions with the answers that count as right: NQ-open, TriviaQA, HotpotQA, SQuAD, DPR's lists."""

import ast
import csv
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from magjax.checks import InputError
from magjax.data._lines import fail_at, find_file, json_lines, text_lines
from magjax.data._records import check_ids, check_queries, content_fingerprint
from magjax.files import read_json

__all__ = ["QuestionSet", "read_questions"]

_log = logging.getLogger(__name__)

_Fail = Callable[[str], NoReturn]

_IDS = ("_id", "id", "question_id", "QuestionId")
_QUESTIONS = ("question", "Question")
_ANSWERS = ("answers", "answer", "Answer", "answer_aliases", "aliases")
# Of an answer that is an object: SQuAD's text, and TriviaQA's names of one entity.
_ALIASES = ("text", "Value", "Aliases", "NormalizedAliases", "HumanAnswers")


@dataclasses.dataclass(frozen=True)
class QuestionSet:
    """Questions, and per question every string that is a right answer.

    Args:
        ids: one name a question, unique.
        questions: the texts; none empty.
        answers: per question its aliases, at least one, none blank.
        source: where they come from, for messages.
        unanswered: questions of the source that state no answer and were left out.
        fingerprint: names this content; made from it when left out.

    Raises:
        InputError: lengths disagree, an id repeats, a question is empty or has no answer, or there
            is no question.

    >>> data = QuestionSet(["q"], ["who wrote Emma"], [("Jane Austen", "Austen")])
    >>> len(data), data.answers_of["q"]
    (1, ('Jane Austen', 'Austen'))
    """

    ids: Sequence[str]
    questions: Sequence[str]
    answers: Sequence[tuple[str, ...]]
    source: str = "questions"
    unanswered: int = 0
    fingerprint: str = ""

    def __post_init__(self):
        check_ids("question", self.ids, self.questions, self.source)
        check_queries(self.ids, self.questions, self.source)
        if not self.ids:
            raise InputError(f"{self.source} holds no question with an answer.")
        if len(self.answers) != len(self.ids):
            raise InputError(
                f"{self.source}: {len(self.answers)} lists of answers for {len(self.ids)} "
                "questions; give one each."
            )
        for name, aliases in zip(self.ids, self.answers, strict=True):
            if not aliases or not all(alias.strip() for alias in aliases):
                raise InputError(
                    f"{self.source}: question {name!r} has no answer, or a blank one; remove it."
                )
        if not self.fingerprint:
            made = content_fingerprint(self.ids, self.questions, self.answers)
            object.__setattr__(self, "fingerprint", made)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def answers_of(self) -> dict[str, tuple[str, ...]]:
        """The aliases by question id."""
        return dict(zip(self.ids, self.answers, strict=True))


def read_questions(path: str | os.PathLike[str]) -> QuestionSet:
    r"""Reads questions with answer aliases, in any of the usual forms; the name's ending decides.

    - ``.jsonl`` (NQ-open, SQuAD-like, MuSiQue): an object a line with ``question``, and ``answers``
      or ``answer``: a string, a list of strings, or objects with ``text``. ``answer_aliases``
      joins them.
    - ``.json``: HotpotQA's list of such objects; SQuAD's ``{"data": [{"paragraphs": [{"qas":
      ...}]}]}``; TriviaQA's ``{"Data": [{"Question", "QuestionId", "Answer": {"Value", "Aliases",
      "NormalizedAliases"}}]}``, whose aliases are the union of the three.
    - ``.tsv`` and ``.csv``: DPR's ``question TAB ['alias', 'alias']``, the list read as a Python
      literal and never executed.

    Ids are ``_id``, ``id``, ``question_id`` or ``QuestionId``; without one, ``question-N`` counted
    from 0. Blank aliases are dropped. Questions that state no answer (SQuAD 2's impossible ones,
    test sets without answers) are left out and counted in the log and in ``unanswered``. Lines may
    be gzipped.

    Args:
        path: the file.

    Raises:
        InputError: a missing file, an unknown form, no question with an answer, a repeated id;
            with file and line (or entry): a missing or empty question, or answers of another type.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "nq-test.tsv")
    >>> _ = file.write_text("who wrote emma\t['Jane Austen']\n")
    >>> read_questions(file).answers
    [('Jane Austen',)]
    """
    source = find_file(path)
    form = source.name.removesuffix(".gz").rpartition(".")[2]
    rows: Iterator[tuple[_Fail, Mapping[str, Any]]]
    if form == "jsonl":
        rows = ((partial(fail_at, source, line), row) for line, row in json_lines(source))
    elif form == "json":
        rows = _json_rows(source)
    elif form in ("tsv", "csv"):
        rows = _dpr_rows(source)
    else:
        raise InputError(
            f"{source}: questions are read from .jsonl, .json, .tsv and .csv files; rename it by "
            "its form."
        )
    ids: list[str] = []
    questions: list[str] = []
    answers: list[tuple[str, ...]] = []
    unanswered = 0
    for number, (fail, row) in enumerate(rows):
        question = next((row[key] for key in _QUESTIONS if key in row), None)
        if not isinstance(question, str) or not question.strip():
            fail(f"'question' is {question!r}, but must be a text that is not empty.")
        name = next((row[key] for key in _IDS if key in row), f"question-{number}")
        if isinstance(name, bool) or not isinstance(name, str | int):
            fail(f"the id is {name!r}, but must be a string or a whole number.")
        aliases = _aliases([row[key] for key in _ANSWERS if key in row], fail)
        if not aliases:
            unanswered += 1
            continue
        ids.append(str(name))
        questions.append(question.strip())
        answers.append(aliases)
    if unanswered and ids:
        _log.warning("%s: left out %d questions that state no answer.", source, unanswered)
    return QuestionSet(ids, questions, answers, str(source), unanswered)


def _aliases(value: Any, fail: _Fail) -> tuple[str, ...]:
    """All strings of an answer, each once, in order; blank ones are dropped."""
    stripped = (text.strip() for text in _strings(value, fail))
    return tuple(dict.fromkeys(text for text in stripped if text))


def _strings(entry: Any, fail: _Fail) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for part in entry:
            yield from _strings(part, fail)
    elif isinstance(entry, dict) and any(key in entry for key in _ALIASES):
        for key in _ALIASES:
            yield from _strings(entry.get(key), fail)
    elif entry is not None:
        fail(f"an answer is {entry!r}, but must be a text, a list of texts or {{'text': ...}}.")


def _json_rows(source: Path) -> Iterator[tuple[_Fail, Mapping[str, Any]]]:
    content = read_json(source)
    if isinstance(content, dict) and "Data" in content:
        content = content["Data"]
    elif isinstance(content, dict) and "data" in content:
        content = _squad_rows(content["data"], source)
    if not isinstance(content, list):
        raise InputError(
            f"{source} is no list of questions, nor an object with 'data' (SQuAD) or 'Data' "
            f"(TriviaQA); it is {_kind(content)}."
        )
    for number, row in enumerate(content):
        fail = partial(_fail_entry, source, number)
        if not isinstance(row, dict):
            fail(f"{type(row).__name__} where an object with 'question' was needed.")
        yield fail, row


def _squad_rows(articles: Any, source: Path) -> list[Any]:
    try:
        return [
            row
            for article in articles
            for paragraph in article["paragraphs"]
            for row in paragraph["qas"]
        ]
    except (TypeError, KeyError) as error:
        raise InputError(
            f"{source}: 'data' is not SQuAD's list of articles with paragraphs with qas "
            f"({type(error).__name__}: {error})."
        ) from error


def _dpr_rows(source: Path) -> Iterator[tuple[_Fail, Mapping[str, Any]]]:
    for number, line in text_lines(source):
        fail = partial(fail_at, source, number)
        columns = tab_columns(line, fail)
        if len(columns) != 2:
            fail(f"{len(columns)} columns where a question, a tab and a list were needed.")
        try:
            answers = ast.literal_eval(columns[1])
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            fail(f"{columns[1][:80]!r} is no list of answers ({type(error).__name__}).")
        if not isinstance(answers, list):
            fail(f"{columns[1][:80]!r} is no list; write ['answer', 'alias'].")
        yield fail, {"question": columns[0], "answers": answers}


def tab_columns(line: str, fail: _Fail) -> list[str]:
    r"""The columns of one line of a tab-separated file with CSV's quotes, as DPR writes them.

    >>> tab_columns('1\t"say ""a"" twice"\tTitle', print)
    ['1', 'say "a" twice', 'Title']
    """
    try:
        return next(csv.reader([line], delimiter="\t", strict=True))
    except csv.Error as error:
        fail(f"the quotes cannot be read ({error}); write a quote inside quotes twice.")


def _fail_entry(source: Path, number: int, problem: str) -> NoReturn:
    raise InputError(f"{source}: entry {number}: {problem}")


def _kind(value: Any) -> str:
    keys = f" with {', '.join(map(repr, list(value)[:5]))}" if isinstance(value, dict) else ""
    return f"{type(value).__name__}{keys}"
