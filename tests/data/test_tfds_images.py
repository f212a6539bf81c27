import io
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from magjax.checks import InputError
from magjax.data import read_tfds_images


def encoded(value, cut=None):
    file = io.BytesIO()
    Image.new("RGB", (6, 5), (value, 0, 9)).save(file, "PNG")
    return io.BytesIO(file.getvalue()[:cut])


class Tiny(tfds.core.GeneratorBasedBuilder):
    """Fields as in coco_captions, a class label and a plain text."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3), encoding_format="png"),
                    "image/filename": tfds.features.Text(),
                    "captions": tfds.features.Sequence(
                        {"id": np.int64, "text": tfds.features.Text()}
                    ),
                    "label": tfds.features.ClassLabel(names=["red_square", "blue"]),
                    "words": tfds.features.Sequence(tfds.features.Text()),
                }
            ),
        )

    def _split_generators(self, manager):
        return {"train": self._generate_examples(5), "broken": self._generate_examples(3)}

    def _generate_examples(self, count):
        for i in range(count):
            yield (
                i,
                {
                    "image": encoded(10 * i, 50 if (count, i) == (3, 1) else None),
                    "image/filename": f"{i}.png",
                    "captions": [{"id": 2 * i, "text": f"é {i}"}, {"id": 9, "text": f"two {i}"}],
                    "label": i % 2,
                    "words": [f"word {i}"] if (count, i) != (3, 2) else [],
                },
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("tfds")
    Tiny(data_dir=str(root), file_format="array_record").download_and_prepare()
    assert list(root.rglob("*.array_record-*"))
    return root


def read(folder, split="train", **options):
    return read_tfds_images("tiny", split, folder=folder, **options)


def test_records_are_read_with_all_their_captions(folder):
    data = read(folder)
    assert len(data) == 5
    numbers = [int(data.images[i][0, 0, 0]) // 10 for i in range(5)]
    assert sorted(numbers) == list(range(5))  # TFDS shuffles when it writes
    assert data.captions == [(f"é {n}", f"two {n}") for n in numbers]
    assert data.images[0].shape == (5, 6, 3)
    assert data.image_ids[0] == "train/0"
    assert data.images.name(3) == "tfds tiny train record 3"


def test_part_of_a_split_and_version_are_understood(folder):
    assert len(read(folder, "train[:2]")) == 2
    data = read_tfds_images("tiny:1.0.0", "train", folder=folder)
    assert len(data) == 5
    assert data.fingerprint != read(folder, "train[:2]").fingerprint


def test_other_fields_are_captions_when_named(folder):
    labels = {texts[0] for texts in read(folder, caption_field="label").captions}
    assert labels == {"red square", "blue"}
    assert read(folder, caption_field="words").captions[0][0].startswith("word ")
    assert read(folder, caption_field="captions/text").captions == read(folder).captions
    assert read(folder, caption_field="image/filename").captions[0][0].endswith(".png")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"split": "trian"}, "Did you mean 'train'"),
        ({"image_field": "imgae"}, "Did you mean 'image'"),
        ({"caption_field": "caption"}, "Did you mean 'captions'"),
        ({"caption_field": "captions/txt"}, "have the fields id, text, but no txt"),
        ({"split": "broken", "caption_field": "words"}, "record . *: a caption is empty"),
    ],
)
def test_wrong_names_are_refused(folder, options, problem):
    with pytest.raises(InputError, match=problem):
        read(folder, **options)


def test_damaged_images_are_named_or_counted(folder, caplog):
    data = read(folder, "broken")
    bad = [i for i in range(3) if not _decodes(data, i)]
    assert len(bad) == 1
    with pytest.raises(InputError, match=rf"tfds tiny broken record {bad[0]} is damaged"):
        data.images[bad[0]]
    kept = read(folder, "broken", on_error="skip")
    assert len(kept) == 2
    assert kept.skipped == 1
    assert "skipped 1 of 3 images" in caplog.text


def _decodes(data, index):
    try:
        data.images[index]
    except InputError:
        return False
    return True


def test_sets_that_are_missing_or_for_tensorflow_only_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"no prepared data set tiny:2\.0\.0 under"):
        read_tfds_images("tiny:2.0.0", "train", folder=folder)
    copy = tmp_path / "tiny" / "1.0.0"
    copy.mkdir(parents=True)
    for file in (folder / "tiny" / "1.0.0").iterdir():
        name = file.name.replace("array_record", "tfrecord")
        (copy / name).write_bytes(file.read_bytes())
    info = json.loads((copy / "dataset_info.json").read_text())
    info["fileFormat"] = "tfrecord"
    (copy / "dataset_info.json").write_text(json.dumps(info))
    with pytest.raises(InputError, match=r"lies there as tfrecord.*file_format=\"array_record\""):
        read_tfds_images("tiny", "train", folder=tmp_path)


def test_neither_tensorflow_nor_tfds_is_imported_before_it_is_asked_for(folder):
    code = (
        "import sys, magjax.data as d; assert 'tensorflow_datasets' not in sys.modules;"
        f"data = d.read_tfds_images('tiny', 'train', folder={str(folder)!r}); data.images[0];"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
