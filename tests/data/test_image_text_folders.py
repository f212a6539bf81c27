import gzip
import json

import numpy as np
import pytest
from PIL import Image

from magjax.checks import InputError
from magjax.data import (
    ImageDecoder,
    ImageTextBenchmark,
    read_image_classes,
    read_image_text,
    read_image_text_folder,
)


@pytest.fixture
def folder(tmp_path):
    """Four pictures whose red value is their number, one of them in a folder below."""
    (tmp_path / "sub").mkdir()
    for number, name in enumerate(("0.png", "1.jpg", "sub/2.webp", "3.png")):
        Image.new("RGB", (6, 5), (number, 0, 0)).save(tmp_path / name, quality=100)
    return tmp_path


def write(folder, name, *rows):
    path = folder / name
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return path


def test_json_lines_name_files_and_captions(folder):
    path = write(
        folder,
        "a.jsonl",
        {"image": "0.png", "caption": "zero", "label": 7},
        {"image": "sub/2.webp", "captions": ["two", "a pair", "a  pair"]},
        {"image": "0.png", "caption": "nothing"},
        {"image": "0.png", "caption": "zero"},
    )
    data = read_image_text(path)
    assert data.image_ids == ["0.png", "sub/2.webp"]
    assert data.captions == [("zero", "nothing"), ("two", "a pair")]
    assert data.images[1].shape == (5, 6, 3)
    assert data.images.name(1) == str(folder / "sub/2.webp")
    zipped = folder / "b.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_image_text(zipped).captions == data.captions
    assert read_image_text(folder / "b.jsonl").fingerprint == data.fingerprint


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.tsv", "\t")])
def test_tables_give_a_caption_a_row(folder, name, separator):
    rows = [("file_name", "text"), ("0.png", '"a ""zero"", quoted"'), ("1.jpg", "one")]
    rows += [("0.png", "nothing")]
    path = write(folder, name, *[separator.join(row) for row in rows], "")
    assert read_image_text(path).captions == [('a "zero", quoted', "nothing"), ("one",)]


def test_fields_may_have_other_names(folder):
    path = write(folder, "a.csv", "picture,caption,title_de", "0.png,zero,null")
    data = read_image_text(path, image_field="picture", caption_field="title_de")
    assert data.captions == [("null",)]


def test_rows_of_an_archive_of_arrays_are_images(folder):
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    np.savez(folder / "a.npz", images=pixels, names=np.array(["x", "y", "z"]))
    np.savez(folder / "grey.npz", pixels[..., 0])
    path = write(
        folder,
        "a.jsonl",
        {"image": "vendor/x", "file": "a.npz", "index": 2, "caption": "x"},
        {"file": "grey.npz", "index": 0, "caption": "y"},
        {"image": "3.png", "caption": "three"},
    )
    data = read_image_text(path)
    assert data.image_ids == ["vendor/x", "grey.npz/0", "3.png"]
    np.testing.assert_array_equal(data.images[0], pixels[2])
    np.testing.assert_array_equal(data.images[1], pixels[0, :, :, 0])
    assert data.images[2][0, 0].tolist() == [3, 0, 0]
    assert data.images.name(0).endswith("a.npz[2]")


BAD_ROWS = [
    ({"image": "0.png"}, "no caption (captions or caption or text or title); found 'image'"),
    ({"caption": "x"}, "no image (image or file or path"),
    ({"image": "0.png", "caption": " "}, "a caption is empty"),
    ({"image": "0.png", "caption": []}, "a caption is empty"),
    ({"image": "0.png", "caption": 3}, "the caption is 3, but must be a string"),
    ({"image": "0.png", "caption": ["a", 3]}, "must be a string or a list of strings"),
    ({"image": 7, "caption": "x"}, "'image' is 7, but must be the path"),
    ({"image": "9.png", "caption": "x"}, "9.png does not exist; mend the path"),
    ({"file": "a.npz", "index": 3, "caption": "x"}, "index 3 is not in "),
    ({"file": "a.npz", "index": -1, "caption": "x"}, "'index' is -1, but must be a row"),
    ({"file": "a.npz", "index": True, "caption": "x"}, "'index' is True"),
    ({"file": "b.npz", "index": 0, "caption": "x"}, "b.npz does not exist"),
    ({"image": "0.png", "file": "a.npz", "index": 0, "caption": "x"}, "another file or index"),
    ("{", "not valid JSON"),
    ("[]", "list where a JSON object was needed"),
]


@pytest.mark.parametrize(("row", "problem"), BAD_ROWS)
def test_bad_rows_are_named_with_file_and_line(folder, row, problem):
    np.savez(folder / "a.npz", images=np.zeros((3, 4, 4), np.uint8))
    path = write(folder, "a.jsonl", {"image": "0.png", "caption": "zero"}, row)
    with pytest.raises(InputError) as caught:
        read_image_text(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert problem in str(caught.value)


def test_bad_tables_are_named_with_file_and_line(folder):
    for content, problem in (
        ("image,caption\n0.png,zero\n0.png,a,b\n", ":3: 3 cells where the header has 2"),
        ('image,caption\n0.png,"open\n', ":2: the table is broken here"),
        ("name,words\n0.png,zero\n", ":2: no image"),
        ("image,caption\n", "holds no image with a caption"),
        ("", "holds no image with a caption"),
    ):
        path = folder / "a.csv"
        path.write_text(content)
        with pytest.raises(InputError) as caught:
            read_image_text(path)
        assert problem in str(caught.value), content
    path.write_bytes(b"image,caption\n0.png,\xe9\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_image_text(path)
    (folder / "a.txt").write_text("x")
    with pytest.raises(InputError, match="no table or archive that is known"):
        read_image_text(folder / "a.txt")
    with pytest.raises(InputError, match="does not exist"):
        read_image_text(folder / "missing.jsonl")


def test_archives_with_pickles_or_without_images_are_refused(folder):
    np.savez(folder / "pickle.npz", images=np.array([{"a": 1}], dtype=object))
    np.savez(folder / "two.npz", a=np.zeros(2), b=np.zeros(2))
    (folder / "text.npz").write_bytes(b"no zip")
    for name, problem in (
        ("pickle", "cannot be read as .npz"),
        ("two", "holds the arrays a, b; name that of the images 'images'"),
        ("text", "cannot be read as .npz"),
    ):
        path = write(folder, "a.jsonl", {"file": f"{name}.npz", "index": 0, "caption": "x"})
        with pytest.raises(InputError, match=problem):
            read_image_text(path)
    np.savez(folder / "floats.npz", np.zeros((2, 4, 4), np.float32))
    path = write(folder, "a.jsonl", {"file": "floats.npz", "index": 1, "caption": "x"})
    with pytest.raises(InputError, match=r"floats.npz\[1\] is float32\[4, 4\], but images are"):
        read_image_text(path).images[0]


def test_bad_files_stop_when_read_or_are_skipped_and_counted(folder, caplog):
    (folder / "bad.png").write_bytes((folder / "0.png").read_bytes()[:40])
    Image.new("L", (300, 300)).save(folder / "large.png")
    rows = [{"image": name, "caption": name} for name in ("0.png", "bad.png", "large.png", "1.jpg")]
    path = write(folder, "a.jsonl", *rows)
    decoder = ImageDecoder(max_pixels=50_000)
    data = read_image_text(path, decoder=decoder)
    assert len(data) == 4
    with pytest.raises(InputError, match=r"bad\.png is"):
        data.images[1]
    with pytest.raises(InputError, match=r"large\.png is 300 x 300 pixels, above max_pixels"):
        data.images[2]
    write(folder, "a.jsonl", *rows, {"image": "missing.png", "caption": "missing"})
    kept = read_image_text(path, decoder=decoder, on_error="skip")
    assert kept.image_ids == ["0.png", "1.jpg"]
    assert kept.skipped == 3
    assert "skipped 3 of 5 images" in caplog.text
    assert "missing.png" in caplog.text
    only_bad = write(folder, "b.jsonl", rows[1])
    with pytest.raises(InputError, match="none of 1 images can be read, the first because"):
        read_image_text(only_bad, on_error="skip")


def test_fingerprints_follow_captions_files_and_decoding(folder):
    first = write(folder, "a.jsonl", {"image": "0.png", "caption": "zero"})
    other = write(folder, "b.jsonl", {"image": "0.png", "caption": "one"})
    found = read_image_text(first).fingerprint
    assert read_image_text(first).fingerprint == found
    assert read_image_text(other).fingerprint != found
    assert read_image_text(first, decoder=ImageDecoder(orient=True)).fingerprint != found
    Image.new("RGB", (90, 90), "red").save(folder / "0.png")
    assert read_image_text(first).fingerprint != found


def test_a_folder_holds_three_splits(folder):
    write(folder, "train.csv", "image,caption", "0.png,zero", "1.jpg,one")
    write(folder, "validation.jsonl", {"image": "sub/2.webp", "caption": "two"})
    with pytest.raises(InputError, match="one table of the split test, but has none"):
        read_image_text_folder(folder)
    write(folder, "test.jsonl", {"image": "3.png", "caption": ["three", "trio"]})
    data = read_image_text_folder(folder)
    assert len(data.train) == 2
    assert data.development.captions == ["two"]
    assert data.in_domain.image_to_text == {"3.png": {"caption:0": 1, "caption:1": 1}}
    assert data.out_of_domain is None
    assert [test.name for test in data.tests] == [f"{folder.name}/test"]
    write(folder, "dev.csv", "image,caption", "0.png,zero")
    with pytest.raises(InputError, match=r"holds dev\.csv and validation\.jsonl"):
        read_image_text_folder(folder)


def test_folders_of_classes_have_the_class_as_caption(folder):
    root = folder / "classes"
    for name in ("red_square", "blue", ".hidden"):
        (root / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (4, 4)).save(root / name / f"{number}.png")
    (root / "readme.txt").write_text("not a class")
    data = read_image_classes(root)
    assert data.image_ids == ["blue/0.png", "blue/1.png", "red_square/0.png", "red_square/1.png"]
    benchmark = ImageTextBenchmark.of(data, "classes")
    assert benchmark.captions == ["blue", "red square"]
    assert benchmark.text_to_image["caption:0"] == {"blue/0.png": 1, "blue/1.png": 1}
    (root / "blue" / "notes.txt").write_text("no image")
    assert read_image_classes(root, on_error="skip").skipped == 1
    with pytest.raises(InputError, match="must hold a folder for each class"):
        read_image_classes(root / "blue")


def test_clipart_is_read_as_a_folder_of_splits(data_root):
    data = read_image_text_folder(data_root / "openclipart-64")
    found = (len(data.train), len(data.development.image_ids), len(data.in_domain.image_ids))
    assert found == (1376, 121, 270)
    asked = {*data.development.captions, *data.in_domain.captions}
    assert not asked & set(data.train.flat_captions)
    assert data.train.images[0].shape == (64, 64, 3)
    assert all(data.in_domain.images[i].std() > 0 for i in range(270))


def test_emoji_of_four_vendors_answer_one_caption(data_root):
    data = read_image_text(data_root / "emoji-image-text" / "test.jsonl")
    assert data.images[0].shape == (32, 32, 3)
    benchmark = ImageTextBenchmark.of(data, "emoji")
    answers = [len(row) for row in benchmark.text_to_image.values()]
    assert (len(answers), sum(answers), max(answers)) == (195, 767, 4)
    assert {name.split("/")[0] for name in data.image_ids} == {
        "fluent3d", "google", "openmoji", "twitter",
    }  # fmt: skip
