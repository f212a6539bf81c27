"""launch/evaluate.py --suite= and --run= as a user runs them."""

import importlib.util
import json
import logging
from pathlib import Path

import pytest
import pytrec_eval
from absl import flags
from absl.testing import flagsaver
from suite_cases import write_beir

from magjax import hub
from magjax.checks import InputError
from magjax.config import log_plainly
from magjax.data import TextSettings, TextTokenizer, read_beir, read_qrels, read_run
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.similarity import Score

ROOT = Path(__file__).parents[2]
CORPUS = {"d1": "adds two lists", "d2": "sorts a list", "d3": "reads a map", "d4": ""}
QUERIES = {"q1": "how to sort", "q2": "add lists"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A saved model, and a root of two BEIR sets."""
    root = tmp_path_factory.mktemp("suites")
    tokenizer = TextTokenizer.train([*CORPUS.values(), *QUERIES.values()] * 2, 300)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    text = TextSettings(query_max_length=16, document_max_length=16)
    model = hub.Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)
    hub.save(model, root / "model")
    write_beir(root / "sets" / "nq", CORPUS, QUERIES, q1="d2", q2="d1")
    write_beir(root / "sets" / "scifact", CORPUS, QUERIES, q1="d2 d3")
    (root / "run.trec").write_text("q1 Q0 d2 1 0.9 me\nq2 Q0 d3 1 0.8 me\nq2 Q0 d1 2 0.7 me\n")
    (root / "scoreless.trec").write_text("q1 Q0 d2 1 me\n")
    return root


@pytest.fixture(scope="module")
def program():
    path = ROOT / "launch/evaluate.py"
    spec = importlib.util.spec_from_file_location("launch_evaluate_suites", path)
    module = importlib.util.module_from_spec(spec)
    before = set(flags.FLAGS)
    spec.loader.exec_module(module)
    yield module
    for name in set(flags.FLAGS) - before:  # another program's tests may define the same flags
        delattr(flags.FLAGS, name)


@pytest.fixture
def run(program, folders, capsys, monkeypatch):
    log = logging.getLogger("magjax")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    level = log.level

    def call(*arguments):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["test"])
        with flagsaver.flagsaver():
            flags.FLAGS(["evaluate.py", *(a.replace("=@", f"={folders}/") for a in arguments)])
            log_plainly()
            assert program.main() == 0
        return capsys.readouterr()

    yield call
    log.setLevel(level)


def test_a_suite_prints_its_table_and_writes_its_files(run, tmp_path):
    said = run("--checkpoint=@model", "--suite=beir", "--root=@sets", f"--workdir={tmp_path}")
    lines = said.out.splitlines()
    assert [line.split()[:4] for line in lines[2:5]] == [
        ["nq", "model", "qnorm", "2"],
        ["scifact", "model", "qnorm", "1"],
        ["mean", "of", "2", "sets"],
    ]
    assert any("2 of BEIR's 18 zero-shot sets" in line for line in lines)
    written = json.loads((tmp_path / "results.json").read_text())
    assert (written["suite"], written["text"]["query_max_length"]) == ("beir", 16)
    assert written["checkpoint"].endswith("/model")
    nq, scifact = (row["values"]["ndcg@10"] for row in written["rows"])
    assert written["averages"][0]["values"]["ndcg@10"] == pytest.approx((nq + scifact) / 2)
    for name in ("nq", "scifact"):
        assert (tmp_path / "runs" / f"{name}.trec").is_file()
        assert (tmp_path / "per_query" / f"{name}.jsonl").is_file()


def test_the_suite_agrees_with_trec_eval_and_with_data_on_a_real_set(run, data_root, tmp_path):
    adi = data_root / "adi"
    said = run(
        *("--checkpoint=@model", "--suite=beir", f"--root={adi}", f"--workdir={tmp_path}"),
        *("--k=82", "--metrics=ndcg@10,map", "--score=cosine"),
    )
    assert "cross-evaluation: trained for qnorm" in said.err
    (row,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    qrels = read_qrels(adi / "qrels" / "test.tsv")
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map"}).evaluate(
        read_run(tmp_path / "runs" / "adi.trec")
    )
    assert len(theirs) == len(qrels) == 35
    for metric, measure in (("ndcg@10", "ndcg_cut_10"), ("map", "map")):
        mean = sum(values[measure] for values in theirs.values()) / 35
        assert row["values"][metric] == pytest.approx(mean, abs=1e-9)
    plain = tmp_path / "plain"
    run(
        *("--checkpoint=@model", f"--data={adi}", f"--workdir={plain}", "--score=cosine"),
        *("--k=82", "--metrics=ndcg@10,map"),
    )
    (result,) = json.loads((plain / "results.json").read_text())["results"]
    assert result["metrics"] == row["values"]
    assert result["fingerprint"] == row["fingerprint"] == read_beir(adi).fingerprint


def test_a_run_is_measured_without_a_model(run, tmp_path):
    said = run(
        *("--run=@run.trec", "--qrels=@sets/nq/qrels/test.tsv", "--metrics=mrr@10,recall@1"),
        f"--workdir={tmp_path}",
    )
    assert said.out.splitlines()[2].split() == ["test", "run", "-", "2", "3", "0.7500", "0.5000"]
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["run"].endswith("run.trec")
    assert written["relevance_level"] == 1
    assert written["results"][0]["metrics"] == {"mrr@10": 0.75, "recall@1": 0.5}


SUITE = ("--checkpoint=@model", "--suite=beir", "--root=@sets")
MEASURE = ("--run=@run.trec", "--qrels=@sets/nq/qrels/test.tsv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*SUITE, "--data=code"), "--data and --suite exclude each other"),
        ((*SUITE, *MEASURE), "--suite and --run exclude each other"),
        ((*SUITE[:2],), r"--suite=beir needs --root=, a folder with BEIR folders"),
        ((*SUITE, "--index=faiss:Flat"), "--index is not a flag of an evaluation by --suite"),
        ((*SUITE, "--allow_asymmetric"), "--allow_asymmetric is not a flag of suite 'beir'"),
        ((*SUITE, "--seed=0"), "--seed is not a flag of suite 'beir', which takes: --tokens_per"),
        ((*SUITE, "--option=long=true"), "suite 'beir' takes no --option; got 'long'"),
        ((*SUITE, "--option=long"), "--option=long must be NAME=VALUE"),
        ((*SUITE, "--split=dev"), "unknown split of .*nq 'dev'; known: test"),
        ((*SUITE, "--k=10"), "'recall@100' looks at 100 documents"),
        (("--suite=bier", "--root=@sets"), "unknown suite 'bier'.*Did you mean 'beir'"),
        (("--suite=beir", "--root=@sets"), "--checkpoint is missing"),
        (("--suite=beir", "--root=@nothing"), r"nothing is no folder; suite 'beir' needs BEIR"),
        (
            ("--suite=bright", "--root=@sets", "--split=x"),
            "--split is not a flag of suite 'bright'",
        ),
        ((*SUITE[:2], "--root=@model"), "holds no BEIR set: neither it nor a folder below it"),
        (("--checkpoint=@model", "--data=code", "--root=@sets"), "--root is not a flag of an eval"),
        (MEASURE[:1], "--run needs --qrels="),
        ((*MEASURE, "--checkpoint=@model"), "--checkpoint is not a flag of an evaluation by --run"),
        ((*MEASURE, "--bm25"), "--bm25 is not a flag of an evaluation by --run"),
        (("--run=@scoreless.trec", MEASURE[1]), r"scoreless\.trec:1: 5 columns .* without a score"),
        ((*MEASURE, "--relevance_level=0"), "relevance_level=0 must be a whole number"),
    ],
)
def test_wrong_input_is_refused(run, arguments, message):
    with pytest.raises(InputError, match=message):
        run(*arguments)


def test_a_symmetric_suite_refuses_a_one_sided_model_or_shows_both_orders(run, tmp_path):
    rows = ["score\tsentence1\tsentence2", "5\tadds lists\tadds two lists", "0\tsorts\treads a map"]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "test.tsv").write_text("\n".join([*rows, "3\tsorts a list\tadds lists"]))
    sts = ("--checkpoint=@model", "--suite=sts", f"--root={tmp_path}", "--option=resamples=10")
    with pytest.raises(InputError, match=r"suite 'sts' compares texts as equals.*one-sided"):
        run(*sts)
    said = run(*sts, "--allow_asymmetric", "--seed=3").out
    assert [said.count(f"model {order}") for order in ("score(a,b)", "symmetrized")] == [1, 1]
    assert run(*sts, "--score=cosine").out.splitlines()[-1].split()[:3] == [
        "set",
        "model",
        "cosine",
    ]
