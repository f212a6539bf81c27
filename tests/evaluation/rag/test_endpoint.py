"""One question to a real HTTP server on this machine: what is tried again, and what is refused."""

import email.utils
import re
import socket
import threading
import time

import pytest
from chat_server import completion, failure, serving

from magjax.checks import RunError
from magjax.evaluation.rag import ChatEndpoint, Completion, GeneratorSettings, QuestionError


def ask(server, **changes):
    return ChatEndpoint(server.settings(**changes)).complete("who wrote Emma?")


def test_one_question_is_one_chat_completion():
    with serving(
        lambda *_: completion(" Jane Austen\n", prompt_tokens=20, completion_tokens=3)
    ) as s:
        found = ask(s, max_tokens=7, temperature=0.5, seed=11)
    assert found == Completion("Jane Austen", "stop", 20, 3)
    assert s.paths == ["/v1/chat/completions"]
    assert s.bodies == [
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "who wrote Emma?"}],
            "max_tokens": 7,
            "temperature": 0.5,
            "seed": 11,
        }
    ]
    assert "Authorization" not in s.headers[0]


def test_without_a_seed_none_is_sent():
    with serving(lambda *_: completion("x")) as s:
        assert ask(s, seed=None) == Completion("x", "stop", None, None)
    assert "seed" not in s.bodies[0]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_errors_that_may_pass_are_tried_again(status):
    def answer(_, times):
        return failure(status) if times < 3 else completion("Jane Austen")

    with serving(answer) as s:
        endpoint = ChatEndpoint(s.settings(attempts=3))
        assert endpoint.complete("q").answer == "Jane Austen"
    assert s.asked["q"] == endpoint.requests == 3


def test_always_500_fails_the_question_with_the_servers_words():
    with serving(lambda *_: failure(500, "out of memory")) as s:
        with pytest.raises(
            QuestionError, match=r"^HTTP 500: out of memory \(attempt 3 of 3\)$"
        ) as e:
            ask(s)
        assert not e.value.refused
    assert s.asked["who wrote Emma?"] == 3


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_question_is_not_asked_again(status):
    with serving(lambda *_: failure(status, "the prompt is too long")) as s:
        with pytest.raises(QuestionError, match=f"HTTP {status}: the prompt is too long") as e:
            ask(s)
        assert e.value.refused
    assert s.asked["who wrote Emma?"] == 1


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "check the key"),
        (403, "check the key"),
        (404, "check the model's name"),
        (418, "correct"),
    ],
)
def test_what_no_question_would_pass_stops_the_run(status, remedy):
    wanted = pytest.raises(RunError, match=f"answered HTTP {status}: no such thing; {remedy}")
    with serving(lambda *_: failure(status, "no such thing")) as s, wanted:
        ask(s)
    assert s.asked["who wrote Emma?"] == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"error": "Loading model"}, "HTTP 503: Loading model"),
        ({"message": "busy", "object": "error"}, "HTTP 503: busy"),
        ({"detail": [{"msg": "bad"}]}, 'HTTP 503: [{"msg": "bad"}]'),
        (b"<html>Bad Gateway</html>", "HTTP 503: '<html>Bad Gateway</html>'"),
        (b"", "HTTP 503: nothing"),
        (b"x" * 5000, "xxx..."),
    ],
)
def test_the_servers_words_are_found_wherever_it_puts_them(content, words):
    wanted = pytest.raises(QuestionError, match=re.escape(words))
    with serving(lambda *_: (503, {}, content)) as s, wanted:
        ask(s, attempts=1)


class Pauses(threading.Event):
    """Notes how long it is waited for, and lets nobody wait."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        self.seconds.append(timeout)
        return False


def test_retry_after_is_honoured_in_seconds_and_as_a_date():
    def answer(prompt, times):
        date = email.utils.formatdate(time.time() + 100, usegmt=True)
        asked = {"seconds": "7", "part": "0.25", "date": date, "unclear": "soon"}[prompt]
        return failure(429, Retry_After=asked) if times == 1 else completion("x")

    waited = {}
    with serving(answer) as s:
        for prompt in ("seconds", "part", "date", "unclear"):
            pauses = Pauses()
            assert ChatEndpoint(s.settings()).complete(prompt, pauses).answer == "x"
            (waited[prompt],) = pauses.seconds
    assert (waited["seconds"], waited["part"]) == (7.0, 0.25)
    assert 90 < waited["date"] <= 100
    assert waited["unclear"] <= 0.001


def test_the_longer_of_retry_after_and_the_own_pause_is_waited():
    def answer(_, times):
        return failure(503, Retry_After="0.1") if times == 1 else completion("x")

    pauses = Pauses()
    with serving(answer) as s:
        ChatEndpoint(s.settings(backoff=10.0)).complete("q", pauses)
    assert 5.0 <= pauses.seconds[0] <= 10.0


def test_a_wait_beyond_patience_fails_the_question_at_once():
    with (
        serving(lambda *_: failure(429, "quota", Retry_After="3600")) as s,
        pytest.raises(QuestionError, match="quota; the server asks to wait 3600 s, longer than 1"),
    ):
        ask(s, longest_wait=1.0)
    assert s.asked["who wrote Emma?"] == 1


def test_pauses_double_are_jittered_and_bounded():
    runs = []
    with serving(lambda *_: failure(500)) as s:
        endpoint = ChatEndpoint(s.settings(attempts=7, backoff=2.0))
        for _ in range(3):
            pauses = Pauses()
            with pytest.raises(QuestionError, match="attempt 7 of 7"):
                endpoint.complete("q", pauses)
            runs.append(pauses.seconds)
    for seconds in runs:
        assert len(seconds) == 6
        for pause, longest in zip(seconds, (2.0, 4.0, 8.0, 16.0, 30.0, 30.0), strict=True):
            assert longest / 2 <= pause <= longest
    assert runs[0] != runs[1] != runs[2]


def test_a_silent_server_times_out_and_so_does_one_that_drips():
    wanted = pytest.raises(QuestionError, match=r"no reply within 0\.1 s \(attempt 2 of 2\)")
    with serving(lambda *_: completion("late"), delay=1.0) as s, wanted:
        ask(s, timeout=0.1, attempts=2)
    listener = socket.create_server(("127.0.0.1", 0))

    def drip():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(40):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return
                time.sleep(0.02)

    thread = threading.Thread(target=drip)
    thread.start()
    with listener, pytest.raises(QuestionError, match=r"no reply within 0\.2 s"):
        ask_at(listener, timeout=0.2)
    thread.join()


def ask_at(listener, **changes):
    settings = {"model": "tiny", "attempts": 1, "backoff": 0.001} | changes
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    return ChatEndpoint(GeneratorSettings(endpoint=address, **settings)).complete("q")


@pytest.mark.parametrize(
    ("sent", "error", "message"),
    [
        (b"", QuestionError, "closed without a reply"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
            QuestionError,
            "broke within the reply",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
            QuestionError,
            "broke within",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", RunError, "the reply is no HTTP"),
    ],
)
def test_broken_connections(sent, error, message):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def once():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(sent)

        thread = threading.Thread(target=once)
        thread.start()
        with pytest.raises(error, match=message):
            ask_at(listener)
        thread.join()


def refused_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_refused_connection_is_tried_again_but_not_by_the_check():
    settings = {"endpoint": f"http://127.0.0.1:{refused_port()}/v1", "model": "m", "backoff": 0.001}
    endpoint = ChatEndpoint(GeneratorSettings(attempts=3, **settings))
    with pytest.raises(QuestionError, match=r"connection refused \(attempt 3 of 3\)"):
        endpoint.complete("q")
    assert endpoint.requests == 3
    with pytest.raises(RunError, match="gave no answer: connection refused; start the server"):
        endpoint.check()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>hello</html>", "answered '<html>hello</html>': no JSON"),
        (b"", "answered nothing: no JSON"),
        (b"[1]", "list where an object was needed"),
        (b"[" * 100_000, "no JSON"),
        ({"choices": []}, r"choices\[0\].message.content is missing \(IndexError"),
        ({"text": "x"}, r"missing \(KeyError\('choices'\)"),
        ({"choices": [{"text": "x"}]}, r"missing \(KeyError\('message'\)"),
        ({"choices": ["x"]}, r"missing \(TypeError"),
        ({"choices": [{"message": {"content": 5}}]}, "content is int, no text"),
        (b"\xff\xfe\x00", "no JSON"),
    ],
)
def test_garbage_is_named_and_never_asked_for_again(content, message):
    with serving(lambda *_: (200, {}, content)) as s, pytest.raises(RunError, match=message):
        ask(s)
    assert s.asked["who wrote Emma?"] == 1


@pytest.mark.parametrize("usage", [None, 5, {}, {"prompt_tokens": "20"}, {"prompt_tokens": True}])
def test_usage_that_is_no_count_is_unknown(usage):
    content = completion("x")[2] | {"usage": usage}
    with serving(lambda *_: (200, {}, content)) as s:
        assert ask(s) == Completion("x", "stop", None, None)


def test_an_answer_of_null_is_empty_and_half_a_surrogate_is_replaced():
    with serving(lambda *_: (200, {}, {"choices": [{"message": {"content": None}}]})) as s:
        assert ask(s) == Completion("", None, None, None)
    body = rb'{"choices": [{"message": {"content": "a\ud800"}}]}'
    with serving(lambda *_: (200, {}, body)) as s:
        assert ask(s).answer == "a?"


def test_a_reply_without_end_is_cut_off():
    wanted = pytest.raises(RunError, match="more than 16 MiB")
    with serving(lambda *_: (200, {}, b"x" * (17 * 2**20))) as s, wanted:
        ask(s)


def test_no_attempt_is_made_after_the_stop():
    stop = threading.Event()
    stop.set()
    wanted = pytest.raises(QuestionError, match="attempt 1 of 3")
    with serving(lambda *_: failure(500)) as s, wanted:
        ChatEndpoint(s.settings(backoff=60.0)).complete("q", stop)
    assert s.asked["q"] == 1
