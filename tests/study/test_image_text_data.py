import json

import pytest
from image_text_cases import tiny_config, write_set

from magjax.checks import InputError
from magjax.config import image_text_config, to_json
from magjax.study import load_image_text_data, start_image_text_model, train


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "squares")


def data_of(**changes):
    return {**to_json(image_text_config(variant="cosine", seed=0))["data"], **changes}


def test_a_folder_has_three_splits(folder):
    data = load_image_text_data(data_of(source="folder", path=str(folder)), seed=0)
    assert len(data.train) == 24
    assert [data.development.name, *(t.name for t in data.tests)] == [
        "squares/development",
        "squares/test",
    ]


def test_a_table_has_a_development_test_held_out(folder):
    settings = data_of(
        source="table",
        path=str(folder / "train.jsonl"),
        test_path=str(folder / "test.jsonl"),
        dev_images=3,
    )
    data = load_image_text_data(settings, seed=0)
    held_out = set(data.development.captions)
    assert held_out
    assert held_out.isdisjoint(data.train.flat_captions)
    assert len(data.train) + len(data.development.image_ids) == 24


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "folder"}, "needs a path"),
        ({"source": "icons", "path": "x"}, "'icons' reads no path"),
        ({"source": "table", "path": "x.jsonl"}, "needs a second table"),
        ({"source": "coco"}, "unknown data.source 'coco'; known: icons, folder, table, tfds"),
    ],
)
def test_wrong_sources_say_what_to_set(changes, message):
    with pytest.raises(InputError, match=message):
        load_image_text_data(data_of(**changes), seed=0)


def test_siglip_towers_start_too(folder):
    config = tiny_config(folder, model__family="siglip", query_modality="image", text__prompt="a ")
    train_set = load_image_text_data(config["data"], seed=0).train
    model = start_image_text_model(config, train_set)
    assert model.encoder.side_pooling("query") == "attention"
    assert model.encoder.side_pooling("document") == "last_position"
    assert model.images.mean == (0.5, 0.5, 0.5)
    assert (model.text.query_prompt, model.text.document_prompt) == ("", "a ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__image_init": "x"}, "name the two towers of a LiT start together"),
        ({"model__family": "vit"}, "unknown model.family 'vit'; known: clip, siglip"),
        ({"task": "image"}, "unknown task 'image'; known: text, image_text"),
        ({"loss__direction_weights": (1.0, -1.0)}, "must be two numbers of at least 0"),
        ({"loss__direction_weights": (1.0,)}, "must be two numbers of at least 0"),
        (
            {"loss__direction": "query_to_document", "loss__direction_weights": (1.0, 0.0)},
            "weigh the two directions of loss.direction='both'",
        ),
        ({"optimizer__freeze": ("tower_of_babel",)}, "no parameter matches 'tower_of_babel'"),
        ({"loop__metric": "ndcg@10"}, "unknown loop.metric 'ndcg@10'"),
    ],
)
def test_wrong_settings_stop_before_training(folder, tmp_path, changes, message):
    config = tiny_config(folder, **changes)
    with pytest.raises(InputError, match=message):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_misspelt_key_is_refused(folder, tmp_path):
    config = json.loads(json.dumps(tiny_config(folder)))
    config["model"]["image_layer"] = config["model"].pop("image_layers")
    with pytest.raises(InputError, match=r"Did you mean 'model\.image_layers'"):
        train(config, tmp_path / "run")
