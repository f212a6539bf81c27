import gzip
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from magjax.checks import InputError
from magjax.data import (
    OUT_OF_DOMAIN_PACKAGES,
    TRAINING_PACKAGES,
    code_search,
    mine_code_search,
    text_key,
)
from magjax.data import _code_search as module
from magjax.data._code_mining import clone_key

PARTS = ("train", "in_domain", "out_of_domain")


def test_every_package_is_a_pinned_requirement():
    def normal(name):
        return re.sub(r"[-_.]+", "-", name).lower()

    root = Path(__file__).parents[2]
    lines = (root / "requirements.txt").read_text().splitlines()
    required = {normal(re.split(r"[^\w.-]", line)[0]) for line in lines if line[:1].isalpha()}
    direct = {
        normal(re.split(r"[^\w.-]", need)[0])
        for name in required
        for need in importlib.metadata.requires(name) or ()
        if "extra" not in need.partition(";")[2]
    }
    packages = (*TRAINING_PACKAGES, *OUT_OF_DOMAIN_PACKAGES)
    assert len(set(packages)) == len(packages)
    assert {normal(name) for name in packages} <= required | direct


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes distributions out of nothing: modules beside a list of files."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, **modules):
        folder, info = tmp_path / name, tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        info.mkdir()
        files = []
        for module_name, text in modules.items():
            path = folder / f"{module_name}.py"
            path.write_text(text)
            files.append(f"{name}/{module_name}.py,,")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if files:
            (info / "RECORD").write_text("\n".join(files) + "\n")
        return name

    return make


def functions(word, count, docstring="Does {word} number {i} well."):
    return "\n".join(
        f"def {word}_{i}(a, b):\n    '''{docstring.format(word=word, i=i)}'''\n"
        f"    return a * {i} + b - {len(word)} + a * b\n"
        for i in range(count)
    )


def bare(word, count):
    return "\n".join(
        f"def {word}_{i}(a, b):\n    return b * {i} + a - {len(word)} + b\n" for i in range(count)
    )


@pytest.fixture
def small(install):
    train = install(
        "fakeadd", many=functions("adding", 30), more=bare("silent", 10), broken="def f(:\n"
    )
    other = install("fakeplot", many=functions("plotting", 12), more=bare("quietly", 6))
    return mine_code_search([train], [other], queries=5, functions=12)


def test_split_has_the_sizes_asked_for(small):
    assert len(small.train) == 25
    for part in (small.in_domain, small.out_of_domain):
        assert (len(part.queries), len(part.documents)) == (5, 12)
        for query in part.query_ids:
            assert part.qrels[query] == {query.removeprefix("query:"): 1}
    assert small.versions == {"fakeadd": "1.0", "fakeplot": "1.0"}


def test_corpora_hold_functions_without_docstrings(small):
    assert sum("silent" in name for name in small.in_domain.document_ids) == 7
    assert any("quietly" in name for name in small.out_of_domain.document_ids)


def test_no_test_text_is_in_training(small):
    assert_no_leak(small)


def assert_no_leak(data):
    trained = {text_key(text) for text in data.train.documents}
    clones = {clone_key(text) for text in data.train.documents}
    asked = {text_key(text).casefold() for text in data.train.queries}
    assert len(trained) == len(clones) == len(data.train)
    for part in (data.in_domain, data.out_of_domain):
        assert not trained & {text_key(text) for text in part.documents}
        assert not clones & {clone_key(text) for text in part.documents}
        assert not asked & {text_key(text).casefold() for text in part.queries}
    inside, outside = (
        {clone_key(t) for t in p.documents} for p in (data.in_domain, data.out_of_domain)
    )
    assert len(inside) == len(data.in_domain.documents)
    assert not inside & outside
    # The document is no copy of the query's text.
    for part in (data.in_domain, data.out_of_domain):
        text = dict(zip(part.document_ids, part.documents, strict=True))
        for name, query in zip(part.query_ids, part.queries, strict=True):
            first_lines = "\n".join(text[name.removeprefix("query:")].splitlines()[1:3])
            assert f'"""{query}' not in first_lines


def test_copies_across_the_domains_are_in_the_test_only(install):
    shared = functions("sharing", 10)
    train = install("fakeadd", many=functions("adding", 30) + shared, more=bare("silent", 9))
    other = install("fakeplot", many=functions("plotting", 12) + shared)
    data = mine_code_search([train], [other], queries=5, functions=12)
    assert not any("sharing" in text for text in data.train.documents)
    assert_no_leak(data)


def test_sentences_of_many_functions_are_no_queries(install):
    train = install(
        "fakeadd",
        many=functions("adding", 30),
        same=functions("same", 4, "Does what the others do."),
        twice=functions("twice", 2, "Does what one other does."),
        more=bare("silent", 9),
    )
    other = install("fakeplot", many=functions("plotting", 12))
    data = mine_code_search([train], [other], queries=5, functions=12)
    assert "Does what the others do." not in data.train.queries
    assert list(data.train.queries).count("Does what one other does.") == 1
    assert "Does what one other does." not in data.in_domain.queries


def test_mining_twice_gives_the_same_corpus(small):
    again = mine_code_search(["fakeadd"], ["fakeplot"], queries=5, functions=12)
    assert again == small
    assert again.fingerprint == small.fingerprint


def test_too_few_functions_are_an_error(install):
    train = install("fakeadd", many=functions("adding", 30))
    other = install("fakeplot", many=functions("plotting", 12))
    with pytest.raises(InputError, match=r"code/out_of_domain needs 5 .* and 50 in all, but .* 12"):
        mine_code_search([train], [other], queries=5, functions=50)


def test_missing_packages_are_named(install):
    with pytest.raises(InputError, match="needs the package fakenone, which is not installed"):
        mine_code_search(["fakenone"], ["fakenone"])
    install("fakeempty")
    with pytest.raises(InputError, match="fakeempty is installed without a list of its files"):
        mine_code_search(["fakeempty"], ["fakeempty"])


@pytest.fixture
def cached(small, tmp_path, monkeypatch):
    """``code_search`` over the small packages, with a count of how often it mined."""
    monkeypatch.setattr(module, "TRAINING_PACKAGES", ("fakeadd",))
    monkeypatch.setattr(module, "OUT_OF_DOMAIN_PACKAGES", ("fakeplot",))
    mined = []
    monkeypatch.setattr(module, "mine_code_search", lambda *packages: mined.append(1) or small)
    monkeypatch.setenv("MAGJAX_CACHE", str(tmp_path / "cache"))
    return mined


def cache_folder(tmp_path):
    (folder,) = (tmp_path / "cache" / "code_search").iterdir()
    return folder


def test_second_call_reads_the_cache(small, cached, tmp_path):
    first, second = code_search(), code_search()
    assert cached == [1]
    assert first == second == small
    assert sorted(path.name for path in cache_folder(tmp_path).iterdir()) == sorted(
        ["corpus.json", *(f"{part}.jsonl.gz" for part in PARTS)]
    )


def test_named_cache_comes_before_the_environment(cached, tmp_path):
    code_search(tmp_path / "own")
    assert (tmp_path / "own" / "code_search").is_dir()
    assert not (tmp_path / "cache").exists()


def test_other_versions_are_mined_anew(cached, monkeypatch):
    code_search()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.0")
    code_search()
    assert cached == [1, 1]


def test_damaged_cache_is_an_error(cached, tmp_path):
    code_search()
    file = cache_folder(tmp_path) / "train.jsonl.gz"
    text = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(text.replace(b"* 7 +", b"* 8 +", 1)))
    with pytest.raises(InputError, match=r"damaged \(the fingerprint differs\); delete"):
        code_search()
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"damaged \(.*gzip stream is broken"):
        code_search()
    file.unlink()
    with pytest.raises(InputError, match=r"damaged \(.*does not exist"):
        code_search()


def test_importing_the_package_loads_no_heavy_library():
    heavy = ("transformers", "matplotlib", "tensorflow_datasets", "datasets", "grain", "torch")
    code = f"import sys, magjax.data; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_full_corpus_has_its_sizes_and_leaks_nothing():
    data = code_search()
    assert len(data.train) > 15_000
    for part in (data.in_domain, data.out_of_domain):
        assert (len(part.queries), len(part.documents)) == (1_000, 10_000)
    assert_no_leak(data)
