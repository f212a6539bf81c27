"""launch/analyze.py cross as a user runs it."""

import pytest

from magjax import analysis, hub
from magjax.analysis import Identity, model_names
from magjax.checks import InputError, RunError
from magjax.data import TextPreprocessor, read_beir
from magjax.evaluation import evaluate_retrieval
from magjax.files import read_json
from magjax.similarity import Score

SMALL = ("--metrics=ndcg@5,mrr@5", "--k=5", "--resamples=50")


def test_tables_and_a_folder_hold_every_model_under_every_score(analyze, analyze_folders, tmp_path):
    names = ["cosine", "qnorm", "start"]
    said = analyze("cross", *SMALL, "--reverse", f"--workdir={tmp_path}", checkpoints=names)
    assert "beir, query to document, 8 queries: ndcg@5" in said.out
    assert "beir, document to query, 8 documents: mrr@5" in said.out
    assert "qnorm: dot = qnorm in all 8 rankings" in said.out
    assert "start: states no trained score." in said.out
    assert said.err.count("embedded 16 texts of side document") == 3  # once a model
    saved = read_json(tmp_path / "cross.json")
    assert list(saved["checkpoints"]) == names
    forward, backward = saved["tables"]
    assert all(found["holds"] for table in (forward, backward) for found in table["identities"])
    trained = {cell["model"]: cell["name"] for cell in forward["cells"] if cell["trained"]}
    assert trained == {"cosine": "cosine", "qnorm": "qnorm"}
    data = read_beir(analyze_folders / "beir")
    for cell in forward["cells"]:
        if cell["name"] == "dnorm":
            model = hub.load(analyze_folders / cell["model"])
            expected = evaluate_retrieval(
                model.encoder,
                TextPreprocessor(model.tokenizer, model.text),
                data,
                Score.of("dnorm"),
                k=5,
                metrics=["ndcg@5", "mrr@5"],
            )
            assert cell["metrics"] == expected.evaluation.mean
    references = {(d["model"], d["metric"], d["reference"]["score"]) for d in forward["deltas"]}
    assert ("cosine", "mrr@5", "cosine") in references
    assert saved["gaps"] == []
    assert sorted(path.name for path in (tmp_path / "cross").iterdir()) == [
        "mrr_5.png", "ndcg_5.png",
    ]  # fmt: skip
    assert "| qnorm: cosine = dnorm | qnorm: qnorm |" in (tmp_path / "cross.md").read_text()


def test_named_scores_replace_the_presets(analyze):
    said = analyze("cross", *SMALL, "--scores=dot", "--scores=0.5,1", checkpoints=["cosine"])
    assert said.out.splitlines()[1].split() == ["model", "dot", "0.5,1", "cosine"]


def test_a_violated_identity_ends_the_program_after_it_has_written(analyze, monkeypatch, tmp_path):
    def broken(model, rankings):
        return Identity(model, tuple(rankings), 8, 0, 3)

    monkeypatch.setattr(analysis._cross, "check_identity", broken)
    with pytest.raises(RunError, match="VIOLATED: cosine: cosine = dnorm must hold, but 3 of 8"):
        analyze("cross", *SMALL, f"--workdir={tmp_path}")
    assert "VIOLATED" in (tmp_path / "cross.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "checkpoints", "message"),
    [
        ([], [], "--checkpoint is missing"),
        ([], ["cosine", "cosine"], "cosine is named twice"),
        ([], ["cosine", "nothing"], "nothing does not exist"),
        (["--metrics=ndgc@5"], ["cosine"], "Did you mean 'ndcg'"),
        (["--k=3"], ["cosine"], "looks at 5 documents"),
        (["--scores=cosin"], ["cosine"], "'cosin' is neither"),
        (["--baseline=qnrm"], ["cosine", "qnorm"], "Did you mean 'qnorm'"),
        (["--split=dev"], ["cosine"], "unknown split"),
    ],
)
def test_wrong_input_is_refused(analyze, arguments, checkpoints, message):
    with pytest.raises(InputError, match=message):
        analyze("cross", *SMALL, *arguments, checkpoints=checkpoints)


def test_model_folders_of_runs_are_called_by_the_run(analyze_folders):
    assert model_names([analyze_folders / "cosine", analyze_folders / "qnorm"]) == [
        "cosine", "qnorm",
    ]  # fmt: skip
