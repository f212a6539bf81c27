"""A development test out of training queries, for choosing the best step without the test set."""

from magjax.checks import InputError, positive_integer
from magjax.data._epoch_plan import random_order
from magjax.data._records import Benchmark, TrainingSet, text_key

__all__ = ["hold_out"]

_STREAM = 3  # keeps this draw apart from those of the batches


def hold_out(
    training_set: TrainingSet, *, queries: int, documents: int, seed: int
) -> tuple[TrainingSet, Benchmark]:
    """Takes queries out of training and makes them a benchmark.

    Every training row whose query text or whose positive's text equals a held-out one goes too,
    so nothing that is asked is trained on. The corpus is the answers and other documents of the
    training set, which stay in training: the development test is easier than one over documents
    never seen, and serves to compare steps of a run, not to be reported.

    Args:
        training_set: all records.
        queries: how many to hold out.
        documents: size of the corpus (all documents, if there are fewer).
        seed: of the draw.

    Raises:
        InputError: fewer than ``queries`` training rows would be left.

    >>> data = TrainingSet(list("abc"), ["x", "y", "z"], [(0,), (1,), (2,)], [()] * 3,
    ...                    list("abc"), ["one", "two", "three"])
    >>> train, development = hold_out(data, queries=1, documents=2, seed=0)
    >>> len(train), len(development.queries), len(development.documents)
    (2, 1, 2)
    """
    positive_integer("queries", queries)
    positive_integer("documents", documents)
    order = random_order(len(training_set), seed, _STREAM)
    chosen: list[int] = []
    asked: set[str] = set()
    for row in order.tolist():
        key = text_key(training_set.queries[row])
        if len(chosen) < queries and key not in asked:
            chosen.append(row)
            asked.add(key)
    chosen.sort()
    answers = {index for row in chosen for index in training_set.positives[row]}
    answered = {text_key(training_set.documents[index]) for index in answers}
    kept = [
        row
        for row in range(len(training_set))
        if text_key(training_set.queries[row]) not in asked
        and not any(
            text_key(training_set.documents[i]) in answered for i in training_set.positives[row]
        )
    ]
    if len(chosen) < queries or len(kept) < queries:
        raise InputError(
            f"{training_set.source}: holding out {queries} of {len(training_set)} queries leaves "
            f"{len(kept)} to train on; lower data.dev_queries."
        )
    others = random_order(len(training_set.documents), seed, _STREAM, 1).tolist()
    extra = [i for i in others if i not in answers][: max(documents - len(answers), 0)]
    corpus = sorted([*answers, *extra])
    development = Benchmark(
        name=f"{training_set.source}/development",
        query_ids=[training_set.query_ids[row] for row in chosen],
        queries=[training_set.queries[row] for row in chosen],
        document_ids=[training_set.document_ids[i] for i in corpus],
        documents=[training_set.documents[i] for i in corpus],
        qrels={
            training_set.query_ids[row]: {
                training_set.document_ids[i]: 1 for i in training_set.positives[row]
            }
            for row in chosen
        },
    )
    rest = TrainingSet(
        query_ids=[training_set.query_ids[row] for row in kept],
        queries=[training_set.queries[row] for row in kept],
        positives=[training_set.positives[row] for row in kept],
        negatives=[training_set.negatives[row] for row in kept],
        document_ids=training_set.document_ids,
        documents=training_set.documents,
        source=training_set.source,
    )
    return rest, development
