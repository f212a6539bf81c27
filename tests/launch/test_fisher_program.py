"""launch/fisher.py as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "launch" / "fisher.py"
CONFIG = f"--config={ROOT / 'configs' / 'fisher.py'}"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A BEIR folder of 40 documents, 30 of them with a training query."""
    folder = tmp_path_factory.mktemp("texts") / "small"
    (folder / "qrels").mkdir(parents=True)
    rng = np.random.default_rng(0)
    words = [a + b for a in ("ka", "lo", "mi", "nu") for b in ("ban", "dor", "fex", "gul")]
    documents = [" ".join(rng.choice(words, 8)) for _ in range(40)]
    queries = [" ".join(rng.choice(text.split(), 3)) for text in documents]
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = [json.dumps({"_id": f"{i}", "text": text}) for i, text in enumerate(rows)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    for split, numbers in (("train", range(30)), ("test", range(30, 40))):
        lines = ["query-id\tcorpus-id\tscore", *(f"{i}\t{i}\t1" for i in numbers)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines))
    return folder


def settings(texts):
    return [
        f"{CONFIG}:data={texts}",
        "--config.data.dev_queries=5",
        "--config.data.dev_documents=10",
        "--config.model.layers=1",
        "--config.model.width=16",
        "--config.model.heads=2",
        "--config.model.vocab_size=300",
        "--config.text.query_max_length=16",
        "--config.text.document_max_length=32",
        "--config.fisher.spaces=('document',)",
        "--config.fisher.variants=('cosine','dot')",
        "--config.fisher.candidates=8",
        "--config.fisher.examples=8",
        "--config.fisher.parameter_examples=8",
        "--config.fisher.batches=3",
    ]


def run_all(commands):
    """Standard output, errors and status of each command line; all at once, as each takes long."""
    started = {
        name: subprocess.Popen(
            [sys.executable, PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for name, arguments in commands.items()
    }
    try:
        return {
            name: (*process.communicate(timeout=300), process.returncode)
            for name, process in started.items()
        }
    finally:
        for process in started.values():
            process.kill()  # nothing where it has ended


@pytest.fixture(scope="module")
def ran(texts, tmp_path_factory):
    """The same measurement printed as tables and as JSON."""
    folder = tmp_path_factory.mktemp("ran")
    common = settings(texts)
    found = run_all(
        {
            "tables": [*common, f"--workdir={folder / 'tables'}"],
            "json": [*common, f"--workdir={folder / 'json'}", "--json"],
        }
    )
    return folder, found


def test_prints_a_table_and_the_advice(ran):
    folder, found = ran
    output, errors, status = found["tables"]
    assert status == 0, errors
    lines = output.splitlines()
    assert lines[0].startswith("document embeddings: ggn Fisher, 16 x 16, 8 queries a batch")
    assert lines[1].split() == ["measure", "better", "cosine", "dot"]
    assert any(line.split()[:2] == ["effective_rank", "high"] for line in lines)
    written = json.loads((folder / "tables" / "fisher.json").read_text())
    assert lines[-1].startswith(f"Advice: {written['advice']['verdict']}. ")
    assert "texts of the document side" in errors
    assert sorted(path.name for path in (folder / "tables").iterdir()) == [
        "config.json",
        "fisher.json",
        "fisher_measures.png",
        "fisher_spectra.png",
    ]


def test_json_goes_to_standard_output_alone(ran):
    folder, found = ran
    output, errors, status = found["json"]
    assert status == 0, errors
    read = json.loads(output)
    assert read == json.loads((folder / "json" / "fisher.json").read_text())
    assert read["settings"]["variants"] == ["cosine", "dot"]
    assert read["table"]["document"]["kappa"]["dot"]["mean"] == "infinite"
    assert "texts of the document side" in errors


WRONG = {
    "an unknown flag": ([CONFIG, "--jason"], "flag 'jason'"),
    "a flag without dashes": ([CONFIG, "json"], "'json' is not a flag"),
    "no config": ([], "--config is missing; for example --config=configs/fisher.py"),
    "an unknown argument": ([f"{CONFIG}:chekpoint=x"], "Did you mean 'checkpoint'?"),
    "an unknown key": ([CONFIG, "--config.fisher.kinds=ggn"], "Did you mean 'kind'?"),
    "a value of another type": ([CONFIG, "--config.fisher.batches=many"], "batches=many"),
    "a value that is not known": ([CONFIG, "--config.fisher.kind=gnn"], "Did you mean 'ggn'?"),
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """What each wrong command line ends with."""
    folder = tmp_path_factory.mktemp("wrong")
    workdir = f"--workdir={folder / 'run'}"
    return folder, run_all({name: [*args, workdir] for name, (args, _) in WRONG.items()})


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_command_line_is_one_line_and_status_2(name, wrong):
    folder, found = wrong
    output, errors, status = found[name]
    assert status == 2
    assert errors.startswith("error: ")
    assert len(errors.strip().splitlines()) == 1
    assert WRONG[name][1] in errors
    assert output == ""
    assert not (folder / "run").exists()
