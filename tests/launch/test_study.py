"""launch/study.py as a user runs it: a toy grid that really trains, killed and not."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "launch" / "study.py"

CONFIG = """
from magjax.config import parse_arguments, retrieval_config, study_claim, study_config

def get_config(arguments=None):
    steps = parse_arguments(arguments, steps=20)["steps"]
    base = retrieval_config(variant="cosine", seed=0)
    base.batch_size = 16
    base.data.update(source="beir", path="$STUDY_DATA/texts", dev_queries=8, dev_documents=20)
    base.model.update(layers=1, width=16, heads=2, vocab_size=300)
    base.text.update(query_max_length=16, document_max_length=16)
    base.loop.update(steps=steps, evaluate_every=20, save_every=5, log_every=5)
    base.optimizer.learning_rate = 1e-2
    config = study_config(base, name="grid")
    config.tasks = {"texts": {}}
    config.starts = {"random": {}}
    config.variants = ("cosine", "dnorm")
    config.seeds = (0, 1)
    config.resamples = 500
    config.claims = (study_claim("One side wins.", better=("dnorm",), than=("cosine",)),)
    return config
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A config file and a BEIR folder of 60 documents, 40 of them with a training query."""
    home = tmp_path_factory.mktemp("home")
    (home / "study_grid.py").write_text(CONFIG)
    folder = home / "data" / "texts"
    (folder / "qrels").mkdir(parents=True)
    rng = np.random.default_rng(0)
    words = [a + b for a in ("ka", "lo", "mi", "nu") for b in ("ban", "dor", "fex", "gul", "hin")]
    documents = [" ".join(rng.choice(words, 8)) for _ in range(60)]
    queries = [" ".join(rng.choice(text.split(), 3)) for text in documents]
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = [json.dumps({"_id": str(i), "text": text}) for i, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    for split, numbers in (("train", range(40)), ("test", range(40, 60))):
        lines = ["query-id\tcorpus-id\tscore", *(f"{i}\t{i}\t1" for i in numbers)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines))
    return home


def start(home, name, *arguments, **environment):
    command = [
        sys.executable,
        str(PROGRAM),
        f"--config={home / 'study_grid.py'}",
        f"--out={home / name}",
        f"--workdir={home / 'runs' / name}",
        *map(str, arguments),
    ]
    variables = os.environ | {
        "STUDY_DATA": str(home / "data"),
        # One device: the study is small, and its programs are compiled once for all processes.
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=1",
        "JAX_COMPILATION_CACHE_DIR": str(home / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(home, name, *arguments, status=0, **environment):
    process = start(home, name, *arguments, **environment)
    said, errors = process.communicate(timeout=400)
    assert process.returncode == status, errors
    return said, errors


def cells(home, name):
    return {
        path.name: json.loads(path.read_text()) | {"seconds": 0}
        for path in sorted((home / name / "grid" / "cells").iterdir())
    }


@pytest.fixture(scope="module")
def whole(home):
    """What a study that nobody disturbed says and leaves."""
    said, _ = run(home, "whole")
    return said


def test_a_toy_grid_trains_measures_and_reports(home, whole):
    assert whole.splitlines()[-1].endswith("grid.md, .html")
    assert ": One side wins." in whole
    found = cells(home, "whole")
    assert len(found) == 2 + 4
    assert list((home / "runs" / "whole").iterdir()) == []  # programs are cached elsewhere
    for name, cell in found.items():
        assert "/data" not in json.dumps(cell["config"]).replace("$STUDY_DATA/texts", "")
        if cell["role"] == "trained":
            assert cell["development"]["steps"] == 20
            assert [step for step, _ in cell["curve"]["loss"]] == [5, 10, 15, 20]
            (measured,) = cell["measured"]
            assert len(measured["values"]["ndcg@10"]) == 20
            assert measured["means"]["ndcg@10"] == pytest.approx(
                np.mean(measured["values"]["ndcg@10"])
            )
            assert measured["about"]["score"]["variant"] == cell["variant"]
        elif cell["role"] == "untrained":
            scores = [row["system"] for row in cell["measured"]]
            assert scores == [f"untrained {v}" for v in ("cosine", "dot", "qnorm", "dnorm")]
        else:
            assert name.startswith("texts-bm25-")
    page = (home / "whole" / "grid.html").read_text()
    assert "20 queries over 60 documents" in page
    assert (home / "whole" / "grid" / "values.png").read_bytes()[1:4] == b"PNG"


def test_a_study_that_is_stopped_again_and_again_ends_with_the_same_table(home, whole):
    """Once SIGTERM inside a cell; five times SIGKILL, after a random number of lines of the log."""
    process = start(home, "parts")
    while not process.stderr.readline().startswith("step 5/"):
        assert process.poll() is None
    process.terminate()
    _, said = process.communicate(timeout=200)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "cells are missing; go on with: python" in said

    draw = random.Random(3)
    for _ in range(5):
        process = start(home, "parts")
        for _ in range(draw.randint(1, 6)):
            assert process.stderr.readline(), "the study ended before it was killed"
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    assert len(list((home / "parts" / "grid" / "cells").glob("*.json"))) < 6
    said, _ = run(home, "parts")
    assert said == whole.replace("whole", "parts")
    assert cells(home, "parts") == cells(home, "whole")
    for name in ("table.csv", "table.tex", "verdicts.json", "values.png"):
        one, other = (home / study / "grid" / name for study in ("whole", "parts"))
        assert one.read_bytes() == other.read_bytes(), name


def test_one_cell_alone_gives_its_stored_numbers(home, whole):
    name = next(name for name in cells(home, "whole") if "dnorm-s1" in name).removesuffix(".json")
    said, _ = run(home, "whole", f"--only={name}")
    assert said == f"{name}: every number is the same to the bit.\n"


def test_changed_data_is_refused_and_the_report_can_still_be_written(home, whole):
    out = shutil.copytree(home / "whole", home / "mixed")
    next((out / "grid" / "cells").glob("*dnorm-s1*")).unlink()
    shutil.copytree(home / "data", home / "other")
    path = home / "other" / "texts" / "corpus.jsonl"
    path.write_text(path.read_text().replace("ban", "bin"))
    _, errors = run(home, "mixed", status=2, STUDY_DATA=str(home / "other"))
    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert "cannot stand beside" in line
    assert "data 'texts'" in line
    (out / "grid.md").unlink()
    said, _ = run(home, "mixed", "--report", STUDY_DATA="/nowhere")
    assert "grid.md" in said
    assert "1 of 6 cells are missing" in (out / "grid.md").read_text()


def test_a_wrong_command_line_is_one_line_and_status_2(home):
    cases = [
        (["--only=x", "--report"], "--only goes with neither --report nor --keep_runs"),
        (["--only=x"], "holds no finished cell"),
    ]
    processes = [start(home, "wrong", *arguments) for arguments, _ in cases]
    for process, (_, message) in zip(processes, cases, strict=True):
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 2, errors
        assert message in errors
        assert len(errors.strip().splitlines()) == 1
