"""The encode server over real HTTP."""

import logging
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from serving_cases import TEXTS, Stub, post, running, tiny_model, wait_until

from magjax.checks import InputError, RunError
from magjax.data import TextPreprocessor
from magjax.evaluation import _encode, encode
from magjax.export import _embedder
from magjax.export._embedder import TextEmbedder
from magjax.export._server import serve
from magjax.hub import Model
from magjax.similarity import PRESETS, Score


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny_model()


@pytest.fixture
def stub():
    embed = Stub()
    yield embed
    embed.open.set()


@pytest.mark.parametrize("preset", PRESETS)
def test_inner_products_of_what_is_served_are_the_trained_score(model, preset):
    score = Score.of(preset, 0.05)
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    embed = TextEmbedder(Model(model.encoder, score, model.tokenizer, model.text))
    with running(embed, score=score) as (client, _):
        for side in ("query", "document"):
            response = post(client, TEXTS, side)
            assert response.status_code == 200
            content = response.json()
            found = np.array(content.pop("embeddings"), np.float32)
            raw = encode(model.encoder, preprocessor, TEXTS, side)
            expected = np.asarray(score.normalize(raw, side))
            atol = 1e-6 * abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
            assert content == {
                "dim": 16,
                "model": "tiny",
                "score": score.to_json(),
                "metric": "inner product",
            }


def test_concurrent_requests_are_embedded_together_and_answered_each_its_own(stub):
    stub.open.clear()
    requests = [["x"], ["yy", "zzz"], ["wwww"], ["vvvvv", "u"]]
    with running(stub) as (client, batching), ThreadPoolExecutor(8) as pool:
        first = pool.submit(post, client, ["first"])
        assert stub.entered.wait(30)  # the thread is busy: what comes now waits together
        later = [pool.submit(post, client, texts) for texts in requests]
        document = pool.submit(post, client, ["other side"], "document")
        wait_until(lambda: len(batching._waiting) == 5)
        stub.open.set()
        assert first.result().json()["embeddings"] == [[5.0, float(ord("f"))]]
        for texts, answer in zip(requests, later, strict=True):
            expected = [[float(len(text)), float(ord(text[0]))] for text in texts]
            assert answer.result().json()["embeddings"] == expected
        assert document.result().status_code == 200
        assert client.get("/health").json()["encoded"] == {
            "requests": 6,
            "texts": 8,
            "batches": 3,
        }
    assert sorted(len(texts) for texts, _ in stub.calls) == [1, 1, 6]
    assert [side for texts, side in stub.calls if texts == ["other side"]] == ["document"]


def test_a_request_waits_for_company_no_longer_than_it_must(stub):
    with (
        running(stub, max_wait_ms=20_000, max_batch=4) as (client, _),
        ThreadPoolExecutor(8) as pool,
    ):
        start = time.monotonic()
        answers = [pool.submit(post, client, [f"text {n}"]) for n in range(4)]
        assert all(answer.result().status_code == 200 for answer in answers)
        assert len(stub.calls) == 1  # the fourth made it full
        assert post(client, ["many"] * 9).status_code == 200  # fuller than full
        assert time.monotonic() - start < 15


def test_batches_hold_at_most_their_number_of_texts(stub):
    stub.open.clear()
    with running(stub, max_batch=4) as (client, batching), ThreadPoolExecutor(16) as pool:
        answers = [pool.submit(post, client, ["first"])]
        assert stub.entered.wait(30)
        answers += [pool.submit(post, client, [f"{n}", "b"]) for n in range(8)]
        wait_until(lambda: len(batching._waiting) == 8)
        stub.open.set()
        assert all(answer.result().status_code == 200 for answer in answers)
    assert [len(texts) for texts, _ in stub.calls] == [1, 4, 4, 4, 4]


def test_a_request_that_fails_does_not_fail_its_company(stub, caplog):
    stub.open.clear()
    with running(stub) as (client, batching), ThreadPoolExecutor(8) as pool:
        first = pool.submit(post, client, ["first"])
        assert stub.entered.wait(30)
        texts = [["good"], ["broken secret"], ["nan"]]
        answers = [pool.submit(post, client, each) for each in texts]
        wait_until(lambda: len(batching._waiting) == 3)
        stub.open.set()
        assert first.result().status_code == 200
        good, broken, nan = (answer.result() for answer in answers)
        assert good.json()["embeddings"] == [[4.0, float(ord("g"))]]
        assert broken.status_code == nan.status_code == 500
        assert broken.json() == {"error": "the texts could not be embedded: ValueError"}
        assert "not finite" in nan.json()["error"]
        assert post(client, ["after"]).status_code == 200
    assert "ValueError while embedding" in caplog.text
    assert "secret" not in caplog.text


def test_texts_are_never_logged(stub, caplog):
    caplog.set_level(logging.DEBUG, "magjax")
    with running(stub, max_texts=1) as (client, _):
        post(client, ["a secret"])
        post(client, ["a secret", "a secret"])
        client.post("/encode/query", content=b'"a secret"')
    assert "secret" not in "".join(r.getMessage() for r in caplog.records if "httpx" not in r.name)


def test_health_says_ready_only_after_the_warm_up(stub):
    go = threading.Event()
    with running(stub, prepare=lambda is_stopping: go.wait(30)) as (client, batching):
        before = client.get("/health")
        assert before.status_code == 503
        assert before.json()["ready"] is False
        refused = post(client, ["early"])
        assert refused.status_code == 503
        assert "warming up" in refused.json()["error"]
        go.set()
        batching.prepared.result(30)
        after = client.get("/health")
        assert after.status_code == 200
        content = after.json()
        assert set(content.pop("versions")) == {"magjax", "jax"}
        assert content == {
            "ready": True,
            "model": "tiny",
            "score": Score.of("qnorm", 0.05).to_json(),
            "dim": 16,
            "metric": "inner product",
            "encoded": {"requests": 0, "texts": 0, "batches": 0},
        }
    assert stub.calls == []


def test_a_failed_warm_up_is_never_ready(stub):
    def fail(is_stopping):
        raise InputError("the embedding of query number 0 is not finite.")

    with running(stub, prepare=fail) as (client, batching):
        with pytest.raises(InputError):
            batching.prepared.result(30)
        response = client.get("/health")
        assert response.status_code == 503
        assert "warm-up failed: the embedding of query" in response.json()["error"]
        assert post(client, ["a"]).status_code == 503


def test_a_server_that_is_told_to_stop_answers_what_it_has(stub):
    stub.open.clear()
    with running(stub) as (client, batching), ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(post, client, ["first"])]
        assert stub.entered.wait(30)
        answers += [pool.submit(post, client, [f"later {n}"]) for n in range(3)]
        wait_until(lambda: len(batching._waiting) == 3)
        client.server.should_exit = True
        time.sleep(0.3)
        stub.open.set()
        assert [answer.result().status_code for answer in answers] == [200] * 4
    with pytest.raises(RunError, match="not ready, or closed"):
        batching.submit(["too late"], "query")


def test_a_broken_model_stops_the_program_with_a_reason():
    broken = tiny_model()
    scale = broken.encoder.query_tower.embeddings.norm.scale
    scale[...] = scale[...] * np.nan
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RunError, match=r"warm-up failed: the embedding of query .* not finite"):
        serve(broken, "broken", port=0)
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_full_warm_up_leaves_nothing_to_compile(model):
    embed = TextEmbedder(model, tokens_per_batch=40)
    embed.warm_up("full", 4)
    before = _encode._embed._cache_size(), _embedder._normalize._cache_size()
    for count in (1, 2, 3, 4):
        for side in ("query", "document"):
            for text in ("a", "sum of " * 4, "sum of " * 30):
                embed([text] * count, side)
                embed([text, *["a"] * (count - 1)], side)
    assert (_encode._embed._cache_size(), _embedder._normalize._cache_size()) == before


def test_a_warm_up_stops_when_told_to(model):
    asked = []

    def is_stopping():
        asked.append(True)
        return len(asked) > 3

    TextEmbedder(model).warm_up("full", 64, is_stopping)
    assert len(asked) < 12
    with pytest.raises(InputError, match="unknown warm_up 'all'; known: none, single, full"):
        TextEmbedder(model).warm_up("all", 64)


def test_a_model_without_a_score_is_not_served(model):
    with pytest.raises(InputError, match="states no score"):
        TextEmbedder(Model(model.encoder, None, model.tokenizer, model.text))
