"""Mining from a model and texts to a file, in blocks that an interrupted run goes on with."""

import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from magjax.checks import InputError, choose, positive_integer
from magjax.data import Benchmark, TextPreprocessor, TrainingSet
from magjax.evaluation._bm25 import bm25
from magjax.evaluation._encode import encode
from magjax.evaluation._fingerprint import model_fingerprint
from magjax.evaluation._index import check_index
from magjax.evaluation._mining import MinedQuery, MiningSettings, NegativeMiner, known_answers
from magjax.evaluation._part_file import PartFile
from magjax.files import write_json
from magjax.hub import Model
from magjax.mesh import data_mesh
from magjax.typing import Side

__all__ = ["MINING_SOURCES", "MiningSummary", "mine_to_file", "write_mined"]

_log = logging.getLogger(__name__)

MINING_SOURCES: tuple[str, ...] = ("model", "bm25")
"""Where candidates come from: the model's own ranking, or BM25's."""

_BLOCK = 1_024  # queries embedded, searched and written at a time


@dataclasses.dataclass(frozen=True)
class MiningSummary:
    """What a file of mined negatives holds.

    Args:
        queries: of the training set.
        written: queries in the file.
        short: among them those with fewer negatives than were asked for.
        left_out: queries without any negative, which are not in the file.
        negatives: in all.
        wanted: negatives asked for, a query.

    >>> print(MiningSummary(queries=3, written=2, short=1, left_out=1, negatives=12, wanted=8))
    2 of 3 queries have 12 negatives; 1 of them fewer than 8; 1 queries without any are left out
    """

    queries: int
    written: int
    short: int
    left_out: int
    negatives: int
    wanted: int

    def __str__(self) -> str:
        return (
            f"{self.written:,} of {self.queries:,} queries have {self.negatives:,} negatives; "
            f"{self.short:,} of them fewer than {self.wanted}; {self.left_out:,} queries without "
            "any are left out"
        )


def mine_to_file(
    model: Model,
    training_set: TrainingSet,
    path: str | os.PathLike[str],
    *,
    settings: MiningSettings | None = None,
    source: str = "model",
    index: str = "exact",
    index_search: str = "",
    resume: bool = False,
    tokens_per_batch: int = 2048,
    mesh: Mesh | None = None,
    progress: Callable[[Side, int, int], None] | None = None,
) -> MiningSummary:
    """Writes each query with its hard negatives, one JSON line a query, as triples for training.

    The fields are those that :func:`magjax.data.read_pairs_jsonl` reads (``query_id``, ``query``,
    ``positives``, ``positive_ids``, ``negatives``, ``negative_ids``), and ``positive_scores`` and
    ``negative_scores``: the trained score in float64, whatever the source of the candidates, for
    distillation. ``PATH.settings.json`` says which score, model and settings those are.

    Lines are written to ``PATH.partial`` as they are found; the file appears when it is whole. An
    interrupted run goes on with ``resume=True`` after its last whole line and ends with the same
    bytes: documents are embedded anew, queries in the same blocks.

    Args:
        model: with a score.
        training_set: queries, answers and the corpus to mine.
        path: the file to be; must not exist.
        settings: what to take; default: ``MiningSettings()``.
        source: ``"model"``, or ``"bm25"`` for candidates that share words with the query.
        index: how the model's candidates are searched for, as :func:`search_index` takes it.
        index_search: faiss's search parameters.
        resume: go on with ``PATH.partial``, if it is there.
        tokens_per_batch: tokens of an encoder batch on each device.
        mesh: devices to use; default: all of this process.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: the model states no score; ``path`` exists; an interrupted run had other
            settings; or as :func:`search_index`.

    >>> import pathlib, tempfile
    >>> from magjax.data import TextSettings, TextTokenizer, read_pairs_jsonl
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.similarity import Score
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=8)
    >>> model = Model(DualEncoder.create(config), Score.of("dot"), tokenizer, text)
    >>> data = TrainingSet(["q"], ["a b"], [(0,)], [()], ["d", "e"], ["a b a", "b b"])
    >>> path = pathlib.Path(tempfile.mkdtemp(), "mined.jsonl")
    >>> print(mine_to_file(model, data, path, settings=MiningSettings(margin=None)))
    1 of 1 queries have 1 negatives; 1 of them fewer than 8; 0 queries without any are left out
    >>> mined = read_pairs_jsonl(path)
    >>> mined.document_ids, mined.positives, mined.negatives
    (['d', 'e'], [(0,)], [(1,)])
    """
    settings = settings or MiningSettings()
    score = model.require_score()
    choose("source", source, MINING_SOURCES)
    if check_index(index, index_search) and source != "model":
        raise InputError(
            f"index={index!r} searches the model's embeddings, but source={source!r} brings the "
            "candidates; leave one of them out."
        )
    mesh = mesh or data_mesh(jax.local_devices())
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    about = {
        "format": 1,
        "model": model_fingerprint(model),
        "score": score.to_json(),
        "data": training_set.fingerprint,
        "source": source,
        "index": index,
        "index_search": index_search,
        "mining": dataclasses.asdict(settings),
        # What follows changes the last bits of embeddings.
        "block": _BLOCK,
        "tokens_per_batch": positive_integer("tokens_per_batch", tokens_per_batch),
        "devices": f"{mesh.size} {jax.default_backend()}",
        "jax": jax.__version__,
    }
    part = PartFile(path, about, resume=resume)  # refuses before anything is embedded

    def embed(texts: Sequence[str], ids: Sequence[str], side: Side, before: int, total: int) -> Any:
        return encode(
            model.encoder,
            preprocessor,
            texts,
            side,
            ids=ids,
            mesh=mesh,
            tokens_per_batch=tokens_per_batch,
            progress=None
            if progress is None
            else lambda done, _: progress(side, before + done, total),
        )

    candidates = _bm25_candidates(training_set, settings.k) if source == "bm25" else None
    documents = embed(
        training_set.documents,
        training_set.document_ids,
        "document",
        0,
        len(training_set.documents),
    )
    miner = NegativeMiner(
        training_set,
        documents,
        score=score,
        settings=settings,
        index=index,
        index_search=index_search,
        mesh=mesh,
    )

    def mine(rows: range) -> list[MinedQuery]:
        span = slice(rows.start, rows.stop)
        queries = embed(
            training_set.queries[span],
            training_set.query_ids[span],
            "query",
            rows.start,
            len(training_set),
        )
        return miner.mine(rows, queries, None if candidates is None else candidates[span])

    summary = write_mined(part, training_set, mine, wanted=settings.negatives, block=_BLOCK)
    write_json(f"{os.fspath(path)}.settings.json", about)
    _log.info(preprocessor.describe())
    return summary


def write_mined(
    part: PartFile,
    training_set: TrainingSet,
    mine: Callable[[range], list[MinedQuery]],
    *,
    wanted: int,
    block: int,
) -> MiningSummary:
    """Mines block by block into ``part``, from where it stands, and makes it whole.

    Args:
        part: not entered yet.
        training_set: all queries.
        mine: the mined queries of some consecutive rows; always called with whole blocks, so that
            a query's embedding has the same neighbours in its batch.
        wanted: negatives asked for, a query.
        block: queries of a block.

    >>> import pathlib, tempfile
    >>> data = TrainingSet(["q"], ["sum"], [(0,)], [()], ["d", "e"], ["a + b", "a - b"])
    >>> one = lambda rows: [MinedQuery(0, (0,), np.ones(1), np.array([1]), np.zeros(1))]
    >>> part = PartFile(pathlib.Path(tempfile.mkdtemp(), "mined.jsonl"), {})
    >>> write_mined(part, data, one, wanted=8, block=4).short
    1
    """
    counts = {"written": 0, "short": 0, "negatives": 0}

    def count(negatives: int) -> None:
        counts["written"] += 1
        counts["short"] += negatives < wanted
        counts["negatives"] += negatives

    with part:
        last = None
        for row in part.done():
            count(len(row["negatives"]))
            last = row["query_id"]
        if last is not None and last not in training_set.query_ids:
            raise InputError(f"{part.part} ends with an unknown query {last!r}; begin anew.")
        first = 0 if last is None else training_set.query_ids.index(last) + 1
        if first:
            _log.info("going on after query %r, %d of %d", last, first, len(training_set))
        for start in range(first // block * block, len(training_set), block):
            rows = range(start, min(start + block, len(training_set)))
            found = [q for q in mine(rows) if q.row >= first and len(q.negatives)]
            for query in found:
                count(len(query.negatives))
            part.append([query.to_json(training_set) for query in found])
    queries = len(training_set)
    return MiningSummary(
        queries=queries, left_out=queries - counts["written"], wanted=wanted, **counts
    )


def _bm25_candidates(training_set: TrainingSet, k: int) -> list[np.ndarray]:
    """Rows of BM25's best documents of each query, with room for its answers among them."""
    benchmark = Benchmark(
        training_set.source,
        training_set.query_ids,
        training_set.queries,
        training_set.document_ids,
        training_set.documents,
        qrels={},
    )
    most = max(map(len, known_answers(training_set).values()))
    return list(bm25(benchmark, k + most).rows)
