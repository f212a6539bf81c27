"""Running a study: nothing twice, nothing lost, nothing mixed; cells made up, nothing trained."""

import json
import multiprocessing
import os
import random
import signal
import time

import pytest
from study_cases import fake_compute, fingerprints, grid

from magjax.checks import InputError
from magjax.study import CellResult, Stopped, rerun_cell, run_study, study_state
from magjax.study._lock import try_lock
from magjax.training import FitResult

TRIALS = ({"optimizer": {"learning_rate": 3e-3}}, {"optimizer": {"learning_rate": 1e-3}})


def counting(calls):
    def compute(cell, run, check):
        calls.append(cell.id)
        return fake_compute(cell, run, check)

    return compute


def files(out):
    return {
        path.name: json.loads(path.read_text()) | {"seconds": 0}
        for path in sorted((out / "tiny" / "cells").iterdir())
    }


def test_every_cell_is_computed_once_and_nothing_is_left(tmp_path):
    calls = []
    study = grid(trials=TRIALS)
    state = run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=counting(calls))
    assert state.complete
    assert len(calls) == len(set(calls)) == 2 + 4 + 4
    assert {cell.id for cell in state.cells} == set(calls)
    assert sorted(f"{name}.json" for name in calls) == list(files(tmp_path / "out"))
    assert list((tmp_path / "runs").iterdir()) == []
    again = []
    run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=counting(again))
    assert again == []


def test_the_best_trial_at_the_first_seed_is_used_for_every_seed(tmp_path):
    study = grid(trials=TRIALS)
    state = run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)
    assert set(state.choices.values()) == {1}  # the made-up development value falls with the rate
    trained = [cell for cell in state.cells if cell.role == "trained"]
    assert {cell.config["optimizer"]["learning_rate"] for cell in trained} == {1e-3}
    assert {cell.trial for cell in trained} == {1}


def test_equal_trials_give_the_first_and_failed_ones_are_not_chosen(tmp_path):
    def compute(cell, run, check):
        found = fake_compute(cell, run, check)
        if cell.role == "trial" and cell.variant == "dnorm" and cell.trial == 1:
            return CellResult(found.data, [], {}, {}, failure="loss is nan at step 7")
        if cell.role == "trial":
            found.development["value"] = 0.5
        return found

    study = grid(trials=TRIALS)
    state = run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=compute)
    assert set(state.choices.values()) == {0}


def test_only_the_best_trials_run_folder_is_kept_until_its_cell_is_trained(tmp_path):
    seen = {}

    def compute(cell, run, check):
        if cell.role == "trained" and cell.seed == 0:
            seen[cell.variant] = (run / "model").read_text()
            assert len(list(run.parent.iterdir())) <= 2
        if cell.role == "trial":
            others = [path for path in run.parent.iterdir() if path.name != run.name]
            assert len(others) <= 2  # one a variant
        return fake_compute(cell, run, check)

    study = grid(trials=(*TRIALS, {"optimizer": {"learning_rate": 2e-3}}))
    run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=compute)
    assert {name: text.split("-")[4] for name, text in seen.items()} == {
        "cosine": "t1",
        "dnorm": "t1",
    }


def test_run_folders_stay_when_asked(tmp_path):
    study = grid(trials=TRIALS)
    run_study(
        study, tmp_path / "out", workdir=tmp_path / "runs", keep_runs=True, compute=fake_compute
    )
    chosen = dict.fromkeys(study.groups(), 1)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(
        cell.run_name for cell in study.trained(chosen)
    )


def test_a_failed_cell_is_stored_and_the_study_goes_on(tmp_path):
    def compute(cell, run, check):
        if cell.variant == "dnorm" and cell.seed == 1:
            check(fingerprints(1))
            return CellResult(fingerprints(1), [], {}, {}, failure="loss is nan at step 7")
        return fake_compute(cell, run, check)

    state = run_study(grid(), tmp_path / "out", workdir=tmp_path / "runs", compute=compute)
    assert state.complete
    failed = [cell for cell in state.cells if cell.result.failure]
    assert [(cell.variant, cell.seed) for cell in failed] == [("dnorm", 1)]


def test_a_mistake_stops_the_study_and_leaves_no_lock(tmp_path):
    def compute(cell, run, check):
        if cell.role == "trained":
            raise InputError("batch_size=800 is larger than the data.")
        return fake_compute(cell, run, check)

    with pytest.raises(InputError, match="batch_size=800"):
        run_study(grid(), tmp_path / "out", workdir=tmp_path / "runs", compute=compute)
    assert len(files(tmp_path / "out")) == 2


def test_a_signal_ends_the_study_and_says_what_is_missing(tmp_path):
    def compute(cell, run, check):
        if cell.seed == 1:
            raise Stopped(FitResult(7, "SIGTERM", 15, 0, 0.0))
        return fake_compute(cell, run, check)

    state = run_study(grid(), tmp_path / "out", workdir=tmp_path / "runs", compute=compute)
    assert state.stopped.signal_number == 15
    assert not state.complete
    assert all("-s1-" in name or "dnorm" in name for name in state.missing)


def test_other_data_is_refused_before_training(tmp_path):
    study = grid()
    run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)
    for path in (tmp_path / "out" / "tiny" / "cells").glob("*-s1-*"):
        path.unlink()
    trained = []

    def compute(cell, run, check):
        check(fingerprints(cell.seed) | {"home": "changed"})
        trained.append(cell.id)

    with pytest.raises(InputError, match=r"data 'home' h there, changed here"):
        run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=compute)
    assert trained == []


def test_other_versions_are_refused_before_training(tmp_path, monkeypatch):
    study = grid()
    run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)
    next((tmp_path / "out" / "tiny" / "cells").glob("*-s1-*")).unlink()
    monkeypatch.setattr("magjax.study._runner.library_versions", lambda: {"jax": "99"})
    with pytest.raises(InputError, match=r"jax .* there, 99 here"):
        run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)


def test_cells_of_other_settings_are_counted_and_left_out(tmp_path):
    run_study(grid(), tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)
    other = grid(base__loop__steps=5)
    state = study_state(other, tmp_path / "out")
    assert (len(state.cells), len(state.missing), state.others) == (2, 4, 4)


def test_trained_cells_that_a_trial_may_still_choose_are_no_strangers(tmp_path):
    study = grid(trials=TRIALS)
    run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)
    next((tmp_path / "out" / "tiny" / "cells").glob("*dnorm-s0-t0-*")).unlink()
    state = study_state(study, tmp_path / "out")
    assert state.others == 0
    assert [name.rpartition("-")[0] or name for name in sorted(state.missing)[:2]] == [
        "code-random-dnorm",
        "code-random-dnorm-s0-t0",
    ]


def test_a_rerun_says_whether_every_number_is_the_same(tmp_path):
    study = grid()
    state = run_study(study, tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)
    name = state.cells[-1].id
    arguments = (study, tmp_path / "out", name)
    assert rerun_cell(*arguments, workdir=tmp_path / "runs", compute=fake_compute) == []

    def compute(cell, run, check):
        found = fake_compute(cell, run, check)
        values = found.measured[1].values["ndcg@10"]
        values[3] += 1e-16 + abs(values[3]) * 1e-15
        return found

    (line,) = rerun_cell(*arguments, workdir=tmp_path / "runs", compute=compute)
    assert line.startswith("measured[1].values.ndcg@10[3]: 0.")
    assert list((tmp_path / "runs").iterdir()) == []
    with pytest.raises(InputError, match="Did you mean"):
        rerun_cell(study, tmp_path / "out", name[:-1], workdir=tmp_path / "runs")
    with pytest.raises(InputError, match="holds no finished cell"):
        rerun_cell(study, tmp_path / "nowhere", name, workdir=tmp_path / "runs")


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InputError, match="cannot write to --out or --workdir"):
        run_study(grid(), tmp_path / "out", workdir=tmp_path / "runs", compute=fake_compute)


def slow_compute(log):
    def compute(cell, run, check):
        with open(log, "a") as file:
            file.write(f"{cell.id}\n")
        time.sleep(0.02)
        return fake_compute(cell, run, check)

    return compute


def work(study, out, runs, log):
    run_study(study, out, workdir=runs, compute=slow_compute(log))


SEEDS = {"seeds": (0, 1, 2, 3), "trials": TRIALS}


def test_processes_share_the_work_and_compute_nothing_twice(tmp_path):
    """Three processes on one study; each ends when all cells are there."""
    study = grid(**SEEDS)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["magjax.study", "study_cases"])
    arguments = (study, tmp_path / "out", tmp_path / "runs", tmp_path / "log")
    workers = [context.Process(target=work, args=arguments) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    names = (tmp_path / "log").read_text().split()
    assert len(names) == len(set(names)) == 2 + 4 + 8
    state = study_state(study, tmp_path / "out")
    assert state.complete
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_study_killed_five_times_at_random_ends_with_the_same_cells(tmp_path):
    """SIGKILL at random moments of made-up cells; then one run to the end."""
    study = grid(**SEEDS)
    run_study(study, tmp_path / "whole", workdir=tmp_path / "runs", compute=fake_compute)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["magjax.study", "study_cases"])
    arguments = (study, tmp_path / "parts", tmp_path / "killed", tmp_path / "log")
    draw, killed = random.Random(0), 0
    log = tmp_path / "log"
    while killed < 5:
        before = log.read_text().count("\n") if log.exists() else 0
        worker = context.Process(target=work, args=arguments)
        worker.start()
        wanted = before + draw.choice([1, 2, 3])
        deadline = time.monotonic() + 60
        while not log.exists() or log.read_text().count("\n") < wanted:
            assert time.monotonic() < deadline
            assert worker.exitcode is None
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.03))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        killed += worker.exitcode == -signal.SIGKILL
    assert not study_state(study, tmp_path / "parts").complete
    work(*arguments)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert list((tmp_path / "killed").iterdir()) == []


def test_a_lock_file_that_its_holder_removed_is_no_lock(tmp_path, monkeypatch):
    """Opened, then removed by the holder before it is locked here: another could hold the name."""
    path = tmp_path / "cell"
    monkeypatch.setattr("magjax.study._lock._is_file", lambda path, handle: False)
    with try_lock(path) as mine:
        assert not mine
