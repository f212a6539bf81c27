"""launch/mine.py as a user runs it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags
from absl.testing import flagsaver

from magjax import hub
from magjax.checks import InputError
from magjax.data import TextSettings, TextTokenizer, read_pairs_jsonl
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.similarity import Score

ROOT = Path(__file__).parents[2]
DOCUMENTS = [f"{verb}s {what}" for verb in ("add", "sort", "read") for what in ("lists", "maps")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A saved model, the same without a score, a BEIR folder, and a file of pairs."""
    root = tmp_path_factory.mktemp("mine")
    tokenizer = TextTokenizer.train(DOCUMENTS * 2, 300)
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
    hub.save(model, root / "plain")
    (root / "plain" / "score.json").unlink()
    beir = root / "small"
    (beir / "qrels").mkdir(parents=True)
    rows = [json.dumps({"_id": f"d{i}", "text": text}) for i, text in enumerate(DOCUMENTS)]
    (beir / "corpus.jsonl").write_text("\n".join(rows))
    rows = [json.dumps({"_id": f"q{i}", "text": f"how to {t}"}) for i, t in enumerate(DOCUMENTS)]
    (beir / "queries.jsonl").write_text("\n".join(rows))
    lines = [f"q{i}\td{i}\t1\n" for i in range(4)]
    (beir / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq5\td5\t1\n")
    pairs = [json.dumps({"query": f"do {t}", "positive": t}) for t in DOCUMENTS]
    (root / "pairs.jsonl").write_text("\n".join(pairs))
    return root


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("launch_mine", ROOT / "launch/mine.py")
    module = importlib.util.module_from_spec(spec)
    before = set(flags.FLAGS)
    spec.loader.exec_module(module)
    yield module
    for name in set(flags.FLAGS) - before:  # another program's tests may define the same flags
        delattr(flags.FLAGS, name)


@pytest.fixture
def run(program, folders, capsys):
    def call(*arguments, checkpoint="model", data="small"):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["test"])
        argv = [f"--checkpoint={folders / checkpoint}", f"--data={folders / data}", *arguments]
        with flagsaver.flagsaver():
            flags.FLAGS(["mine.py", *argv])
            assert program.main() == 0
        return capsys.readouterr().out

    return call


def test_mines_the_training_queries_of_a_beir_folder(run, tmp_path):
    out = tmp_path / "mined.jsonl"
    said = run(f"--out={out}", "--negatives=3", "--margin=-1", "--sample=random", "--seed=4")
    assert said == (
        f"{out}: 4 of 4 queries have 12 negatives; 0 of them fewer than 3; "
        "0 queries without any are left out.\n"
    )
    mined = read_pairs_jsonl(out)
    assert mined.query_ids == ["q0", "q1", "q2", "q3"]
    assert [len(rows) for rows in mined.negatives] == [3] * 4
    again = tmp_path / "again.jsonl"
    run(f"--out={again}", "--negatives=3", "--margin=-1", "--sample=random", "--seed=4", "--resume")
    assert again.read_bytes() == out.read_bytes()


def test_mines_pairs_by_bm25_and_another_split(run, tmp_path):
    run(f"--out={tmp_path / 'pairs.jsonl'}", "--source=bm25", "--margin=-1", data="pairs.jsonl")
    mined = read_pairs_jsonl(tmp_path / "pairs.jsonl")
    for query, negatives in zip(mined.queries, mined.negatives, strict=True):
        words = set(query.split()) - {"do"}
        assert all(words & set(mined.documents[row].split()) for row in negatives)
    run(f"--out={tmp_path / 'test.jsonl'}", "--split=test", "--margin=-1")
    assert read_pairs_jsonl(tmp_path / "test.jsonl").query_ids == ["q5"]


def test_mines_through_an_index(run, tmp_path):
    pytest.importorskip("faiss", reason="the faiss extra is not installed")
    for name, index in (("exact", "exact"), ("flat", "faiss:Flat")):
        run(f"--out={tmp_path / name}.jsonl", f"--index={index}", "--margin=-1")
    assert (tmp_path / "exact.jsonl").read_bytes() == (tmp_path / "flat.jsonl").read_bytes()


def test_a_folder_without_a_score_needs_one(run, tmp_path):
    out = f"--out={tmp_path / 'mined.jsonl'}"
    with pytest.raises(InputError, match=r"states no score.*--score="):
        run(out, checkpoint="plain")
    run(out, "--score=dot", "--margin=-1", checkpoint="plain")
    about = json.loads((tmp_path / "mined.jsonl.settings.json").read_text())
    assert about["score"]["variant"] == "dot"


@pytest.mark.parametrize(
    ("arguments", "data", "message"),
    [
        (["--k=5"], "small", "set k to 8 or more"),
        (["--index=hnsw"], "small", "neither exact nor faiss"),
        (["--index_search=nprobe=3"], "small", "index is exact"),
        (["--score=cosin"], "small", "'cosin' is neither"),
        (["--split=dev"], "small", "unknown split"),
        (["--split=train"], "pairs.jsonl", "is for BEIR folders"),
        ([], "nothing", "does not exist"),
        (["--dtype=float8"], "small", "dtype"),
        (["--tokens_per_batch=0"], "small", "tokens_per_batch=0"),
    ],
)
def test_wrong_input_is_refused(run, tmp_path, arguments, data, message):
    with pytest.raises(InputError, match=message):
        run(f"--out={tmp_path / 'mined.jsonl'}", *arguments, data=data)
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept(run, tmp_path):
    out = tmp_path / "mined.jsonl"
    out.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        run(f"--out={out}")
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leftover"], "error: 'leftover' is not a flag"),
        ([], "error: --checkpoint is missing"),
        (["--checkpoint=/nowhere", "--data=code", "--out=x", "--sample=best"], "error: "),
    ],
)
def test_errors_are_one_line_and_status_2(arguments, message):
    done = subprocess.run(
        [sys.executable, ROOT / "launch" / "mine.py", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
