import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from magjax.checks import InputError, RunError
from magjax.training import Fit, LoopSettings, initial_state, leaf_names, tiny_trainee


class Stream:
    """Counts up; batch i holds row i."""

    def __init__(self):
        self.position = 0

    def __next__(self):
        self.position += 1
        return {"row": np.array([self.position])}

    def get_state(self):
        return {"position": self.position}

    def set_state(self, state):
        self.position = state["position"]


def make_fit(workdir, *, losses=None, values=None, on_step=None, steps=12, **settings):
    """A fit whose step folds each batch into the parameters: any batch lost or doubled shows."""
    graph, state = initial_state(tiny_trainee("cosine"), optax.sgd(0.1), seed=0)

    @jax.jit
    def step(state, batch):
        params = jax.tree.map(lambda p: p * 0.9 + batch["row"][0] * 0.01, state.params)
        loss = jnp.sqrt(batch["row"][0].astype(jnp.float32))
        new = type(state)(state.step + 1, params, state.rest, state.opt_state, state.key)
        return new, {"loss_sum": loss, "count": jnp.ones(()), "gradient_norm": jnp.ones(())}

    def observed(state, batch):
        row = int(batch["row"][0])
        if on_step:
            on_step(row)
        new, metrics = step(state, batch)
        if losses and row in losses:
            metrics = metrics | {"loss_sum": jnp.asarray(losses[row])}
        return new, metrics

    evaluations = []
    saved = []

    def evaluate(model):
        evaluations.append(float(model.encoder.query_tower.embeddings.word.embedding[0, 0]))
        value = values[len(evaluations) - 1] if values else evaluations[-1]
        return {"ndcg@10": value}

    fit = Fit(
        graph=graph,
        state=state,
        step=observed,
        place=lambda batch: jax.tree.map(jnp.asarray, batch),
        stream=Stream(),
        evaluate=evaluate,
        save_model=lambda model: saved.append(len(evaluations) - 1),
        describe=lambda batch: [f"row-{i}" for i in batch["row"]],
        settings=LoopSettings(
            **({"steps": steps, "evaluate_every": 4, "save_every": 4, "log_every": 3} | settings)
        ),
        workdir=workdir,
    )
    return fit, saved


def lines(workdir, *, drop=("examples_per_second",)):
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in drop} for row in rows]


def test_intervals_and_lines(tmp_path):
    fit, _ = make_fit(tmp_path)
    result = fit.run()
    assert (result.step, result.stopped_by) == (12, None)
    kinds = [(row["kind"], row["step"]) for row in lines(tmp_path)]
    assert kinds == [
        ("evaluation", 0),
        ("train", 3),
        ("evaluation", 4),
        ("train", 6),
        ("evaluation", 8),
        ("train", 9),
        ("train", 12),
        ("evaluation", 12),
    ]
    first = next(row for row in lines(tmp_path) if row["kind"] == "train")
    assert first["loss"] == pytest.approx(np.mean(np.sqrt([1, 2, 3])), rel=1e-6)


@pytest.mark.parametrize("stops", [(1,), (5, 8), (3, 7), (4, 4, 11)])
def test_stopped_and_resumed_equals_uninterrupted(tmp_path, stops):
    whole, _ = make_fit(tmp_path / "whole")
    whole.run()
    for number, stop in enumerate(stops):

        def interrupt(row, stop=stop):
            if row == stop:
                os.kill(os.getpid(), signal.SIGTERM)

        fit, _ = make_fit(tmp_path / "parts", on_step=interrupt)
        result = fit.run(resume=number > 0)
        if result.stopped_by:  # a stop that fell on a step already done never comes
            assert (result.stopped_by, result.signal_number) == ("SIGTERM", 15)
            assert result.step == stop
    fit, _ = make_fit(tmp_path / "parts")
    result = fit.run(resume=True)
    assert result.step == 12
    for name, a, b in zip(
        leaf_names(fit.state), jax.tree.leaves(fit.state), jax.tree.leaves(whole.state), strict=True
    ):
        np.testing.assert_array_equal(a, b, err_msg=name)
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")


def test_best_model_and_patience(tmp_path):
    fit, saved = make_fit(
        tmp_path, steps=100, values=[0.1, 0.5, 0.4, 0.3, 0.9], patience=2, evaluate_every=5
    )
    result = fit.run()
    assert result.step == 15
    assert (result.best_step, result.best_value) == (5, 0.5)
    assert saved == [0, 1]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_the_run(tmp_path, bad):
    fit, _ = make_fit(tmp_path, losses={6: bad})
    with pytest.raises(RunError) as error:
        fit.run()
    text = str(error.value)
    assert f"loss is {bad} at step 6" in text
    assert "row-6" in text
    assert "is step 4" in text
    resumed, _ = make_fit(tmp_path)
    assert resumed.run(resume=True).step == 12


def test_unknown_metric_names_the_known(tmp_path):
    fit, _ = make_fit(tmp_path, metric="mrr@10")
    with pytest.raises(InputError, match=r"no metric 'mrr@10'; it has: ndcg@10"):
        fit.run()
