"""Many questions: the cache first, never too many at once, and a run that goes on after a kill."""

import logging
import signal
import sqlite3
import subprocess
import sys
from collections import Counter

import pytest
from chat_server import completion, failure, serving, wait_until

from magjax.checks import InputError, RunError
from magjax.evaluation.rag import (
    AnswerCache,
    GeneratedAnswers,
    TokenPrices,
    evaluate_answers,
    generate_answers,
)

PROMPTS = {f"q{i}": f"question {i}" for i in range(12)}


def echo(prompt, _):
    return completion(f"answer to {prompt}", prompt_tokens=10, completion_tokens=4)


@pytest.fixture
def cache(tmp_path):
    with AnswerCache(tmp_path / "answers.sqlite") as opened:
        yield opened


def test_every_question_gets_its_own_answer_and_the_tokens_are_counted(cache):
    with serving(echo) as s:
        found = generate_answers(PROMPTS, s.settings(), cache=cache)
    assert found.answers == {name: f"answer to {prompt}" for name, prompt in PROMPTS.items()}
    assert list(found.answers) == list(PROMPTS)
    assert (found.asked, found.cached, found.requests) == (12, 0, 12)
    assert (found.prompt_tokens, found.completion_tokens, found.uncounted) == (120, 48, 0)
    prices = TokenPrices(prompt=1.0, completion=100.0)
    assert found.to_json(prices)["cost"] == pytest.approx((120 * 1.0 + 48 * 100.0) / 1e6)
    assert found.to_json()["cost"] is None
    assert "120 prompt and 48 completion tokens, cost 0.0049." in found.describe(prices)


def test_a_second_run_asks_only_for_what_is_missing(cache):
    with serving(echo) as s:
        generate_answers(dict(list(PROMPTS.items())[:5]), s.settings(), cache=cache)
        again = generate_answers(PROMPTS, s.settings(), cache=cache)
        assert (again.asked, again.cached, again.requests) == (7, 5, 7)
        assert again.prompt_tokens == 70  # only what this run paid for
        third = generate_answers(PROMPTS, s.settings(), cache=cache)
        assert (third.asked, third.cached, third.requests) == (0, 12, 0)
        assert third.answers == again.answers
    assert s.asked == Counter(PROMPTS.values())


def test_no_more_than_the_limit_are_on_their_way(cache):
    with serving(echo, delay=0.03) as s:
        generate_answers(PROMPTS, s.settings(concurrency=3), cache=cache)
        assert s.most_at_once == 3


def test_equal_prompts_are_asked_once(cache):
    with serving(echo) as s:
        prompts = {"a": "same", "b": "same", "c": "other"}
        found = generate_answers(prompts, s.settings(), cache=cache)
    assert s.asked == {"same": 1, "other": 1}
    assert found.answers["a"] == found.answers["b"] == "answer to same"
    assert (found.asked, found.prompt_tokens) == (3, 20)


def test_questions_that_fail_are_listed_and_the_others_measured(cache):
    def answer(prompt, _):
        if prompt == "question 3":
            return failure(500, "boom")
        return failure(400, "too long") if prompt == "question 5" else echo(prompt, 1)

    with serving(answer) as s:
        found = generate_answers(PROMPTS, s.settings(), cache=cache)
    assert found.failures == {
        "q3": "HTTP 500: boom (attempt 3 of 3)",
        "q5": "HTTP 400: too long",
    }
    assert len(found.answers) == found.asked == 10
    assert found.requests == 10 + 3 + 1
    assert "2 failed and are left out: q3, q5 (the first: HTTP 500: boom" in found.describe()
    measured = evaluate_answers(
        found.answers, {name: [f"answer to {p}"] for name, p in PROMPTS.items()}
    )
    assert measured.mean == {"exact_match": 1.0, "f1": 1.0}
    assert measured.counts == {"queries": 10, "missing": 2, "unjudged": 0}
    with serving(echo) as s:  # failures are not kept: they are asked again
        assert generate_answers(PROMPTS, s.settings(), cache=cache).asked == 2


def test_a_dead_endpoint_stops_the_run_and_answers_so_far_stay(cache):
    def answer(prompt, _):
        return echo(prompt, 1) if int(prompt.split()[1]) < 4 else failure(502, "gone")

    with serving(answer) as s:
        settings = s.settings(concurrency=1, give_up_after=3, attempts=1)
        with pytest.raises(
            RunError, match=r"no answer to 3 questions in a row \(the last: HTTP 502"
        ):
            generate_answers(PROMPTS, settings, cache=cache)
        assert len(s.bodies) < 12
    assert len(cache) == 4


def test_nothing_but_failures_is_an_error(cache):
    wanted = pytest.raises(RunError, match="unknown parameter seed")
    with serving(lambda *_: failure(400, "unknown parameter seed")) as s, wanted:
        generate_answers(PROMPTS, s.settings(), cache=cache)


def test_a_run_with_only_refused_questions_left_comes_to_its_end(cache):
    def answer(prompt, _):
        return echo(prompt, 1) if prompt == "question 0" else failure(400, "filtered")

    with serving(answer) as s:
        for cached in (0, 1):
            found = generate_answers(
                PROMPTS, s.settings(give_up_after=5, concurrency=1), cache=cache
            )
            assert (len(found.answers), len(found.failures), found.cached) == (1, 11, cached)


@pytest.mark.parametrize("reply", [failure(401, "no"), (200, {}, b"garbage")])
def test_what_concerns_all_questions_stops_at_the_first(cache, reply):
    with serving(lambda *_: reply) as s:
        with pytest.raises(RunError, match=r"HTTP 401: no|no JSON"):
            generate_answers(PROMPTS, s.settings(concurrency=1), cache=cache)
        assert len(s.bodies) < 12
    assert not len(cache)


def test_offline_uses_the_cache_alone(cache):
    with serving(echo) as s:
        settings = s.settings()
        generate_answers({"q0": PROMPTS["q0"]}, settings, cache=cache)
    found = generate_answers({"q0": PROMPTS["q0"]}, settings, cache=cache, offline=True)
    assert found.answers == {"q0": "answer to question 0"}
    with pytest.raises(InputError, match="lacks the answers to 11 of 12 prompts"):
        generate_answers(PROMPTS, settings, cache=cache, offline=True)


def test_progress_is_told(cache):
    told = []
    with serving(echo) as s:
        generate_answers({"q0": PROMPTS["q0"]}, s.settings(), cache=cache)
        generate_answers(PROMPTS, s.settings(), cache=cache, progress=lambda *x: told.append(x))
    assert told == [(done, 12) for done in range(2, 13)]


def test_neither_cache_nor_log_holds_the_key(tmp_path, monkeypatch, caplog):
    key = "sk-secret-0123456789"
    monkeypatch.setenv("TEST_GENERATOR_KEY", key)
    opened = AnswerCache(tmp_path / "a.sqlite")
    with caplog.at_level(logging.DEBUG), serving(echo) as s, opened as cache:
        settings = s.settings(api_key_env="TEST_GENERATOR_KEY")
        found = generate_answers(PROMPTS, settings, cache=cache)
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert s.headers[0]["Authorization"] == f"Bearer {key}"
    assert b"question 3" in files
    assert key.encode() not in files
    assert key not in caplog.text + repr(found) + str(found.to_json())


KILLED = """
import sys
from magjax.evaluation.rag import AnswerCache, GeneratorSettings, generate_answers
endpoint, path, count = sys.argv[1:]
settings = GeneratorSettings(endpoint=endpoint, model="tiny", concurrency=2)
with AnswerCache(path) as cache:
    generate_answers({f"q{i}": f"question {i}" for i in range(int(count))}, settings, cache=cache)
"""


def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path):
    prompts = {f"q{i}": f"question {i}" for i in range(60)}
    path = tmp_path / "answers.sqlite"
    with serving(echo, delay=0.02) as s:
        command = [sys.executable, "-c", KILLED, s.endpoint, str(path), "60"]
        process = subprocess.Popen(command)
        try:
            wait_until(lambda: len(s.bodies) >= 15 or process.poll() is not None)
        finally:
            process.kill()
            assert process.wait() == -signal.SIGKILL
        wait_until(lambda: s.at_once == 0)
        before = len(s.bodies)
        assert before < 60
        database = sqlite3.connect(path)
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (kept,) = database.execute("SELECT COUNT(*) FROM answers").fetchone()
        database.close()
        assert before - 2 <= kept <= before  # two were on their way
        with AnswerCache(path) as cache:
            found = generate_answers(prompts, s.settings(), cache=cache)
    assert found.answers == {name: f"answer to {prompt}" for name, prompt in prompts.items()}
    assert (found.cached, found.asked) == (kept, 60 - kept)
    assert sum(s.asked.values()) == before + 60 - kept
    assert len(s.asked) == 60


def test_measures_count_what_they_leave_out():
    answers = {"q1": ["Jane Austen"], "q2": ["no"], "q3": ["1815"]}
    found = evaluate_answers({"q1": "Austen", "q2": "No.", "q9": "x"}, answers)
    assert found.per_query["q2"] == {"exact_match": 1.0, "f1": 1.0}
    assert found.mean == {"exact_match": 0.5, "f1": pytest.approx((2 / 3 + 1) / 2)}
    assert found.counts == {"queries": 2, "missing": 1, "unjudged": 1}
    with pytest.raises(InputError, match="none of the 3 questions has a generated answer"):
        evaluate_answers({}, answers)


def test_prices_below_zero_are_refused():
    with pytest.raises(InputError, match="price of prompt tokens"):
        TokenPrices(prompt=-1.0, completion=0.0)


def test_what_was_cut_or_not_counted_is_said(cache):
    content = completion("x")[2]
    content["choices"][0]["finish_reason"] = "length"
    with serving(lambda *_: (200, {}, content)) as s:
        found = generate_answers({"q": "p"}, s.settings(), cache=cache)
    assert found.to_json()["cut"] == found.uncounted == 1
    assert "stated no usage of 1. 1 ended at max_tokens." in found.describe()
    assert GeneratedAnswers({}, {}).describe().startswith("0 answers")
