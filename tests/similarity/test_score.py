"""The score as it is saved with a model: what it accepts, refuses, and writes."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from magjax.checks import InputError
from magjax.similarity import PRESETS, VARIANTS, Score, scores


def test_presets_and_variants():
    assert VARIANTS == ("cosine", "dot", "qnorm", "dnorm", "learnable")
    assert PRESETS == {"cosine": (1, 1), "dot": (0, 0), "qnorm": (1, 0), "dnorm": (0, 1)}
    for name, gammas in PRESETS.items():
        score = Score.of(name)
        assert score.gammas == gammas
        assert score.temperature is None
    assert {name for name in PRESETS if Score.of(name).is_symmetric} == {"cosine", "dot"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("qnorm", Score.of("qnorm")),
        (" dnorm ", Score.of("dnorm")),
        ("1,0", Score.of("qnorm")),
        ("0.5,0.25", Score("power", 0.5, 0.25)),
        ("0.5, 1", Score("power", 0.5, 1.0)),
    ],
)
def test_parse(text, expected):
    assert Score.parse(text) == expected


@pytest.mark.parametrize("text", ["", "qnrom", "1", "1,2,3", "a,b", "1,1.5", "nan,0", "learnable"])
def test_parse_refuses(text):
    with pytest.raises(InputError):
        Score.parse(text)


def test_learned_powers_need_no_preset_and_presets_keep_theirs():
    score = Score("learnable", 0.31, 0.77, 0.05)
    assert str(score) == "learnable (gamma_query=0.31, gamma_document=0.77, temperature=0.05)"
    with pytest.raises(InputError, match="score 'cosine' has powers"):
        Score("cosine", 1.0, 0.0)
    with pytest.raises(InputError, match=r"unknown score 'qnrom'.*Did you mean 'qnorm'"):
        Score.of("qnrom")
    with pytest.raises(InputError, match="temperature"):
        Score.of("dot", -1.0)
    with pytest.raises(InputError, match="gamma_query"):
        Score("power", 1.5, 0.0)


def test_json_is_exact_there_and_back():
    for score in [Score.of("qnorm", 0.05), Score("learnable", 0.1 + 0.2, 1 / 3, None)]:
        assert Score.from_json(json.loads(json.dumps(score.to_json()))) == score


@pytest.mark.parametrize(
    "change",
    [
        {"variant": "qnrom"},
        {"variant": 3},
        {"gamma_query": 0.5},
        {"gamma_document": "0"},
        {"gamma_document": None},
        {"gamma_document": True},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"temperature": "0.05"},
        {"extra": 1},
    ],
)
def test_json_with_a_wrong_field_is_refused(change):
    with pytest.raises(InputError):
        Score.from_json(Score.of("qnorm", 0.05).to_json() | change)


def test_json_of_another_shape_is_refused():
    value = Score.of("qnorm").to_json()
    del value["temperature"]
    for wrong in [value, None, "qnorm", [1, 0]]:
        with pytest.raises(InputError, match="needs exactly the fields"):
            Score.from_json(wrong)
    assert Score.from_json(Score.of("qnorm").to_json() | {"gamma_query": 1}) == Score.of("qnorm")


def test_normalize_uses_the_power_of_its_side():
    x = jnp.array([[3.0, 4.0]])
    score = Score.of("qnorm")
    np.testing.assert_allclose(score.normalize(x, "query"), [[0.6, 0.8]], rtol=1e-6)
    assert score.normalize(x, "document") is x
    q, d = score.normalize(x, "query"), score.normalize(2 * x, "document")
    expected = scores(x, 2 * x, gamma_query=1.0, gamma_document=0.0)
    np.testing.assert_allclose(q @ d.T, expected, rtol=1e-6)


def test_same_ranking_and_agreement():
    assert Score.of("dot").same_ranking_as(Score.of("qnorm"))
    assert not Score.of("dot").same_ranking_as(Score.of("dnorm"))
    learned = Score("learnable", 0.3, 0.7, 0.05)
    assert learned.agrees_with(Score("power", 0.3, 0.7))
    assert learned.agrees_with(Score("power", 0.3 + 1e-8, 0.7, 0.05))
    assert not learned.agrees_with(Score("power", 0.3, 0.7, 0.06))
    assert not learned.agrees_with(Score("power", 0.31, 0.7))
