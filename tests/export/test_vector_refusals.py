"""What cannot be stored, or would rank otherwise, is refused before anything is written."""

import json
import sys

import export_cases as cases
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.export import Embeddings, search_vectors, write_vectors
from magjax.similarity import Score

DOCUMENTS = cases.normal(0, 30)
QUERIES = cases.normal(1, 20)


def write(out, target, score=cases.SCORES[0], **settings):
    return write_vectors(
        [cases.documents_of(DOCUMENTS)], out, target=target, score=score, **settings
    )


def test_wrong_embeddings_are_refused(tmp_path):
    with pytest.raises(InputError, match="document id 'x' occurs twice"):
        Embeddings.from_array("document", ["x", "x"], DOCUMENTS[:2])
    with pytest.raises(InputError, match="must be a string that is not empty"):
        Embeddings.from_array("document", ["x", " "], DOCUMENTS[:2])
    with pytest.raises(InputError, match="no valid Unicode"):
        Embeddings.from_array("document", ["x\ud800"], DOCUMENTS[:1])
    with pytest.raises(InputError, match="text of document 'd 0' is no valid Unicode"):
        write_vectors(
            [cases.documents_of(DOCUMENTS[:1], texts=["x\ud800"])],
            tmp_path / "a",
            target="numpy",
            score=Score.of("dot"),
        )
    with pytest.raises(InputError, match="for 3 ids"):
        Embeddings.from_array("document", ["x", "y", "z"], DOCUMENTS[:2])
    with pytest.raises(InputError, match="2 texts for 1 ids"):
        Embeddings.from_array("document", ["x"], DOCUMENTS[:1], texts=["a", "b"])
    with pytest.raises(InputError, match="no document to export"):
        Embeddings.from_array("document", [], DOCUMENTS[:0])
    with pytest.raises(InputError, match="7 and 24 dimensions"):
        write_vectors(
            [
                cases.documents_of(DOCUMENTS),
                cases.documents_of(np.ones((2, 7), np.float32), side="query"),
            ],
            tmp_path / "a",
            target="numpy",
            score=Score.of("dot"),
        )
    ragged = Embeddings(
        "document", ["a", "b"], 24, lambda: iter([DOCUMENTS[:1], np.ones((1, 7), np.float32)])
    )
    short = Embeddings("document", ["a", "b"], 24, lambda: iter([DOCUMENTS[:1]]))
    long = Embeddings("document", ["a", "b"], 24, lambda: iter([DOCUMENTS[:3]]))
    for embeddings, message in (
        (ragged, r"shape \(1, 7\)"),
        (short, "2 ids, but 1 document"),
        (long, "more document embeddings than the 2 ids"),
    ):
        with pytest.raises(InputError, match=message):
            write_vectors([embeddings], tmp_path / "a", target="numpy", score=Score.of("dot"))
    assert not list(tmp_path.iterdir())


def test_wrong_queries_are_refused(tmp_path):
    write(tmp_path / "a", "numpy")
    with pytest.raises(InputError, match=r"shape \(2, 7\), but 24 dimensions"):
        search_vectors(tmp_path / "a", np.ones((2, 7), np.float32))
    with pytest.raises(InputError, match="not finite"):
        search_vectors(tmp_path / "a", np.full((1, 24), np.inf, np.float32))


def test_wrong_places_and_settings_are_refused(tmp_path):
    pytest.importorskip("faiss")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="was not written by magjax"):
        write(tmp_path / "other", "numpy", overwrite=True)
    assert (tmp_path / "other" / "thesis.txt").read_text() == "mine"
    for target, out, message in (
        ("faiss", "http://localhost:1", "address that starts with http://.*writes to a folder"),
        ("pgvector", tmp_path / "x", r"writes to postgresql://\.\.\. or postgres://\.\.\."),
        ("faisss", tmp_path / "x", "Did you mean 'faiss'"),
    ):
        with pytest.raises(InputError, match=message):
            write(out, target)
    for settings, message in (
        ({"index": "hsnw"}, "Did you mean 'hnsw'"),
        ({"index": "hnsw", "options": {"M": 3}}, "unknown option"),
        ({"index": "hnsw", "options": {"m": 0}}, "m=0"),
        ({"options": {"m": 3}}, "'flat' has no options"),
        ({"name": "a b"}, "name 'a b'"),
        ({"largest_norm": 3.0}, "belongs to an augmentation"),
        (
            {"augment": "euclidean", "largest_norm": 1e-3, "score": Score.of("dot")},
            "build the index",
        ),
    ):
        with pytest.raises(InputError, match=message):
            write(tmp_path / "x", "faiss", **settings)
    assert not (tmp_path / "x").exists()
    with pytest.raises(InputError, match="queries alone"):
        write_vectors(
            [cases.documents_of(QUERIES, side="query")],
            tmp_path / "x",
            target="faiss",
            score=Score.of("dot"),
            augment="euclidean",
        )


def test_a_missing_package_is_named_before_anything_is_embedded(tmp_path, monkeypatch):
    def nothing():
        raise AssertionError("embedded in vain")

    monkeypatch.setitem(sys.modules, "faiss", None)
    embeddings = Embeddings("document", ["a"], 2, nothing)
    with pytest.raises(InputError, match=r"needs the package faiss: pip install -e '\.\[faiss\]'"):
        write_vectors([embeddings], tmp_path / "a", target="faiss", score=Score.of("dot"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda told: told.pop("metric"), "exactly the fields"),
        (lambda told: told.update(format=2), "format 1 only"),
        (lambda told: told.update(metric="manhattan"), "unknown metric"),
        (lambda told: told["score"].update(gamma_query=3.0), "gamma_query"),
        (lambda told: told.update(target="pinecone"), "unknown target 'pinecone'"),
    ],
)
def test_an_edited_description_is_refused(tmp_path, change, message):
    out = tmp_path / "a"
    write(out, "numpy")
    told = json.loads((out / "vectors.json").read_text())
    change(told)
    (out / "vectors.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match=message):
        search_vectors(out, QUERIES)
