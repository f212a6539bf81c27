import collections

import jax
import numpy as np
import pytest
from PIL import Image

from magjax.checks import InputError
from magjax.data import (
    Batches,
    ImageArrays,
    ImageAugmentation,
    ImageFiles,
    ImagePreprocessor,
    ImageSettings,
    ImageTextBatches,
    ImageTextBenchmark,
    ImageTextSet,
    TextPreprocessor,
    TextSettings,
    TextTokenizer,
    batch_iterator,
    hold_out_images,
    pixel_batches,
)

COUNT = 23
WORDS = [f"word{i}" for i in range(COUNT)]
TOKENIZER = TextTokenizer.train(WORDS * 2, 600)
TEXT = TextPreprocessor(TOKENIZER, TextSettings(query_max_length=16, document_max_length=12))
SETTINGS = ImageSettings(size=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), rescale=1.0)
PLAIN = ImagePreprocessor(SETTINGS)
ICON = ImagePreprocessor(SETTINGS, augmentation=ImageAugmentation.named("icon"))


def image_set(captions=None):
    """Image i is all of value i; captions by default one or two words of its own."""
    captions = captions or [
        (WORDS[i],) if i % 2 else (WORDS[i], f"{WORDS[i]} again") for i in range(COUNT)
    ]
    count = len(captions)
    pixels = np.zeros((count, 8, 8), np.uint8) + np.arange(count, dtype=np.uint8)[:, None, None]
    names = [f"i{i}" for i in range(count)]
    return ImageTextSet(names, ImageArrays(pixels, names), captions)


def make(data=None, images=PLAIN, **changes):
    given = {"batch_size": 8, "seed": 0, **changes}
    return ImageTextBatches(data or image_set(), images, TEXT, **given)


def assert_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


def tokens_of(text, side):
    return TEXT.tokenize([text], side)[0].tolist()


def texts_of(tokens):
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    return [row[keep == 1].tolist() for row, keep in zip(ids, mask, strict=True)]


@pytest.mark.parametrize("modality", ["text", "image"])
def test_batch_holds_images_with_one_of_their_captions(modality):
    data, batches = image_set(), make(query_modality=modality)
    assert isinstance(batches, Batches)
    text, image = ("query", "document") if modality == "text" else ("document", "query")
    keys = ["query", "document", "query_ids", "document_ids", "positive_ids", "where", "row"]
    for step in range(4):
        batch = batches.batch_at(step)
        assert sorted(batch) == sorted(keys)
        pixels = batch[image]["pixel_values"]
        assert pixels.shape == (8, 8, 8, 3)
        assert pixels.dtype == np.float32
        rows = batch["row"].tolist()
        np.testing.assert_array_equal(pixels[:, 3, 3, 1], rows)
        for row, tokens in zip(rows, texts_of(batch[text]), strict=True):
            assert tokens in [tokens_of(caption, text) for caption in data.captions[row]]
        assert batch[f"{image}_ids"].tolist() == rows
        assert batch["where"].all()
        for name in ("query_ids", "document_ids", "positive_ids", "row"):
            assert batch[name].dtype == np.int32
        own = batch["positive_ids"] == batch["document_ids"][:, None]
        assert own.any(axis=1).all()


def test_batches_are_a_function_of_seed_and_step_alone():
    one, other = make(images=ICON), make(images=ICON)
    expected = [one.batch_at(step) for step in range(6)]
    for step in (5, 0, 3, 3):
        assert_equal(other.batch_at(step), expected[step])
    assert one.fingerprint == other.fingerprint
    changed = [
        make(images=ICON, seed=1),
        make(images=PLAIN),
        make(images=ICON, query_modality="image"),
        make(images=ICON, batch_size=4),
    ]
    assert len({batches.fingerprint for batches in (one, *changed)}) == 5


def test_epochs_show_every_image_once_with_changing_captions_and_pixels():
    batches = make(images=ICON, batch_size=23)
    assert len(batches) == 1
    seen = collections.defaultdict(set)
    for epoch in range(12):
        batch = batches.batch_at(epoch)
        assert sorted(batch["row"].tolist()) == list(range(COUNT))
        for row, tokens, pixels in zip(
            batch["row"].tolist(),
            texts_of(batch["query"]),
            batch["document"]["pixel_values"],
            strict=True,
        ):
            seen["text", row].add(tuple(tokens))
            seen["image", row].add(pixels.tobytes())
    assert [len(seen["text", row]) for row in range(COUNT)] == [2 - i % 2 for i in range(COUNT)]
    assert all(len(seen["image", row]) == 12 for row in range(COUNT))


def test_last_partial_batch_is_dropped_and_len_is_exact():
    batches = make()
    assert len(batches) == 2
    rows = [batches.batch_at(step)["row"].tolist() for step in range(2)]
    assert len(set(rows[0] + rows[1])) == 16


def expected_positives(data, batch, modality):
    """By comparing words: whose captions hold the query, whose image has the caption."""
    rows = batch["row"].tolist()
    ids = batch["query_ids" if modality == "text" else "document_ids"].tolist()
    side = "query" if modality == "text" else "document"
    drawn = texts_of(batch[side])
    found = []
    for i, row in enumerate(rows):
        if modality == "text":
            owners = {
                other
                for other in rows
                if drawn[i] in [tokens_of(c, side) for c in data.captions[other]]
            }
            found.append(owners)
        else:
            own = [tokens_of(c, side) for c in data.captions[row]]
            found.append({n for n, text in zip(ids, drawn, strict=True) if text in own})
    return found


@pytest.mark.parametrize("modality", ["text", "image"])
def test_ids_name_every_known_pair_of_a_batch(modality):
    # Captions repeat, with other white space too, and some images share a caption not drawn.
    captions = [(WORDS[i % 3], f"{WORDS[i % 5]}  again") for i in range(20)]
    data = image_set(captions)
    batches = make(data, batch_size=10, query_modality=modality)
    several = 0
    for step in range(6):
        batch = batches.batch_at(step)
        expected = expected_positives(data, batch, modality)
        found = [set(row[row >= 0].tolist()) for row in batch["positive_ids"]]
        assert found == expected
        several += sum(len(row) > 1 for row in found)
        width = batch["positive_ids"].shape[1]
        assert width & (width - 1) == 0
        assert max(map(len, found)) <= width
        text_ids = batch["query_ids" if modality == "text" else "document_ids"]
        texts = texts_of(batch["query" if modality == "text" else "document"])
        for i in range(10):  # equal numbers exactly where texts are equal
            assert [text_ids[i] == other for other in text_ids] == [texts[i] == t for t in texts]
    assert several > 20


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_slices_of_all_processes_are_the_whole_batch(processes, accumulation):
    settings = {"accumulation": accumulation, "images": ICON}
    whole = make(**settings)
    parts = [make(process_index=i, process_count=processes, **settings) for i in range(processes)]
    assert {len(part) for part in parts} == {len(whole)}
    assert {part.fingerprint for part in parts} == {whole.fingerprint}
    axis = 0 if accumulation == 1 else 1
    for step in range(2):
        slices = [part.batch_at(step) for part in parts]
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=axis), *slices)
        assert_equal(joined, whole.batch_at(step))


def test_accumulation_stacks_the_same_batches():
    single, double = make(), make(accumulation=2)
    batch = double.batch_at(0)
    assert batch["document"]["pixel_values"].shape == (2, 8, 8, 8, 3)
    for i in range(2):
        np.testing.assert_array_equal(batch["row"][i], single.batch_at(i)["row"])
        np.testing.assert_array_equal(
            batch["document"]["pixel_values"][i],
            single.batch_at(i)["document"]["pixel_values"],
        )


def test_batches_come_through_grain_in_threads_and_resume():
    batches = make(images=ICON)
    with batch_iterator(batches, 0, prefetch=3, threads=2) as iterator:
        found = [next(iterator) for _ in range(4)]
        state = iterator.get_state()
    for step in range(4):
        assert_equal(found[step], batches.batch_at(step))
    with batch_iterator(make(images=ICON)) as iterator:
        iterator.set_state(state)
        assert_equal(next(iterator), batches.batch_at(4))


def test_a_damaged_image_stops_with_its_path_also_from_a_thread(tmp_path):
    for i in range(4):
        Image.new("L", (8, 8), i).save(tmp_path / f"{i}.png")
    (tmp_path / "2.png").write_bytes(b"broken")
    data = ImageTextSet(
        list("abcd"), ImageFiles([tmp_path / f"{i}.png" for i in range(4)]), [(w,) for w in "abcd"]
    )
    batches = make(data, batch_size=4)
    with pytest.raises(InputError, match=r"2\.png is no image"):
        batches.batch_at(0)
    with (
        pytest.raises(InputError, match=r"2\.png is no image"),
        batch_iterator(batches) as iterator,
    ):
        next(iterator)
    with pytest.raises(InputError, match=r"2\.png is no image"):
        list(pixel_batches(PLAIN, data.images, batch_size=2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 24}, "larger than the 23 images .*; try batch_size=23"),
        ({"batch_size": 0}, "batch_size=0 must be"),
        ({"accumulation": 3}, "accumulation=3 batches of batch_size=8 are larger than"),
        ({"process_count": 3}, "not a multiple of process_count=3; try batch_size=6"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_pixel_batches_are_all_images_in_order():
    images = image_set().images
    found = list(pixel_batches(ICON, images, batch_size=5, threads=3, ahead=2))
    assert [len(b["pixel_values"]) for b in found] == [5, 5, 5, 5, 3]
    joined = np.concatenate([b["pixel_values"] for b in found])
    np.testing.assert_array_equal(joined[:, 0, 0, 0], range(COUNT))  # no augmentation
    assert list(pixel_batches(PLAIN, ImageArrays([], []), batch_size=5)) == []


def test_records_that_do_not_fit_are_refused():
    images = ImageArrays(np.zeros((2, 8, 8), np.uint8), ["a", "b"])
    for ids, captions, message in (
        (["a"], [("x",)], "2 images for 1 ids"),
        (["a", "a"], [("x",), ("y",)], "'a' occurs twice"),
        (["a", "b"], [("x",)], "captions of 1 images for 2 ids"),
        (["a", "b"], [("x",), ()], "'b' has no caption"),
        (["a", "b"], [("x",), ("y", " ")], "'b' has no caption or an empty one"),
        ([], [], "holds no image"),
    ):
        with pytest.raises(InputError, match=message):
            ImageTextSet(ids, images, captions)
    good = {"name": "n", "image_ids": ["a", "b"], "images": images, "caption_ids": ["c"]}
    for answers, message in (
        ({"c": {"a": 1}}, "image 'b' has no answer"),
        ({}, "image 'a' has no answer"),
        ({"c": {"a": 1, "b": 1, "z": 1}}, "image 'z' has judgements but is not there"),
        ({"c": {"a": 1, "b": 1}, "d": {"a": 1}}, "caption 'd' has judgements"),
    ):
        with pytest.raises(InputError, match=message):
            ImageTextBenchmark(**good, captions=["x"], text_to_image=answers)
    with pytest.raises(InputError, match="1 caption ids for 2 texts"):
        ImageTextBenchmark(**good, captions=["x", "y"], text_to_image={"c": {"a": 1, "b": 1}})


def test_held_out_captions_are_not_trained_on():
    data = image_set([(WORDS[i % 7], f"{WORDS[i]} alone") for i in range(COUNT)])
    rest, benchmark = hold_out_images(data, images=3, seed=1, name="development")
    assert 3 <= len(benchmark.image_ids) <= 8
    assert len(rest) + len(benchmark.image_ids) == COUNT
    assert not set(rest.flat_captions) & set(benchmark.captions)
    again = hold_out_images(data, images=3, seed=1, name="development")
    assert again[1].fingerprint == benchmark.fingerprint
    assert hold_out_images(data, images=3, seed=2, name="development")[1] != benchmark
    for name in benchmark.image_ids:
        number = int(name[1:])
        index = list(benchmark.image_ids).index(name)
        assert benchmark.images[index][0, 0] == number
        assert len(benchmark.image_to_text[name]) == 2
    # All hang together by one caption: nothing would be left.
    with pytest.raises(InputError, match="leaves 0 to train on"):
        hold_out_images(image_set([("same",)] * 5), images=1, seed=0, name="d")
