import io
import json
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from magjax.checks import InputError
from magjax.data import read_image_text, read_image_text_folder, read_webdataset


def encoded(value, form="PNG"):
    file = io.BytesIO()
    Image.new("RGB", (5, 4), (value, 0, 0)).save(file, form)
    return file.getvalue()


def member(name, content=b"", **attributes):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, io.BytesIO(content)


def write(path, *members):
    with tarfile.open(path, "w") as file:
        for info, content in members:
            file.addfile(info, content)
    return path


def sample(key, value, caption):
    return member(f"{key}.png", encoded(value)), member(f"{key}.txt", caption.encode())


def red(data):
    return [int(data.images[i][0, 0, 0]) for i in range(len(data))]


def test_samples_of_all_shards_are_read_in_order_and_at_random(tmp_path):
    write(tmp_path / "t-000.tar", *sample("0", 10, "ten"), *sample("sub/1", 20, "twenty"))
    write(
        tmp_path / "t-001.tar",
        member("0.json", json.dumps({"caption": ["thirty", "three tens"]}).encode()),
        member("0.WEBP", encoded(30, "WEBP")),
        member("0.cls", b"7"),
        member("readme.md", b"ignored"),
    )
    for path in (tmp_path, tmp_path / "t-*.tar"):
        data = read_image_text(path)
        assert data.image_ids == ["t-000/0", "t-000/sub/1", "t-001/0"]
        assert data.captions == [("ten",), ("twenty",), ("thirty", "three tens")]
        assert red(data)[:2] == [10, 20]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: int(data.images[i % 2][0, 0, 0]), range(50)))
    assert found == [10, 20] * 25


def test_names_that_point_outside_write_nothing(tmp_path):
    inside = tmp_path / "shards"
    inside.mkdir()
    outside = tmp_path / "outside.png"
    shard = write(
        inside / "a.tar",
        *sample("../outside", 40, "up"),
        *sample("/etc/passwd", 50, "root"),
        *sample("line\nbreak\ttab", 60, "odd"),
        member("link.png", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("hard.png", type=tarfile.LNKTYPE, linkname="../outside.png"),
        member("device.png", type=tarfile.CHRTYPE),
    )
    data = read_webdataset([shard])
    assert data.image_ids == ["a/../outside", "a//etc/passwd", "a/line_break_tab"]
    assert red(data) == [40, 50, 60]
    assert not outside.exists()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tar", "shards"]


def test_incomplete_samples_stop_or_are_counted(tmp_path, caplog):
    shard = write(
        tmp_path / "a.tar",
        *sample("good", 10, "ten"),
        member("alone.png", encoded(1)),
        member("word.txt", b"a word"),
        *sample("empty", 20, "  "),
        member("json.json", b"{"),
        member("json.png", encoded(1)),
        member("list.json", b"[1]"),
        member("list.png", encoded(1)),
        member("field.json", b'{"label": "x"}'),
        member("field.png", encoded(1)),
        member("latin.txt", b"\xe9"),
        member("latin.png", encoded(1)),
        member("long.txt", b"x" * (2**20 + 1)),
        member("long.png", encoded(1)),
        member("bad.png", encoded(1)[:40]),
        member("bad.txt", b"bad"),
    )
    data = read_webdataset([shard], on_error="skip")
    assert data.image_ids == ["a/good"]
    assert data.skipped == 9
    assert "skipped 8 samples" in caplog.text
    assert "skipped 1 of 2 images" in caplog.text
    with pytest.raises(InputError, match=r"a\.tar: sample 'alone': no \.txt or \.json\."):
        read_webdataset([shard])


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([member("a.txt", b"x")], "sample 'a': no .jpg"),
        ([*sample("a", 1, " ")], "a caption is empty"),
        ([member("a.png"), member("a.json", b"{")], "its .json is not valid"),
        ([member("a.png"), member("a.json", b"[]")], "list, but must be an object"),
        ([member("a.png"), member("a.json", b'{"caption": 3}')], "must be a string or a list"),
        ([member("a.png"), member("a.json", b"{}")], "no captions or caption"),
        ([*sample("a", 1, "x"), member("a.jpg", encoded(2))], "two members of the kind image"),
        ([], "holds no image with a caption"),
    ],
)
def test_bad_samples_are_named_with_their_shard(tmp_path, members, problem):
    shard = write(tmp_path / "s.tar", *members)
    with pytest.raises(InputError, match=problem) as caught:
        read_webdataset([shard])
    assert "s.tar" in str(caught.value)


def test_damaged_images_name_shard_and_key(tmp_path):
    shard = write(tmp_path / "s.tar", member("a.png", encoded(1)[:50]), member("a.txt", b"x"))
    data = read_webdataset([shard])
    with pytest.raises(InputError, match=r"s\.tar:a is damaged or truncated"):
        data.images[0]


def test_damaged_and_compressed_archives_are_refused(tmp_path):
    whole = write(tmp_path / "a.tar", *sample("a", 1, "x"), *sample("b", 2, "y")).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:700])
    (tmp_path / "text.tar").write_bytes(b"no archive" * 100)
    (tmp_path / "a.tar.gz").write_bytes(b"")
    for name, problem in (
        ("cut.tar", "is no tar file that can be read"),
        ("text.tar", "is no tar file that can be read"),
        ("a.tar.gz", "is compressed"),
        ("none-*.tar", "matches no .tar file"),
        ("a-{000..003}.tar", "braces are not expanded"),
    ):
        with pytest.raises(InputError, match=problem):
            read_image_text(tmp_path / name)


def test_a_folder_of_shards_per_split(tmp_path):
    for number, split in enumerate(("train", "val", "test")):
        write(tmp_path / f"{split}-000.tar", *sample("0", number, f"a {split}"))
    data = read_image_text_folder(tmp_path)
    assert data.train.captions == [("a train",)]
    assert data.development.captions == ["a val"]
    assert data.in_domain.name == f"{tmp_path.name}/test"
    np.testing.assert_array_equal(data.in_domain.images[0][0, 0], [2, 0, 0])


def test_fingerprints_follow_names_places_and_captions(tmp_path):
    def of(folder, *members, **options):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = write(tmp_path / folder / "s.tar", *members)
        return read_image_text(Path(path), **options).fingerprint

    first = of("a", *sample("a", 1, "x"))
    assert of("b", *sample("a", 1, "x")) == first
    assert of("c", *sample("a", 1, "y")) != first
    assert of("d", *sample("b", 1, "x")) != first
