"""Which queries and candidates a gradient analysis looks at, and how hard each query is."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from magjax.analysis._gradients import GradientSweep
from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.data import Benchmark, TrainingSet
from magjax.typing import Array, Float, Side

__all__ = ["DIFFICULTIES", "RULES", "GradientSample", "GradientSettings", "difficulty_classes"]

DIFFICULTIES: tuple[str, ...] = ("easy", "medium", "hard")
"""Terciles of the queries, in the order of their numbers 0, 1, 2."""

RULES: dict[str, str] = {
    "loss": "terciles of the loss at c = 1",
    "rank": "terciles of the rank of the positive at c = 1, equal ranks by loss",
}
"""What easy, medium and hard mean, by the name that settings use."""

_FEWEST = len(DIFFICULTIES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientSettings:
    """What is drawn and over which lengths.

    Attributes:
        queries: queries drawn from those that have an answer.
        documents: candidates drawn from the rest of the corpus, beside the queries' own answers;
            0 leaves the batch alone.
        lowest: the smallest factor of a query's length.
        highest: the largest.
        points: factors between them, evenly spaced in their logarithm; 1 is always one of them.
        difficulty: a name in :data:`RULES`.
        parameters: which parameters, as :func:`magjax.fisher.select` names them; ``"none"`` leaves
            them out.
        parameter_queries: queries whose parameter gradients are measured, in one batch.
        parameter_points: factors of theirs.
        seed: of the draws.

    Raises:
        InputError: a number out of range, or an unknown rule.

    >>> GradientSettings(lowest=0.25, highest=4.0, points=5).scales().tolist()
    [0.25, 0.5, 1.0, 2.0, 4.0]
    """

    queries: int = 256
    documents: int = 256
    lowest: float | int = 1 / 16
    highest: float | int = 16
    points: int = 17
    difficulty: str = "loss"
    parameters: str = "last_block"
    parameter_queries: int = 16
    parameter_points: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("queries", "points", "parameter_queries", "parameter_points"):
            positive_integer(name, getattr(self, name))
        for name in ("queries", "parameter_queries"):
            if getattr(self, name) < _FEWEST:
                raise InputError(
                    f"{name}={getattr(self, name)} leaves no query for some of "
                    f"{', '.join(DIFFICULTIES)}; take {_FEWEST} or more."
                )
        if isinstance(self.documents, bool) or self.documents < 0:
            raise InputError(f"documents={self.documents!r} must be a whole number of at least 0.")
        low, high = positive_number("lowest", self.lowest), positive_number("highest", self.highest)
        if not low < 1.0 < high:
            raise InputError(
                f"lowest={low:g} and highest={high:g} must lie on either side of 1, the length that "
                "the model gives."
            )
        choose("difficulty", self.difficulty, RULES)
        if not self.parameters:
            raise InputError("parameters is empty; name a space such as last_block, or none.")

    def scales(self, points: int | None = None) -> np.ndarray:
        """The factors of the length, float64 ascending: ``points`` of them and 1."""
        count = self.points if points is None else points
        found = 2.0 ** np.linspace(np.log2(self.lowest), np.log2(self.highest), count)
        return np.unique(np.append(found[~np.isclose(found, 1.0)], 1.0))


@dataclasses.dataclass(frozen=True, eq=False)
class GradientSample:
    """Texts of the queries and of the candidates that all of them share.

    Attributes:
        query_ids: one name a query.
        queries: their texts.
        document_ids: one name a candidate.
        documents: their texts.
        positives: int64 ``[queries]``, the candidate that answers each.
        where: bool ``[queries, documents]``, False for a query's other known answers and for what
            it never returns.

    >>> benchmark = Benchmark("b", ["q", "r"], ["a", "b"], ["d", "e", "f"], ["a", "b", "c"],
    ...                       {"q": {"d": 1}, "r": {"d": 1, "e": 1}})
    >>> sample = GradientSample.draw(benchmark, queries=2, documents=2, seed=0)
    >>> sample.document_ids, sample.positives.tolist(), sample.where.tolist()
    (['d', 'e', 'f'], [0, 0], [[True, True, True], [True, False, True]])
    """

    query_ids: Sequence[str]
    queries: Sequence[str]
    document_ids: Sequence[str]
    documents: Sequence[str]
    positives: np.ndarray
    where: np.ndarray

    @classmethod
    def draw(
        cls, benchmark: Benchmark, *, queries: int, documents: int, seed: int
    ) -> "GradientSample":
        """Queries with an answer, the first answer of each, and other documents.

        Args:
            benchmark: queries without a relevant document are passed over.
            queries: how many; all if there are fewer.
            documents: candidates beside the answers; all of the corpus if there are fewer.
            seed: of the draw.

        Raises:
            InputError: no query has an answer.
        """
        pairs = TrainingSet.from_benchmark(benchmark)
        random = np.random.default_rng(seed)
        rows = np.sort(random.choice(len(pairs), min(queries, len(pairs)), replace=False))
        answers = [pairs.positives[row][0] for row in rows]
        own = sorted(set(answers))
        rest = np.setdiff1d(np.arange(len(pairs.documents)), own)
        drawn = random.choice(rest, min(documents, len(rest)), replace=False)
        # The answers stand first, so that a sample without other documents is a part of this one.
        candidates = [*own, *np.sort(drawn).tolist()]
        place = {row: number for number, row in enumerate(candidates)}
        number_of = {name: number for number, name in enumerate(pairs.document_ids)}
        where = np.ones((len(rows), len(candidates)), bool)
        for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
            never = [number_of[name] for name in benchmark.excluded.get(pairs.query_ids[row], ())]
            for document in (*pairs.positives[row], *never):
                if document in place and document != answer:
                    where[i, place[document]] = False
        return cls(
            [pairs.query_ids[row] for row in rows],
            [pairs.queries[row] for row in rows],
            [pairs.document_ids[row] for row in candidates],
            [pairs.documents[row] for row in candidates],
            np.array([place[answer] for answer in answers], np.int64),
            where,
        )

    def sides(self) -> tuple[tuple[Side, Sequence[str], Sequence[str]], ...]:
        """Side, texts and ids: queries, then candidates."""
        return (
            ("query", self.queries, self.query_ids),
            ("document", self.documents, self.document_ids),
        )

    def batch(self, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Some queries as a batch of their own: their rows, and which answers are candidates.

        Returns:
            int64 ``[batch]`` ascending, and bool ``[batch, batch]``: answer ``j`` competes for
            query ``i``.

        >>> benchmark = Benchmark("b", ["q", "r"], ["a", "b"], ["d", "e"], ["a", "b"],
        ...                       {"q": {"d": 1}, "r": {"d": 1, "e": 1}})
        >>> sample = GradientSample.draw(benchmark, queries=2, documents=1, seed=0)
        >>> sample.batch(2, seed=0)[1].tolist()  # one document answers both
        [[True, False], [False, True]]
        """
        count = min(size, len(self.queries))
        rows = np.sort(np.random.default_rng(seed).choice(len(self.queries), count, replace=False))
        theirs = self.positives[rows]
        where = self.where[rows][:, theirs] & (theirs[:, None] != theirs[None, :])
        np.fill_diagonal(where, True)
        return rows, where


def difficulty_classes(
    at_one: GradientSweep, ranks: Float[Array, " queries"] | None = None
) -> np.ndarray:
    """Easy (0), medium (1) and hard (2) queries: thirds by loss, or by rank and then loss.

    Args:
        at_one: a sweep whose only scale is 1.
        ranks: the rank of each query's positive among its candidates; ``None``: by loss alone.

    Returns:
        int64 ``[queries]``; of a number that three does not divide the first classes have one more.

    >>> from magjax.analysis import closed_form_sweep
    >>> sweep = closed_form_sweep(np.eye(3), np.diag([1.0, 3.0, 2.0]), [0, 1, 2], gammas=(0, 0),
    ...                           temperature=1.0, scales=[1.0])
    >>> difficulty_classes(sweep).tolist()
    [2, 0, 1]
    """
    losses = at_one.loss[0]
    order = np.argsort(losses, kind="stable") if ranks is None else np.lexsort((losses, ranks))
    found = np.empty(len(losses), np.int64)
    for number, members in enumerate(np.array_split(order, len(DIFFICULTIES))):
        found[members] = number
    return found
