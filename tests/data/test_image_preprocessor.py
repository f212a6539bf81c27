import concurrent.futures
import dataclasses
import functools
import io
import json
import struct
import subprocess
import sys
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from magjax.checks import InputError
from magjax.data import (
    ImageAugmentation,
    ImageDecoder,
    ImageFiles,
    ImagePreprocessor,
    ImageSettings,
    decodable,
)

# Shapes as (width, height): upright, wide, square, odd, smaller than the crop, strips.
SHAPES = [(64, 48), (37, 91), (50, 50), (33, 34), (7, 5), (1, 1), (400, 9), (9, 700), (640, 480)]
MODES = ["RGB", "L", "RGBA", "LA", "P", "CMYK", "1", "I;16", "YCbCr", "F", "I"]


def picture(width, height, mode="RGB", seed=0):
    """Noise over a smooth ground, so that both sharp and smooth parts are compared."""
    random = np.random.default_rng((seed, width, height))
    ramp = np.linspace(0, 200, width)[None, :, None] * np.linspace(0.2, 1, height)[:, None, None]
    noise = random.integers(0, 56, (height, width, 4))
    colours = Image.fromarray((ramp + noise).astype(np.uint8), "RGBA")
    if mode == "I;16":
        values = random.integers(0, 2**16, (height, width)).astype(np.uint16)
        return Image.fromarray(values)
    if mode in ("F", "I"):
        return colours.convert("L").convert(mode)
    if mode == "P":
        return colours.convert("RGB").quantize(16)
    return colours if mode == "RGBA" else colours.convert("RGB").convert(mode)


def transformers_values(name, settings, image):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip(
            f"transformers.models.{name}.image_processing_pil_{name}",
            reason="transformers without Pillow image processors",
        )
        stated = {k: v for k, v in settings.to_json().items() if k != "image_processor_type"}
        processor = getattr(
            module, f"{name.upper() if name == 'clip' else 'Siglip'}ImageProcessorPil"
        )(**stated)
        return processor(image)["pixel_values"][0].transpose(1, 2, 0)


def raw(settings):
    """Settings whose result is the byte values themselves."""
    return ImageSettings(
        size=settings.size,
        crop_size=settings.crop_size,
        resize=settings.resize,
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        rescale=1.0,
    )


CLIP = ImageSettings(size=24)
SIGLIP = ImageSettings.siglip(24)


@pytest.mark.parametrize(("name", "settings"), [("clip", CLIP), ("siglip", SIGLIP)])
def test_evaluation_equals_transformers_for_every_shape(name, settings):
    for chosen in (settings, raw(settings)):
        preprocessor = ImagePreprocessor(chosen)
        for shape in SHAPES:
            image = picture(*shape)
            found = preprocessor([image])["pixel_values"][0]
            expected = transformers_values(name, chosen, image)
            exact = chosen.rescale == 1.0  # the bytes are equal, the numbers up to rounding
            np.testing.assert_allclose(found, expected, rtol=0, atol=0 if exact else 2e-6)


def test_strips_that_would_grow_without_bound_are_cut_before():
    smooth = np.linspace(0, 255, 100_000).astype(np.uint8)
    for image in (smooth[None], smooth[:, None]):
        found = ImagePreprocessor(raw(ImageSettings(size=224))).pixels(image)
        np.testing.assert_allclose(found, 127, atol=1)
        ends = found[0, [0, -1], 0] if image.shape[0] == 1 else found[[0, -1], 0, 0]
        assert (ends == smooth[49_999]).all()


def test_the_cut_before_the_resize_gives_the_same_pixels(monkeypatch):
    smooth = (np.add.outer(np.arange(90), np.arange(60)) * 1.5).astype(np.uint8)
    for settings in (ImageSettings(size=20), ImageSettings(size=20, crop_size=27), SIGLIP):
        preprocessor = ImagePreprocessor(settings)
        for image in (smooth, smooth.T, smooth[:60]):
            with monkeypatch.context() as patch:
                patch.setattr("magjax.data._image_preprocessor._LARGEST", 0)
                found = preprocessor.pixels(image).astype(int)
            assert np.abs(found - preprocessor.pixels(image)).max() <= 1


def test_evaluation_equals_transformers_at_full_size():
    settings = raw(ImageSettings(size=224))
    image = picture(640, 480)
    found = ImagePreprocessor(settings)([image])["pixel_values"][0]
    np.testing.assert_array_equal(found, transformers_values("clip", settings, image))


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_equals_transformers_for_every_mode(mode):
    image = picture(37, 30, mode)
    if mode == "P":
        image.info["transparency"] = 3
    found = ImagePreprocessor(raw(CLIP))([image])["pixel_values"][0]
    np.testing.assert_array_equal(found, transformers_values("clip", raw(CLIP), image))


def test_crop_of_another_size_than_the_resize_equals_transformers():
    for settings in (
        ImageSettings(size=20, crop_size=27, resample="bilinear"),
        ImageSettings(size=31, crop_size=14, resample="lanczos"),
        ImageSettings(size=30, crop_size=17, resize="square", resample="nearest"),
    ):
        for shape in [(40, 33), (25, 60), (20, 20)]:
            image = picture(*shape)
            found = ImagePreprocessor(settings)([image])["pixel_values"][0]
            expected = transformers_values("clip", settings, image)
            np.testing.assert_allclose(found, expected, atol=2e-6)


def test_settings_survive_the_file_of_transformers(tmp_path):
    module = pytest.importorskip("transformers.models.clip.image_processing_pil_clip")
    processor = module.CLIPImageProcessorPil(size={"shortest_edge": 40}, crop_size=32, resample=2)
    processor.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "preprocessor_config.json").read_text())
    settings = ImageSettings.from_json(stored)
    assert (settings.size, settings.crop_size, settings.resize) == (40, 32, "shortest_edge")
    assert settings.resample == "bilinear"
    assert ImageSettings.from_json(settings.to_json()) == settings
    assert ImageSettings.from_json(SIGLIP.to_json()) == SIGLIP
    assert ImageSettings.from_json({"image_processor_type": "SiglipImageProcessor"}) == (
        ImageSettings.siglip(224)
    )
    assert ImageSettings.from_json({"do_normalize": False, "do_rescale": False}).rescale == 1.0
    old = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 32, "crop_size": 30}
    assert ImageSettings.from_json(old).crop_size == 30


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"crop_sise": 3}, "Did you mean 'crop_size'"),
        ({"do_resize": False}, "do_resize=False is not supported"),
        ({"do_pad": True}, "do_pad=True is not supported"),
        ({"crop_size": {"height": 3, "width": 4}}, "the same number"),
        ({"size": {"longest_edge": 3}}, "the same number"),
        ({"do_center_crop": False}, "unequal shapes"),
        ({"resample": 9}, "Pillow's number"),
        ({"image_mean": [0.5, 0.5]}, "three numbers"),
        ({"image_std": [0.5, 0.5, 0.0]}, "above 0"),
        ({"size": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(change, problem):
    with pytest.raises(InputError, match=problem):
        ImageSettings.from_json({**ImageSettings(size=8).to_json(), **change})


def test_transparency_is_laid_on_white_or_dropped():
    image = Image.new("RGBA", (4, 4), (10, 20, 30, 128))
    assert ImageDecoder().read(image)[0, 0].tolist() == [132, 137, 142]
    assert ImageDecoder(transparency="drop").read(image)[0, 0].tolist() == [10, 20, 30]
    palette = Image.new("P", (2, 1))
    palette.putpalette([1, 2, 3, 4, 5, 6])
    palette.info["transparency"] = b"\x00\xff"
    assert ImageDecoder(transparency="drop").read(palette)[0, 0].tolist() == [1, 2, 3]
    assert ImageDecoder().read(palette)[0, 0].tolist() == [255, 255, 255]


def encoded(image, form="PNG", **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def test_exif_orientation_counts_only_when_asked():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter
    content = encoded(picture(8, 4), "JPEG", exif=exif)
    assert ImageDecoder().read(content).shape == (4, 8, 3)
    assert ImageDecoder(orient=True).read(content).shape == (8, 4, 3)


def test_animations_give_their_first_frame_and_sixteen_bits_scale():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    for form in ("GIF", "WEBP", "PNG"):
        options = {"lossless": True} if form == "WEBP" else {}
        content = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
        assert ImageDecoder().read(content)[0, 0].tolist() == [255, 0, 0], form
    values = np.array([[0, 255, 256, 65535]], np.uint16)
    content = encoded(Image.fromarray(values))
    assert ImageDecoder(sixteen_bit="scale").read(content).tolist() == [[0, 0, 1, 255]]
    assert ImageDecoder().read(content)[:, :, 0].tolist() == [[0, 255, 255, 255]]


def png_header(width, height):
    """A PNG that claims a size and holds nothing."""

    def chunk(kind, content):
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    start = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + start + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_huge_images_are_refused_by_their_header():
    with pytest.raises(InputError, match=r"a\.png is 9000 x 9000 pixels, above max_pixels"):
        ImageDecoder().read(png_header(9000, 9000), "a.png")
    with pytest.raises(InputError, match="more pixels than Pillow accepts"):
        ImageDecoder().read(png_header(30_000, 30_000), "a.png")
    with pytest.raises(InputError, match="2 x 3 pixels, above max_pixels=5"):
        ImageDecoder(max_pixels=5).read(encoded(picture(2, 3)))
    with pytest.raises(InputError, match="lower it"):
        ImageDecoder(max_pixels=10**9)


def test_damaged_files_are_refused_or_counted_with_their_path(tmp_path, caplog):
    whole = encoded(picture(64, 48), "JPEG")
    broken = bytearray(encoded(picture(64, 48)))
    broken[60:90] = bytes(30)
    bad = {
        "truncated.jpg": whole[: len(whole) // 2],
        "broken.png": bytes(broken),
        "text.png": b"no image at all",
        "empty.png": b"",
        "page.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "bomb.png": png_header(9000, 9000),
    }
    for name, content in {"good.jpg": whole, **bad}.items():
        (tmp_path / name).write_bytes(content)
    images = ImageFiles([tmp_path / name for name in ("good.jpg", *bad, "missing.png")])
    for index in range(1, len(images)):
        with pytest.raises(InputError, match=str(tmp_path / images.name(index))):
            images[index]
    good, problems = decodable(images)
    assert good == [0]
    assert len(problems) == 7
    assert "skipped 7 of 8 images" in caplog.text
    assert "truncated.jpg" in caplog.text


def test_arrays_that_are_no_images_are_refused():
    decoder = ImageDecoder()
    assert decoder.read(np.zeros((3, 4, 1), np.uint8)).shape == (3, 4)
    for array in (np.zeros((3, 4)), np.zeros((3, 4, 2), np.uint8), np.zeros((0, 4), np.uint8)):
        with pytest.raises(InputError, match="images are uint8"):
            decoder.read(array)


def augmenting(name, size=16, **changes):
    return ImagePreprocessor(raw(ImageSettings(size=size)), augmentation=named(name, **changes))


def named(name, **changes):
    return dataclasses.replace(ImageAugmentation.named(name), **changes)


def test_augmentation_is_a_function_of_the_seed_alone():
    image = np.asarray(picture(40, 30))
    icon = np.asarray(picture(16, 16, "L"))
    for name, source in (("photo", image), ("icon", icon)):
        make = functools.partial(augmenting(name).augmented, source, 5, 0)
        found = [make(row) for row in range(20)]
        assert all(pixels.shape == (16, 16, 3) for pixels in found)
        assert len({pixels.tobytes() for pixels in found}) == 20
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # in any order, in any thread
            again = list(pool.map(make, range(20)))
        for one, other in zip(found, again, strict=True):
            np.testing.assert_array_equal(one, other)


def test_augmentation_is_the_same_in_another_process():
    code = (
        "import numpy as np, zlib; from magjax.data import *;"
        "p = ImagePreprocessor(ImageSettings(size=16),"
        " augmentation=ImageAugmentation.named('photo'));"
        "x = (np.arange(40 * 30 * 3) % 251).astype(np.uint8).reshape(30, 40, 3);"
        "print(zlib.crc32(p.augmented(x, 3, 1, 7)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    image = (np.arange(40 * 30 * 3) % 251).astype(np.uint8).reshape(30, 40, 3)
    assert int(run.stdout) == zlib.crc32(augmenting("photo").augmented(image, 3, 1, 7))


def test_random_crop_stays_inside_and_has_the_drawn_area():
    augmentation = ImageAugmentation(crop_scale=(0.3, 0.6))
    shares = []
    for row in range(200):
        left, top, width, height = augmentation.draw(0, row).crop(90, 60)
        assert left >= 0
        assert top >= 0
        assert left + width <= 90 + 1e-9
        assert top + height <= 60 + 1e-9
        assert 3 / 4 - 1e-9 <= width / height <= 4 / 3 + 1e-9
        shares.append(width * height / 5400)
    assert 0.3 <= min(shares) < 0.32
    assert 0.58 < max(shares) <= 0.6 + 1e-9
    # A rectangle wider than the image is cut to its width.
    assert (
        ImageAugmentation(crop_scale=(1.0, 1.0), crop_ratio=(2.0, 2.0)).draw(0).crop(9, 9) is None
    )
    assert (
        ImageAugmentation(crop_scale=(0.9, 0.9), crop_ratio=(4.0, 4.0)).draw(0).crop(9, 9)[2] == 9
    )


def test_crop_equals_pillow_and_flip_mirrors():
    image = picture(40, 30)
    both = augmenting("photo")
    straight = augmenting("photo", flip=False)
    flipped = 0
    for row in range(30):
        found = both.augmented(image, row)
        left, top, width, height = both.augmentation.draw(row).crop(40, 30)
        box = (left, top, left + width, top + height)
        expected = np.asarray(image.resize((16, 16), Image.Resampling.BICUBIC, box=box))
        np.testing.assert_array_equal(straight.augmented(image, row), expected)
        if not np.array_equal(found, expected):
            np.testing.assert_array_equal(found, expected[:, ::-1])
            flipped += 1
    assert 5 < flipped < 25


def test_icons_move_shrink_and_change_colour():
    ink = np.zeros((16, 16), np.uint8)  # all ink: the picture is the square that it fills
    plain = augmenting("icon", colour=False)
    sides, corners = set(), set()
    for row in range(400):
        pixels = plain.augmented(ink, row)[:, :, 0]
        rows, columns = np.nonzero(pixels == 0)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert height == width
        assert (pixels == 0).sum() == height * width
        sides.add(int(height))
        corners.add((bool(rows.min() >= 3), bool(columns.min() >= 3)))
    assert sides == set(range(10, 17))
    assert len(corners) == 4
    grounds = []
    for row in range(200):
        pixels = augmenting("icon", placement=(0.5, 0.5)).augmented(ink, row)
        colours = {tuple(c) for c in pixels.reshape(-1, 3).tolist()}
        assert len(colours) == 2
        dark, light = sorted(colours)
        assert max(dark) <= 110
        assert min(light) >= 145
        grounds.append(sum(tuple(c) == light for c in pixels.reshape(-1, 3).tolist()) > 128)
    assert 0.65 < np.mean(grounds) < 0.85


def test_coloured_images_keep_their_colours_as_icons():
    image = np.full((16, 16, 3), (200, 30, 40), np.uint8)
    pixels = augmenting("icon").augmented(image, 3)
    colours = {tuple(c) for c in pixels.reshape(-1, 3).tolist()}
    assert colours <= {(200, 30, 40), (255, 255, 255)}


def test_augmentation_that_makes_no_sense_is_refused():
    for change, problem in (
        ({"crop_scale": (0.5, 1.5)}, "none above 1"),
        ({"crop_scale": (0.9, 0.5)}, "lower number first"),
        ({"placement": (0.0, 1.0)}, "above 0"),
    ):
        with pytest.raises(InputError, match=problem):
            ImageAugmentation(**change)
    with pytest.raises(InputError, match="Did you mean 'photo'"):
        ImageAugmentation.named("foto")


def test_no_seed_means_no_augmentation():
    image = picture(40, 30)
    np.testing.assert_array_equal(
        augmenting("photo").pixels(image), augmenting("none").augmented(image, 1)
    )
