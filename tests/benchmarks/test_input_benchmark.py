"""benchmarks/input.py as a user meets it: in a process of its own, at toy size."""

import json
import os
import subprocess
import sys
from pathlib import Path

from image_text_cases import write_set

ROOT = Path(__file__).parents[2]


def program(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "input.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        timeout=300,
        check=False,
    )


def test_model_images_and_files_take_turns(tmp_path):
    folder = write_set(tmp_path / "squares")
    config = f"{ROOT / 'configs' / 'clip_asym.py'}:data={folder}"
    result = program(
        f"--config={config}",
        *("--config.model.image_layers=1", "--config.model.text_layers=1"),
        *("--config.batch_size=8", "--steps=1", "--batches=2", "--repeats=2", "--jpegs=4"),
        *("--image_size=16", f"--json={tmp_path / 'report.json'}"),
    )
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    model, images, files = report["rows"]
    assert model["what"].startswith("model of ")
    assert (images["what"], files["what"]) == ("folder, augmented", "JPEG 640 x 480 to 16")
    for row in report["rows"]:
        assert 0 < row["slowest"] <= row["images_per_second"] <= row["fastest"]
        assert row["multiple"] == row["images_per_second"] / model["images_per_second"]
    lines = result.stdout.splitlines()
    assert [line[:20].rstrip() for line in lines[2:5]] == [
        row["what"][:20].rstrip() for row in report["rows"]
    ]
    assert lines[-1] == report["machine"]


def test_a_wrong_count_is_one_line_and_status_2():
    result = program("--repeats=0")
    assert result.returncode == 2
    assert result.stderr.strip() == "error: repeats=0 must be a whole number of at least 1."
