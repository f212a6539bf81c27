"""The cells of a study, and every setting that is refused."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from study_cases import grid, study

from magjax.checks import InputError
from magjax.config import study_claim, to_json
from magjax.study import StudyGrid

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("study_*.py"))
TWO = ({"optimizer": {"learning_rate": 1e-3}}, {"optimizer": {"learning_rate": 2e-3}})


def test_a_grid_has_every_combination_once():
    found = grid(
        tasks={"code": {}, "beir": {"data": {"source": "beir", "path": "$DATA/adi"}}},
        starts={"random": {}, "deep": {"model": {"layers": 4}}},
        trials=TWO,
    )
    trained = found.trained({("code", "deep", "dnorm"): 1})
    assert len(trained) == 2 * 2 * 2 * 2
    assert len({(c.task, c.start, c.variant, c.seed) for c in trained}) == 16
    assert len(found.trials()) == 2 * 2 * 2 * 2
    assert {cell.seed for cell in found.trials()} == {0}
    assert [cell.role for cell in found.references()] == ["bm25", "untrained", "untrained"] * 2
    every = [*found.references(), *found.trials(), *trained]
    assert len({cell.id for cell in every}) == len(every)
    for cell in trained:
        config = cell.config
        assert config["model"]["layers"] == (4 if cell.start == "deep" else 2)
        assert config["data"]["source"] == ("beir" if cell.task == "beir" else "code")
        assert (config["variant"], config["seed"]) == (cell.variant, cell.seed)
        chosen = 2e-3 if cell.group == ("code", "deep", "dnorm") else 1e-3
        assert config["optimizer"]["learning_rate"] == chosen


def test_a_chosen_trial_shares_its_run_folder_with_the_cell_that_is_trained():
    found = grid(trials=TWO)
    first = {cell.run_name: cell for cell in found.trials()}
    (same,) = [
        cell
        for cell in found.trained({("code", "random", "dnorm"): 1})
        if cell.variant == "dnorm" and cell.seed == 0
    ]
    assert first[same.run_name].trial == 1
    assert first[same.run_name].id != same.id


def test_names_depend_on_what_numbers_depend_on():
    def names(**changes):
        found = grid(**changes)
        return [cell.id for cell in [*found.references(), *found.trained({})]]

    one = names()
    assert names(question="Why?", confidence=0.9, claims=()) == one
    longer = names(base__loop__steps=5)
    assert longer[:2] == one[:2]  # references do not train
    assert not set(longer[2:]) & set(one)
    assert not set(names(base__text__document_max_length=32)[1:]) & set(one)
    assert names(base__text__document_max_length=32)[0] == one[0]  # BM25 reads whole texts
    more = names(seeds=(0, 1, 2))
    assert set(one) < set(more)
    assert not set(names(metrics=("mrr@10",))) & set(one)


def test_names_are_the_same_in_another_process():
    code = "import study_cases; print([c.id for c in study_cases.grid().trained({})])"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
        timeout=120,
    )
    assert result.stdout.strip() == str([cell.id for cell in grid().trained({})])


def test_a_trial_is_described_by_what_it_sets():
    found = grid(trials=({}, {"temperature": {"reference": 0.05}, "batch_size": 32}))
    assert found.describe_trial(0) == "as the base"
    assert found.describe_trial(1) == "batch_size=32, temperature.reference=0.05"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": {"task": "txt"}}, "Did you mean 'text'"),
        ({"name": "My study"}, "lower-case letters"),
        ({"variants": ("cosine", "qnrom")}, "Did you mean 'qnorm'"),
        ({"variants": ()}, "must list at least one"),
        ({"seeds": (0, 0)}, "names one twice"),
        ({"seeds": (0, -1)}, "whole numbers of at least 0"),
        ({"tasks": {}}, "tasks is empty"),
        ({"tasks": {"a b": {}}}, "tasks: 'a b' must be letters"),
        ({"tasks": {"code": {"dta": {}}}}, "unknown config key in tasks.code 'dta'"),
        ({"starts": {"deep": {"model": {"layer": 4}}}}, "Did you mean 'model.layers'"),
        ({"starts": {"deep": {"model": {"layers": "4"}}}}, r"model.layers='4', but it is 2"),
        ({"starts": {"deep": {"model": 4}}}, "starts.deep.model is 4, not a mapping"),
        ({"trials": ({}, {})}, "the same changes twice"),
        ({"trials": ({"loop": {"stps": 1}},)}, "Did you mean 'loop.steps'"),
        ({"metrics": ("ndgc@10",)}, "Did you mean 'ndcg@10'"),
        ({"evaluations": ("stss",)}, "unknown evaluation 'stss'"),
        ({"reference": "dot"}, "unknown reference 'dot'; known: cosine, dnorm"),
        ({"confidence": 1.5}, "confidence=1.5 must be below 1"),
        ({"resamples": 0}, "resamples=0"),
        ({"base__loop": {"steps": 1}}, "the config lacks base.loop"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        grid(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"better": ("qnorm",)},
            "unknown system in claims.0..better 'qnorm'; known: cosine, dnorm",
        ),
        ({"than": ()}, r"claims\[0\].than is empty"),
        ({"than": ("dnorm",)}, "compares 'dnorm' with itself"),
        ({"metric": "mrr@10"}, "unknown metric in claims"),
        ({"tasks": ("cod",)}, "Did you mean 'code'"),
        ({"starts": ("minilm",)}, "unknown name in claims"),
        ({"margin": float("nan")}, "margin=nan must be a finite number"),
        ({"text": " "}, "must say the claim in words"),
    ],
)
def test_claims_that_cannot_be_tested_are_refused(changes, message):
    given = {"text": "One side wins.", "better": ("dnorm",), "than": ("cosine",)} | changes
    with pytest.raises(InputError, match=message):
        grid(claims=(study_claim(given.pop("text"), **given),))


def test_a_claim_with_an_unknown_key_is_refused():
    claim = study_claim("One side wins.", better=("dnorm",), than=("cosine",)) | {"domian": "in"}
    with pytest.raises(InputError, match="Did you mean"):
        grid(claims=(claim,))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_study_config_is_a_grid(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = StudyGrid.of(to_json(module.get_config()))
    assert path.stem == f"study_{found.config['name']}"
    assert found.config["question"]
    assert found.claims
    assert found.trained({})


def test_a_grid_survives_json():
    config = json.loads(json.dumps(study(trials=TWO)))
    assert StudyGrid.of(config).trained({}) == grid(trials=TWO).trained({})
