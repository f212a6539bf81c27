import json

import jax
import numpy as np
import pytest
from flax import nnx
from image_text_cases import tiny_config, tiny_model, write_set

from magjax import hub
from magjax.evaluation import side_of_modality
from magjax.mesh import data_mesh, replicate
from magjax.similarity import Score, SimilarityHead
from magjax.study import TASKS, restore_step, train
from magjax.training import (
    LossSettings,
    OptimizerSettings,
    Trainee,
    batch_loss,
    initial_state,
    make_optimizer,
    make_train_step,
    place_batch,
    window_means,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("data") / "squares")


def results_of(run):
    return json.loads((run / "results.json").read_text())


def test_a_run_learns_colours_and_shows_them(folder, tmp_path):
    config = tiny_config(
        folder,
        variant="dnorm",
        loop__steps=40,
        loop__evaluate_every=20,
        loop__save_every=20,
        optimizer__learning_rate=1e-2,
        evaluation__all_scores=True,
        data__augmentation="icon",
    )
    outcome = train(config, tmp_path / "run")
    assert outcome.step == 40
    found = results_of(tmp_path / "run")["results"]
    values = {(row["system"], row["domain"]): row["metrics"] for row in found}
    for direction in ("text_to_image", "image_to_text"):
        domain = f"squares/test:{direction}"
        assert {system for system, name in values if name == domain} == {
            "chance",
            "untrained",
            *(f"untrained by {name}" for name in ("cosine", "dot", "qnorm")),
            "model",
            *(f"model by {name}" for name in ("cosine", "dot", "qnorm")),
        }
        own, start = values["model", domain], values["untrained", domain]
        assert own["mrr"] > max(start["mrr"], 1.3 * values["chance", domain]["mrr"])
        assert own["median_rank"] <= start["median_rank"]
    names = {path.name for path in (tmp_path / "run" / "results").iterdir()}
    assert names == {"training_curves.png", "retrieval_test.png"}
    assert not (tmp_path / "run/runs/squares_test_text_to_image.chance.trec").exists()
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["kind"] == "evaluation"][-1]
    one, other = last["text_to_image/mrr"], last["image_to_text/mrr"]
    assert last["mrr"] == pytest.approx((one + other) / 2)

    model = hub.load(tmp_path / "run")
    assert (model.encoder.modality("document"), model.score.variant) == ("image", "dnorm")
    step = hub.load(tmp_path / "run", step=40, restore=restore_step)
    assert step.score.gammas == (0.0, 1.0)


def test_lit_trains_one_tower_beside_a_frozen_one(folder, tmp_path):
    """Images are the queries here, and theirs is the tower that stays."""
    hub.save(tiny_model("cosine"), tmp_path / "start")
    config = tiny_config(
        folder,
        model__text_init=str(tmp_path / "start"),
        model__image_init=str(tmp_path / "start"),
        model__image_size=0,
        query_modality="image",
        optimizer__freeze=("query_tower",),
        loop__steps=6,
        loop__evaluate_every=3,
        optimizer__learning_rate=1e-2,
    )
    assert train(config, tmp_path / "run").best_step > 0
    start, end = hub.load(tmp_path / "start"), hub.load(tmp_path / "run")
    assert end.encoder.modality("query") == "image"
    for modality, moves in (("text", True), ("image", False)):
        one, other = (
            jax.tree.leaves(
                nnx.state(model.encoder.tower(side_of_modality(model.encoder, modality)))
            )
            for model in (start, end)
        )
        assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True)) == moves


def trainee(task, variant="qnorm"):
    head = SimilarityHead(
        variant, temperature=0.5, learn_temperature=True, temperature_range=(0.01, 5.0)
    )
    return Trainee(task.model.encoder, head)


def test_eight_devices_train_as_one(folder):
    """The same losses over the first 20 steps to 1e-5, with the optimizer of real runs."""
    config = tiny_config(folder, batch_size=8, data__augmentation="icon")
    task = TASKS["image_text"].make_task(config)
    optimizer = make_optimizer(OptimizerSettings(learning_rate=1e-3), 20)
    losses = {}
    for devices in (1, 8):
        mesh = data_mesh(jax.devices()[:devices])
        graph, state = initial_state(trainee(task), optimizer, seed=0)
        state = replicate(state, mesh)
        step = make_train_step(graph, optimizer, LossSettings(direction="both"))
        losses[devices] = []
        for number in range(20):
            state, metrics = step(state, place_batch(task.batches.batch_at(number), mesh))
            losses[devices].append(window_means([metrics])["loss"])
    np.testing.assert_allclose(losses[8], losses[1], rtol=1e-5)
    assert losses[1][-1] < losses[1][0]


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.25, 0.75)])
def test_directions_are_weighted(folder, weights):
    task = TASKS["image_text"].make_task(tiny_config(folder))
    batch, model = task.batches.batch_at(0), trainee(task, "dnorm")

    def value(**settings):
        return float(batch_loss(model, batch, LossSettings(**settings), None)[0])

    there, back = (value(direction=d) for d in ("query_to_document", "document_to_query"))
    both = value(direction="both", direction_weights=weights)
    assert there != pytest.approx(back, rel=1e-3)
    assert both == pytest.approx(weights[0] * there + weights[1] * back, rel=1e-5)


def test_equal_captions_are_no_negatives_of_each_other(folder):
    """Each colour and place has three images or more: an unmasked loss would punish right pairs."""
    task = TASKS["image_text"].make_task(tiny_config(folder))
    batch, model = task.batches.batch_at(0), trainee(task)
    texts = batch["query_ids"]
    assert len(set(texts.tolist())) < len(texts)
    gammas = Score.of("qnorm").gammas
    queries = np.float64(model.encoder.embed(batch["query"], "query"))
    images = np.float64(model.encoder.embed(batch["document"], "document"))
    units = [
        x / np.linalg.norm(x, axis=1, keepdims=True) ** g
        for x, g in zip((queries, images), gammas, strict=True)
    ]
    logits = units[0] @ units[1].T / 0.5
    known = np.array([[d in row for d in batch["document_ids"]] for row in batch["positive_ids"]])
    known |= texts[:, None] == texts[None]
    logits[known & ~np.eye(len(texts), dtype=bool)] = -np.inf
    wanted = np.mean(
        [np.log(np.exp(matrix).sum(axis=1)) - np.diag(matrix) for matrix in (logits, logits.T)]
    )
    found = batch_loss(model, batch, LossSettings(direction="both"), None)[0]
    assert float(found) == pytest.approx(wanted, rel=1e-5)
