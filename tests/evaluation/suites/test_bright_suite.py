"""BRIGHT: ids to leave out, both sizes of documents, and the files of its repository."""

import gzip
import json
import math

import pytest
from suite_cases import values, write_lines

from magjax.checks import InputError
from magjax.data import read_bright
from magjax.evaluation.suites import SUITES, SuiteSettings

SECOND = 1 / math.log2(3)
DOCUMENTS = [{"id": f"x/{n}_0.txt", "content": f"{n} 0"} for n in (4, 3, 2)]


def example(name="0", gold=("x/3_0.txt",), excluded=("N/A",), query="1 0"):
    return {
        "query": query,
        "reasoning": "why",
        "id": name,
        "excluded_ids": list(excluded),
        "gold_ids": list(gold),
        "gold_ids_long": ["x.txt"],
        "gold_answer": "so",
    }


def write_task(root, task, examples, documents=DOCUMENTS):
    write_lines(root / "examples" / f"{task}.jsonl", examples)
    write_lines(root / "documents" / f"{task}.jsonl", documents)


def run(model, root, **options):
    return SUITES["bright"](model, root, SuiteSettings(options=options))


def test_excluded_ids_are_never_returned_and_tasks_weigh_the_same(vector_model, tmp_path):
    write_task(tmp_path, "biology", [example(), example("1", query="2 0")])  # twice at place 2
    write_task(tmp_path, "aops", [example(excluded=["x/4_0.txt"])])  # place 1 once 4 is left out
    report = run(vector_model, tmp_path)
    assert values(report, "ndcg@10") == pytest.approx({"biology": SECOND, "aops": 1.0})
    (average,) = report.averages
    assert average.label == "mean of 2 tasks"
    assert average.values["ndcg@10"] == pytest.approx((SECOND + 1) / 2)
    assert report.retrieval[1].ranking.documents == (("x/3_0.txt", "x/2_0.txt"),)
    assert report.notes[0] == "1 documents in all are excluded for single queries."
    assert report.notes[1].startswith("2 of BRIGHT's 12 tasks are here; missing: earth_science, ")


def test_long_documents_are_searched_for_their_own_answers(vector_model, tmp_path):
    write_task(tmp_path, "pony", [example()])
    write_lines(
        tmp_path / "long_documents" / "pony.jsonl",
        [{"id": "y.txt", "content": "2 0"}, {"id": "x.txt", "content": "1 0"}],
    )
    report = run(vector_model, tmp_path, long="true")
    assert values(report, "recall@1") == {"pony (long)": 0.0}
    assert values(report, "recall@10") == {"pony (long)": 1.0}


def test_rewritten_queries_have_a_folder_of_their_own(vector_model, tmp_path):
    write_task(tmp_path, "pony", [example()])
    write_lines(tmp_path / "gpt4_reason" / "pony.jsonl", [example(query="-1 0")])
    assert values(run(vector_model, tmp_path, queries="gpt4_reason"), "mrr@10") == {"pony": 0.5}
    report = run(vector_model, tmp_path, queries="gpt4_reason")
    assert report.retrieval[0].ranking.documents[0][0] == "x/2_0.txt"
    with pytest.raises(InputError, match=r"other_reason holds no file of task 'pony'"):
        run(vector_model, tmp_path, queries="other_reason")


def test_parquet_shards_equal_json_lines(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    examples = [example(str(i), excluded=["x/4_0.txt"]) for i in range(3)]
    write_task(tmp_path / "lines", "biology", examples)
    for part, rows in (("00000", examples[:2]), ("00001", examples[2:])):
        (tmp_path / "table" / "examples").mkdir(parents=True, exist_ok=True)
        parquet.write_table(
            pa.Table.from_pylist(rows),
            tmp_path / "table" / "examples" / f"biology-{part}-of-00002.parquet",
        )
    (tmp_path / "table" / "documents").mkdir()
    file = tmp_path / "table" / "documents" / "biology-00000-of-00001.parquet"
    parquet.write_table(pa.Table.from_pylist(DOCUMENTS), file)
    table = read_bright(tmp_path / "table", "biology")
    assert table == read_bright(tmp_path / "lines", "biology")
    assert table.excluded == {str(i): ["x/4_0.txt"] for i in range(3)}
    plain = tmp_path / "lines" / "documents" / "biology.jsonl"
    plain.with_suffix(".jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert read_bright(tmp_path / "lines", "biology") == table
    file.write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=r"biology-00000-of-00001\.parquet is no Parquet file"):
        read_bright(tmp_path / "table", "biology")


def test_documents_that_stand_there_twice_are_kept_once(tmp_path):
    write_task(tmp_path, "pony", [example()], [*DOCUMENTS, DOCUMENTS[0]])
    assert len(read_bright(tmp_path, "pony").documents) == 3
    write_task(tmp_path, "pony", [example()], [*DOCUMENTS, {**DOCUMENTS[0], "content": "other"}])
    with pytest.raises(
        InputError, match=r"documents/pony\.jsonl:4: document 'x/4_0\.txt' occurred"
    ):
        read_bright(tmp_path, "pony")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (example(gold=["x/9.txt"]), "the judgements of query '0' name document 'x/9.txt'"),
        (example(excluded=["x/9.txt"]), "query '0' excludes document 'x/9.txt', but the corpus"),
        (example(excluded=["x/3_0.txt"]), "'x/3_0.txt' is relevant to query '0' and excluded"),
        ({**example(), "excluded_ids": "N/A"}, r"pony\.jsonl:1: 'excluded_ids' is 'N/A', but must"),
        ({**example(), "query": None}, r"pony\.jsonl:1: 'query' is None, but must be a string"),
        ({"query": "1 0", "id": "0"}, r"pony\.jsonl:1: 'gold_ids' is None, but must be a list"),
        (example(query=" "), "query '0' is empty"),
    ],
)
def test_wrong_rows_are_named(tmp_path, wrong, message):
    write_task(tmp_path, "pony", [wrong])
    with pytest.raises(InputError, match=message):
        read_bright(tmp_path, "pony")


def test_an_empty_root_says_what_was_looked_for(vector_model, tmp_path):
    with pytest.raises(InputError, match=r"holds no BRIGHT task: .*/documents has no parquet or "
                       r"JSONL file of biology, earth_science"):  # fmt: skip
        run(vector_model, tmp_path)
    write_task(tmp_path, "pony", [example()])
    with pytest.raises(InputError, match=r"long_documents has no parquet"):
        run(vector_model, tmp_path, long="true")
    (tmp_path / "documents" / "pony.parquet").write_bytes(b"")
    with pytest.raises(InputError, match="holds task 'pony' as parquet and as JSONL"):
        run(vector_model, tmp_path)


def test_a_broken_task_stops_before_anything_is_embedded(vector_model, embedded, tmp_path):
    write_task(tmp_path, "biology", [example()])
    write_task(tmp_path, "pony", [example(gold=["nowhere"])])
    with pytest.raises(InputError, match="pony: the judgements"):
        run(vector_model, tmp_path)
    assert embedded == []
    (tmp_path / "documents" / "pony.jsonl").write_text(json.dumps(DOCUMENTS))
    with pytest.raises(InputError, match=r"pony\.jsonl:1: list where a JSON object was needed"):
        run(vector_model, tmp_path)
