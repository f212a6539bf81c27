"""The adviser on measurements made by hand, whose answers are known."""

import json
import math

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.fisher import Advice, Measurement, Norms, advise, dense_spectrum, intervals_by_variant
from magjax.similarity import Score

SPECTRUM = dense_spectrum(np.diag([3.0, 2.0, 1.0]))
VARYING = {"query": Norms("query", 2.0, 0.5), "document": Norms("document", 2.0, 0.4)}
# Student's t of 3 values at 95 %: m - s, m, m + s have the interval m ± WIDTH s.
WIDTH = 4.302652729911275 / math.sqrt(3)


def measured(variant, values, *, space="document", name="effective_rank"):
    """One measurement a batch, with one measure."""
    score = Score.power(*Score.parse(variant).gammas, 0.1)
    return [
        Measurement(space, "ggn", score, batch, 4, SPECTRUM, {name: value}, {}, ())
        for batch, value in enumerate(values)
    ]


def around(mean, half=0.1):
    """Three batches whose interval is ``mean`` ± ``half``."""
    return [mean - half / WIDTH, float(mean), mean + half / WIDTH]


def ask(table, *, name="effective_rank", space="document", task="asymmetric", norms=None, **more):
    items = [
        item
        for variant, values in table.items()
        for item in measured(variant, values, space=space, name=name)
    ]
    norms = VARYING if norms is None else norms
    return advise(items, norms, task=task, measure=f"{space}|{name}", **more)


def test_a_variant_whose_interval_lies_apart_is_recommended():
    table = {"cosine": around(5), "dot": around(6), "qnorm": around(8), "dnorm": around(7)}
    found = ask(table)
    assert (found.recommended, found.verdict) == ("qnorm", "qnorm")
    assert found.contenders == ("qnorm",)
    assert (found.query, found.document) == ("normalize", "keep the length")
    assert found.measure == "document|effective_rank"
    assert found.warnings == ()
    assert list(found.intervals) == list(table)
    assert found.intervals["qnorm"].low == pytest.approx(7.9)
    assert found.intervals["qnorm"].high == pytest.approx(8.1)
    assert "high is better" in found.reason
    assert "qnorm at 8 [7.9, 8.1] lies apart from dnorm 7 [6.9, 7.1]" in found.reason


def test_a_measure_that_is_better_low_recommends_the_lowest():
    table = {"cosine": around(5), "dot": around(6), "dnorm": around(7)}
    found = ask(table, name="kappa_rank")
    assert found.recommended == "cosine"
    assert (found.query, found.document) == ("normalize", "normalize")
    assert "low is better" in found.reason


@pytest.mark.parametrize(("distance", "recommended"), [(0.202, "dot"), (0.198, None)])
def test_the_ends_of_the_intervals_decide(distance, recommended):
    assert ask({"cosine": around(5), "dot": around(5 + distance)}).recommended == recommended


def test_a_lower_confidence_separates_more():
    table = {"cosine": around(5), "dot": around(5.1)}
    assert ask(table).recommended is None
    found = ask(table, confidence=0.6)
    assert found.recommended == "dot"
    assert found.confidence == 0.6
    assert found.intervals["dot"].confidence == 0.6


def test_contenders_that_agree_on_a_side_decide_that_side():
    table = {"cosine": around(7), "dot": around(5), "qnorm": around(4), "dnorm": around(7.05)}
    found = ask(table)
    assert found.recommended is None
    assert found.contenders == ("dnorm", "cosine")
    assert found.verdict == "undecided between dnorm and cosine"
    assert (found.query, found.document) == ("undecided", "normalize")
    assert "intervals overlap: dnorm 7.05 [6.95, 7.15], cosine 7 [6.9, 7.1]" in found.reason
    assert "qnorm" not in found.reason


def test_contenders_overlap_with_the_best_and_not_only_with_each_other():
    found = ask({"cosine": around(5), "dot": around(4.85), "qnorm": around(4.7)})
    assert found.contenders == ("cosine", "dot")
    assert (found.query, found.document) == ("undecided", "undecided")


def test_powers_between_are_named_as_such():
    found = ask({"0.5,1": around(5), "0.5,0": around(5)})
    assert (found.query, found.document) == ("power 0.5", "undecided")


def test_only_the_space_asked_for_counts():
    items = [
        *measured("cosine", around(9), space="query"),
        *measured("dot", around(2), space="query"),
        *measured("cosine", around(2)),
        *measured("dot", around(9)),
    ]
    found = [
        advise(items, VARYING, task="asymmetric", measure=f"{side}|effective_rank")
        for side in ("query", "document")
    ]
    assert [advice.recommended for advice in found] == ["cosine", "dot"]
    assert "query side's embeddings" in found[0].reason
    block = ask({"cosine": around(9), "dot": around(2)}, space="last_block")
    assert "parameters last_block" in block.reason


def test_one_batch_has_no_spread_and_decides_nothing():
    found = ask({"cosine": [5.0], "dot": [50.0]})
    assert found.recommended is None
    assert found.contenders == ("dot", "cosine")
    assert "One batch has no spread" in found.reason
    assert "fisher.batches" in found.reason
    assert "fisher.parameter_batches" in found.reason


def test_infinity_everywhere_asks_for_a_regular_measure():
    found = ask({"cosine": [math.inf] * 3, "dot": [math.inf] * 3}, name="kappa")
    assert found.recommended is None
    assert found.contenders == ("cosine", "dot")
    assert "infinite for every variant; choose a regular measure" in found.reason


def test_infinite_variants_lose_to_finite_ones():
    table = {"cosine": [math.inf] * 3, "dot": around(6), "qnorm": [4.0, math.inf, 4.0]}
    found = ask(table, name="kappa")
    assert found.recommended == "dot"
    assert "lies apart from cosine infinite, qnorm infinite" in found.reason
    both = ask({**table, "dnorm": around(6.1)}, name="kappa")
    assert both.contenders == ("dot", "dnorm")
    assert (both.query, both.document) == ("keep the length", "undecided")


def test_an_unknown_value_of_one_batch_decides_nothing():
    found = ask({"cosine": around(5), "dot": [9.0, None, 9.0], "qnorm": [None] * 3})
    assert found.recommended is None
    assert "is not known for dot, qnorm" in found.reason
    assert list(found.intervals) == ["cosine"]


def test_a_symmetric_task_never_names_a_one_sided_score():
    table = {"cosine": around(5), "dot": around(4), "qnorm": around(9), "dnorm": around(8)}
    assert ask(table).recommended == "qnorm"
    found = ask(table, task="symmetric")
    assert found.recommended == "cosine"
    assert list(found.intervals) == ["cosine", "dot"]
    assert "one-sided scores were left out" in found.reason
    close = ask({**table, "dot": around(5.1), "0.5,0.5": around(5)}, task="symmetric")
    assert close.contenders == ("dot", "cosine", "0.5,0.5")
    alone = ask({"qnorm": around(9), "dot": around(4)}, task="symmetric")
    assert alone.recommended == "dot"
    assert "dot is the only symmetric variant measured" in alone.reason


def test_a_symmetric_task_needs_a_symmetric_score():
    with pytest.raises(InputError, match=r"one-sided; add cosine or dot to fisher\.variants"):
        ask({"qnorm": around(5), "dnorm": around(6)}, task="symmetric")


def test_one_variant_is_named_as_the_only_one():
    found = ask({"dnorm": around(5)}, task="asymmetric")
    assert found.recommended == "dnorm"
    assert found.reason == "dnorm is the only variant measured."


def test_constant_lengths_leave_nothing_to_choose():
    """Whatever the intervals: all variants are one score up to the temperature."""
    flat = {side: Norms(side, 4.0, 1e-3) for side in ("query", "document")}
    found = ask({"cosine": around(5), "dot": around(9)}, norms=flat)
    assert found.recommended is None
    assert found.contenders == ("cosine", "dot")
    assert "lengths of both sides are constant" in found.reason
    assert len(found.warnings) == 2


def test_constant_lengths_of_one_side_are_a_warning():
    norms = {"query": Norms("query", 4.0, 1e-3), "document": VARYING["document"]}
    found = ask({"cosine": around(5), "dot": around(9)}, norms=norms)
    assert found.recommended == "dot"
    (warning,) = found.warnings
    assert "length of query embeddings hardly varies" in warning
    assert "0.00025" in warning
    almost = {**norms, "query": Norms("query", 4.0, 5e-3)}
    assert ask({"cosine": around(5), "dot": around(9)}, norms=almost).warnings == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "asymetric"}, "Did you mean 'asymmetric'"),
        ({"measure": "document|efective_rank"}, "Did you mean 'effective_rank'"),
        ({"measure": "effective_rank"}, r"must be SPACE\|MEASURE, as document\|effective_rank"),
        ({"measure": "query|effective_rank"}, r"space 'query'; .*fisher\.spaces.*: document\."),
        ({"confidence": 1.0}, "confidence=1.0 must be below 1"),
    ],
)
def test_wrong_questions_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        advise(
            measured("dot", around(5)),
            VARYING,
            **{"task": "asymmetric", "measure": "document|effective_rank", **settings},
        )


def test_advice_is_valid_json():
    found = ask({"cosine": [math.inf] * 3, "dot": around(6)}, name="kappa")
    read = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert read["verdict"] == read["recommended"] == "dot"
    assert read["intervals"]["cosine"]["mean"] == "infinite"
    assert read["intervals"]["dot"]["low"] == pytest.approx(5.9)
    assert {"contenders", "query", "document", "reason", "measure", "warnings"} <= set(read)
    unknown = ask({"cosine": [None] * 3, "dot": [2.0]})
    assert json.loads(json.dumps(unknown.to_json(), allow_nan=False))["recommended"] is None


def test_a_verdict_names_all_contenders():
    advice = Advice(None, ("dot", "qnorm", "dnorm"), "", "", "", "", {})
    assert advice.verdict == "undecided between dot, qnorm and dnorm"
    assert Advice(None, ("dot",), "", "", "", "", {}).verdict == "undecided"
    assert Advice(None, (), "", "", "", "", {}).verdict == "undecided"


def test_intervals_are_those_of_each_variants_batches():
    items = [*measured("dot", [1.0, 2.0, 4.5]), *measured("0.5,0", [2.0, None])]
    found = intervals_by_variant(items, "document", "effective_rank", confidence=0.9)
    assert list(found) == ["dot", "0.5,0"]
    assert found["0.5,0"] is None
    values = np.array([1.0, 2.0, 4.5])
    half = 2.919985580353726 * values.std(ddof=1) / math.sqrt(3)  # Student's t, 2 degrees, 95 %
    assert found["dot"].mean == pytest.approx(2.5)
    assert found["dot"].high - found["dot"].low == pytest.approx(2 * half)
    assert intervals_by_variant(items, "document", "kappa") == {"dot": None, "0.5,0": None}
