"""Cell files: exact numbers, and every kind of damage and mixing refused."""

import dataclasses
import json

import numpy as np
import pytest
from study_cases import fake_compute, fingerprints, grid

from magjax.checks import InputError
from magjax.study import CellResult, StoredCell, read_cells

VERSIONS = {"jax": "0.10", "magjax": "1"}


def stored(cell, tmp_path, *, versions=VERSIONS, result=None, run="run"):
    found = result or fake_compute(cell, tmp_path / run, lambda _: None)
    return StoredCell.of(cell, found, versions=versions, machine="m", seconds=1.5)


def write_all(tmp_path, cells=None, **arguments):
    folder = tmp_path / "cells"
    for cell in cells or grid().trained({}):
        stored(cell, tmp_path, **arguments).write(folder)
    return folder


def test_a_cell_file_gives_back_every_number_to_the_bit(tmp_path):
    (cell, *_) = grid().trained({})
    before = stored(cell, tmp_path)
    before.write(tmp_path)
    after = StoredCell.read(tmp_path / f"{cell.id}.json")
    assert after.numbers == before.numbers
    assert after.cell().id == cell.id
    assert after.cell().run_name == cell.run_name
    exact = before.result.measured[0].values["ndcg@10"]
    assert after.result.measured[0].values["ndcg@10"] == exact
    assert len(set(exact)) == len(exact)  # unrounded


def test_a_cell_stored_before_a_key_was_there_keeps_its_name_and_can_be_computed(tmp_path):
    (cell, *_) = grid().trained({})
    now = stored(cell, tmp_path)
    loop = {k: v for k, v in cell.config["loop"].items() if k not in ("keep_best", "keep_every")}
    assert len(loop) == len(cell.config["loop"]) - 2
    dataclasses.replace(now, config=cell.config | {"loop": loop}).write(tmp_path)
    before = StoredCell.read(tmp_path / f"{cell.id}.json").cell()
    assert (before.id, before.run_name) == (cell.id, cell.run_name)
    assert before.config == cell.config
    other = dataclasses.replace(cell, config=cell.config | {"loop": loop | {"keep_best": 1}})
    assert other.id != cell.id


def test_a_file_of_a_thousand_queries_and_two_domains_is_small_and_has_few_lines(tmp_path):
    (cell, *_) = grid().trained({})
    result = fake_compute(cell, tmp_path / "run", lambda _: None)
    values = (1 / np.log2(2 + np.random.default_rng(0).integers(0, 10, 1000))).tolist()
    for measured in result.measured:
        measured.values["ndcg@10"][:] = values
    stored(cell, tmp_path, result=result).write(tmp_path)
    text = (tmp_path / f"{cell.id}.json").read_text()
    assert len(text) < 50_000
    assert len(text.splitlines()) < 35


def test_cells_are_read_by_name(tmp_path):
    folder = write_all(tmp_path)
    (folder / ".left.lock").write_text("")
    assert [cell.id for cell in read_cells(folder)] == sorted(c.id for c in grid().trained({}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "is no cell of format 1"),
        ({"extra": 1}, "field 'extra' is missing or unknown"),
        ({"seconds": None, "-": "seconds"}, "field 'seconds' is missing"),
        ({"id": "other"}, "holds the cell 'other'"),
        ({"measured": {}}, "'measured' must be a list"),
        ({"measured": [{"domain": "home"}]}, r"measured\[0\] needs exactly the fields"),
    ],
)
def test_a_damaged_cell_is_refused_with_its_name(change, message, tmp_path):
    folder = write_all(tmp_path)
    path = sorted(folder.glob("*.json"))[0]
    value = json.loads(path.read_text()) | change
    value.pop(value.pop("-", ""), None)
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match=message) as error:
        read_cells(folder)
    assert path.name in str(error.value)


@pytest.mark.parametrize("values", ["[]", "[0.5, NaN]", '[0.5, "1"]', "[true]"])
def test_values_that_are_no_numbers_are_refused(values, tmp_path):
    folder = write_all(tmp_path)
    path = sorted(folder.glob("*.json"))[0]
    text = path.read_text()
    start = text.index('"values": {"ndcg@10": ') + len('"values": {"ndcg@10": ')
    path.write_text(text[:start] + values + text[text.index("]", start) + 1 :])
    with pytest.raises(InputError, match="must be finite numbers"):
        read_cells(folder)


def test_a_cell_cut_short_is_refused(tmp_path):
    folder = write_all(tmp_path)
    path = sorted(folder.glob("*.json"))[0]
    path.write_text(path.read_text()[:200])
    with pytest.raises(InputError, match="not valid JSON"):
        read_cells(folder)


def test_cells_of_other_versions_do_not_mix(tmp_path):
    one, *others = grid().trained({})
    write_all(tmp_path, others)
    write_all(tmp_path, [one], versions=VERSIONS | {"jax": "0.11"})
    with pytest.raises(InputError, match=r"jax 0\.1. there, 0\.1. here"):
        read_cells(tmp_path / "cells")


def test_cells_of_another_test_do_not_mix(tmp_path):
    one, *others = grid().trained({})
    folder = write_all(tmp_path, others)
    result = fake_compute(one, tmp_path / "run", lambda _: None)
    changed = CellResult(
        {**fingerprints(one.seed), "away": "new"}, result.measured, {}, result.curve
    )
    stored(one, tmp_path, result=changed).write(folder)
    with pytest.raises(InputError, match="data 'away'"):
        read_cells(folder)


def test_training_data_may_differ_between_seeds_only(tmp_path):
    cells = grid().trained({})
    folder = write_all(tmp_path, cells)
    read_cells(folder)  # seeds 0 and 1 hold out other queries
    cell = cells[0]
    result = fake_compute(cell, tmp_path / "run", lambda _: None)
    changed = CellResult(
        {**fingerprints(cell.seed), "train": "new"}, result.measured, {}, result.curve
    )
    stored(cell, tmp_path, result=changed).write(folder)
    with pytest.raises(InputError, match="data 'train'"):
        read_cells(folder)
