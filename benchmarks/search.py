"""Exact search beside faiss's flat index and NumPy, and its ids against a float64 reference.

    python benchmarks/search.py
    python benchmarks/search.py --documents=20000 --queries=200 --k=10 --json=search.json

All sides get the same random float32 embeddings (clusters on a sphere with lengths of their own) in
memory and rank by inner product. faiss adds the documents before its turns; magjax's turn holds
everything that ``magjax.evaluation.search`` does: checks, candidates, float64 scores and the
certificate. NumPy multiplies, takes ``argpartition`` and sorts. --variant ranks by another score; the
peers then get documents that were normalized before.

Ids must equal those of a float64 reference, ties included, and faiss's up to swaps of scores that
are closer than 1e-6 of the largest; otherwise the run ends with status 1. Memory is the peak of a
process that makes the data and searches once; "data alone" makes them and stops. The peer comes with
the ``faiss`` extra.
"""

import functools
from typing import Any

import harness
import numpy as np
from absl import flags

from magjax.checks import RunError, choose, positive_integer
from magjax.config import run_main
from magjax.evaluation import search
from magjax.similarity import VARIANTS, Score

QUERIES = flags.DEFINE_integer("queries", 1_000, "Queries.")
DOCUMENTS = flags.DEFINE_integer("documents", 100_000, "Documents.")
DIM = flags.DEFINE_integer("dim", 384, "Dimensions.")
K = flags.DEFINE_integer("k", 100, "Documents a query.")
VARIANT = flags.DEFINE_string("variant", "dot", "Score to rank by.")
REPEATS = flags.DEFINE_integer("repeats", 7, "Turns of every side.")
JSON = flags.DEFINE_string("json", None, "File that receives all numbers.")
MARKDOWN = flags.DEFINE_string("markdown", None, "File that receives the table.")

SWAP = 1e-6  # of the largest score: what two float32 sums of it may differ by


def embeddings(queries: int, documents: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents around 1,000 centres, each of its own length; queries near documents."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((1_000, dim), np.float32)
    of = random.integers(len(centres), size=documents)
    found = centres[of] + random.standard_normal((documents, dim), np.float32)
    found *= random.uniform(0.5, 2.0, (documents, 1)).astype(np.float32)
    near = random.integers(documents, size=queries)
    asked = found[near] + random.standard_normal((queries, dim), np.float32)
    return asked, found


def normalized(x: np.ndarray, gamma: float) -> np.ndarray:
    return x * np.linalg.norm(x, axis=1, keepdims=True) ** np.float32(-gamma)


class Sides:
    """The same search three times."""

    def __init__(self, queries: int, documents: int, dim: int, k: int, variant: str) -> None:
        self.queries, self.documents = embeddings(queries, documents, dim)
        self.score, self.k = Score.of(variant), k
        # Ids in the order of rows, so that ties (by id, descending) are seen to be right.
        self.query_ids = [f"q{i}" for i in range(queries)]
        self.document_ids = [f"{i:08d}" for i in range(documents)]

    def magjax(self) -> np.ndarray:
        ranking = search(
            self.queries,
            self.documents,
            score=self.score,
            k=self.k,
            query_ids=self.query_ids,
            document_ids=self.document_ids,
        )
        return ranking.rows

    @functools.cached_property
    def plain(self) -> tuple[np.ndarray, np.ndarray]:
        """What the inner product of the peers is taken of."""
        return (
            normalized(self.queries, self.score.gamma_query),
            normalized(self.documents, self.score.gamma_document),
        )

    @functools.cached_property
    def index(self) -> Any:
        import faiss

        index = faiss.IndexFlatIP(self.plain[1].shape[1])
        index.add(self.plain[1])
        return index

    def faiss(self) -> np.ndarray:
        return self.index.search(self.plain[0], self.k)[1]

    def numpy(self) -> np.ndarray:
        queries, documents = self.plain
        found = []
        for start in range(0, len(queries), 256):
            scores = queries[start : start + 256] @ documents.T
            best = np.argpartition(scores, -self.k, axis=1)[:, -self.k :]
            order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
            found.append(np.take_along_axis(best, order, 1))
        return np.concatenate(found)

    def reference(self) -> np.ndarray:
        """Float64, 16 queries at a time; equal scores by id descending."""
        documents = normalized(self.documents.astype(np.float64), self.score.gamma_document)
        found = []
        for start in range(0, len(self.queries), 16):
            scores = self.queries[start : start + 16].astype(np.float64) @ documents.T
            for row in scores:
                best = np.argpartition(row, -self.k)[-self.k :]
                best = np.flatnonzero(row >= row[best].min())
                found.append(best[np.lexsort((-best, -row[best]))][: self.k])
        return np.stack(found)

    def check(self) -> None:
        """Raises RunError where ids are not what they must be."""
        ours, peer = self.magjax(), self.faiss()
        wrong = np.flatnonzero((ours != self.reference()).any(axis=1))
        if len(wrong):
            raise RunError(f"{len(wrong)} queries differ from float64, first number {wrong[0]}.")
        queries, documents = (side.astype(np.float64) for side in self.plain)
        for number, (a, b) in enumerate(zip(ours, peer, strict=True)):
            first, second = documents[a] @ queries[number], documents[b] @ queries[number]
            if np.abs(first - second).max() > SWAP * np.abs(first).max():
                raise RunError(f"query {number}: faiss ranks other scores, not near-ties only.")


def memory(side: str, **settings: Any) -> None:
    """One search of a side; in a process of its own."""
    sides = Sides(**settings)
    if side == "faiss":
        sides.index  # noqa: B018
        if sides.score.gamma_document == 0.0:
            del sides.documents  # the index has its own copy, as a user would leave it
    if side != "data alone":
        getattr(sides, side)()


def main() -> int:
    """Measures, prints and writes the reports."""
    numbers = QUERIES, DOCUMENTS, DIM, K
    settings: dict[str, Any] = {f.name: positive_integer(f.name, f.value) for f in numbers}
    settings["variant"] = choose(
        "variant", VARIANT.value, [v for v in VARIANTS if v != "learnable"]
    )
    repeats = positive_integer("repeats", REPEATS.value)
    harness.check_outputs(JSON.value, MARKDOWN.value)
    names = ("faiss", "numpy", "magjax")
    peaks = {
        name: harness.peak_memory(memory, side=name, **settings) for name in (*names, "data alone")
    }
    sides = Sides(**settings)
    sides.check()
    rows = harness.take_turns(
        [harness.Side(name, settings["queries"], getattr(sides, name)) for name in names],
        repeats=repeats,
    )
    for row in rows:
        row["memory"] = peaks[row["what"]]
    harness.report(
        {"Exact search": rows},
        unit="queries",
        settings=settings | {"repeats": repeats},
        json=JSON.value,
        to=MARKDOWN.value,
        data_alone=peaks["data alone"],
    )
    print(f"data alone: {peaks['data alone'] / 2**30:.2f} GiB")
    return 0


if __name__ == "__main__":
    run_main(main)
