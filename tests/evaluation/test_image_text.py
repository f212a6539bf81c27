import itertools

import numpy as np
import pytest
from image_text_cases import WORDS, square, tiny_model

from magjax.checks import InputError
from magjax.data import ImageArrays, ImagePreprocessor, ImageTextBenchmark, ImageTextSet
from magjax.evaluation import (
    chance_level,
    encode_images,
    evaluate_image_text,
    first_answer_ranks,
    other_scores,
    rank_image_text,
    search,
)
from magjax.similarity import PRESETS, Score

CAPTIONS = [("one", "uno"), ("two",), ("one",), ("three", "tres", "drei"), ("four",), ("two",)]


def make_benchmark(captions=CAPTIONS):
    ids = [f"image{i}" for i in range(len(captions))]
    pictures = np.zeros((len(ids), 4, 4), np.uint8)
    return ImageTextBenchmark.of(ImageTextSet(ids, ImageArrays(pictures, ids), captions), "toy")


def make_embeddings(benchmark, seed=0):
    random = np.random.default_rng(seed)
    sizes = {"text": len(benchmark.captions), "image": len(benchmark.image_ids)}
    return {
        kind: (random.normal(size=(n, 5)) * random.uniform(0.2, 4, (n, 1))).astype(np.float32)
        for kind, n in sizes.items()
    }


def reference_ranks(benchmark, embeddings, score, query_modality, direction):
    """First right answers by plain float64 code: sort by score, then by id descending."""
    asking, searched = direction.split("_to_")
    ids = {"text": benchmark.caption_ids, "image": benchmark.image_ids}
    answers = benchmark.text_to_image if asking == "text" else benchmark.image_to_text
    gammas = {query_modality: score.gamma_query}
    gammas.setdefault("image" if query_modality == "text" else "text", score.gamma_document)
    unit = {}
    for kind, x in embeddings.items():
        wide = x.astype(np.float64)
        unit[kind] = wide / np.linalg.norm(wide, axis=1, keepdims=True) ** gammas[kind]
    ranks = {}
    for name, row in zip(ids[asking], unit[asking] @ unit[searched].T, strict=True):
        order = sorted(zip(row, ids[searched], strict=True), reverse=True)
        ranks[name] = 1 + min(i for i, (_, d) in enumerate(order) if d in answers[name])
    return ranks


@pytest.mark.parametrize("query_modality", ["text", "image"])
@pytest.mark.parametrize("variant", PRESETS)
def test_both_directions_equal_plain_numpy(variant, query_modality):
    benchmark, score = make_benchmark(), Score.of(variant)
    embeddings = make_embeddings(benchmark)
    found = rank_image_text(
        benchmark,
        embeddings,
        score,
        query_modality=query_modality,
        k=3,
        metrics=["success@1", "success@3", "mrr"],
    )
    assert [r.domain for r in found] == ["toy:text_to_image", "toy:image_to_text"]
    for result in found:
        direction = result.domain.partition(":")[2]
        ranks = reference_ranks(benchmark, embeddings, score, query_modality, direction)
        places = np.array(list(ranks.values()))
        mean = result.evaluation.mean
        assert mean["success@1"] == pytest.approx(np.mean(places <= 1))
        assert mean["success@3"] == pytest.approx(np.mean(places <= 3))
        assert mean["mrr"] == pytest.approx(np.mean(np.where(places <= 3, 1 / places, 0)))
        assert mean["mean_rank"] == pytest.approx(places.mean())
        assert mean["median_rank"] == np.median(places)
        assert {q: v["rank"] for q, v in result.evaluation.per_query.items()} == ranks
        assert result.score == score


def test_the_length_of_the_side_that_asks_never_matters():
    """For captions asking, dot ranks as qnorm and cosine as dnorm; for images the pairs swap."""
    benchmark = make_benchmark()
    embeddings = make_embeddings(benchmark)
    found = {
        name: [
            r.ranking.documents
            for r in rank_image_text(benchmark, embeddings, Score.of(name), k=3, metrics=["mrr"])
        ]
        for name in PRESETS
    }
    assert found["dot"][0] == found["qnorm"][0] != found["cosine"][0] == found["dnorm"][0]
    assert found["dot"][1] == found["dnorm"][1] != found["cosine"][1] == found["qnorm"][1]


def test_ties_stand_as_search_has_them():
    """Equal vectors, vectors of length 0 and one rounding apart: places of a full search."""
    random = np.random.default_rng(1)
    documents = random.normal(size=(40, 16)).astype(np.float32)
    documents[5:15] = documents[0]
    documents[20] = 0
    documents[21:24] = documents[1] * (1 + np.arange(3, dtype=np.float32)[:, None] * 2.0**-23)
    queries = np.concatenate([random.normal(size=(6, 16)), np.zeros((1, 16))]).astype(np.float32)
    names, asked = [f"d{i:02}" for i in range(40)], [f"q{i}" for i in range(7)]
    answers = {q: {names[i]: 1 for i in (3 + n, 8, 22)} for n, q in enumerate(asked)}
    for score in map(Score.of, PRESETS):
        ranking = search(queries, documents, score=score, k=40, query_ids=asked, document_ids=names)
        wanted = {
            query: 1 + min(found.index(d) for d in answers[query])
            for query, found in zip(asked, ranking.documents, strict=True)
        }
        ranks = first_answer_ranks(
            queries, documents, score=score, query_ids=asked, document_ids=names, answers=answers
        )
        assert ranks == wanted


def test_chance_is_the_mean_over_all_orders():
    benchmark = make_benchmark([("a", "b"), ("a",), ("c",), ("d",)])
    for result in chance_level(benchmark, metrics=["success@1", "success@2", "mrr"], k=2):
        images = result.domain.endswith("image_to_text")
        answers = benchmark.image_to_text if images else benchmark.text_to_image
        names = benchmark.caption_ids if images else benchmark.image_ids
        ranks = np.array(
            [
                1 + min(order.index(d) for d in row)
                for row in answers.values()
                for order in itertools.permutations(names)
            ]
        )
        mean = result.evaluation.mean
        assert mean["success@1"] == pytest.approx(np.mean(ranks <= 1))
        assert mean["success@2"] == pytest.approx(np.mean(ranks <= 2))
        assert mean["mrr"] == pytest.approx(np.mean(np.where(ranks <= 2, 1 / ranks, 0)))
        assert mean["mean_rank"] == pytest.approx(ranks.mean())
        assert mean["median_rank"] == np.quantile(ranks, 0.5, method="inverted_cdf")


def test_images_are_embedded_in_order_whatever_the_batch():
    model = tiny_model()
    pictures = [square(words, shade) for shade, words in enumerate(WORDS * 2)][:13]
    images = ImageArrays(np.stack(pictures), [f"{i}" for i in range(13)])
    preprocessor = ImagePreprocessor(model.images)
    done = []
    found = encode_images(
        model.encoder,
        preprocessor,
        images,
        "document",
        batch_size=1,
        progress=lambda *x: done.append(x),
    )
    alone = model.encoder.embed(preprocessor(pictures), "document")
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)
    assert done == [(8, 13), (13, 13)]  # eight devices, one image each
    with pytest.raises(InputError, match="the query side of this encoder embeds text"):
        encode_images(model.encoder, preprocessor, images, "query")


def test_a_model_is_evaluated_by_every_score_from_one_pass():
    pictures = [square(words) for words in WORDS]
    ids = [words.replace(" ", "_") for words in WORDS]
    data = ImageTextSet(ids, ImageArrays(np.stack(pictures), ids), [(w,) for w in WORDS])
    model = tiny_model("dnorm", query_modality="image")
    scores = other_scores({"model": model.score})
    found = evaluate_image_text(
        model, ImageTextBenchmark.of(data, "squares"), scores, k=8, metrics=["mrr"]
    )
    assert [r.system for r in found[::2]] == [
        "model",
        "model by cosine",
        "model by dot",
        "model by qnorm",
    ]
    # Images ask with dnorm (the captions' lengths are gone), so captions rank by raw images.
    by = {(r.system, r.domain.partition(":")[2]): r.ranking.documents for r in found}
    assert by["model", "image_to_text"] == by["model by cosine", "image_to_text"]
    assert by["model", "text_to_image"] == by["model by dot", "text_to_image"]
