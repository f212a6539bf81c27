"""The rank of each query's first right answer among all documents, exactly and without sorting."""

from collections.abc import Mapping, Sequence

import numpy as np

from magjax.evaluation._exact import exact_scores, length_factors
from magjax.evaluation._search_inputs import finite_squares
from magjax.similarity import Score

__all__ = ["first_answer_ranks"]

_BLOCK = 256  # queries whose scores against all documents are held: 2 MiB for 1,000 documents


def first_answer_ranks(
    queries: np.ndarray,
    documents: np.ndarray,
    *,
    score: Score,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    answers: Mapping[str, Mapping[str, int]],
) -> dict[str, int]:
    """Per query the place, from 1, of its first answer when every document is ranked.

    Scores and ties are those of :func:`magjax.evaluation.search`: float64 sums in a fixed order,
    equal scores by document id descending. Products of matrices decide what is clearly above or
    below the answer; what lies within their rounding error is summed again as search does it.

    Args:
        queries: raw embeddings float32 ``[queries, dim]``.
        documents: raw embeddings float32 ``[documents, dim]``.
        score: what to rank by.
        query_ids: one name a query.
        document_ids: one name a document.
        answers: per query id the grades of documents; those above 0 are answers. Queries without
            an answer are left out.

    Raises:
        InputError: an embedding is not finite.

    >>> found = first_answer_ranks(np.ones((1, 2), np.float32), np.eye(2, 2, dtype=np.float32) * [[1], [3]],
    ...     score=Score.of("dot"), query_ids=["q"], document_ids=["d", "e"], answers={"q": {"d": 1}})
    >>> found
    {'q': 2}
    """
    factors = length_factors(
        finite_squares("document", documents, document_ids), score.gamma_document
    )
    squares = finite_squares("query", queries, query_ids)
    own = length_factors(squares, score.gamma_query)
    wide = queries.astype(np.float64)
    scaled = documents.astype(np.float64) * factors[:, None]
    # Twice the error of a product of matrices in float64, and of the factors' roundings.
    unit = 2.0**-53 * 2.0 * (queries.shape[1] + 8)
    reach = unit * np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
    numbers = {name: row for row, name in enumerate(document_ids)}
    ranks = {}
    for start in range(0, len(queries), _BLOCK):
        block = wide[start : start + _BLOCK] @ scaled.T
        for offset, rough in enumerate(block):
            row = start + offset
            right = [numbers[d] for d, g in answers.get(query_ids[row], {}).items() if g > 0]
            if not right:
                continue

            def exact(rows: np.ndarray, row: int = row) -> np.ndarray:
                return exact_scores(wide[row], documents, rows) * factors[rows] * own[row] + 0.0

            places = np.array(right)
            own_scores = exact(places)
            tied = places[own_scores == own_scores.max()]
            name = max(document_ids[place] for place in tied)
            # A query of length 0 ties with everything: all of it is summed again.
            slack = reach * np.sqrt(squares[row])
            level = rough[numbers[name]]
            close = np.flatnonzero(np.abs(rough - level) <= slack + slack[numbers[name]])
            again = exact(close)
            best = own_scores.max()
            ties = [i for i in close[again == best] if document_ids[i] > name]
            above = (rough > level).sum() - (rough[close] > level).sum()
            ranks[query_ids[row]] = 1 + int(above) + int((again > best).sum()) + len(ties)
    return ranks
