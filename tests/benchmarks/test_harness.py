"""What benchmarks share: turns, ratios, memory of a process, tables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(program, folder="."):
    paths = os.pathsep.join([str(ROOT / "benchmarks"), str(ROOT), str(folder)])
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
        timeout=300,
        check=False,
    )


def test_sides_take_turns_and_rates_are_of_the_items_of_a_turn(tmp_path):
    result = python(f"""
import time, harness
calls = []
def side(name, items, seconds):
    return harness.Side(
        name, items, lambda: (calls.append(name), time.sleep(seconds)), lambda: calls.append("-")
    )
rows = harness.take_turns([side("a", 2, 0.02), side("b", 4, 0.01)], repeats=2)
print("".join(calls))
rows[1]["memory"] = 2**30
harness.report({{"Title": rows}}, unit="pairs", settings={{"size": 3}},
               json={str(tmp_path / "r.json")!r}, to={str(tmp_path / "r.md")!r}, extra=1)
""")
    assert result.returncode == 0, result.stderr
    first, *shown = result.stdout.splitlines()
    assert first == "-a-b" * 3  # one warm turn, two that count
    report = json.loads((tmp_path / "r.json").read_text())
    a, b = report["tables"]["Title"]
    assert report["extra"] == 1
    assert a["ratio"] == a["ratio_min"] == a["cpu_ratio"] == 1.0
    assert b["ratio_min"] <= b["ratio"] <= b["ratio_max"]
    for row in (a, b):
        # Two turns: the median of rates and of seconds are both means of the two.
        assert row["slowest"] <= row["per_second"] <= row["fastest"]
        assert row["slowest"] <= row["items"] / row["seconds"] <= row["fastest"]
    assert "\n".join(shown) + "\n" == (tmp_path / "r.md").read_text()
    assert shown[0] == "size 3"
    assert shown[-1] == report["machine"]
    table = [line for line in shown if line.startswith("|")]
    assert table[0].count("|") == table[2].count("|") == table[3].count("|") == 8
    assert table[2].endswith("|  |")
    assert table[3].endswith("| 1.00 GiB |")


def test_the_peak_of_a_process_holds_what_its_function_allocates(tmp_path):
    (tmp_path / "allocation.py").write_text(
        "import os, signal\n"
        "def hold(mib):\n    return len(bytearray(mib << 20).replace(b'x', b'y'))\n"
        "def die():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = python(
        "import allocation, harness\n"
        "if __name__ == '__main__':\n"
        "    print(*[harness.peak_memory(allocation.hold, mib=mib) for mib in (1, 201)])\n"
        "    harness.peak_memory(allocation.die)\n",
        tmp_path,
    )
    small, large = map(int, result.stdout.split())
    assert large - small == pytest.approx(2 * 200 << 20, rel=0.2)  # the array and its copy
    assert "RunError" in result.stderr
    assert "was killed, most likely for want of memory" in result.stderr
