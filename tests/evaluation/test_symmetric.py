"""Who may compare texts as equals, how they are embedded, and the scores of pairs."""

import dataclasses

import numpy as np
import pytest
from equals_cases import REASON, one_sided_models, random_embeddings, scores_by_hand

from magjax.checks import InputError
from magjax.data import TextPairs, TextPreprocessor, TextSettings
from magjax.encoders import DualEncoder
from magjax.evaluation import (
    ORDERS,
    EqualTexts,
    PairEmbeddings,
    embed_pairs,
    encode,
    pair_scores,
)
from magjax.evaluation._symmetric import encoder_asymmetries, side_of_equals
from magjax.similarity import PRESETS, Score

SCORES = [*map(Score.of, PRESETS), Score.power(0.5, 0.5), Score.power(0.25, 0.75)]
SYMMETRIC = [score for score in SCORES if score.is_symmetric]
ONE_SIDED = [score for score in SCORES if not score.is_symmetric]


@pytest.mark.parametrize("score", SYMMETRIC, ids=str)
def test_a_symmetric_score_is_one_number_a_pair(score):
    embeddings = random_embeddings()
    found = pair_scores(embeddings, score)
    forward, backward = scores_by_hand(embeddings, score)
    assert list(found) == ["score"]
    assert found["score"].dtype == np.float64
    np.testing.assert_allclose(found["score"], forward, rtol=1e-12)
    np.testing.assert_allclose(found["score"], backward, rtol=1e-12)
    swapped = dataclasses.replace(embeddings, first=embeddings.second, second=embeddings.first)
    np.testing.assert_array_equal(pair_scores(swapped, score)["score"], found["score"])


@pytest.mark.parametrize("score", ONE_SIDED, ids=str)
def test_a_one_sided_score_is_refused_or_reported_in_every_order(score):
    embeddings = random_embeddings(1)
    with pytest.raises(
        InputError, match=r"tiny compares texts as equals.*is one-sided\. .*such as"
    ):
        pair_scores(embeddings, score)
    found = pair_scores(embeddings, score, allow_asymmetric=True)
    forward, backward = scores_by_hand(embeddings, score)
    assert tuple(found) == ORDERS
    np.testing.assert_allclose(found["score(a,b)"], forward, rtol=1e-12)
    np.testing.assert_allclose(found["score(b,a)"], backward, rtol=1e-12)
    np.testing.assert_allclose(found["symmetrized"], (forward + backward) / 2, rtol=1e-12)
    assert np.abs(forward - backward).max() > 0.1


def test_equal_texts_have_a_cosine_of_one_to_the_last_bit():
    embeddings = random_embeddings(8, texts=40)
    rows = np.arange(40)
    same = dataclasses.replace(embeddings, first=rows, second=rows)
    np.testing.assert_array_equal(pair_scores(same, Score.of("cosine"))["score"], 1.0)


def test_qnorm_and_dnorm_are_one_another_in_the_other_order():
    embeddings = random_embeddings(2)
    qnorm, dnorm = (
        pair_scores(embeddings, Score.of(name), allow_asymmetric=True)
        for name in ("qnorm", "dnorm")
    )
    np.testing.assert_array_equal(qnorm["score(a,b)"], dnorm["score(b,a)"])
    np.testing.assert_array_equal(qnorm["score(b,a)"], dnorm["score(a,b)"])
    np.testing.assert_array_equal(qnorm["symmetrized"], dnorm["symmetrized"])


@pytest.mark.parametrize("score", [Score.of("cosine"), Score.of("qnorm")], ids=str)
def test_an_encoder_with_sides_is_refused_under_any_score(score):
    embeddings = random_embeddings(3, sides=True)
    with pytest.raises(InputError, match=rf"{REASON['tower']}\. Evaluate"):
        pair_scores(embeddings, score)
    found = pair_scores(embeddings, score, allow_asymmetric=True)
    forward, backward = scores_by_hand(embeddings, score)
    np.testing.assert_allclose(found["score(a,b)"], forward, rtol=1e-12)
    np.testing.assert_allclose(found["score(b,a)"], backward, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("cosine", (0.6, 0.6)), ("dot", (3, 30)), ("qnorm", (0.6, 6)), ("dnorm", (3, 3))],
)
def test_what_is_called_dot_divides_by_no_length(name, expected):
    x = np.array([[3, 4], [1, 0], [10, 0]], np.float32)
    pairs = TextPairs("s", ["q", "q"], ["d1", "d2"], [1.0, 2.0])
    embeddings = PairEmbeddings(pairs, EqualTexts(x, x), np.array([0, 0]), np.array([1, 2]))
    (found, *_) = pair_scores(embeddings, Score.of(name), allow_asymmetric=True).values()
    assert found == pytest.approx(expected, rel=1e-12)


def test_zero_vectors_score_zero():
    embeddings = random_embeddings(4)
    embeddings.texts.query[:] = 0.0
    for score in SCORES:
        for values in pair_scores(embeddings, score, allow_asymmetric=True).values():
            np.testing.assert_array_equal(values, 0.0)


PAIRS = TextPairs(
    "s",
    ["adds two numbers", "sorts a list", "adds two numbers"],
    ["sorts a list", "sum of a list", "adds two numbers"],
    [1.0, 2.0, 5.0],
)


@pytest.fixture(scope="module")
def equal_model(small_model):
    """Sides that are one: no prompts, equal lengths (so that few shapes compile)."""
    text = TextSettings(query_max_length=16, document_max_length=16)
    return dataclasses.replace(small_model, text=text)


def test_an_encoder_without_sides_embeds_each_text_once(equal_model):
    seen = []
    found = embed_pairs(equal_model, PAIRS, progress=lambda *done: seen.append(done))
    assert found.texts.query is found.texts.document
    assert found.texts.query.shape == (3, 16)
    assert seen[-1] == ("query", 3, 3)
    preprocessor = TextPreprocessor(equal_model.tokenizer, equal_model.text)
    texts = [*PAIRS.first, *PAIRS.second]
    expected = encode(equal_model.encoder, preprocessor, texts, "document")
    rows = np.concatenate([found.first, found.second])
    np.testing.assert_allclose(found.texts.query[rows], expected, rtol=1e-5, atol=1e-6)
    assert found.first[0] == found.first[2] == found.second[2]
    assert found.texts.truncated == 0.0


def test_sides_that_differ_in_length_alone_take_the_longer(equal_model):
    text = dataclasses.replace(equal_model.text, query_max_length=4)
    model = dataclasses.replace(equal_model, text=text)
    assert encoder_asymmetries(model) == ()
    assert side_of_equals(text) == "document"
    found = embed_pairs(model, PAIRS).texts
    np.testing.assert_array_equal(found.query, embed_pairs(equal_model, PAIRS).texts.query)
    assert found.truncated == 0.0
    both = dataclasses.replace(text, document_max_length=4)
    assert embed_pairs(dataclasses.replace(model, text=both), PAIRS).texts.truncated == 1.0


def test_a_side_of_images_cannot_embed_texts(equal_model, monkeypatch):
    monkeypatch.setattr(
        DualEncoder, "modality", lambda _, side: "text" if side == "query" else "image"
    )
    with pytest.raises(InputError, match="document side of this model embeds images"):
        embed_pairs(equal_model, PAIRS)


@pytest.mark.parametrize("kind", ["tower", "prompt"])
def test_an_encoder_with_sides_embeds_each_text_on_both(equal_model, kind):
    model = one_sided_models(equal_model)[kind]
    found = embed_pairs(model, PAIRS).texts
    assert found.asymmetries == (REASON[kind],)
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    texts = list(dict.fromkeys([*PAIRS.first, *PAIRS.second]))
    for side in ("query", "document"):
        expected = encode(model.encoder, preprocessor, texts, side)
        np.testing.assert_allclose(getattr(found, side), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(found.query - found.document).max() > 1e-3
