import importlib.metadata
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.data import ImageAugmentation, ImagePreprocessor, ImageSettings, icon_base_name, icons
from magjax.data import _icons as module
from magjax.data._icon_fonts import ICON_FONTS, OUT_OF_DOMAIN_ICONS, TRAINING_ICONS, draw, glyphs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return icons(32, cache=tmp_path_factory.mktemp("icons"))


def families(ids):
    return {name.split("/")[0] for name in ids}


def independent_base(name):
    """Another hand's reading: which words are left when style and numbers are gone."""
    styles = "alt bold duotone fill light line outline regular s sharp solid thin variant"
    words = [w for w in name.replace("_", "-").split("-") if w]
    left = {w for w in words if w not in styles.split() and not w.isdigit()}
    return frozenset(left or words)


def bases(part):
    """Base names of the images themselves (from their ids) and of all their captions."""
    ids = {independent_base(name.split("/", 1)[1]) for name in part.image_ids}
    texts = part.flat_captions if hasattr(part, "flat_captions") else part.captions
    return ids | {independent_base(text.replace(" ", "-")) for text in texts}


def test_sizes_and_families_are_as_promised(data):
    assert len(data.train) > 10_000
    assert families(data.train.image_ids) == set(TRAINING_ICONS)
    assert families(data.in_domain.image_ids) <= set(TRAINING_ICONS)
    assert families(data.out_of_domain.image_ids) == set(OUT_OF_DOMAIN_ICONS)
    assert [len(test.image_ids) for test in data.tests] == [1_000, 1_000]
    assert len(data.development.image_ids) == 500
    assert all(len(test.captions) > 900 for test in data.tests)


def test_no_base_name_of_a_test_is_trained_on(data):
    trained = bases(data.train)
    for part in (data.development, *data.tests):
        assert not bases(part) & trained, part.name
    for test in data.tests:
        assert not bases(test) & bases(data.development)
    # The check can fail: the two tests ask for the same things where both have them.
    assert bases(data.in_domain) & bases(data.out_of_domain)


def test_no_drawing_of_a_test_is_trained_on(data):
    def pictures(part):
        return {part.images[i].tobytes(): name for i, name in enumerate(part.image_ids)}

    trained = pictures(data.train)
    assert len(trained) > 10_000
    for part in (data.development, *data.tests):
        found = pictures(part)
        assert [(found[p], trained[p]) for p in set(found) & set(trained)] == [], part.name


def test_a_caption_of_several_images_has_them_all_as_answers(data):
    for test in data.tests:
        of_image = test.image_to_text
        words = dict(zip(test.caption_ids, test.captions, strict=True))
        assert len(set(test.captions)) == len(test.captions)
        for name, row in of_image.items():
            family, icon = name.split("/")
            spoken = icon.replace("-", " ")
            if family == "remix":  # its "line" icons are what other families call outlines
                spoken = " ".join("outline" if w == "line" else w for w in spoken.split())
            assert spoken in {words[c] for c in row}
            for caption in row:
                assert test.text_to_image[caption][name] == 1
    several = Counter(len(row) for row in data.in_domain.text_to_image.values())
    assert several[2] > 10  # names that two families share


def test_captions_keep_the_words_of_the_variant(data):
    captions = set(data.train.flat_captions)
    assert any(c.endswith(" outline") for c in captions)
    assert any(c.endswith(" thin") for c in captions)
    assert all(c == c.lower() and "-" not in c and "_" not in c for c in captions)


def test_base_names_ignore_style_number_and_order():
    assert icon_base_name("heart-fill") == icon_base_name("Heart_2-line") == "heart"
    assert icon_base_name("numeric-2-box") == icon_base_name("box-numeric-9") == "box numeric"
    assert icon_base_name("outline") == "outline"
    assert icon_base_name("2") == "2"
    assert icon_base_name("heart") != icon_base_name("heart-broken")


def test_pictures_are_black_on_white_and_not_cut(data):
    for part in (data.train, data.out_of_domain):
        for number in range(0, len(part.image_ids), 97):
            picture = part.images[number]
            assert picture.shape == (32, 32)
            assert picture.min() < 200, part.image_ids[number]
    # Glyphs wider than their em are shrunk: the ends of the longest are inside.
    wide = draw("fa-brands", 24)
    glyph = next(g for g in glyphs("fa-brands") if "aviato" in g.names)
    assert (wide[glyph.code][0] < 255).any(axis=0).sum() >= 22


def test_only_one_generation_of_each_family():
    stems = [name.rstrip("-webfont").rstrip("0123456789") for name in ICON_FONTS.values()]
    assert len(set(stems)) == len(stems)
    counts = {font: len(glyphs(font)) for font in ICON_FONTS}
    assert 16_000 < sum(counts.values()) < 18_000
    assert counts["mdi"] == 7367
    assert counts["codicon"] < sum(len(g.names) for g in glyphs("codicon"))  # several names


def test_the_cache_gives_the_same_and_notices_damage(tmp_path, data, monkeypatch):
    def tiny(size):
        rows = [
            {"part": part, "id": f"mdi/{part}", "captions": [part]}
            for part in ("train", "development", "in_domain", "out_of_domain")
        ]
        return np.arange(4 * size * size).astype(np.uint8).reshape(4, size, size), rows

    monkeypatch.setattr(module, "make_icons", tiny)
    first = icons(8, cache=tmp_path)
    monkeypatch.setattr(module, "make_icons", lambda size: pytest.fail("drawn twice"))
    again = icons(8, cache=tmp_path)
    assert again.fingerprints == first.fingerprints
    np.testing.assert_array_equal(again.train.images[0], first.train.images[0])
    (folder,) = (tmp_path / "icons").iterdir()
    content = (folder / "images.npy").read_bytes()
    (folder / "images.npy").write_bytes(content[:-1] + b"x")
    with pytest.raises(InputError, match=r"damaged \(the fingerprints differ\); delete"):
        icons(8, cache=tmp_path)
    (folder / "images.npy").write_bytes(content[:99])
    with pytest.raises(InputError, match="delete that folder"):
        icons(8, cache=tmp_path)


def test_the_cache_follows_versions_and_code(monkeypatch):
    key = module._cache_key()
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "9" if name == "qtawesome" else real(name)
    )
    assert module._cache_key() != key


def test_equal_drawings_are_equal_at_every_size():
    for name in ("elusive", "codicon"):
        small, large = draw(name, 9), draw(name, 32)
        assert {code: key for code, (_, key) in small.items()} == {
            code: key for code, (_, key) in large.items()
        }
        assert small[next(iter(small))][0].shape == (9, 9)
    assert "" in {key for _, key in large.values()}  # codicon "blank"
    with pytest.raises(InputError, match="from 8 to 128"):
        icons(4)


def test_missing_fonts_are_named(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(InputError, match="pip install qtawesome"):
        glyphs("mdi")

    class Other:
        version = "0.1"
        files = (Path("qtawesome/fonts/phosphor-1.0.ttf"),)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Other)
    with pytest.raises(InputError, match=r"QtAwesome 0\.1 brings 0 files remixicon"):
        glyphs("remix")


def test_qtawesome_itself_is_never_imported():
    code = (
        "import sys, magjax.data; from magjax.data._icon_fonts import draw; draw('elusive', 8);"
        "assert not {'qtawesome', 'qtpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_augmented_icons_differ_and_stay_recognizable(data):
    preprocessor = ImagePreprocessor(
        ImageSettings(size=32), augmentation=ImageAugmentation.named("icon")
    )
    pictures = [preprocessor.augmented(data.train.images[0], 1, 0, row) for row in range(8)]
    assert len({p.tobytes() for p in pictures}) == 8
    assert all(p.std() > 5 for p in pictures)
