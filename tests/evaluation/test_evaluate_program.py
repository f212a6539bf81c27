"""launch/evaluate.py as a user runs it."""

import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags
from absl.testing import flagsaver

from magjax import hub
from magjax.checks import InputError
from magjax.config import log_plainly

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("launch_evaluate", ROOT / "launch/evaluate.py")
    module = importlib.util.module_from_spec(spec)
    before = set(flags.FLAGS)
    spec.loader.exec_module(module)
    yield module
    for name in set(flags.FLAGS) - before:  # another program's tests may define the same flags
        delattr(flags.FLAGS, name)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, small_model, small_benchmark):
    """A saved model, the same as a plain Hugging Face folder, and a BEIR folder."""
    root = tmp_path_factory.mktemp("evaluate")
    hub.save(small_model, root / "model")
    hub.save(small_model, root / "plain")
    (root / "plain" / "score.json").unlink()
    beir = root / "small"
    (beir / "qrels").mkdir(parents=True)
    for name, ids, texts in (
        ("corpus", small_benchmark.document_ids, small_benchmark.documents),
        ("queries", small_benchmark.query_ids, small_benchmark.queries),
    ):
        lines = [json.dumps({"_id": i, "text": t}) for i, t in zip(ids, texts, strict=True)]
        (beir / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    rows = [f"{q}\t{d}\t{g}" for q, row in small_benchmark.qrels.items() for d, g in row.items()]
    (beir / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]))
    (beir / "qrels" / "wrong.tsv").write_text("query-id\tcorpus-id\tscore\nadd\tnowhere\t1\n")
    return root


@pytest.fixture
def _fresh_log(monkeypatch):
    """The program's log belongs to the process that it is; here each call is one."""
    log = logging.getLogger("magjax")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    level = log.level
    yield
    log.setLevel(level)


@pytest.fixture
def run(program, folders, capsys, _fresh_log):
    def call(checkpoint, *arguments, data="small"):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["test"])
        with flagsaver.flagsaver():
            argv = [f"--checkpoint={folders / checkpoint}", f"--data={folders / data}", *arguments]
            flags.FLAGS(["evaluate.py", *argv])
            log_plainly()
            status = program.main()
        assert status == 0
        return capsys.readouterr()

    return call


def test_prints_a_table_and_writes_the_results(run, tmp_path):
    said = run("model", "--bm25", f"--workdir={tmp_path}", "--metrics=ndcg@10,success@1")
    assert [line.split()[:3] for line in said.out.splitlines()[2:]] == [
        ["small", "model", "qnorm"],
        ["small", "bm25", "-"],
    ]
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["checkpoint"].endswith("/model")
    assert written["pooling"] == "mean"
    assert written["text"]["document_max_length"] == 32
    assert list(written["results"][0]["metrics"]) == ["ndcg@10", "success@1"]
    assert (tmp_path / "runs" / "small.trec").is_file()
    assert (tmp_path / "per_query" / "small.bm25.jsonl").is_file()


def test_another_score_must_be_named_and_is_said_to_be_another(run, tmp_path):
    own = run("model", f"--workdir={tmp_path / 'own'}", "--score=qnorm")
    assert "cross-evaluation" not in own.err
    other = run("model", f"--workdir={tmp_path / 'other'}", "--score=0.5,1")
    assert "cross-evaluation: trained for qnorm" in other.err
    assert "small: ndcg@10 " in other.err
    scores = [
        json.loads((tmp_path / name / "results.json").read_text())["results"][0]["score"]
        for name in ("own", "other")
    ]
    assert [score["variant"] for score in scores] == ["qnorm", "power"]
    runs = [(tmp_path / name / "runs" / "small.trec").read_text() for name in ("own", "other")]
    assert runs[0] != runs[1]


def test_a_folder_without_a_score_needs_one(run):
    with pytest.raises(InputError, match=r"states no score.*--score="):
        run("plain")
    assert "cosine" in run("plain", "--score=cosine").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score=cosin"], "'cosin' is neither"),
        (["--split=wrong"], "nowhere"),
        (["--split=dev"], "unknown split"),
        (["--metrics=ndgc@10"], "Did you mean 'ndcg'"),
        (["--k=10"], "'recall@100' looks at 100 documents"),
        (["--pooling=cls"], "pooling"),
        (["--dtype=float8"], "dtype"),
    ],
)
def test_wrong_input_is_refused(run, arguments, message):
    with pytest.raises(InputError, match=message):
        run("model", *arguments)


def test_missing_folders_are_named(run):
    with pytest.raises(InputError, match=r"evaluate\d*/nothing does not exist"):
        run("nothing")
    with pytest.raises(InputError, match="nothing"):
        run("model", data="nothing")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leftover"], "error: 'leftover' is not a flag; write --name=value."),
        (["--checkpoint=/nowhere", "--data=code"], "error: /nowhere does not exist."),
        ([], "error: --checkpoint is missing"),
    ],
)
def test_errors_are_one_line_and_status_2(arguments, message):
    done = subprocess.run(
        [sys.executable, ROOT / "launch" / "evaluate.py", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
