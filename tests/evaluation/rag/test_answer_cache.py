import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from magjax.checks import InputError, RunError
from magjax.evaluation.rag import AnswerCache, Completion, GeneratorSettings
from magjax.evaluation.rag._settings import request_key

SETTINGS = GeneratorSettings(endpoint="http://localhost:9/v1", model="tiny")


def key(prompt, **changes):
    settings = {"endpoint": "http://localhost:9/v1", "model": "tiny"} | changes
    return request_key(GeneratorSettings(**settings).request(prompt))


def test_an_answer_comes_back_with_all_that_was_said_of_it(tmp_path):
    answers = {
        "q1": Completion("Jané \0 Austen 中", "stop", 20, 3),
        "q2": Completion("", None, None, None),
    }
    with AnswerCache(tmp_path / "deep" / "answers.sqlite") as cache:
        for prompt, answer in answers.items():
            assert cache.put(SETTINGS.request(prompt), answer) == answer
    with AnswerCache(tmp_path / "deep" / "answers.sqlite") as cache:
        found = cache.find([key("q1"), key("q2"), key("q3")])
        assert found == {key("q1"): answers["q1"], key("q2"): answers["q2"]}
        assert len(cache) == 2


def test_the_first_answer_is_kept(tmp_path):
    with AnswerCache(tmp_path / "a.sqlite") as cache, AnswerCache(tmp_path / "a.sqlite") as other:
        assert cache.put(SETTINGS.request("q"), Completion("first")).answer == "first"
        assert other.put(SETTINGS.request("q"), Completion("second")).answer == "first"


@pytest.mark.parametrize(
    "change",
    [{"model": "other"}, {"max_tokens": 5}, {"temperature": 0.5}, {"seed": 1}, {"seed": None}],
)
def test_all_that_an_answer_depends_on_is_in_the_key(change):
    assert key("q") != key("q", **change)
    assert key("q") != key("Q")


@pytest.mark.parametrize(
    "change", [{"endpoint": "https://elsewhere/v1"}, {"timeout": 1.0}, {"api_key_env": "NAME"}]
)
def test_where_and_how_it_was_asked_is_not(change):
    assert key("q") == key("q", **change)


def test_many_writers_at_once_lose_nothing(tmp_path):
    """Eight connections that open and write together, as eight processes would."""

    def write(writer):
        with AnswerCache(tmp_path / "a.sqlite") as cache:
            for i in range(10):
                cache.put(SETTINGS.request(f"{writer}-{i}"), Completion(f"{writer}-{i}"))
                cache.put(SETTINGS.request(f"shared-{i}"), Completion(f"{writer}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        assert len(cache) == 90
        names = [f"{writer}-{i}" for writer in range(8) for i in range(10)]
        found = cache.find(map(key, names))
        assert [found[key(name)].answer for name in names] == names


def test_opening_waits_for_one_who_makes_the_same_file(tmp_path):
    """SQLite does not wait here by itself: entering write-ahead mode fails at once."""
    other = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE t (x)")
    release = threading.Timer(0.2, other.execute, ["ROLLBACK"])
    release.start()
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        assert cache.put(SETTINGS.request("q"), Completion("x")).answer == "x"
    release.join()
    other.close()


def test_more_keys_than_a_statement_may_hold(tmp_path):
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        cache.put(SETTINGS.request("1999"), Completion("x"))
        assert list(cache.find([key(str(i)) for i in range(2000)])) == [key("1999")]


def test_what_is_no_cache_is_refused(tmp_path):
    (tmp_path / "text").write_text("no database, but long enough to be taken for one " * 20)
    with pytest.raises(
        InputError, match=r"text cannot be used as a cache of answers \(file is not a"
    ):
        AnswerCache(tmp_path / "text")
    with pytest.raises(InputError, match="cannot be used as a cache"):
        AnswerCache(tmp_path)
    with pytest.raises(InputError, match="cannot be used as a cache"):
        AnswerCache(tmp_path / "text" / "below.sqlite")
    for name, statement in (("other", "CREATE TABLE t (x)"), ("newer", "PRAGMA user_version = 2")):
        connection = sqlite3.connect(tmp_path / name)
        connection.execute(statement)
        connection.commit()
        connection.close()
        with pytest.raises(InputError, match="of another kind or of a newer magjax"):
            AnswerCache(tmp_path / name)
    tables = sqlite3.connect(tmp_path / "other")
    assert tables.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
    tables.close()


def test_a_disk_that_is_full_stops_the_run_and_loses_no_answer(tmp_path):
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        cache.put(SETTINGS.request("kept"), Completion("x"))
        (pages,) = cache._connection.execute("PRAGMA page_count").fetchone()
        cache._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(RunError, match=r"could not be kept \(database or disk is full\)"):
            cache.put(SETTINGS.request("long"), Completion("x" * 100_000))
        assert cache.put(SETTINGS.request("kept"), Completion("y")).answer == "x"
