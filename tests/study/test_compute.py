"""Computing a cell: trials are not trained again, and runs that diverge say so."""

import dataclasses
import itertools

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.config import retrieval_config, study_config, to_json
from magjax.study import StudyGrid, compute_cell
from magjax.study._compute import _expand, _thin


@pytest.fixture
def cells(tiny_beir, monkeypatch):
    """A trial, the cell that is trained alike, and one that diverges."""
    monkeypatch.setenv("TINY_HOME", str(tiny_beir.parent))
    base = retrieval_config(variant="cosine", seed=0)
    base.data.update(
        source="beir", path=f"$TINY_HOME/{tiny_beir.name}", dev_queries=10, dev_documents=40
    )
    base.model.update(layers=1, width=16, heads=2, vocab_size=300)
    base.text.update(query_max_length=16, document_max_length=32)
    base.batch_size = 16
    base.loop.update(steps=4, evaluate_every=2, save_every=2, log_every=1)
    config = study_config(base, name="tiny")
    config.variants = ("dnorm",)
    config.reference = "dnorm"
    config.seeds = (0,)
    config.trials = ({}, {"optimizer": {"learning_rate": 1e30, "clip_norm": 1e30}})
    grid = StudyGrid.of(to_json(config))
    return grid.trials()[0], grid.trained({})[0], grid.trials()[1]


def test_a_chosen_trial_is_tested_without_being_trained_again(cells, tmp_path):
    trial, trained, _ = cells
    seen = []
    first = compute_cell(trial, tmp_path / "run", seen.append)
    assert first.measured == []
    assert first.development["steps"] == 4
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    model = (tmp_path / "run" / "model" / "model.safetensors").read_bytes()
    second = compute_cell(trained, tmp_path / "run", seen.append)
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == metrics
    assert (tmp_path / "run" / "model" / "model.safetensors").read_bytes() == model
    # Alone, in the folder of a run that was killed before its first checkpoint.
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / ".config.json.half").write_text("{")
    alone = compute_cell(trained, tmp_path / "alone", seen.append)
    assert second == alone
    assert not (tmp_path / "alone" / ".config.json.half").exists()
    assert second.development == first.development
    assert second.curve == first.curve
    assert [step for step, _ in second.curve["loss"]] == [1, 2, 3, 4]
    assert [step for step, _ in second.curve["development ndcg@10"]] == [0, 2, 4]
    assert set(seen[0]) == {"train", "development", "tiny"}
    assert seen[0] == seen[1] == seen[2] == second.data
    (measured,) = second.measured
    assert len(measured.values["ndcg@10"]) == 20
    assert np.mean(measured.values["ndcg@10"]) == pytest.approx(measured.means["ndcg@10"])


def test_a_run_that_diverges_is_a_result_that_names_no_folder(cells, tmp_path):
    found = compute_cell(cells[2], tmp_path / "run", lambda _: None)
    assert found.measured == []
    assert found.failure.endswith(("at step 2", "at step 1"))
    assert str(tmp_path) not in found.failure
    assert set(found.data) == {"train", "development", "tiny"}


def test_data_that_is_refused_is_not_trained_on(cells, tmp_path):
    def check(fingerprints):
        raise InputError("other data")

    with pytest.raises(InputError, match="other data"):
        compute_cell(cells[1], tmp_path / "run", check)
    assert not (tmp_path / "run").exists()


def test_a_lexical_row_that_no_task_gives_is_refused(cells, tmp_path):
    trial, *_ = cells
    off = {**trial.config, "evaluation": {**trial.config["evaluation"], "bm25": False}}
    cell = dataclasses.replace(trial, role="bm25", trial=None, start="", variant="", config=off)
    with pytest.raises(InputError, match="has no lexical yardstick"):
        compute_cell(cell, tmp_path / "run", lambda _: None)


def test_variables_are_expanded_at_the_beginning_of_strings_only(monkeypatch):
    monkeypatch.setenv("HERE", "/data")
    given = {"path": "$HERE/a", "paths": ["$HERE", "x$HERE"], "price": 5}
    assert _expand(given) == {"path": "/data/a", "paths": ["/data", "x$HERE"], "price": 5}
    with pytest.raises(InputError, match="set the environment variable NOWHERE_SET"):
        _expand({"path": "$NOWHERE_SET/a"})


@pytest.mark.parametrize("count", [1, 49, 50, 51, 100, 101, 999])
def test_a_long_curve_is_thinned_evenly_and_keeps_its_end(count):
    points = [[i, float(i)] for i in range(count)]
    kept = _thin(points)
    assert kept[-1] == points[-1]
    assert len(kept) <= 50
    assert len(kept) >= min(count, 25)
    assert len({b[0] - a[0] for a, b in itertools.pairwise(kept)}) <= 1
