"""configs/clip_asym.py as a user meets it: a few steps on real image-text folders."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from image_text_cases import write_set

from magjax import hub
from magjax.checks import InputError
from magjax.config import check_keys, image_text_config, to_json
from magjax.evaluation.suites import SUITES, SuiteSettings
from magjax.study import StudyGrid, train

ROOT = Path(__file__).parents[2]
_SIZES = (("layers", 1), ("width", 16), ("heads", 2))
SMALL = {
    **{f"loop.{name}": 2 for name in ("steps", "evaluate_every", "save_every")},
    **{f"model.{side}_{name}": n for side in ("image", "text") for name, n in _SIZES},
    "batch_size": 16,
    "evaluation.k": 10,
}


def program(name, *arguments):
    quick = {"XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return subprocess.run(
        [sys.executable, str(ROOT / "launch" / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | quick,
        timeout=300,
        check=False,
    )


def load_config(name, arguments=None):
    spec = importlib.util.spec_from_file_location(name, ROOT / "configs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(arguments)


def test_the_config_holds_the_keys_of_every_image_text_run():
    config = load_config("clip_asym", "variant=cosine,seed=3,data=folder")
    check_keys(to_json(config), to_json(image_text_config(variant="cosine", seed=0)))
    assert (config.variant, config.seed) == ("cosine", 3)
    assert (config.data.source, config.data.path) == ("folder", "folder")
    assert load_config("clip_asym").data.source == "icons"
    with pytest.raises(InputError, match="Did you mean 'data'"):
        load_config("clip_asym", "dato=x")


def test_the_sweep_is_a_study_of_five_variants_and_two_seeds():
    grid = StudyGrid.of(to_json(load_config("clip_sweep")))
    cells = grid.trained({})
    assert {(cell.variant, cell.seed) for cell in cells} == {
        (variant, seed)
        for variant in ("cosine", "dot", "qnorm", "dnorm", "learnable")
        for seed in (0, 1)
    }
    assert [cell.role for cell in grid.references()] == ["untrained"]
    assert len(grid.claims) == 8


def test_a_run_on_a_folder_of_images_and_its_evaluation(tmp_path):
    folder = write_set(tmp_path / "squares")
    result = program(
        "train.py",
        f"--config=configs/clip_asym.py:data={folder}",
        f"--workdir={tmp_path / 'run'}",
        *(f"--config.{name}={value}" for name, value in SMALL.items()),
    )
    assert result.returncode == 0, result.stderr
    assert "squares/test:image_to_text" in result.stdout
    assert "24 images, 32 captions, 0 images skipped" in result.stderr
    pictures = {path.name for path in (tmp_path / "run" / "results").iterdir()}
    assert pictures == {"training_curves.png", "retrieval_test.png"}
    rows = json.loads((tmp_path / "run" / "results.json").read_text())["results"]
    own = {row["domain"]: row["metrics"] for row in rows if row["system"] == "model"}
    report = SUITES["clip"](hub.load(tmp_path / "run"), folder, SuiteSettings(k=10))
    assert own == {row.name: row.values for row in report.rows if row.system == "model"}


@pytest.mark.parametrize(
    "name",
    ["openclipart-64", pytest.param("emoji-image-text", marks=pytest.mark.slow)],  # a minute
)
def test_real_folders_take_only_the_data_argument(name, data_root, tmp_path):
    config = load_config("clip_asym", f"data={data_root / name}")
    config.update_from_flattened_dict(SMALL)
    train(to_json(config), tmp_path / "run")
    rows = json.loads((tmp_path / "run" / "results.json").read_text())["results"]
    assert {row["system"] for row in rows} == {"chance", "untrained", "model"}
