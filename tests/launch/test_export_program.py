"""launch/export.py as a user runs it."""

import dataclasses
import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from magjax import hub
from magjax.checks import InputError
from magjax.config import log_plainly, run_main
from magjax.data import TextPreprocessor, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.evaluation import encode, model_fingerprint, search
from magjax.export import load_exported, parse_options, read_description, search_vectors
from magjax.similarity import Score

ROOT = Path(__file__).parents[2]
DOCUMENTS = {f"d{i}": f"adds {i} numbers of a list" + " and more" * (i % 5) for i in range(40)}
QUERIES = {f"q{i}": f"adds {i} numbers" for i in range(0, 40, 5)}


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("launch_export", ROOT / "launch/export.py")
    module = importlib.util.module_from_spec(spec)
    before = set(flags.FLAGS)
    spec.loader.exec_module(module)
    yield module
    for name in set(flags.FLAGS) - before:  # another program's tests may define the same flags
        delattr(flags.FLAGS, name)


@pytest.fixture(scope="module")
def model():
    tokenizer = TextTokenizer.train([*DOCUMENTS.values(), *QUERIES.values()], 300)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    text = TextSettings(query_max_length=16, document_max_length=32, query_prompt="find: ")
    return hub.Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, model):
    """A saved model, the same without a score, and a BEIR folder."""
    root = tmp_path_factory.mktemp("export")
    hub.save(model, root / "model")
    hub.save(model, root / "plain")
    (root / "plain" / "score.json").unlink()
    beir = root / "beir"
    (beir / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        rows = [json.dumps({"_id": i, "text": t}) for i, t in texts.items()]
        (beir / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    judged = [f"{q}\td{q[1:]}\t1" for q in QUERIES]
    (beir / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n")
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
    def call(command, *arguments, checkpoint="model", data="beir"):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["test"])
        with flagsaver.flagsaver():
            argv = [f"--checkpoint={folders / checkpoint}", f"--data={folders / data}", *arguments]
            flags.FLAGS(["export.py", *argv])
            log_plainly()
            status = program.main(command)
        assert status == 0
        return capsys.readouterr()

    return call


def _embed(model, side, texts):
    return encode(model.encoder, TextPreprocessor(model.tokenizer, model.text), texts, side)


def test_the_sentence_transformers_folder_keeps_the_score_and_says_what_it_is(run, model, tmp_path):
    out = tmp_path / "st"
    run(
        "sentence_transformers",
        f"--out={out}",
        "--training_data=forty sums",
        "--figures=nDCG@10=0.5",
    )
    again = hub.load(out)
    assert again.score == model.score
    card = (out / "README.md").read_text()
    assert "forty sums" in card
    assert "nDCG@10" in card
    with pytest.raises(InputError, match="'nDCG@10' must be NAME=VALUE"):
        run("sentence_transformers", f"--out={tmp_path / 'b'}", "--figures=nDCG@10")


def test_the_stablehlo_folder_embeds_as_the_model_scores(run, model, tmp_path):
    pytest.importorskip("flatbuffers")
    run("stablehlo", f"--out={tmp_path / 'hlo'}")
    read = load_exported(tmp_path / "hlo")
    texts = list(DOCUMENTS.values())[:3]
    expected = model.score.normalize(_embed(model, "document", texts), "document")
    np.testing.assert_allclose(read.encode(texts, "document"), expected, rtol=1e-5, atol=1e-6)
    run("stablehlo", f"--out={tmp_path / 'one'}", "--side=query")
    assert not list((tmp_path / "one").glob("document*"))


@pytest.mark.parametrize("target", ["numpy", "faiss"])
def test_exported_vectors_rank_as_the_model_was_trained(run, model, target, tmp_path):
    pytest.importorskip(target)
    out = tmp_path / "vectors"
    said = run("vectors", f"--target={target}", f"--out={out}", "--block_size=16", "--side=both")
    assert "40 vectors of side document" in said.out
    assert "compare by inner_product" in said.out
    assert "embedded 40 texts of side document" in said.err
    queries = _embed(model, "query", list(QUERIES.values()))
    found = search_vectors(out, queries, k=5)
    ranking = search(
        queries,
        _embed(model, "document", list(DOCUMENTS.values())),
        score=model.score,
        k=5,
        query_ids=list(QUERIES),
        document_ids=list(DOCUMENTS),
    )
    for mine, theirs in zip(found.scores, ranking.scores, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    told = read_description(out)
    assert told.score == Score.of("qnorm", 0.05)
    assert told.model.endswith("/model")
    assert told.fingerprints["model"] == model_fingerprint(model)
    assert told.text["query_prompt"] == "find: "
    assert told.text["pooling"] == "mean"


def test_texts_of_a_file_are_stored_when_asked(run, tmp_path, folders):
    out = tmp_path / "vectors"
    run(
        "vectors",
        "--target=numpy",
        f"--out={out}",
        "--store_text",
        "--name=code",
        data="beir/corpus.jsonl",
    )
    lines = (out / "code_documents.texts.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == list(DOCUMENTS.values())


def test_the_table_is_printed_and_written(run, tmp_path):
    out = tmp_path / "table.md"
    said = run(
        "table",
        "--targets=numpy,lancedb" if _has("lancedb") else "--targets=numpy",
        f"--out={out}",
        "--documents=30",
        "--queries=4",
        "--k=3",
    )
    assert "30 of side document" in said.out
    assert "Top 3 identical to exact search?" in said.out
    assert "| target | metric | cosine | dot | qnorm | dnorm |" in said.out
    row = next(line for line in said.out.splitlines() if line.startswith("| numpy |"))
    assert row.count("yes, ") == 4
    assert "NO" not in said.out
    if _has("lancedb"):
        assert "| lancedb | qnorm | hnsw | euclidean | euclidean |" in said.out
    assert out.read_text() == said.out


def _has(package):
    return importlib.util.find_spec(package) is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target=faiss", "--out=x", "--metric=cosine"], "metric 'cosine' ignores how long"),
        (["--target=fais", "--out=x"], "Did you mean 'faiss'"),
        (["--out=x"], "--target is missing"),
        (["--target=numpy"], "--out is missing"),
        (["--target=numpy", "--out=x", "--side=left"], "unknown side 'left'"),
        (["--target=numpy", "--out=x", "--score=cosine"], "contradicts"),
        (["--target=faiss", "--out=x", "--index_options=m:3"], "must be NAME=NUMBER"),
        (["--target=pgvector", "--out=x"], "writes to postgresql://"),
        (["--target=numpy", "--out=x", "--split=dev"], "unknown split"),
    ],
)
def test_wrong_input_is_refused(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        run("vectors", *arguments)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_score_needs_one(run, tmp_path):
    with pytest.raises(InputError, match=r"states no score.*--score="):
        run("vectors", "--target=numpy", f"--out={tmp_path / 'a'}", checkpoint="plain")
    run("vectors", "--target=numpy", f"--out={tmp_path / 'a'}", "--score=dnorm", checkpoint="plain")
    assert read_description(tmp_path / "a").score == Score.of("dnorm")


def test_fingerprints_name_weights_and_settings(model):
    same = hub.Model(model.encoder, model.score, model.tokenizer, model.text)
    assert model_fingerprint(same) == model_fingerprint(model)
    text = dataclasses.replace(model.text, query_prompt="seek: ")
    other = hub.Model(model.encoder, model.score, model.tokenizer, text)
    assert model_fingerprint(other) != model_fingerprint(model)
    assert parse_options([]) == {}
    with pytest.raises(InputError, match="'m=-1' must be NAME=NUMBER"):
        parse_options(["m=-1"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "error: name what to do first, one of: vectors, sentence_transformers, stablehlo, table",
        ),
        (
            ["vektors"],
            "error: unknown command 'vektors'; known: vectors, sentence_transformers, stablehlo, table",
        ),
        (["vectors", "table"], "error: 'table' is not a flag; write --name=value."),
        (["table", "--target=faiss"], "error: --target is not a flag of 'table', which takes: "),
        (["--k=3", "vectors"], "error: --k is not a flag of 'vectors', which takes: "),
        (["vectors", "--unknown=1"], "error: Unknown command line flag 'unknown'"),
    ],
)
@pytest.mark.usefixtures("_fresh_log")
def test_one_command_is_needed_with_flags_of_its_own(
    program, arguments, message, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["export.py", *arguments])
    with flagsaver.flagsaver(), pytest.raises(SystemExit) as stopped:
        run_main(
            program.main,
            commands={w: [f.name for f in t] for w, (_, t) in program.COMMANDS.items()},
        )
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.err.splitlines()[-1].startswith(message)
    assert said.out == ""


def test_an_error_is_one_line_and_status_2():
    arguments = ["--checkpoint=/nowhere", "--data=x", "vectors", "--out=x", "--target=numpy"]
    done = subprocess.run(
        [sys.executable, ROOT / "launch" / "export.py", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: /nowhere does not exist."
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
