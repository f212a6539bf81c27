import gzip
import json

import pytest

from magjax.checks import InputError
from magjax.data import read_beir, read_qrels

CORPUS = [
    {"_id": "d1", "title": "Sum", "text": "a + b"},
    {"_id": "d2", "title": None, "text": "a - b"},
    {"_id": "d 3", "text": ""},
]
QUERIES = [{"_id": "q1", "text": "what adds"}, {"_id": "q2", "text": "nobody judged"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td 3\t0\n"


@pytest.fixture
def folder(tmp_path):
    def make(corpus=CORPUS, queries=QUERIES, qrels=QRELS):
        root = tmp_path / "tiny"
        (root / "qrels").mkdir(parents=True, exist_ok=True)
        (root / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
        (root / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
        (root / "qrels" / "test.tsv").write_bytes(qrels.encode())
        return root

    return make


def test_titles_join_texts_and_only_judged_queries_are_kept(folder):
    benchmark = read_beir(folder())
    assert benchmark.name == "tiny"
    assert benchmark.documents == ["Sum a + b", "a - b", ""]
    assert benchmark.document_ids == ["d1", "d2", "d 3"]
    assert benchmark.query_ids == ["q1"]
    assert benchmark.qrels == {"q1": {"d1": 1, "d 3": 0}}


def test_gzipped_folder_equals_the_plain_one(folder):
    root = folder()
    plain = read_beir(root)
    for path in [*root.glob("*.jsonl"), *root.glob("qrels/*.tsv")]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert read_beir(root) == plain


def test_windows_line_ends_and_byte_order_mark(folder):
    qrels = "\ufeff" + QRELS.replace("\n", "\r\n")
    assert read_beir(folder(qrels=qrels)).qrels == {"q1": {"d1": 1, "d 3": 0}}


@pytest.mark.parametrize(
    "qrels",
    ["q1\td1\t1\n", "q1 d1 1", "q1\td1\t1.0\n", "q1 0 d1 1", "q1\t0\td1\t1\nq1\t0\td1\t1\n"],
)
def test_first_judgement_of_a_file_without_header_is_kept(folder, qrels):
    assert read_beir(folder(qrels=qrels)).qrels == {"q1": {"d1": 1}}


def test_grades_keep_sign_and_size(tmp_path):
    (tmp_path / "a.tsv").write_text("q\ta\t-1\nq\tb\t3\n")
    assert read_qrels(tmp_path / "a.tsv") == {"q": {"a": -1, "b": 3}}


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (QRELS + "q1\td9\t1\n", "4: document 'd9' is not in the corpus"),
        (QRELS + "q9\td1\t1\n", "4: query 'q9' is not among the queries"),
        (QRELS + "q1\td1\n", "4: 2 columns where 3 or 4"),
        (QRELS + "q1\td2\t0.5\n", "4: the grade '0.5' is no whole number"),
        (QRELS + "q1\td2\tnan\n", "4: the grade 'nan' is no whole number"),
        (QRELS + "q1\td2\tyes\n", "4: the grade 'yes' is no number"),
        (QRELS + "q1\td1\t2\n", "4: query 'q1' grades document 'd1' 2, before 1"),
    ],
)
def test_wrong_judgement_names_file_and_line(folder, qrels, message):
    with pytest.raises(InputError, match=rf"test\.tsv:{message}"):
        read_beir(folder(qrels=qrels))


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ([*CORPUS, {"_id": "d1", "text": "x"}], "4: id 'd1' occurred in line 1"),
        ([*CORPUS, {"_id": "", "text": "x"}], "4: '_id' is ''"),
        ([*CORPUS, {"text": "x"}], "4: '_id' is None"),
        ([*CORPUS, {"_id": "d4"}], "4: 'text' must be a string"),
        ([*CORPUS, {"_id": "d4", "text": None}], "4: 'text' must be a string"),
        ([*CORPUS, {"_id": "d4", "text": "x", "title": 3}], "4: 'text' must be a string"),
    ],
)
def test_wrong_document_names_file_and_line(folder, corpus, message):
    with pytest.raises(InputError, match=rf"corpus\.jsonl:{message}"):
        read_beir(folder(corpus=corpus))


def test_empty_query_names_file_and_line(folder):
    with pytest.raises(InputError, match=r"queries\.jsonl:3: query 'q3' is empty"):
        read_beir(folder(queries=[*QUERIES, {"_id": "q3", "text": " "}]))


def test_numbers_as_ids_are_read_as_strings(folder):
    corpus = [*CORPUS, {"_id": 12, "text": "x"}]
    assert read_beir(folder(corpus=corpus, qrels="q1\t12\t1")).qrels == {"q1": {"12": 1}}


def test_missing_parts_are_named(folder, tmp_path):
    with pytest.raises(InputError, match=r"is no folder.*corpus\.jsonl"):
        read_beir(tmp_path / "none")
    root = folder()
    with pytest.raises(InputError, match=r"unknown split of .* 'tst'; known: test\. Did you mean"):
        read_beir(root, split="tst")
    (root / "corpus.jsonl").unlink()
    with pytest.raises(InputError, match=r"corpus\.jsonl does not exist"):
        read_beir(root)
    (root / "qrels" / "test.tsv").unlink()
    with pytest.raises(InputError, match=r"holds no \.tsv file"):
        read_beir(root)
    with pytest.raises(InputError, match="holds no judgement"):
        read_beir(folder(qrels="query-id\tcorpus-id\tscore\n"))


@pytest.mark.parametrize(
    ("name", "split", "queries", "documents"),
    [
        ("scifact", "test", 300, 5_183),
        ("scifact", "train", 809, 5_183),
        ("cranfield", "test", 225, 1_400),
        ("adi", "test", 35, 82),
        ("npl-vaswani", "test", 93, 11_429),
        ("xquad", "test", 1_190, 240),
        ("hotpotqa-sample", "dev", 500, 4_968),
    ],
)
def test_published_sets_have_their_published_sizes(data_root, name, split, queries, documents):
    benchmark = read_beir(data_root / name, split=split)
    assert (len(benchmark.queries), len(benchmark.documents)) == (queries, documents)
