import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest

from magjax import hub
from magjax.checks import InputError
from magjax.config import retrieval_config
from magjax.similarity import PRESETS, Score
from magjax.study import restore_step, train

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("retrieval_*.py"))


def load_config(path, arguments):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(arguments)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_runs_two_steps(path, tmp_path, shrink):
    config = shrink(load_config(path, "variant=qnorm,seed=3"))
    assert (config["variant"], config["seed"]) == ("qnorm", 3)
    outcome = train(config, tmp_path / "run")
    assert outcome.step == 2
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [row["system"] for row in results["results"]] == ["bm25", "untrained", "model"]
    assert results["steps"] == 2


@pytest.mark.parametrize("variant", [*PRESETS, "learnable"])
def test_each_variant_learns_and_is_remembered(variant, tmp_path, shrink):
    config = shrink(
        retrieval_config(variant=variant, seed=0),
        loop__steps=60,
        loop__evaluate_every=30,
        loop__save_every=60,
        optimizer__learning_rate=1e-2,
    )
    train(config, tmp_path / "run")
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    training = [line for line in lines if line["kind"] == "train"]
    assert all(math.isfinite(v) for line in lines for v in line.values() if not isinstance(v, str))
    assert np.mean([t["loss"] for t in training[-5:]]) < 0.8 * training[0]["loss"]
    gammas = (training[-1]["gamma_query"], training[-1]["gamma_document"])
    if variant == "learnable":
        assert gammas != (0.5, 0.5)
    else:
        assert gammas == PRESETS[variant]

    results = json.loads((tmp_path / "run" / "results.json").read_text())["results"]
    values = {row["system"]: row["metrics"]["ndcg@10"] for row in results}
    assert values["model"] > values["untrained"]

    model = hub.load(tmp_path / "run")
    assert model.score.variant == variant
    assert model.score.gammas == pytest.approx(gammas, abs=0.02)
    other = Score.of("dot" if variant != "dot" else "cosine")
    with pytest.raises(InputError, match="contradicts"):
        hub.load(tmp_path / "run", score=other)
    assert hub.load(tmp_path / "run", score=other, cross_evaluation=True).score == other


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variant": "qnrom"}, "Did you mean 'qnorm'"),
        ({"batch_size": 12}, r"batch_size=12 is not a multiple of device_count=8; .*batch_size=8"),
        ({"batch_size": 800}, "larger than the"),
        ({"data__path": "/nowhere/else"}, "/nowhere/else"),
        ({"data__path": ""}, "needs a path"),
        ({"data__source": "csv"}, "unknown data.source"),
        ({"model__init": "/nowhere/model"}, "/nowhere/model does not exist"),
        ({"model__model_type": "bret"}, "Did you mean 'bert'"),
        ({"loop__metric": "ndgc@10"}, "ndgc@10"),
        ({"loss__negatives_per_query": 2}, "no hard negatives"),
        ({"evaluation__k": 50}, "recall@100"),
        ({"temperature__initial": -1.0}, "temperature"),
    ],
)
def test_wrong_settings_say_what_to_do(changes, message, tmp_path, shrink):
    config = shrink(retrieval_config(variant="dnorm", seed=0), **changes)
    with pytest.raises(InputError, match=message):
        train(config, tmp_path / "run")


def test_workdir_of_another_config_is_refused(tmp_path, shrink):
    train(shrink(retrieval_config(variant="dnorm", seed=0)), tmp_path / "run")
    before = sorted(p.name for p in (tmp_path / "run").iterdir())
    with pytest.raises(InputError, match="variant='dnorm' there, 'qnorm' here"):
        train(shrink(retrieval_config(variant="qnorm", seed=0)), tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == before


def test_a_given_step_is_that_steps_model(tmp_path, shrink):
    """The last checkpoint of a run whose best model is the last equals model/; an unknown step
    names those that are there."""
    config = shrink(
        retrieval_config(variant="learnable", seed=0),
        loop__steps=20,
        loop__evaluate_every=10,
        loop__save_every=10,
        optimizer__learning_rate=1e-2,
    )
    outcome = train(config, tmp_path / "run")
    best = hub.load(tmp_path / "run")
    same = hub.load(tmp_path / "run", step=outcome.best_step, restore=restore_step)
    other = hub.load(tmp_path / "run", step=30 - max(outcome.best_step, 10), restore=restore_step)
    batch = {"input_ids": np.array([[2, 9, 3]]), "attention_mask": np.ones((1, 3), int)}
    embeddings = [m.encoder.embed(batch, "query") for m in (best, same, other)]
    np.testing.assert_array_equal(embeddings[0], embeddings[1])
    assert np.abs(embeddings[0] - embeddings[2]).max() > 1e-4
    assert same.score == best.score
    with pytest.raises(InputError, match=r"no complete step 7; it has: \[10, 20\]"):
        hub.load(tmp_path / "run", step=7, restore=restore_step)
