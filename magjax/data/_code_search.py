"""Code search: find the function that a docstring's first sentence describes."""

import dataclasses
import hashlib
import importlib.metadata
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from magjax.checks import InputError
from magjax.data import _code_mining
from magjax.data._code_mining import Function, clone_key, mine_package
from magjax.data._code_packages import OUT_OF_DOMAIN_PACKAGES, TRAINING_PACKAGES
from magjax.data._lines import json_lines, write_json_lines
from magjax.data._records import Benchmark, TrainingSet, text_key
from magjax.files import cache_folder, read_json, write_folder, write_json

__all__ = ["CodeSearch", "code_search", "mine_code_search"]

_log = logging.getLogger(__name__)

# A sentence shared by more functions than this names none of them.
_MAX_SHARED = 3
_PARTS = ("train", "in_domain", "out_of_domain")


@dataclasses.dataclass(frozen=True)
class CodeSearch:
    """Training pairs and two retrieval tests over the functions of installed packages.

    ``in_domain`` asks for held-out functions of the training packages, ``out_of_domain`` for
    functions of packages that training never sees. Results of different fingerprints are not
    comparable; ``versions`` says which packages made this one.

    >>> data = mine_code_search(["bm25s"], ["tqdm"], queries=8, functions=40)
    >>> len(data.in_domain.queries), len(data.out_of_domain.documents)
    (8, 40)
    """

    train: TrainingSet
    in_domain: Benchmark
    out_of_domain: Benchmark
    versions: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """Names the content of all three parts.

        >>> len(mine_code_search(["bm25s"], ["tqdm"], queries=8, functions=40).fingerprint)
        16
        """
        parts = (self.train, self.in_domain, self.out_of_domain)
        return hashlib.sha256("/".join(p.fingerprint for p in parts).encode()).hexdigest()[:16]


def code_search(cache: str | os.PathLike[str] | None = None) -> CodeSearch:
    """The embedded corpus, mined on first use (about a minute) and cached.

    Each test asks 1,000 queries over 10,000 functions. No query or document of a test occurs in
    training, nor does a document that differs from one only in class names and comments.

    Args:
        cache: folder for the result; default ``$MAGJAX_CACHE``, else ``~/.cache/magjax``.

    Raises:
        InputError: a package of the table is missing, or the cached files are damaged.

    >>> data = code_search()  # doctest: +SKIP
    >>> len(data.out_of_domain.queries), len(data.out_of_domain.documents)  # doctest: +SKIP
    (1000, 10000)
    """
    folder = cache_folder(cache) / "code_search" / _cache_key()
    if folder.is_dir():
        return _read(folder)
    _log.info("mining the code-search corpus from installed packages: about a minute, once.")
    data = mine_code_search(TRAINING_PACKAGES, OUT_OF_DOMAIN_PACKAGES)
    if not folder.is_dir():  # another process may have been quicker
        _write(data, folder)
    return data


def mine_code_search(
    training_packages: Sequence[str],
    out_of_domain_packages: Sequence[str],
    *,
    queries: int = 1_000,
    functions: int = 10_000,
) -> CodeSearch:
    """Mines and splits; the same package versions give the same corpus.

    Which functions are held out, and which are searched besides the answers, goes by the hash of
    their names, so that another version of a package moves few of them.

    Raises:
        InputError: a package is missing, or they hold too few functions.

    >>> len(mine_code_search(["bm25s"], ["tqdm"], queries=8, functions=40).train) > 20
    True
    """
    keys: set[str] = set()
    held_out = _distinct(out_of_domain_packages, keys)
    trained = _distinct(training_packages, keys)
    shared = Counter(_query_key(f) for f in (*held_out, *trained) if f.query)

    outside = _benchmark("code/out_of_domain", held_out, held_out, shared, queries, functions)
    undocumented = [f for f in trained if not f.documented]
    inside = _benchmark("code/in_domain", trained, undocumented, shared, queries, functions)

    tested = {text_key(text) for part in (inside, outside) for text in part.documents}
    asked = {text_key(q).casefold() for part in (inside, outside) for q in part.queries}
    pairs = []
    for function in trained:
        key = _query_key(function)
        if function.query and shared[key] <= _MAX_SHARED and key not in asked:
            if text_key(function.source) not in tested:
                pairs.append(function)
            asked.add(key)
    return CodeSearch(
        train=_training_set(pairs),
        in_domain=inside,
        out_of_domain=outside,
        versions={
            name: importlib.metadata.version(name)
            for name in (*training_packages, *out_of_domain_packages)
        },
    )


def _query_key(function: Function) -> str:
    return text_key(function.query).casefold()


def _distinct(packages: Iterable[str], keys: set[str]) -> list[Function]:
    """Functions without copies of those in ``keys``, which grows; names made unique.

    Documented functions come first, so that of two copies the one with a query is kept.
    """
    functions = [f for name in packages for f in mine_package(name)]
    kept, names = [], Counter[str]()
    for function in sorted(functions, key=lambda f: (not f.query, not f.documented)):
        key = clone_key(function.source)
        if key in keys:
            continue
        keys.add(key)
        names[function.name] += 1  # a property's getter and setter share one
        if names[function.name] > 1:
            name = f"{function.name}#{names[function.name]}"
            function = dataclasses.replace(function, name=name)
        kept.append(function)
    return kept


def _order(function: Function) -> bytes:
    return hashlib.sha256(function.name.encode()).digest()


def _benchmark(
    name: str,
    candidates: list[Function],
    fillers: list[Function],
    shared: Counter[str],
    queries: int,
    functions: int,
) -> Benchmark:
    unique = [f for f in candidates if f.query and shared[_query_key(f)] == 1]
    answers = sorted(unique, key=_order)[:queries]
    chosen = {f.name for f in answers}
    others = sorted((f for f in fillers if f.name not in chosen), key=_order)
    others = others[: functions - len(answers)]
    if len(answers) < queries or len(answers) + len(others) < functions:
        raise InputError(
            f"{name} needs {queries} documented functions and {functions} in all, but the packages "
            f"give {len(answers)} and {len(answers) + len(others)}; install the versions of "
            "constraints.txt."
        )
    corpus = sorted((*answers, *others), key=lambda f: f.name)
    answers.sort(key=lambda f: f.name)
    return Benchmark(
        name=name,
        query_ids=[f"query:{f.name}" for f in answers],
        queries=[f.query for f in answers],
        document_ids=[f.name for f in corpus],
        documents=[f.source for f in corpus],
        qrels={f"query:{f.name}": {f.name: 1} for f in answers},
    )


def _training_set(pairs: list[Function]) -> TrainingSet:
    return TrainingSet(
        query_ids=[f"query:{f.name}" for f in pairs],
        queries=[f.query for f in pairs],
        positives=[(i,) for i in range(len(pairs))],
        negatives=[()] * len(pairs),
        document_ids=[f.name for f in pairs],
        documents=[f.source for f in pairs],
        source="code/train",
    )


def _cache_key() -> str:
    """Package versions, this code, and Python's minor version, which decides what parses."""
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for module in (_code_mining.__file__, __file__):
        digest.update(Path(module).read_bytes())
    for name in (*TRAINING_PACKAGES, *OUT_OF_DOMAIN_PACKAGES):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "missing"  # mining then says what to install
        digest.update(f"{name}=={version}\n".encode())
    return digest.hexdigest()[:16]


def _write(data: CodeSearch, folder: Path) -> None:
    with write_folder(folder) as target:
        for part in _PARTS:
            records: TrainingSet | Benchmark = getattr(data, part)
            query_of = dict(
                zip(
                    (q.removeprefix("query:") for q in records.query_ids),
                    records.queries,
                    strict=True,
                )
            )
            rows = (
                {"id": name, "query": query_of.get(name), "document": text}
                for name, text in zip(records.document_ids, records.documents, strict=True)
            )
            write_json_lines(target / f"{part}.jsonl.gz", rows)
        meta = {"fingerprint": data.fingerprint, "versions": dict(data.versions)}
        write_json(target / "corpus.json", meta)


def _read(folder: Path) -> CodeSearch:
    try:
        meta = read_json(folder / "corpus.json")
        rows = {
            part: [
                Function(r["id"], r["query"] or "", r["document"], r["query"] is not None)
                for _, r in json_lines(folder / f"{part}.jsonl.gz")
            ]
            for part in _PARTS
        }
        tests = {}
        for part in _PARTS[1:]:
            functions = rows[part]
            answers = [f for f in functions if f.documented]
            once = Counter(_query_key(f) for f in answers)
            tests[part] = _benchmark(
                f"code/{part}", answers, functions, once, len(answers), len(functions)
            )
        data = CodeSearch(train=_training_set(rows["train"]), versions=meta["versions"], **tests)
        damage = None if data.fingerprint == meta["fingerprint"] else "the fingerprint differs"
    except (InputError, KeyError, TypeError) as error:
        damage = str(error)
    if damage:
        raise InputError(f"the cached corpus {folder} is damaged ({damage}); delete that folder.")
    return data
