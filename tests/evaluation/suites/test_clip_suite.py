import json

import numpy as np
import pytest
from image_text_cases import WORDS, square, tiny_model, write_set
from PIL import Image

from magjax.checks import InputError
from magjax.evaluation.suites import SUITES, SuiteSettings, write_suite


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    for name in ("one", "two"):
        write_set(folder / name, splits=("test",))
    return folder


@pytest.fixture(scope="module")
def model():
    return tiny_model("qnorm")


def test_both_directions_of_every_set_and_their_means(root, model, tmp_path):
    report = SUITES["clip"](model, root, SuiteSettings(k=10))
    assert [(row.name, row.system) for row in report.rows] == [
        (f"{name}/test:{direction}", system)
        for name in ("one", "two")
        for direction in ("text_to_image", "image_to_text")
        for system in ("chance", "model")
    ]
    rows = {(row.name, row.system): row.values for row in report.rows}
    means = {(mean.label, mean.system): mean.values for mean in report.averages}
    for direction in ("text_to_image", "image_to_text"):
        own = [rows[f"{name}/test:{direction}", "model"]["mrr"] for name in ("one", "two")]
        found = means[f"mean of 2 sets, {direction}", "model"]["mrr"]
        assert found == pytest.approx(np.mean(own))
    assert {"success@1", "success@5", "success@10", "mrr", "mean_rank"} < set(
        rows["one/test:text_to_image", "model"]
    )
    write_suite(tmp_path, report)
    listed = json.loads((tmp_path / "results.json").read_text())["results"]
    assert len(listed) == 8
    assert (tmp_path / "per_query" / "one_test_image_to_text.jsonl").is_file()


def test_the_other_scores_stand_below_on_request(root, model):
    settings = SuiteSettings(k=10, options={"all_scores": "true"})
    report = SUITES["clip"](model, root / "one", settings)
    own = [row for row in report.rows if row.name == "one/test:text_to_image"]
    assert [row.system for row in own] == [
        *("chance", "model"),
        *(f"model by {name}" for name in ("cosine", "dot", "dnorm")),
    ]
    by = {row.system: row.values["mrr"] for row in own}
    assert by["model"] == by["model by dot"]  # a caption's own length ranks nothing
    assert not report.averages


def test_classes_are_told_by_their_names(root, model, tmp_path):
    for number, words in enumerate(WORDS):
        place = tmp_path / "shapes" / words.replace(" ", "_") / f"{number}.png"
        place.parent.mkdir(parents=True)
        Image.fromarray(square(words)).save(place)
    options = {"zero_shot": str(tmp_path / "shapes"), "templates": "a {}|{}"}
    report = SUITES["clip"](model, root / "one", SuiteSettings(k=10, options=options))
    row = report.rows[-1]
    assert (row.name, row.counts) == ("zero-shot shapes", {"images": 8, "classes": 8})
    assert set(row.values) == {"top1", "top5"}
    assert row.details["templates"] == ["a {}", "{}"]
    (records,) = report.per_item.values()
    assert next(iter(records))["image"] == "blue_left/4.png"
    assert any("0.1250" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error=ignore must be raise or skip"),
        ({"templates": "a photo"}, "must hold {} once"),
        ({"zeroshot": "x"}, "Did you mean 'zero_shot'"),
        ({"zero_shot": "/nowhere"}, "/nowhere must hold a folder for each class"),
    ],
)
def test_wrong_options_are_refused(root, model, options, message):
    with pytest.raises(InputError, match=message):
        SUITES["clip"](model, root / "one", SuiteSettings(k=10, options=options))


def test_a_folder_without_the_split_says_what_it_needs(root, model):
    with pytest.raises(InputError, match=r"holds no image-text set: dev\.jsonl"):
        SUITES["clip"](model, root, SuiteSettings(split="dev"))


def test_emoji_are_read_as_they_lie(data_root, model):
    report = SUITES["clip"](model, data_root / "emoji-image-text", SuiteSettings())
    counts = {row.name: row.counts for row in report.rows}
    assert counts == {
        "emoji-image-text/test:text_to_image": {"queries": 195, "documents": 767},
        "emoji-image-text/test:image_to_text": {"queries": 767, "documents": 195},
    }
