"""What the encode server refuses, and that it says why."""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from serving_cases import Stub, post, running, wait_until

from magjax.checks import InputError
from magjax.export._app import ServerSettings
from magjax.export._batching import BatchingEncoder

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("content", "headers", "status", "message"),
    [
        (b"", JSON, 400, "no JSON"),
        (b"texts", JSON, 400, r"no JSON \(line 1\)"),
        (b'{"texts": ["a"', JSON, 400, "no JSON"),
        (b'{"texts": ["\xff"]}', JSON, 400, "no JSON"),
        (b"[" * 100_000, JSON, 413, "longer than 4096 bytes"),
        (b"[" * 4000, JSON, 400, "no JSON"),
        (b'{"texts": ["a"]}', {}, 415, "Content-Type is missing"),
        (b'{"texts": ["a"]}', {"Content-Type": "text/plain"}, 415, "is text/plain; send app"),
        (b'["a"]', JSON, 422, "object with texts alone"),
        (b"{}", JSON, 422, "object with texts alone"),
        (b'{"texts": ["a"], "side": "query"}', JSON, 422, "object with texts alone"),
        (b'{"texts": "a"}', JSON, 422, "list of at least one string"),
        (b'{"texts": []}', JSON, 422, "list of at least one string"),
        (b'{"texts": null}', JSON, 422, "list of at least one string"),
        (b'{"texts": ["a", 1]}', JSON, 422, r"texts\[1\] is no string"),
        (b'{"texts": [["a"]]}', JSON, 422, r"texts\[0\] is no string"),
        (b'{"texts": ["\\ud800"]}', JSON, 422, r"texts\[0\] holds half of a surrogate"),
        (b'{"texts": ["a", "a", "a", "a"]}', JSON, 413, "4 texts are more than 3"),
        (b'{"texts": ["%s"]}' % (b"a" * 51), JSON, 413, r"texts\[0\] has 51 characters"),
        (b'{"texts": ["%s"]}' % (b"a" * 5000), JSON, 413, "longer than 4096 bytes"),
        (b'{"texts": ["%s"]}' % (b"a" * 5_000_000), JSON, 413, "longer than 4096 bytes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_requests_are_refused_with_a_reason(limited, content, headers, status, message):
    response = limited.post("/encode/query", content=content, headers=headers)
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert re.search(message, response.json()["error"])
    assert limited.post("/encode/query", json={"texts": ["a"]}).status_code == 200


@pytest.fixture(scope="module")
def limited():
    with running(Stub(), max_texts=3, max_characters=50, max_body_bytes=4096) as (client, _):
        yield client


def test_a_body_without_a_stated_length_is_limited_too(limited):
    def chunks():
        yield b'{"texts": ["'
        for _ in range(200):
            yield b"a" * 100
        yield b'"]}'

    response = limited.post("/encode/query", content=chunks(), headers=JSON)
    assert response.status_code == 413
    assert "longer than 4096 bytes" in response.json()["error"]


def test_limits_themselves_are_allowed_and_charsets_are_no_matter(limited):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    content = json.dumps({"texts": ["é" * 50] * 3})
    assert limited.post("/encode/query", content=content, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/", 404, "there is no '/' here; there are POST /encode/query"),
        ("POST", "/encode/passage", 404, "there is no '/encode/passage' here"),
        ("POST", "/encode/query/", 404, "there is no '/encode/query/' here"),
        ("GET", "/encode/query", 405, "/encode/query answers POST, not GET."),
        ("PUT", "/encode/document", 405, "answers POST, not PUT."),
        ("POST", "/health", 405, "/health answers GET, not POST."),
    ],
)
def test_unknown_paths_and_methods_are_told_the_known_ones(limited, method, path, status, message):
    response = limited.request(method, path)
    assert response.status_code == status
    assert message in response.json()["error"]
    assert status != 405 or "Allow" in response.headers


def test_too_many_requests_are_told_to_come_again(stub):
    stub.open.clear()
    with running(stub, max_requests=2) as (client, batching), ThreadPoolExecutor(8) as pool:
        first = pool.submit(post, client, ["first"])
        assert stub.entered.wait(30)
        second = pool.submit(post, client, ["second"])
        wait_until(lambda: len(batching._waiting) == 1)
        refused = post(client, ["third"])
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert "2 requests are held already" in refused.json()["error"]
        assert client.get("/health").status_code == 200
        stub.open.set()
        assert first.result().status_code == second.result().status_code == 200
        assert post(client, ["fourth"]).status_code == 200


def test_a_request_that_takes_too_long_is_given_up_and_not_embedded_later(stub):
    stub.open.clear()
    with running(stub, timeout_s=0.2) as (client, _), ThreadPoolExecutor(8) as pool:
        first = pool.submit(post, client, ["first"])
        assert stub.entered.wait(30)
        late = post(client, ["late"])
        assert late.status_code == 503
        assert "no embeddings within 0.2 s" in late.json()["error"]
        assert first.result().status_code == 503
        stub.open.set()
        assert post(client, ["after"]).status_code == 200
    assert [texts for texts, _ in stub.calls] == [["first"], ["after"]]


def test_a_body_that_never_arrives_is_given_up(stub):
    with (
        running(stub, timeout_s=0.2) as (client, _),
        socket.create_connection((client.base_url.host, client.base_url.port), 10) as line,
    ):
        line.sendall(
            b"POST /encode/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 50\r\n\r\n{"
        )
        assert line.recv(4096).startswith(b"HTTP/1.1 408 ")


@pytest.fixture
def stub():
    embed = Stub()
    yield embed
    embed.open.set()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_texts": 0}, "max_texts=0 must be a whole number"),
        ({"timeout_s": 0.0}, "timeout_s=0.0 must be a finite number above 0"),
    ],
)
def test_wrong_limits_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ServerSettings(**settings)
    with pytest.raises(InputError, match="max_wait_ms=-1"):
        BatchingEncoder(lambda texts, side: np.ones((1, 1)), max_wait_ms=-1)
