import json

import numpy as np
from tensorboardX.proto.event_pb2 import Event

from magjax.training import MetricsWriter, Terminal, window_means


def test_means_are_sums_divided_once():
    """Three steps of unequal size: the mean of means would be another number."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=n) for n in (3, 50, 7)]
    steps = [
        {
            "norm_sum": p.sum(),
            "norm_variance_sum": ((p - p.mean()) ** 2).sum(),
            "count": len(p),
            "rate": len(p),
        }
        for p in parts
    ]
    within = np.concatenate([p - p.mean() for p in parts])
    means = window_means(steps)
    np.testing.assert_allclose(means["norm"], np.concatenate(parts).mean(), rtol=1e-12)
    np.testing.assert_allclose(means["norm_std"], np.sqrt((within**2).mean()), rtol=1e-12)
    assert means["rate"] == 7
    assert set(means) == {"norm", "norm_std", "rate"}


def test_own_counts_win_over_the_common_one():
    assert window_means([{"logit_sum": 6.0, "logit_count": 3.0, "count": 2.0}]) == {"logit": 2.0}


def test_resume_drops_later_and_broken_lines(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        for step in (1, 2, 3):
            writer.write(step, "train", {"loss": float(step)})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "ki')
    with MetricsWriter(tmp_path, resume_step=2) as writer:
        writer.write(3, "train", {"loss": 30.0})
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["loss"]) for row in rows] == [(1, 1), (2, 2), (3, 30.0)]


def test_not_a_number_is_written_as_text(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(1, "train", {"loss": float("nan")})
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] == "nan"


def test_events_hold_the_same_scalars(tmp_path):
    with MetricsWriter(tmp_path) as writer:
        writer.write(5, "train", {"loss": 0.25})
    (path,) = (tmp_path / "tensorboard").iterdir()
    data, found, at = path.read_bytes(), {}, 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        event = Event.FromString(data[at + 12 : at + 12 + length])
        found |= {value.tag: (event.step, value.simple_value) for value in event.summary.value}
        at += 12 + length + 4
    assert found == {"train/loss": (5, 0.25)}


def test_plain_lines_without_a_terminal(capsys):
    with Terminal(total=10, start=0, interactive=False) as terminal:
        terminal.show(5, {"loss": 0.123456}, left=7.6)
        terminal.say("step 5 evaluation")
    assert capsys.readouterr().err == "step 5/10 left=8s loss=0.1235\nstep 5 evaluation\n"
