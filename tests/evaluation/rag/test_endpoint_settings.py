"""Settings, the key and the check of an endpoint before work begins."""

import logging

import pytest
from chat_server import completion, failure, serving

from magjax.checks import InputError, RunError
from magjax.evaluation.rag import ChatEndpoint, GeneratorSettings

KEY = "sk-secret-0123456789"


@pytest.fixture
def keyed(monkeypatch):
    monkeypatch.setenv("TEST_GENERATOR_KEY", KEY)
    return {"api_key_env": "TEST_GENERATOR_KEY"}


def test_the_key_is_sent_in_a_header_and_shown_nowhere(keyed, caplog):
    def echo(*_):
        return failure(401, f"Incorrect API key provided: {KEY}")

    with serving(echo) as s, caplog.at_level(logging.DEBUG):
        endpoint = ChatEndpoint(s.settings(**keyed))
        with pytest.raises(RunError, match=r"Incorrect API key provided: \[key\]; check the key"):
            endpoint.complete("q")
        endpoint.check()
    assert [headers["Authorization"] for headers in s.headers] == [f"Bearer {KEY}"] * 2
    assert KEY not in caplog.text + repr(endpoint.settings) + repr(s.bodies)


def test_a_redirect_is_not_followed(keyed):
    with serving(lambda *_: completion("stolen")) as other:
        there = other.endpoint + "/chat/completions"
        with (
            serving(lambda *_: (307, {"Location": there}, b"")) as s,
            pytest.raises(RunError, match=f"redirects to {there} .HTTP 307., where the key is not"),
        ):
            ChatEndpoint(s.settings(**keyed)).complete("q")
        assert not other.paths


def test_a_key_over_plain_http_to_another_host_is_said(keyed, caplog):
    GeneratorSettings(endpoint="https://example.org/v1", model="m", **keyed).api_key()
    GeneratorSettings(endpoint="http://127.0.0.1:8/v1", model="m", **keyed).api_key()
    assert not caplog.text
    GeneratorSettings(endpoint="http://example.org/v1", model="m", **keyed).api_key()
    assert "the key travels to example.org unencrypted" in caplog.text
    assert KEY not in caplog.text


def test_the_check_warns_of_a_model_that_is_not_listed(caplog):
    with serving(lambda *_: completion("x")) as s:
        ChatEndpoint(s.settings()).check()
        assert not caplog.text
        ChatEndpoint(s.settings(model="tinny")).check()
    assert "does not list model 'tinny'; it lists tiny." in caplog.text
    assert not s.bodies


def test_the_check_asks_for_a_token_where_no_models_are_listed():
    with serving(lambda *_: completion("x"), models=failure(404)) as s:
        ChatEndpoint(s.settings()).check()
    assert [body["max_tokens"] for body in s.bodies] == [1]
    wanted = pytest.raises(RunError, match="HTTP 404: no such model")
    with serving(lambda *_: failure(404, "no such model"), models=failure(404)) as s, wanted:
        ChatEndpoint(s.settings()).check()


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (failure(500, "dying"), "HTTP 500: dying"),
        (failure(401, "no key"), "HTTP 401: no key; check the key"),
        ((200, {}, b"<html>"), "answered '<html>': no JSON"),
        ((200, {}, {"models": []}), "where a list of models was needed"),
    ],
)
def test_the_check_stops_at_once(models, message):
    wanted = pytest.raises(RunError, match=message)
    with serving(lambda *_: completion("x"), models=models) as s, wanted:
        ChatEndpoint(s.settings()).check()
    assert s.paths == ["/v1/models"]


def test_a_busy_server_passes_the_check():
    with serving(lambda *_: completion("x"), models=failure(429)) as s:
        ChatEndpoint(s.settings()).check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"endpoint": "localhost:8000/v1"},
            "an address such as http://localhost:8000/v1 was needed",
        ),
        ({"endpoint": "file:///etc/passwd"}, "an address such as"),
        ({"endpoint": "ftp://host/v1"}, "an address such as"),
        ({"endpoint": "http://host:99999/v1"}, "no address"),
        ({"endpoint": f"http://user:{KEY}@host/v1"}, "holds a user or a password"),
        ({"endpoint": f"http://host/v1?key={KEY}"}, "endpoint http://host/v1: the API's root"),
        ({"endpoint": "http://host/v1/chat/completions"}, "without /chat/completions"),
        ({"endpoint": "http://ho st/v1"}, "no address may have"),
        ({"endpoint": "http://host/v\r\n1"}, "no address may have"),
        ({"model": " "}, "model is missing"),
        ({"api_key_env": KEY}, "never the key itself"),
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"attempts": 0}, "attempts=0"),
        ({"timeout": 0.0}, "timeout=0.0"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"temperature": float("nan")}, "temperature=nan"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_without_showing_a_key(change, message):
    with pytest.raises(InputError, match=message) as error:
        GeneratorSettings(**({"endpoint": "http://host/v1", "model": "m"} | change))
    assert KEY not in str(error.value)


@pytest.mark.parametrize("value", [None, "", "  ", "two\nlines", "clé"])
def test_a_key_that_is_missing_or_unfit_is_refused(monkeypatch, value):
    monkeypatch.delenv("TEST_GENERATOR_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("TEST_GENERATOR_KEY", value)
    settings = GeneratorSettings(
        endpoint="http://host/v1", model="m", api_key_env="TEST_GENERATOR_KEY"
    )
    with pytest.raises(InputError, match="variable TEST_GENERATOR_KEY") as error:
        ChatEndpoint(settings)
    assert not value or not value.strip() or value not in str(error.value)
