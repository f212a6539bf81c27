"""The texts of a run: what its config names, split into training, development and tests."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from magjax.checks import InputError, choose
from magjax.data import (
    Benchmark,
    TrainingSet,
    code_search,
    hold_out,
    read_beir,
    read_hf_dataset,
    read_msmarco,
    read_msmarco_triples,
    read_pairs_jsonl,
)

__all__ = ["SOURCES", "TextData", "load_text_data"]


@dataclasses.dataclass(frozen=True)
class TextData:
    """What a text run trains on and is tested by.

    Attributes:
        train: training pairs, without what the development test asks.
        development: chooses the best step; out of the training data.
        tests: what results report, in domain first.

    >>> [field.name for field in dataclasses.fields(TextData)]
    ['train', 'development', 'tests']
    """

    train: TrainingSet
    development: Benchmark
    tests: tuple[Benchmark, ...]

    @property
    def fingerprints(self) -> dict[str, str]:
        """Names the content of every part; results carry it."""
        first = {"train": self.train.fingerprint, "development": self.development.fingerprint}
        return first | {test.name: test.fingerprint for test in self.tests}


def _code(data: Mapping[str, Any]) -> tuple[TrainingSet, list[Benchmark]]:
    del data
    corpora = code_search()
    return corpora.train, [corpora.in_domain, corpora.out_of_domain]


def _beir(data: Mapping[str, Any]) -> tuple[TrainingSet, list[Benchmark]]:
    folder = Path(data["path"])
    train = TrainingSet.from_benchmark(read_beir(folder, split=data["train_split"]))
    return train, [read_beir(folder, split=data["test_split"])]


def _jsonl(data: Mapping[str, Any]) -> tuple[TrainingSet, list[Benchmark]]:
    return read_pairs_jsonl(Path(data["path"])), []


def _hf_dataset(data: Mapping[str, Any]) -> tuple[TrainingSet, list[Benchmark]]:
    return read_hf_dataset(data["path"], split=data["train_split"]), []


def _msmarco_triples(data: Mapping[str, Any]) -> tuple[TrainingSet, list[Benchmark]]:
    return read_msmarco_triples(data["path"]), []


def _msmarco(data: Mapping[str, Any]) -> tuple[TrainingSet, list[Benchmark]]:
    folder = Path(data["path"])
    train = TrainingSet.from_benchmark(read_msmarco(folder, split=data["train_split"]))
    return train, [read_msmarco(folder, split=data["test_split"])]


SOURCES = {
    "code": _code,
    "beir": _beir,
    "jsonl": _jsonl,
    "hf_dataset": _hf_dataset,
    "msmarco": _msmarco,
    "msmarco_triples": _msmarco_triples,
}
"""Readers by the name that ``data.source`` takes."""


def load_text_data(data: Mapping[str, Any], *, seed: int) -> TextData:
    """Reads what ``config.data`` names and holds out the development queries.

    Args:
        data: the config's ``data`` section, as JSON.
        seed: of the development split.

    Raises:
        InputError: an unknown source, a missing path, or files that cannot be used.

    >>> load_text_data({"source": "bier"}, seed=0)
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown data.source 'bier'; known: code, beir, jsonl, hf_dataset, msmarco, msmarco_triples. Did you mean 'beir'?
    """
    source = choose("data.source", data["source"], SOURCES)
    if source != "code" and not data["path"]:
        raise InputError(
            f"data.source={source!r} needs a path; set --config.data.path=FOLDER_OR_FILE."
        )
    train, tests = SOURCES[source](data)
    tests += [read_beir(Path(path), split=data["test_split"]) for path in data["test_paths"]]
    if not tests:
        raise InputError(
            f"data.source={source!r} brings no test; name BEIR folders in --config.data.test_paths."
        )
    train, development = hold_out(
        train, queries=data["dev_queries"], documents=data["dev_documents"], seed=seed
    )
    return TextData(train, development, tuple(tests))
