"""When a passage holds an answer, and when a generated answer is right: DPR's and SQuAD's rules."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from magjax.checks import InputError, choose

__all__ = [
    "MATCHES",
    "answer_tokens",
    "exact_match",
    "has_answer",
    "is_yes_no",
    "normalize_answer",
    "searchable",
    "token_f1",
]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """An answer as SQuAD's script compares it.

    In this order: lower case, no ASCII punctuation, no articles (a, an, the), white space
    collapsed. Other punctuation stays, such as typographic quotes.

    Source: ``normalize_answer`` of the SQuAD v1.1 and v2.0 evaluation scripts.

    >>> normalize_answer("The  Beatles' (band)")
    'beatles band'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1.0 if the prediction equals one of the answers after :func:`normalize_answer`, else 0.0.

    Args:
        prediction: a generated answer.
        answers: the aliases of the right one.

    Raises:
        InputError: there is no alias.

    >>> exact_match("the Beatles.", ["Fab Four", "The Beatles"])
    1.0
    """
    return _best(_equal, prediction, answers)


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    r"""The largest F1 of words between the prediction and an answer, in [0, 1].

    .. math:: F_1 = \frac{2 \, |p \cap a|}{|p| + |a|}

    over the bags of words of :func:`normalize_answer`. Where one of them has no word, it is 1.0 if
    both have none and 0.0 otherwise, as in SQuAD v2.0 (v1.1 gives 0.0 to both, against its own
    exact match).

    Args:
        prediction: a generated answer.
        answers: the aliases of the right one.

    Raises:
        InputError: there is no alias.

    >>> round(token_f1("John Lennon wrote it", ["Lennon", "John Lennon"]), 3)
    0.667
    """
    return _best(_f1, prediction, answers)


def is_yes_no(answers: Sequence[str]) -> bool:
    """Whether the right answer is yes or no, which no passage can be searched for.

    >>> is_yes_no(["Yes"]), is_yes_no(["no", "No way"])
    (True, False)
    """
    return all(normalize_answer(alias) in ("yes", "no") for alias in answers)


class _Spaced(dict[int, str]):
    """For ``str.translate``: separators become spaces, what is no word character a word alone."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        group = unicodedata.category(character)[0]
        self[code] = character if group in "LMN" else " " if group in "ZC" else f" {character} "
        return self[code]


_SPACED = _Spaced()


def answer_tokens(text: str) -> list[str]:
    r"""Words as DPR matches them: NFD, split, lower case.

    Runs of letters, numbers and marks are one word, every other character that is no separator and
    no control is one alone; the regular expression is
    ``[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]``.

    Source: DPR's ``SimpleTokenizer`` after ``unicodedata.normalize("NFD", ...)``.

    >>> answer_tokens("Spider-Man's 3rd")
    ['spider', '-', 'man', "'", 's', '3rd']
    """
    words = unicodedata.normalize("NFD", text).translate(_SPACED).split()
    # Word by word: the lower case of a Greek capital sigma depends on what stands beside it.
    return [word.lower() for word in words]


_WORDS: dict[str, Callable[[str], list[str]]] = {
    "dpr": answer_tokens,
    "squad": lambda text: normalize_answer(text).split(),
}

MATCHES: tuple[str, ...] = tuple(_WORDS)
"""How answers are looked for in passages: ``"dpr"`` (the standard) and ``"squad"``."""


def has_answer(passage: str, answers: Sequence[str], *, match: str = "dpr") -> bool:
    """Whether the words of one of the answers stand in the passage, next to each other and in order.

    ``"dpr"`` compares the words of :func:`answer_tokens`, which is what DPR's retrieval accuracy
    counts; punctuation and articles must agree. ``"squad"`` compares those of
    :func:`normalize_answer`, which forgives both. An answer without a word is never found (DPR's
    script finds it in every passage).

    Args:
        passage: a text; what DPR searches is the text without its title.
        answers: the aliases of the right answer.
        match: one of :data:`MATCHES`.

    Raises:
        InputError: an unknown ``match``.

    Source: ``has_answer(..., match_type="string")`` of DPR's ``qa_validation``.

    >>> has_answer("Emma was written by Jane Austen.", ["Austen, Jane", "Jane Austen"])
    True
    >>> has_answer("It rained in Austenland.", ["Austen"])
    False
    """
    text = searchable(passage, match)
    return any(alias in text for alias in searched(answers, match))


def searchable(text: str, match: str) -> str:
    """A passage's words, one space before and after each: to be searched for :func:`searched`.

    >>> searchable("Jane Austen.", "dpr")
    ' jane austen . '
    """
    return f" {' '.join(_WORDS[choose('match', match, _WORDS)](text))} "


def searched(answers: Sequence[str], match: str) -> list[str]:
    """Each alias in the form of :func:`searchable`; those without a word are left out.

    >>> searched(["Jane Austen", "..."], "squad")
    [' jane austen ']
    """
    found = (searchable(alias, match) for alias in answers)
    return [alias for alias in found if alias.strip()]


def _best(measure: Callable[[str, str], float], prediction: str, answers: Sequence[str]) -> float:
    if not answers:
        raise InputError("a prediction needs at least one answer to be compared with; got none.")
    own = normalize_answer(prediction)
    return max(measure(own, normalize_answer(alias)) for alias in answers)


def _equal(prediction: str, answer: str) -> float:
    return float(prediction == answer)


def _f1(prediction: str, answer: str) -> float:
    own, right = prediction.split(), answer.split()
    if not own or not right:
        return float(own == right)
    shared = sum((Counter(own) & Counter(right)).values())
    return 2.0 * shared / (len(own) + len(right))
