"""benchmarks/fisher.py as a user meets it: in a process of its own, at toy size."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = [
    "gradient",
    "gradient, micro-batched",
    "product, all, recomputed",
    "product, all, kept",
    "product, last_block, kept",
]
TOY = [
    "--checkpoint=random",
    "--examples=8",
    "--candidates=4",
    "--micro_batch=4",
    "--query_length=4",
    "--document_length=6",
    "--repeats=2",
    "--memory_examples=8",
]


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | environment,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The printed lines and the report of one run."""
    folder = tmp_path_factory.mktemp("benchmark")
    # Compiling is nearly all of the time: with these, and nothing twice, a third of it.
    quick = {
        "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    report = folder / "made" / "report.json"
    result = python("benchmarks/fisher.py", *TOY, f"--json={report}", **quick)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), json.loads(report.read_text())


def test_the_table_has_every_row_with_its_ratio_to_the_gradient(toy):
    lines, report = toy
    row = re.compile(r"(\S.*?) {2,}([\d.]+) \(([\d.]+) to ([\d.]+)\) +([\d.]+) +([\d.]+) +([\d.]+)")
    found = [match.groups() for line in lines if (match := row.fullmatch(line))]
    assert [name for name, *_ in found] == NAMES == [entry["what"] for entry in report["times"]]
    gradient = report["times"][0]
    for (_, *printed), entry in zip(found, report["times"], strict=True):
        assert 0.0 < entry["seconds_min"] <= entry["seconds"] <= entry["seconds_max"]
        assert entry["cpu_seconds"] > 0.0
        ratio = entry["seconds"] / gradient["seconds"]
        cpu_ratio = entry["cpu_seconds"] / gradient["cpu_seconds"]
        assert entry["ratio"] == pytest.approx(ratio, rel=1e-9)
        assert entry["cpu_ratio"] == pytest.approx(cpu_ratio, rel=1e-9)
        shown = [entry[key] for key in ("seconds", "seconds_min", "seconds_max", "cpu_seconds")]
        assert [float(text) for text in printed[:4]] == pytest.approx(shown, abs=5.1e-4)
        assert [float(text) for text in printed[4:]] == pytest.approx(
            [ratio, cpu_ratio], abs=5.1e-3
        )


def test_memory_settings_and_machine_are_reported(toy):
    lines, report = toy
    (memory,) = report["memory"]
    assert memory["examples"] == 8
    assert 0.05 < memory["resident_gib"] < 16.0  # a Python process with JAX, in GiB
    assert f"     8 examples: {memory['resident_gib']:.2f} resident" in lines
    assert report["settings"]["micro_batch"] == 4
    # Embeddings 100, 512 and 2 rows of 16; 4 projections, 2 layers of 1,536, 3 norms.
    embeddings = (100 + 512 + 2) * 16
    block = 4 * (16 * 16 + 16) + (16 * 1536 + 1536) + (1536 * 16 + 16)
    assert report["settings"]["parameters"] == embeddings + block + 3 * 2 * 16
    assert lines[-1] == report["machine"]
    assert "JAX" in report["machine"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--exmples=8"], "Unknown command line flag 'exmples'"),
        (["--examples=8", "--candidates=3"], "examples=8 is no multiple of candidates=3"),
        (["--memory_examples=64,many"], "examples='many' must be a whole number of at least 1"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(arguments, message):
    result = python("benchmarks/fisher.py", *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not result.stdout


def test_rows_take_turns_and_those_that_disagree_end_the_run():
    program = """
import numpy as np, fisher
calls = []
def row(name, computes, value):
    return fisher.Row(name, computes, lambda: calls.append(name) or {"x": np.full((2, 2), value)})
fisher.take_turns([row("a", "one", 1.0), row("b", "two", 2.0)], 3)
print("".join(calls))
fisher.compile_and_check([row("a", "one", 1.0), row("b", "two", 2.0), row("c", "one", 1.00001)])
fisher.compile_and_check([row("a", "one", 1.0), row("b", "one", 1.01)])
"""
    result = python("-c", program, PYTHONPATH=os.pathsep.join(["benchmarks", str(ROOT)]))
    assert result.stdout.split() == ["ababab"]
    assert result.returncode == 1
    assert "RunError: 'b' is 0.01 away from another 'one'" in result.stderr
