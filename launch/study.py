"""Runs a study: a grid of runs, its table, and the verdicts on its claims.

    python launch/study.py --config=configs/study_toy.py
    python launch/study.py --config=configs/study_toy.py --report
    python launch/study.py --config=configs/study_toy.py --only=CELL

Cells that are stored under --out are not computed again, so a killed study goes on with the same
command, and several processes with the same command share the work. --report writes the report
of what is there and computes nothing; --only computes one stored cell again and says whether its
numbers are the same.
"""

import shlex
import sys

from absl import flags
from ml_collections import config_flags

from magjax.checks import InputError
from magjax.config import run_main, to_json

CONFIG = config_flags.DEFINE_config_file("config", None, "Config file; arguments follow a colon.")
OUT = flags.DEFINE_string("out", "docs/studies", "Folder of all studies, for cells and reports.")
WORKDIR = flags.DEFINE_string("workdir", None, "Run folders; default: runs/ and the config's name.")
KEEP_RUNS = flags.DEFINE_bool("keep_runs", False, "Leave the run folders of trained cells.")
REPORT = flags.DEFINE_bool("report", False, "Compute nothing; write the report of what is there.")
ONLY = flags.DEFINE_string("only", None, "A stored cell to compute again and compare.")


def main() -> int:
    """Runs the config; a study stopped by a signal exits with 128 plus the signal's number."""
    from magjax.study import (
        StudyGrid,
        cache_programs,
        default_workdir,
        rerun_cell,
        run_study,
        study_state,
        write_report,
    )

    if CONFIG.value is None:
        raise InputError("--config is missing; for example --config=configs/study_toy.py.")
    if ONLY.value and (REPORT.value or KEEP_RUNS.value):
        raise InputError("--only goes with neither --report nor --keep_runs.")
    filename = config_flags.get_config_filename(flags.FLAGS["config"])
    workdir = WORKDIR.value or default_workdir(filename)
    grid = StudyGrid.of(to_json(CONFIG.value))
    cache_programs(workdir)
    if ONLY.value:
        lines = rerun_cell(grid, OUT.value, ONLY.value, workdir=workdir)
        print("\n".join(lines[:20]) or f"{ONLY.value}: every number is the same to the bit.")
        return 1 if lines else 0
    state = (
        study_state(grid, OUT.value)
        if REPORT.value
        else run_study(grid, OUT.value, workdir=workdir, keep_runs=KEEP_RUNS.value)
    )
    command = shlex.join(["python", *(arg for arg in sys.argv if arg != "--report")])
    if state.stopped is not None:
        print(
            f"stopped by {state.stopped.stopped_by}, {len(state.missing)} cells are missing; go on "
            f"with: {command}",
            file=sys.stderr,
        )
        return 128 + state.stopped.signal_number
    for verdict in write_report(grid, state, OUT.value, command=command):
        print(f"{verdict.decision}: {verdict.claim.text}")
    print(f"{OUT.value}/{grid.config['name']}.md, .html")
    return 0


if __name__ == "__main__":
    run_main(main)
