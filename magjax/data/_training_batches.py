"""Training batches as a function of (seed, step)."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from magjax.checks import InputError
from magjax.data._batch_shape import BatchShape, stack_batches
from magjax.data._epochs import Epochs
from magjax.data._padded_tokens import PaddedTokens
from magjax.data._records import TrainingSet
from magjax.data._text_numbers import TextNumbers
from magjax.data._text_preprocessor import TextPreprocessor
from magjax.typing import Side

__all__ = ["TrainingBatches"]


class TrainingBatches:
    """Batches of a training set; ``batch_at(step)`` depends on (seed, step) and nothing else.

    An epoch is a seeded permutation of the queries. No batch holds the same query text or the
    same document text twice: a row that clashes waits for a later batch (where texts repeat so
    often that the last places of an epoch stay empty, rows of other batches fill them, and the
    log says so). Rows that do not fill a batch are left out of that epoch, so every step has the
    same number of negatives, and ``len`` is exactly the steps of an epoch. Of several positives
    one is drawn anew each epoch, and so are the hard negatives.

    A batch holds ``int32`` arrays of B = ``batch_size // process_count`` rows, and
    k = ``negatives_per_query``:

    - ``query``, ``document``: ``{"input_ids", "attention_mask"}``, each ``[B, length]``;
    - ``negatives``: the same with ``B * k`` rows, row-major by query; absent when k is 0;
    - ``query_ids[B]``, ``document_ids[B]``, ``negative_ids[B, k]``: a number per distinct text;
    - ``negatives_where``: ``bool[B, k]``, false where a query has fewer than k negatives;
    - ``positive_ids[B, P]``: the numbers of all known positives of the query's text, padded by -1;
    - ``where``: ``bool[B]``, all true; ``row[B]``: the index into the training set.

    With ``accumulation`` n above 1 every leaf has a leading axis n: n batches of ``batch_size``
    whose gradients are averaged. They add no negatives: a query competes within its own batch.

    Args:
        training_set: the records.
        preprocessor: tokenizer, prompts and lengths.
        batch_size: rows in which a query competes, over all processes.
        seed: of the order, the drawn positives and the drawn negatives.
        negatives_per_query: hard negatives a query; 0 uses none.
        accumulation: batches a step.
        length_multiple: rows are padded to multiples of this, so that few shapes compile.
        process_index: which slice of each batch to return.
        process_count: into how many slices batches are cut.

    Raises:
        InputError: the batch is larger than the data or than its distinct texts, does not divide
            among the processes, or hard negatives are asked of data without any.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> data = TrainingSet(list("abc"), ["x", "y", "z"], [(0,), (1,), (2,)], [()] * 3,
    ...                    list("abc"), ["one", "two", "three"])
    >>> settings = TextSettings(query_max_length=8, document_max_length=8)
    >>> preprocessor = TextPreprocessor(TextTokenizer.train(data.documents, 270), settings)
    >>> batches = TrainingBatches(data, preprocessor, batch_size=2, seed=0)
    >>> len(batches), batches.batch_at(0)["document"]["input_ids"].shape
    (1, (2, 8))
    """

    def __init__(
        self,
        training_set: TrainingSet,
        preprocessor: TextPreprocessor,
        *,
        batch_size: int,
        seed: int,
        negatives_per_query: int = 0,
        accumulation: int = 1,
        length_multiple: int = 32,
        process_index: int = 0,
        process_count: int = 1,
    ):
        self.training_set = training_set
        self.preprocessor = preprocessor
        self.shape = BatchShape(
            batch_size=batch_size,
            seed=seed,
            accumulation=accumulation,
            process_index=process_index,
            process_count=process_count,
        )
        self.negatives_per_query = int(negatives_per_query)
        if self.negatives_per_query < 0:
            raise InputError(f"negatives_per_query={negatives_per_query} must be at least 0.")
        self._numbers = TextNumbers.of(training_set)
        if self.negatives_per_query and not any(self._numbers.negatives):
            raise InputError(
                f"negatives_per_query={negatives_per_query}, but {training_set.source} has no hard "
                "negatives; set it to 0 or give records with negatives."
            )
        self._epochs = Epochs(training_set, self._numbers, batch_size=batch_size, seed=seed)
        self._steps = self.shape.steps(self._epochs.batches, training_set.source)
        self._tokens = PaddedTokens(
            preprocessor,
            {"query": training_set.queries, "document": training_set.documents},
            length_multiple=length_multiple,
        )

    def __len__(self) -> int:
        return self._steps

    @property
    def fingerprint(self) -> str:
        """Names the sequence of batches, whatever the number of processes.

        >>> from magjax.data import TextSettings, TextTokenizer
        >>> data = TrainingSet(["a"], ["x"], [(0,)], [()], ["a"], ["one"])
        >>> settings = TextSettings(query_max_length=8, document_max_length=8)
        >>> preprocessor = TextPreprocessor(TextTokenizer.train(["one"], 270), settings)
        >>> len(TrainingBatches(data, preprocessor, batch_size=1, seed=0).fingerprint)
        16
        """
        settings = self.preprocessor.settings.to_json()
        parts = (
            self.training_set.fingerprint,
            self.shape.seed,
            self.shape.batch_size,
            self.shape.accumulation,
            self.negatives_per_query,
            self.preprocessor.tokenizer.fingerprint,
            sorted(settings.items()),
            self._tokens.buckets,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _padded(self, side: Side, groups: Sequence[Sequence[int]]) -> list[dict[str, np.ndarray]]:
        """This process's rows of all groups, which hold the same number of texts for each row."""
        each = len(groups[0]) // self.shape.batch_size
        kept = self.shape.kept
        return self._tokens.padded(side, groups, slice(kept.start * each, kept.stop * each))

    def batch_at(self, step: int) -> dict[str, Any]:
        """The batch of ``step`` (from 0, over all epochs), as the class describes it.

        >>> from magjax.data import TextSettings, TextTokenizer
        >>> data = TrainingSet(["a"], ["x"], [(0,)], [()], ["a"], ["one"])
        >>> settings = TextSettings(query_max_length=8, document_max_length=8)
        >>> preprocessor = TextPreprocessor(TextTokenizer.train(["one"], 270), settings)
        >>> TrainingBatches(data, preprocessor, batch_size=1, seed=0).batch_at(5)["row"].tolist()
        [0]
        """
        epoch, place = divmod(int(step), self._steps)
        plan, drawn = self._epochs.plan(epoch)
        groups = self.shape.groups(plan, place)
        documents = [drawn[rows].tolist() for rows in groups]
        parts: list[dict[str, Any]] = [
            {"query": query, "document": document, **self._ids(rows[self.shape.kept], drawn)}
            for rows, query, document in zip(
                groups,
                self._padded("query", groups.tolist()),
                self._padded("document", documents),
                strict=True,
            )
        ]
        if self.negatives_per_query:
            self._add_negatives(parts, groups, documents, epoch)
        return stack_batches(parts)

    def _ids(self, rows: np.ndarray, drawn: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "query_ids": self._numbers.queries[rows],
            "document_ids": self._numbers.documents[drawn[rows]],
            "positive_ids": self._numbers.known[self._numbers.queries[rows]],
            "where": np.ones(len(rows), bool),
            "row": rows.astype(np.int32),
        }

    def _add_negatives(
        self,
        parts: list[dict[str, Any]],
        groups: np.ndarray,
        documents: list[list[int]],
        epoch: int,
    ) -> None:
        k = self.negatives_per_query
        chosen, present = [], []
        for rows, answers in zip(groups.tolist(), documents, strict=True):
            drawn = [self._epochs.negatives(epoch, row, k) for row in rows]
            present.append(np.array([[i < len(row) for i in range(k)] for row in drawn]))
            # Absent places repeat the answer: some text must stand there, and the mask removes it.
            chosen.append(
                [
                    index
                    for row, answer in zip(drawn, answers, strict=True)
                    for index in (*row, *[answer] * (k - len(row)))
                ]
            )
        padded = self._padded("document", chosen)
        for part, tokens, indices, where in zip(parts, padded, chosen, present, strict=True):
            ids = self._numbers.documents[np.array(indices).reshape(self.shape.batch_size, k)]
            part["negatives"] = tokens
            part["negative_ids"] = ids[self.shape.kept]
            part["negatives_where"] = where[self.shape.kept]
