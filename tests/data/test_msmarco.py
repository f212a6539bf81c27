import gzip

import pytest

from magjax.checks import InputError
from magjax.data import read_msmarco, read_msmarco_triples


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "collection.tsv").write_text("0\ta + b\n1\ta - b\tor so\n2\ta / b\n")
    (tmp_path / "queries.dev.tsv").write_text("10\twhat adds\n11\tnobody judged\n")
    (tmp_path / "queries.train.tsv").write_text("20\twhat subtracts\n21\twhat divides\n")
    (tmp_path / "qrels.dev.small.tsv").write_text("10\t0\t0\t1\n")
    return tmp_path


def test_judged_queries_over_the_collection(folder):
    benchmark = read_msmarco(folder)
    assert benchmark.queries == ["what adds"]
    assert benchmark.documents == ["a + b", "a - b\tor so", "a / b"]
    assert benchmark.qrels == {"10": {"0": 1}}
    assert benchmark.name.endswith("/dev.small")


def test_gzipped_files_equal_plain_ones(folder):
    plain = read_msmarco(folder)
    for path in folder.glob("*.tsv"):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert read_msmarco(folder) == plain


def test_text_triples_of_one_query_are_one_record(tmp_path):
    file = tmp_path / "triples.tsv"
    file.write_text(
        "what adds\ta + b\ta - b\nwhat subtracts\ta - b\ta + b\n"
        "what adds\tb + a\ta / b\nwhat adds\ta + b\tb + a\n"
    )
    data = read_msmarco_triples(file)
    assert data.queries == ["what adds", "what subtracts"]
    assert data.documents == ["a + b", "a - b", "b + a", "a / b"]
    assert data.positives == [(0, 2), (1,)]
    assert data.negatives == [(1, 3), (0,)]  # "b + a" answers it in another line


def test_id_triples_look_texts_up(folder):
    (folder / "ids.tsv").write_text("20\t1\t0\n21\t2\t0\n20\t1\t2\n")
    data = read_msmarco_triples(folder / "ids.tsv", folder)
    assert data.query_ids == ["20", "21"]
    assert data.queries == ["what subtracts", "what divides"]
    assert data.document_ids == ["1", "0", "2"]
    assert data.negatives == [(1, 2), (1,)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("20\t1", "2 columns where query, positive and negative"),
        ("20\t\t1", "3 columns where"),
        ("29\t1\t0", "query '29' is not in the queries"),
        ("20\t9\t0", "document '9' is not in the collection"),
        ("20\t1\t1", "are the same"),
    ],
)
def test_wrong_triple_names_file_and_line(folder, line, message):
    (folder / "ids.tsv").write_text(f"20\t1\t0\n{line}\n")
    with pytest.raises(InputError, match=rf"ids\.tsv:2: .*{message}"):
        read_msmarco_triples(folder / "ids.tsv", folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("collection.tsv", "0\tx\n0\ty\n", "2: id '0' occurred before"),
        ("collection.tsv", "0\tx\nword\n", "2: an id, a tab and a text"),
        ("queries.dev.tsv", "10\tx\n11\t \n", "2: query '11' is empty"),
        ("qrels.dev.small.tsv", "10\t0\t7\t1\n", "1: document '7' is not in the corpus"),
        ("qrels.dev.small.tsv", "17\t0\t0\t1\n", "1: query '17' is not among the queries"),
    ],
)
def test_wrong_line_names_file_and_line(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=f"{name}:{message}"):
        read_msmarco(folder)


def test_missing_files_and_empty_triples(folder):
    with pytest.raises(InputError, match=r"qrels\.eval\.tsv does not exist|queries\.eval\.tsv"):
        read_msmarco(folder, split="eval")
    (folder / "none.tsv").write_text("\n")
    with pytest.raises(InputError, match="holds no triple"):
        read_msmarco_triples(folder / "none.tsv")
