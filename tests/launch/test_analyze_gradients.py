"""launch/analyze.py gradients as a user runs it."""

import sys

import pytest

from magjax.checks import InputError
from magjax.config import run_main
from magjax.files import read_json

SMALL = ("--points=3", "--documents=3", "--parameter_queries=3", "--parameter_points=2")


def test_tables_and_a_folder_say_what_length_does_to_gradients(analyze, tmp_path):
    said = analyze("gradients", *SMALL, "--scores=dot", "--scores=1,0.5", f"--workdir={tmp_path}")
    assert "beir: gradients of a query's loss at 0.0625, 1, 16 times its length" in said.out
    assert "8 queries (seed 0) over 11 candidates" in said.out
    assert "WARNING" not in said.out
    assert "embedded 8 texts of side query" in said.err
    saved = read_json(tmp_path / "gradients.json")
    assert saved["checkpoint"].endswith("/cosine")
    (report,) = saved["reports"]
    assert list(report["scores"]) == ["dot", "1,0.5"]
    assert report["scales"] == [0.0625, 1.0, 16.0]
    found = report["scores"]["1,0.5"]
    assert max(found["largest_deviation_from_closed_form"].values()) < 1e-9
    assert found["temperature_source"] == (
        "calibrated to the deviation of the trained logits (cosine)"
    )
    assert found["parameters"]["space"] == "last_block"
    assert sorted(path.name for path in (tmp_path / "gradients").iterdir()) == [
        "beir.1,0.5.jsonl", "beir.1,0.5.png", "beir.dot.jsonl", "beir.dot.png", "beir.png",
    ]  # fmt: skip


def test_a_model_without_a_score_is_measured_at_a_comparable_or_given_temperature(analyze):
    small = (*SMALL, "--parameters=none", "--scores=cosine")
    said = analyze("gradients", *small, checkpoints=["start"])
    assert "cosine: temperature 0.05 (calibrated to the deviation of cosine's logits" in said.out
    said = analyze("gradients", *small, "--temperature=0.2", checkpoints=["start"])
    assert "cosine: temperature 0.2 (given)" in said.out


@pytest.mark.parametrize(
    ("arguments", "checkpoints", "data", "message"),
    [
        ([], [], "beir", "--checkpoint is missing"),
        ([], ["cosine", "qnorm"], "beir", "--checkpoint is given 2 times"),
        ([], ["cosine"], "", "--data is missing"),
        ([], ["cosine"], "nothing", "is no folder"),
        (["--scores=cosin"], ["cosine"], "beir", "'cosin' is neither"),
        (["--scores=dot", "--scores=0,0"], ["cosine"], "beir", "'dot' is named twice"),
        (["--parameters=kernal_of"], ["cosine"], "beir", "no parameter matches 'kernal_of'"),
        (["--lowest=1"], ["cosine"], "beir", "either side of 1"),
        (["--difficulty=los"], ["cosine"], "beir", "Did you mean 'loss'"),
        (["--temperature=-1"], ["cosine"], "beir", "temperature=-1"),
        (["--queries=2"], ["cosine"], "beir", "queries=2"),
    ],
)
def test_wrong_input_is_refused(analyze, arguments, checkpoints, data, message):
    with pytest.raises(InputError, match=message):
        analyze("gradients", *arguments, checkpoints=checkpoints, data=data)


def test_flags_of_other_commands_are_refused(analyze_program, monkeypatch, capsys):
    commands = {
        word: [f.name for f in taken] for word, (_, taken) in analyze_program.COMMANDS.items()
    }
    monkeypatch.setattr(sys, "argv", ["analyze.py", "gradients", "--reverse"])
    with pytest.raises(SystemExit) as stopped:
        run_main(analyze_program.main, commands=commands)
    assert stopped.value.code == 2
    assert "--reverse is not a flag of 'gradients'" in capsys.readouterr().err
