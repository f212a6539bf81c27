"""Against SQuAD's and DPR's rules, written again without sharing code."""

import collections
import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.evaluation.rag import (
    answer_tokens,
    exact_match,
    has_answer,
    is_yes_no,
    normalize_answer,
    token_f1,
)

# Articles, punctuation of both kinds, capitals with odd lower cases, marks, separators, controls.
PIECES = [
    *(
        "a",
        "an",
        "the",
        "The",
        "A",
        "AN",
        "anthem",
        "theme",
        "Austen",
        "austen",
        "jane",
        "1999",
        "7",
    ),
    *(".", ",", "'", "\u2019", "-", "\u2013", "_", "$", "€", "½", "(", '"', "“", "\\", "^"),
    *("é", "e\u0301", "É", "ß", "İ", "Σ", "ς", "ΑΣ", "ﬁ", "Å", "中", "文", "ก", "ि", "अ", "²"),
    *(" ", "  ", "\t", "\n", "\xa0", "\u200b", "\u3000", "\x00", "\ud800"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
SPACED = st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join)
ALIASES = st.lists(st.one_of(TEXTS, SPACED), min_size=1, max_size=3)
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def squad_words(text):
    """SQuAD's normalization as a scan over characters."""
    kept = [c for c in text.lower() if c not in PUNCTUATION]
    words, word = [], ""
    for c in [*kept, " "]:
        if c.isalnum() or c == "_":  # what \\b of the script calls a word
            word += c
            continue
        words.append(" " if word in ("a", "an", "the") else word)
        words.append(c)
        word = ""
    return "".join(words).split()


def squad_exact(prediction, answers):
    return max(float(squad_words(prediction) == squad_words(answer)) for answer in answers)


def squad_f1(prediction, answers):
    best = 0.0
    for answer in answers:
        own, right = squad_words(prediction), squad_words(answer)
        if not own or not right:
            best = max(best, float(own == right))
            continue
        left = collections.defaultdict(int)
        for word in right:
            left[word] += 1
        same = 0
        for word in own:
            if left[word] > 0:
                left[word] -= 1
                same += 1
        if same:
            precision, recall = same / len(own), same / len(right)
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


@settings(max_examples=300, deadline=None)
@given(st.one_of(TEXTS, SPACED), ALIASES)
def test_exact_match_and_f1_equal_squads_script(prediction, answers):
    assert exact_match(prediction, answers) == squad_exact(prediction, answers)
    assert token_f1(prediction, answers) == pytest.approx(squad_f1(prediction, answers), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.one_of(TEXTS, SPACED), ALIASES)
def test_measures_lie_between_0_and_1_and_an_exact_match_has_f1_of_1(prediction, answers):
    exact, f1 = exact_match(prediction, answers), token_f1(prediction, answers)
    assert exact in (0.0, 1.0)
    assert exact <= f1 <= 1.0
    assert exact_match(answers[0], answers) == token_f1(answers[0], answers) == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Beatles!", "beatles"),
        ("a  an\tthe", ""),
        ("U.S.A.", "usa"),
        ("theme of an anthem", "theme of anthem"),
        ("Spider-Man", "spiderman"),
        ("the-end", "theend"),  # punctuation goes first, so this article stays
        ("“quoted”", "“quoted”"),
    ],
)
def test_normalization_of_known_cases(text, expected):
    assert normalize_answer(text) == expected


def test_f1_of_a_known_case():
    # 2 shared of 3 and 4 words: 2 * 2/3 * 2/4 / (2/3 + 2/4)
    assert token_f1("john winston lennon", ["john ono lennon jr"]) == pytest.approx(4 / 7)


def test_a_prediction_without_alias_is_refused():
    for measure in (exact_match, token_f1):
        with pytest.raises(InputError, match="at least one answer"):
            measure("Austen", [])


def dpr_has_answer(passage, answers):
    """DPR's check: its regular expression, and every window of words compared."""
    regex = pytest.importorskip("regex", reason="regex is not installed (transformers brings it)")
    pattern = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])")

    def words(text):
        found = pattern.finditer(unicodedata.normalize("NFD", text))
        return [match.group().lower() for match in found]

    text = words(passage)
    for answer in answers:
        single = words(answer)
        if not single:
            continue  # DPR finds it everywhere; here it is never found
        for i in range(len(text) - len(single) + 1):
            if text[i : i + len(single)] == single:
                return True
    return False


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), ALIASES)
def test_has_answer_equals_dprs(passage, answers):
    assert has_answer(passage, answers) == dpr_has_answer(passage, answers)


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS, SPACED)
def test_an_answer_among_words_is_found_by_both_matches(before, after, answer):
    passage = f"{before} {answer} {after}"
    if answer_tokens(answer):
        assert has_answer(passage, [answer])
    if normalize_answer(answer):
        assert has_answer(passage, [answer], match="squad")


@pytest.mark.parametrize(
    ("passage", "answer", "dpr", "squad"),
    [
        ("Emma is by Jane Austen.", "jane austen", True, True),
        ("It rained in Austenland.", "Austen", False, False),
        ("a film of 1999", "19", False, False),
        ("in the U.S. today", "US", False, True),
        ("in the US today", "U.S.", False, True),
        ("Beatles", "The Beatles", False, True),
        ("Spider-Man", "Spider Man", False, False),
        ("café", "cafe\u0301", True, False),  # composed and not: only DPR's NFD sees one letter
        # The sigma that ends a word has a lower case of its own.
        ("\u0391Σ'\u0391", "\u0391Σ", True, False),
        ("whatever", "  ", False, False),
        ("whatever", "the", False, False),
        ("", "whatever", False, False),
    ],
)
def test_where_the_two_matches_agree_and_where_not(passage, answer, dpr, squad):
    assert has_answer(passage, [answer]) is dpr
    assert has_answer(passage, [answer], match="squad") is squad


def test_an_unknown_match_is_refused():
    with pytest.raises(InputError, match="unknown match 'regex'; known: dpr, squad"):
        has_answer("a", ["a"], match="regex")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["yes"], True),
        (["No."], True),
        (["no", "yes"], True),
        (["no one"], False),
        (["No", "none"], False),
    ],
)
def test_yes_and_no_are_told_apart(answers, expected):
    assert is_yes_no(answers) is expected


def test_real_predictions_that_match_no_alias(data_root):
    """EfficientQA's judges saw the predictions that its own exact match had called wrong."""
    seen, near = collections.Counter(), collections.Counter()
    for line in (data_root / "nq-open" / "efficientqa-test.jsonl").read_text().splitlines():
        row = json.loads(line)
        for verdict in ("def_correct", "poss_correct", "def_incorrect"):
            for prediction in row[f"{verdict}_predictions"]:
                assert exact_match(prediction, row["answers"]) == 0.0
                seen[verdict] += 1
                near[verdict] += token_f1(prediction, row["answers"]) >= 0.5
    assert seen == {"def_correct": 753, "poss_correct": 984, "def_incorrect": 4149}
    assert near == {"def_correct": 338, "poss_correct": 140, "def_incorrect": 183}
