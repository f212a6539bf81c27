"""The RAG suite on a tiny random model: answer recall, a generator, and input that is wrong."""

import json

import pytest
from chat_server import completion, failure, serving

from magjax.checks import InputError, RunError
from magjax.evaluation.rag import has_answer
from magjax.evaluation.suites import SUITES, SuiteSettings, write_suite

CORPUS = [
    {"_id": "add", "title": "sum", "text": "adds two numbers"},
    {"_id": "mul", "title": "product", "text": "multiplies two numbers"},
    {"_id": "sort", "title": "", "text": "sorts a list"},
]
QUESTIONS = [
    {"_id": "q1", "question": "adds two numbers", "answers": ["two numbers"]},
    {"_id": "q2", "question": "multiplies", "answers": ["product"]},  # in a title alone
    {"_id": "q3", "question": "does it sort", "answers": ["yes"]},
    {"_id": "q4", "question": "sort", "answers": ["The List", "a heap"]},
]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    write_lines(folder / "corpus.jsonl", CORPUS)
    write_lines(folder / "qa.jsonl", QUESTIONS)
    return folder


@pytest.fixture
def run(root, small_model):
    def run_suite(model=small_model, **how):
        options = {name: str(value) for name, value in how.pop("options", {}).items()}
        return SUITES["rag"](model, root, SuiteSettings(options=options, **how))

    return run_suite


def asked(server, tmp_path, **options):
    quick = {"endpoint": server.endpoint, "model": "tiny", "cache": tmp_path / "a.sqlite"}
    return quick | {"attempts": 1} | options


def test_recall_counts_what_the_ranking_holds(run):
    report = run(bm25=True, options={"ks": "1,2,3"})
    assert [row.system for row in report.rows] == ["model", "bm25"]
    texts = {row["_id"]: row["text"] for row in CORPUS}
    for row, result in zip(report.rows, report.retrieval, strict=True):
        assert row.counts == {"questions": 4, "searchable": 3, "passages": 3}
        found = dict(zip(result.ranking.query_ids, result.ranking.documents, strict=True))
        for k in (1, 2, 3):
            for match, name in (("dpr", "answer_recall"), ("squad", "answer_recall_squad")):
                hits = [
                    any(
                        has_answer(texts[d], q["answers"], match=match) for d in found[q["_id"]][:k]
                    )
                    for q in QUESTIONS
                    if q["answers"] != ["yes"]
                ]
                assert row.values[f"{name}@{k}"] == pytest.approx(sum(hits) / 3)
    model, bm25 = report.rows
    assert model.values["answer_recall@3"] == 1 / 3  # "The List" has an article too many
    assert model.values["answer_recall_squad@3"] == 2 / 3
    assert bm25.values["answer_recall@1"] == 1 / 3
    low, high = model.intervals["answer_recall@3"]
    assert low <= 1 / 3 <= high
    assert "1 of 4 questions have the answer yes or no" in " ".join(report.notes)
    assert "answer_recall@3" in report.format()


def test_titles_are_searched_if_asked(run):
    report = run(options={"ks": "3", "search_titles": "true"})
    assert report.rows[0].values["answer_recall@3"] == 2 / 3
    assert "title or text" in report.notes[-2]


def test_every_question_is_written_with_its_first_hit(run, tmp_path):
    report = run(options={"ks": "1,3"})
    write_suite(tmp_path / "out", report, {"checkpoint": "tiny"})
    items = [
        json.loads(line)
        for line in (tmp_path / "out" / "per_item" / "tiny.jsonl").read_text().splitlines()
    ]
    assert [item["question_id"] for item in items] == ["q1", "q2", "q3", "q4"]
    assert items[2] == {
        "question_id": "q3",
        "question": "does it sort",
        "answers": ["yes"],
        "yes_no": True,
        "answer_rank": None,
    }
    assert items[0]["answer_rank"] in (1, 2)
    assert items[1]["answer_rank"] is None
    assert (tmp_path / "out" / "runs" / "tiny.trec").read_text().count("\n") == 12
    per_query = (tmp_path / "out" / "per_query" / "tiny.jsonl").read_text().splitlines()
    assert [json.loads(line)["query_id"] for line in per_query] == ["q1", "q2", "q4"]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["rows"][0]["details"]["yes_no"] == 1
    assert results["rows"][0]["score"]["variant"] == "qnorm"


def test_a_generator_reads_the_first_passages_and_is_measured(run, tmp_path):
    right = {"adds two numbers": "two numbers", "multiplies": "the sum", "does it sort": "Yes."}

    def answer(prompt, _):
        question = prompt.rsplit("Question: ", 1)[1].removesuffix("\nAnswer:")
        return completion(right.get(question, "a list"), prompt_tokens=100, completion_tokens=2)

    with serving(answer) as s:
        options = asked(s, tmp_path, passages=2, max_tokens=9, price_prompt=1, price_completion=10)
        report = run(seed=5, options={"ks": "1", **options})
        assert s.paths[0] == "/v1/models"
        assert len(s.bodies) == 4
        again = run(seed=5, options={"ks": "1", **options})
        assert len(s.bodies) == 4
        run(seed=6, options={"ks": "1", **options})
        assert len(s.bodies) == 8
    assert {body["max_tokens"] for body in s.bodies} == {9}
    assert {body["seed"] for body in s.bodies} == {5, 6}
    ranked = report.retrieval[0].ranking
    first = {row["_id"]: row for row in CORPUS}[ranked.documents[0][0]]
    shown = f"[1] {first['title']}\n{first['text']}" if first["title"] else f"[1] {first['text']}"
    assert any(shown in b["messages"][0]["content"] for b in s.bodies)
    assert all(b["messages"][0]["content"].count("\n[2] ") == 1 for b in s.bodies)
    assert not any("[3] " in b["messages"][0]["content"] for b in s.bodies)
    (row,) = report.rows
    assert row.values["exact_match"] == 3 / 4
    assert row.values["f1"] == 3 / 4
    assert (row.counts["answered"], row.counts["failed"]) == (4, 0)
    generation = row.details["generation"]
    assert (generation["asked"], generation["prompt_tokens"]) == (4, 400)
    assert generation["cost"] == pytest.approx((400 + 8 * 10) / 1e6)
    assert generation["request"]["max_tokens"] == 9
    assert again.rows[0].details["generation"]["cached"] == 4
    assert again.rows[0].values == row.values
    assert report.per_item["tiny"][2]["generated"] == "Yes."
    assert report.per_item["tiny"][2]["exact_match"] == 1.0
    assert "model: tiny: 4 answers (4 asked, 0 from the cache)" in report.notes[-1]


def test_failed_questions_are_left_out_of_the_measures_and_said(run, tmp_path):
    def answer(prompt, _):
        return failure(500, "boom") if "does it sort" in prompt else completion("product")

    with serving(answer) as s:
        report = run(options=asked(s, tmp_path, ks=1))
    (row,) = report.rows
    assert (row.counts["answered"], row.counts["failed"]) == (3, 1)
    assert row.values["exact_match"] == 1 / 3
    assert "1 failed and are left out: q3 (the first: HTTP 500: boom" in report.notes[-1]
    assert report.per_item["tiny"][2]["failure"].startswith("HTTP 500: boom")


def test_without_passages_and_with_an_own_template(run, root, tmp_path):
    (root / "prompt.txt").write_text("Q {question} {{}}\n")
    with serving(lambda *_: completion("x")) as s:
        run(options=asked(s, tmp_path, passages=0, template="prompt.txt", limit=1))
        report = run(options=asked(s, tmp_path, passages=0, limit=1, send_seed="false"))
    assert s.bodies[0]["messages"][0]["content"] == "Q adds two numbers {}"
    assert "passages" not in s.bodies[1]["messages"][0]["content"]
    assert "seed" not in s.bodies[1]
    assert report.notes[0] == "only the first 1 of 4 questions were asked."


def test_offline_needs_no_server_but_every_answer(run, tmp_path):
    with serving(lambda *_: completion("x")) as s:
        options = asked(s, tmp_path, ks=1)
        first = run(options=options)
    offline = run(options={**options, "offline": "true"})
    assert offline.rows[0].values == first.rows[0].values
    with pytest.raises(InputError, match="lacks the answers to 4 of 4 prompts"):
        run(options={**options, "offline": "true", "max_tokens": 3})


def test_an_endpoint_that_is_down_stops_before_anything_is_embedded(run, tmp_path, monkeypatch):
    from magjax.evaluation.suites import _rag

    monkeypatch.setattr(_rag, "embed_benchmark", None)
    options = {"endpoint": "http://127.0.0.1:9/v1", "model": "tiny", "cache": tmp_path / "a.sqlite"}
    with pytest.raises(RunError, match="gave no answer: connection refused"):
        run(options=options)
    for models, message in (
        (failure(500, "no memory"), "HTTP 500: no memory"),
        ((200, {}, b"<html>"), "no JSON"),
    ):
        wanted = pytest.raises(RunError, match=message)
        with serving(lambda *_: completion("x"), models=models) as s, wanted:
            run(options=asked(s, tmp_path))


def test_other_files_in_other_forms(run, root):
    (root / "psgs.tsv").write_text("id\ttext\ttitle\n1\tadds two numbers\tsum\n2\tsorts\t\n")
    (root / "test.csv").write_text("what adds\t['two numbers', 'numbers']\n")
    report = run(options={"corpus": "psgs.tsv", "questions": "test.csv", "ks": "2"})
    assert report.rows[0].name == "tiny/test.csv"
    assert report.rows[0].values["answer_recall@2"] == 1.0
    assert report.rows[0].counts == {"questions": 1, "searchable": 1, "passages": 2}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"options": {"corpus": "missing.jsonl"}}, "missing.jsonl does not exist"),
        ({"options": {"ks": "0"}}, "whole numbers of at least 1"),
        ({"options": {"ks": "1,x"}}, "whole numbers of at least 1"),
        ({"k": 10, "options": {"ks": "20"}}, "looks at 20 passages, but k=10"),
        ({"options": {"limit": "0"}}, "limit=0"),
        ({"options": {"model": "tiny"}}, "--option=model belongs to a generator"),
        ({"options": {"offline": "true"}}, "--option=offline belongs to a generator"),
        ({"options": {"passages": "two", "endpoint": "http://h/v1", "model": "m"}}, "type int"),
        ({"options": {"endpoint": "http://h/v1"}}, "generator's model is missing"),
        ({"options": {"endpoint": "http://h/v1", "model": "m", "passages": "-1"}}, "at least 0"),
        (
            {"k": 3, "options": {"endpoint": "http://h/v1", "model": "m", "passages": "5"}},
            "passages=5 are to be shown, but k=3",
        ),
        (
            {"options": {"endpoint": "http://h/v1", "model": "m", "price_prompt": "1"}},
            "needs the other price too",
        ),
        ({"options": {"endpiont": "http://h/v1"}}, "unknown option .* Did you mean 'endpoint'"),
        ({"split": "dev"}, "--split is not a flag of suite 'rag'"),
    ],
)
def test_what_cannot_be_run_is_refused(run, how, message):
    with pytest.raises(InputError, match=message):
        run(**how)
