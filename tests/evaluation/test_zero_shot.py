import numpy as np
import pytest
from image_text_cases import COLOURS, WORDS, square, tiny_model

from magjax.checks import InputError
from magjax.data import ImageArrays, ImageTextSet
from magjax.evaluation import class_embeddings, evaluate_zero_shot, other_scores
from magjax.similarity import PRESETS, Score

TEMPLATES = ("a photo of {}", "{}")


def classes_of(words=WORDS):
    pictures = [square(text, shade) for shade, text in enumerate(words)]
    ids = [f"{i}" for i in range(len(words))]
    captions = [(text.split()[0],) for text in words]
    return ImageTextSet(ids, ImageArrays(np.stack(pictures), ids), captions)


@pytest.mark.parametrize("query_modality", ["text", "image"])
def test_classes_are_chosen_as_plain_numpy_does(query_modality):
    model, data = tiny_model(query_modality=query_modality), classes_of()
    scores = other_scores({"model": model.score})
    found = evaluate_zero_shot(model, data, name="colours", templates=TEMPLATES, scores=scores)
    text = "query" if query_modality == "text" else "document"
    image = "document" if query_modality == "text" else "query"
    sentences = [t.replace("{}", c) for c in COLOURS for t in TEMPLATES]
    tokens = model.tokenizer.encode(sentences, 12)
    ids = np.zeros((len(tokens), 12), np.int32)
    mask = np.zeros_like(ids)
    for row, one in enumerate(tokens):
        ids[row, : len(one)], mask[row, : len(one)] = one, 1
    words = np.float64(model.encoder.embed({"input_ids": ids, "attention_mask": mask}, text))
    scaled = (np.stack([data.images[i] for i in range(len(data))]) / 255 - model.images.mean) / (
        model.images.std
    )
    seen = np.float64(model.encoder.embed({"pixel_values": scaled.astype(np.float32)}, image))
    for result in found:
        gamma = dict(zip(("query", "document"), result.score.gammas, strict=True))
        one = words / np.linalg.norm(words, axis=1, keepdims=True) ** gamma[text]
        mean = one.reshape(len(COLOURS), len(TEMPLATES), -1).mean(axis=1)
        mean /= np.linalg.norm(mean, axis=1, keepdims=True) ** gamma[text]
        best = [list(COLOURS)[i] for i in np.argmax(seen @ mean.T, axis=1)]
        assert list(result.predictions.values()) == best
        right = [guess == words.split()[0] for guess, words in zip(best, WORDS, strict=True)]
        assert result.accuracy == {"top1": np.mean(right)}
        assert result.chance == 0.25


def test_top_5_counts_where_there_are_more_classes():
    data = classes_of()
    whole = ImageTextSet(data.image_ids, data.images, [(w,) for w in WORDS])
    (result,) = evaluate_zero_shot(tiny_model(), whole, name="squares", templates=TEMPLATES)
    assert result.accuracy["top1"] <= result.accuracy["top5"] <= 1.0
    assert result.to_json()["classes"] == WORDS


@pytest.mark.parametrize("variant", PRESETS)
def test_lengths_of_sentences_count_only_where_the_score_keeps_them(variant):
    random = np.random.default_rng(0)
    raw = random.normal(size=(3, 2, 4)).astype(np.float32)
    longer = raw * np.array([1.0, 5.0], np.float32)[:, None]
    score = Score.of(variant)
    same = np.allclose(
        class_embeddings(raw, score, "query"), class_embeddings(longer, score, "query"), atol=1e-6
    )
    assert same == (score.gamma_query == 1.0)


@pytest.mark.parametrize(
    ("templates", "message"),
    [((), "must list sentences"), (("a photo",), "must hold {} once"), (("{} {}",), "once")],
)
def test_wrong_templates_are_refused(templates, message):
    with pytest.raises(InputError, match=message):
        evaluate_zero_shot(tiny_model(), classes_of(), name="colours", templates=templates)


def test_a_class_is_one_name_and_there_are_two():
    data = classes_of()
    several = ImageTextSet(data.image_ids, data.images, [("red", "rot")] * len(data))
    with pytest.raises(InputError, match="has 2 captions; a class is one name"):
        evaluate_zero_shot(tiny_model(), several, name="colours")
    with pytest.raises(InputError, match="the class 'red' only"):
        evaluate_zero_shot(tiny_model(), classes_of(["red left"]), name="colours")
