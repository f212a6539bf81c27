"""launch/train.py as a user meets it: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

CODE = "--config=configs/retrieval_code.py"
ROOT = Path(__file__).parents[2]


def command(*arguments):
    return [sys.executable, str(ROOT / "launch" / "train.py"), *map(str, arguments)]


def run(*arguments, timeout=300):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=timeout, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config=configs/nowhere.py"], "config file 'configs/nowhere.py' does not exist"),
        (["--config=configs/retrieval_code.py:varient=dot"], "Did you mean 'variant'?"),
        (["--config=configs/retrieval_code.py:seed=x"], "config argument seed='x' must be int"),
        ([], "--config is missing"),
        ([CODE, "--config.loop.stps=5"], "--config.loop.stps: unknown config key 'stps'"),
        ([CODE, "--config.seed.x=5"], "a single value has no key 'x'"),
        ([CODE, "--config.loop.steps=many"], "--config.loop.steps=many"),
        ([CODE, "--confg=x"], "Unknown command line flag 'confg'"),
        ([CODE, "resume"], "'resume' is not a flag"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(arguments, message):
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no attribute 'get_config'"),
        ("def get_config(:", "SyntaxError"),
        (
            "from ml_collections import ConfigDict\n"
            "def get_config(arguments=None): return ConfigDict({'seed': 0})\n",
            "the config lacks",
        ),
        (
            "from magjax.config import retrieval_config\n"
            "def get_config(arguments=None):\n"
            "    config = retrieval_config(variant='dot', seed=0)\n"
            "    config.loop.stps = 5\n"
            "    return config\n",
            "unknown config key 'loop.stps'",
        ),
    ],
)
def test_a_config_file_that_cannot_be_used_is_one_line(text, message, tmp_path):
    (tmp_path / "config.py").write_text(text)
    result = run(f"--config={tmp_path / 'config.py'}", f"--workdir={tmp_path / 'run'}")
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A JSONL training file and a BEIR folder to test on."""
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    words = [a + b for a in ("ka", "lo", "mi", "nu") for b in ("ban", "dor", "fex", "gul", "hin")]
    documents = [" ".join(rng.choice(words, 8)) for _ in range(90)]
    queries = [" ".join(rng.choice(text.split(), 3)) for text in documents]
    with (folder / "train.jsonl").open("w") as file:
        for query, document in zip(queries[:70], documents[:70], strict=True):
            file.write(json.dumps({"query": query, "positive": document}) + "\n")
    (folder / "test" / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries[70:])):
        rows = [json.dumps({"_id": str(i), "text": text}) for i, text in enumerate(texts)]
        (folder / "test" / f"{name}.jsonl").write_text("\n".join(rows))
    lines = [f"{i}\t{i + 70}\t1" for i in range(20)]
    (folder / "test" / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "\n".join(lines)
    )
    return folder


def settings(pairs, workdir, steps):
    return [
        "--config=configs/retrieval_code.py:variant=learnable",
        f"--workdir={workdir}",
        "--config.data.source=jsonl",
        f"--config.data.path={pairs / 'train.jsonl'}",
        f"--config.data.test_paths=('{pairs / 'test'}',)",
        "--config.data.dev_queries=8",
        "--config.data.dev_documents=20",
        "--config.model.layers=1",
        "--config.model.width=16",
        "--config.model.heads=2",
        "--config.model.vocab_size=300",
        "--config.model.dropout=0.1",
        "--config.text.document_max_length=32",
        "--config.batch_size=16",
        f"--config.loop.steps={steps}",
        "--config.loop.evaluate_every=10",
        "--config.loop.save_every=10",
        "--config.loop.log_every=1",
    ]


def test_a_killed_run_goes_on_to_the_same_bits(pairs, tmp_path):
    """SIGTERM at a random step, --resume, and the same weights and metrics as without."""
    whole = run(*settings(pairs, tmp_path / "whole", 40))
    assert whole.returncode == 0, whole.stderr
    assert "bm25" in whole.stdout
    assert "untrained" in whole.stdout

    arguments = settings(pairs, tmp_path / "parts", 40)
    process = subprocess.Popen(command(*arguments), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "parts" / "metrics.jsonl"
    deadline = time.monotonic() + 240
    while not metrics.is_file() or metrics.read_text().count('"train"') < 3:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "stopped by SIGTERM at step" in said
    assert "--resume" in said

    refused = run(*arguments)
    assert refused.returncode == 2
    assert "go on with --resume" in refused.stderr

    resumed = run(*arguments, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout
    weights = [
        load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "parts")
    ]
    assert weights[0].keys() == weights[1].keys()
    for name in weights[0]:
        np.testing.assert_array_equal(weights[0][name], weights[1][name], err_msg=name)
    lines = [
        [
            {k: v for k, v in json.loads(line).items() if k != "examples_per_second"}
            for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        ]
        for name in ("whole", "parts")
    ]
    assert lines[0] == lines[1]
    scores = [
        json.loads((tmp_path / name / "model" / "score.json").read_text())
        for name in ("whole", "parts")
    ]
    assert scores[0] == scores[1]
    assert scores[0]["score"]["variant"] == "learnable"
