"""Answer recall: whether one of the first k passages holds an answer."""

import math
from collections.abc import Mapping, Sequence

from magjax.checks import InputError, positive_integer
from magjax.evaluation._metrics import Evaluation
from magjax.evaluation._ranking import Ranking
from magjax.evaluation.rag._answer_match import is_yes_no, searchable, searched

__all__ = ["ANSWER_DEPTHS", "answer_ranks", "answer_recall", "recall_name"]

ANSWER_DEPTHS: tuple[int, ...] = (1, 5, 20, 100)
"""Where answer recall is read unless other depths are named; DPR reports 20 and 100."""


def answer_ranks(
    ranking: Ranking | Mapping[str, Sequence[str]],
    documents: Mapping[str, str],
    answers: Mapping[str, Sequence[str]],
    *,
    depth: int | None = None,
    match: str = "dpr",
) -> dict[str, int | None]:
    """The place of the first passage that holds an answer, from 1; None where none does.

    Each passage is split into words once, however many questions found it.

    Args:
        ranking: per question its passages, best first.
        documents: the text of each passage that is ranked.
        answers: per question the aliases of its answer.
        depth: passages to look at; default: all that were found.
        match: how answers are looked for, as in :func:`has_answer`.

    Returns:
        a place for each question of ``answers``; a question that the ranking lacks has None.

    Raises:
        InputError: a ranked passage has no text, or an unknown ``match``.

    >>> answer_ranks({"q": ["d2", "d1"]}, {"d1": "by Jane Austen", "d2": "a novel"},
    ...     {"q": ["Austen"]})
    {'q': 2}
    """
    if isinstance(ranking, Ranking):
        ranking = dict(zip(ranking.query_ids, ranking.documents, strict=True))
    texts: dict[str, str] = {}
    places: dict[str, int | None] = {}
    for question, aliases in answers.items():
        wanted = searched(aliases, match)
        places[question] = None
        for place, name in enumerate(ranking.get(question, ())[:depth], start=1):
            if name not in texts:
                if name not in documents:
                    raise InputError(
                        f"the ranking of question {question!r} names passage {name!r}, which the "
                        "documents do not hold; use the corpus that was searched."
                    )
                texts[name] = searchable(documents[name], match)
            if any(alias in texts[name] for alias in wanted):
                places[question] = place
                break
    return places


def answer_recall(
    ranking: Ranking | Mapping[str, Sequence[str]],
    documents: Mapping[str, str],
    answers: Mapping[str, Sequence[str]],
    ks: Sequence[int] = ANSWER_DEPTHS,
    *,
    matches: Sequence[str] = ("dpr",),
) -> Evaluation:
    """The share of questions with an answer in one of their first k passages.

    It needs no generator and no second encoding: any ranking of the same passages can be measured.
    Questions whose answer is yes or no are left out and counted, for a passage that answers them
    does not say the word. A question that the ranking lacks counts as 0.

    Args:
        ranking: per question its passages, best first.
        documents: the text of each passage that is ranked; DPR's figures search it without the
            title.
        answers: per question the aliases of its answer.
        ks: depths to read; one beyond what was searched sees what there is.
        matches: how answers are looked for, as in :func:`has_answer`.

    Returns:
        ``answer_recall@K`` by ``"dpr"`` and ``answer_recall_squad@K`` by ``"squad"``, 0.0 or 1.0 a
        question; ``counts`` has ``queries`` that the means are over, among them ``missing`` from
        the ranking, and left out ``yes_no`` and ``unjudged`` (ranked, but without answers).

    Raises:
        InputError: no question remains, a ranked passage has no text, an unknown match, or a depth
            that is no positive whole number.

    >>> found = answer_recall({"q": ["d2", "d1"]}, {"d1": "by Jane Austen", "d2": "a novel"},
    ...     {"q": ["Austen"], "r": ["yes"]}, ks=[1, 2])
    >>> found.mean, found.counts["yes_no"]
    ({'answer_recall@1': 0.0, 'answer_recall@2': 1.0}, 1)
    """
    depths = [positive_integer("k of answer recall", k) for k in ks]
    if not depths or not matches:
        raise InputError("answer recall needs at least one depth k and one match.")
    asked = {name: aliases for name, aliases in answers.items() if not is_yes_no(aliases)}
    if not asked:
        raise InputError(
            f"none of the {len(answers)} questions has an answer other than yes or no, and answer "
            "recall cannot look for those."
        )
    per_query: dict[str, dict[str, float]] = {name: {} for name in asked}
    for match in matches:
        places = answer_ranks(ranking, documents, asked, depth=max(depths), match=match)
        for k in depths:
            for name, place in places.items():
                per_query[name][recall_name(k, match)] = float(place is not None and place <= k)
    metrics = [recall_name(k, match) for match in matches for k in depths]
    ranked = set(ranking.query_ids if isinstance(ranking, Ranking) else ranking)
    return Evaluation(
        mean={
            metric: math.fsum(row[metric] for row in per_query.values()) / len(per_query)
            for metric in metrics
        },
        per_query=per_query,
        counts={
            "queries": len(asked),
            "missing": len(asked.keys() - ranked),
            "unjudged": len(ranked - answers.keys()),
            "yes_no": len(answers) - len(asked),
        },
    )


def recall_name(k: int, match: str = "dpr") -> str:
    """The metric's name: DPR's is plain, others carry theirs.

    >>> recall_name(5), recall_name(5, "squad")
    ('answer_recall@5', 'answer_recall_squad@5')
    """
    return f"answer_recall@{k}" if match == "dpr" else f"answer_recall_{match}@{k}"
