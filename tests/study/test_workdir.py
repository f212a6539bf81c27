import pytest

from magjax.checks import InputError
from magjax.files import read_json
from magjax.study import check_workdir, claim_workdir, hold_workdir

CONFIG = {"seed": 0, "loop": {"steps": 3}}


def test_a_new_folder_states_its_config(tmp_path):
    folder = check_workdir(tmp_path / "run", CONFIG, resume=False)
    assert not folder.exists()
    claim_workdir(folder, CONFIG)
    assert read_json(folder / "config.json") == CONFIG
    assert check_workdir(folder, CONFIG, resume=True) == folder


def test_a_run_killed_before_its_first_checkpoint_starts_anew(tmp_path):
    claim_workdir(tmp_path / "run", CONFIG)
    (tmp_path / "run" / "checkpoints").mkdir()
    assert check_workdir(tmp_path / "run", CONFIG, resume=False) == tmp_path / "run"


@pytest.mark.parametrize(
    ("prepare", "config", "resume", "message"),
    [
        (True, {"seed": 0, "loop": {"steps": 4}}, True, "loop.steps=3 there, 4 here"),
        (True, {"seed": 0, "loop": {"steps": 4}}, False, "another config"),
        (True, CONFIG, False, "already holds a run of this config; go on with --resume"),
        (False, CONFIG, True, "holds no run to go on with"),
    ],
)
def test_folders_of_other_runs_are_refused(tmp_path, prepare, config, resume, message):
    if prepare:
        claim_workdir(tmp_path / "run", CONFIG)
        (tmp_path / "run" / "checkpoints" / "2").mkdir(parents=True)
    with pytest.raises(InputError, match=message):
        check_workdir(tmp_path / "run", config, resume=resume)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run"):
        check_workdir(tmp_path, CONFIG, resume=False)
    with pytest.raises(InputError, match="is a file"):
        check_workdir(tmp_path / "notes.txt", CONFIG, resume=False)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_second_process_is_refused(tmp_path):
    with hold_workdir(tmp_path / "run"):
        with (
            pytest.raises(InputError, match=r"another process is at work in .*run; wait"),
            hold_workdir(tmp_path / "run"),
        ):
            pass
        assert check_workdir(tmp_path / "run", CONFIG, resume=False) == tmp_path / "run"
    assert not (tmp_path / "run").exists()
    with hold_workdir(tmp_path / "run"):
        claim_workdir(tmp_path / "run", CONFIG)
    assert [part.name for part in (tmp_path / "run").iterdir()] == ["config.json"]
