"""The adviser's score on toy grids whose answers are known."""

import dataclasses
import json
import math
import random
from fractions import Fraction
from math import comb

import pytest

from magjax.checks import InputError
from magjax.fisher._scoring import Cell, format_scores, score_adviser

VARIANTS = ("cosine", "dot", "qnorm", "dnorm")
PREFER = {"kappa": "low", "effective_rank": "high"}
KAPPA = "query|ggn|kappa"


def naming(variant, best=1.0, others=2.0):
    return {name: best if name == variant else others for name in VARIANTS}


def grid(winners, names, definition=KAPPA):
    return [
        Cell(f"cell {i}", winner, {definition: naming(name) if name else {}})
        for i, (winner, name) in enumerate(zip(winners, names, strict=True))
    ]


def score_one(cells, variants=VARIANTS, **settings):
    (score,) = score_adviser(cells, variants=variants, prefer=PREFER, **settings)
    return score


def at_least(hits, count, rate):
    """The binomial tail, summed exactly."""
    rate = Fraction(rate)
    return float(
        sum(comb(count, k) * rate**k * (1 - rate) ** (count - k) for k in range(hits, count + 1))
    )


def test_a_definition_that_always_names_the_winner():
    winners = ["dot", "qnorm", "dnorm", "cosine"] * 3
    score = score_one(grid(winners, winners))
    assert (score.hits, score.judged, score.abstentions) == (12, 12, 0)
    assert (score.hit_rate, score.base_rate, score.chance) == (1.0, 0.25, 0.25)
    assert score.p_value == pytest.approx(0.25**12)
    assert score.p_corrected == score.p_value
    assert score.verdict == "better than the base rate"
    # Clopper-Pearson without a miss: (alpha / 2) ** (1 / n) to 1.
    assert score.low == pytest.approx(0.025 ** (1 / 12))
    assert score.high == 1.0


def test_a_definition_that_never_names_the_winner():
    winners = ["dot", "qnorm", "dnorm", "dot"]
    score = score_one(grid(winners, ["qnorm", "dnorm", "dot", "cosine"]))
    assert (score.hits, score.hit_rate, score.p_value) == (0, 0.0, 1.0)
    assert (score.low, score.verdict) == (0.0, "not better")
    assert score.high == pytest.approx(1.0 - 0.025 ** (1 / 4))


def test_definitions_that_name_by_chance_are_rarely_called_better():
    rng = random.Random(0)
    better = 0
    for _ in range(300):
        winners = [rng.choice(VARIANTS) for _ in range(12)]
        score = score_one(grid(winners, [rng.choice(VARIANTS) for _ in winners]))
        better += score.verdict == "better than the base rate"
    assert better <= 0.05 * 300


def test_a_bias_for_the_commonest_winner_is_no_better_than_the_base_rate():
    winners = ["dot"] * 7 + ["qnorm"] * 3
    score = score_one(grid(winners, ["dot"] * 10))
    assert (score.hit_rate, score.base_rate, score.commonest) == (0.7, 0.7, "dot")
    assert score.p_value == pytest.approx(at_least(7, 10, 0.7))
    assert score.verdict == "not better"


def test_one_variant_that_wins_all_leaves_nothing_to_judge():
    score = score_one(grid(["dot"] * 9, ["dot"] * 9))
    assert (score.hit_rate, score.base_rate) == (1.0, 1.0)
    assert (score.p_value, score.p_corrected) == (None, None)
    assert score.verdict == "cannot be judged"


def test_a_single_cell_or_none_leaves_nothing_to_judge():
    assert score_one(grid(["dot"], ["qnorm"])).verdict == "cannot be judged"
    empty = score_one(grid([None, "dot"], ["qnorm", None]))
    assert (empty.judged, empty.hit_rate, empty.low, empty.base_rate) == (0, None, None, None)
    assert (empty.commonest, empty.verdict) == (None, "cannot be judged")
    assert score_adviser([], variants=VARIANTS, prefer=PREFER) == []


def test_numbers_by_hand():
    winners = ["dot", "dot", "qnorm", "dnorm", "dot", None, "power"]
    names = ["dot", "qnorm", "qnorm", "dnorm", None, "dot", "dot"]
    score = score_one(grid(winners, names))
    assert (score.hits, score.judged, score.abstentions) == (3, 4, 1)
    assert (score.undecided, score.outside) == (1, 1)
    assert (score.hit_rate, score.base_rate) == (0.75, 0.5)  # dot won 2 of the 4 judged cells
    assert score.p_value == pytest.approx(5 / 16)  # (4 + 1) / 2**4
    # Clopper-Pearson for 3 of 4, from tables: 0.1941 to 0.9937.
    assert (score.low, score.high) == pytest.approx((0.1941, 0.9937), abs=1e-4)
    assert score.named["cell 1"] == "qnorm"
    assert score.named["cell 4"] is None
    assert set(score.named) == {f"cell {i}" for i in range(5)}


@pytest.mark.parametrize(
    ("values", "definition", "named"),
    [
        ({"cosine": 3.0, "dot": 1.0, "qnorm": 2.0}, KAPPA, "dot"),
        ({"cosine": 3.0, "dot": 1.0, "qnorm": 2.0}, "all|ggn|effective_rank", "cosine"),
        ({"cosine": math.inf, "dot": 1e300, "qnorm": math.inf}, KAPPA, "dot"),
        ({"cosine": math.inf, "dot": math.inf}, KAPPA, None),
        ({"cosine": math.inf, "dot": 5.0}, "all|ggn|effective_rank", "cosine"),
        ({"cosine": 2.0, "dot": 2.0, "qnorm": 5.0}, KAPPA, None),
        ({"cosine": 2.0, "dot": 2.0 * (1 + 1e-13), "qnorm": 5.0}, KAPPA, None),
        ({"cosine": 2.0, "dot": 2.0 * (1 + 1e-6), "qnorm": 5.0}, KAPPA, "cosine"),
        ({"cosine": 5.0, "dot": 5.0, "qnorm": 2.0}, KAPPA, "qnorm"),
        ({"cosine": None, "dot": 4.0, "qnorm": 3.0}, KAPPA, "qnorm"),
        ({"cosine": math.nan, "dot": 4.0, "qnorm": 3.0}, KAPPA, "qnorm"),
        ({"cosine": None, "dot": 4.0}, KAPPA, None),
        ({"cosine": None, "dot": None}, KAPPA, None),
        ({"power": 1.0, "dot": 4.0, "qnorm": 3.0}, KAPPA, "qnorm"),
        ({}, KAPPA, None),
    ],
)
def test_what_is_named(values, definition, named):
    score = score_one([Cell("a", "dot", {definition: values})])
    assert score.named == {"a": named}
    assert score.abstentions == (named is None)


def test_a_definition_that_a_cell_lacks_abstains_there():
    cells = [
        Cell("a", "dot", {KAPPA: naming("dot")}),
        Cell("b", "dot", {"document|ggn|kappa": naming("dot")}),
    ]
    scores = score_adviser(cells, variants=VARIANTS, prefer=PREFER)
    assert [(s.definition, s.hits, s.abstentions) for s in scores] == [
        ("document|ggn|kappa", 1, 1),
        (KAPPA, 1, 1),
    ]


def test_a_contest_of_fewer_variants_leaves_out_the_others():
    winners, names = ["dot", "qnorm", "cosine", "dot"], ["dot", "qnorm", "cosine", "cosine"]
    score = score_one(grid(winners, names), variants=("qnorm", "dot"))
    assert (score.judged, score.outside, score.abstentions) == (2, 1, 1)
    assert (score.hit_rate, score.chance) == (1.0, 0.5)


def test_holm_corrects_for_the_number_of_definitions():
    winners = ["dot", "qnorm", "dnorm", "cosine"] * 2
    hits = {"a|ggn|kappa": 6, "b|ggn|kappa": 5, "c|ggn|kappa": 2}
    cells = [
        Cell(
            f"cell {i}",
            winner,
            {
                definition: naming(winner if i < count else VARIANTS[VARIANTS.index(winner) - 1])
                for definition, count in hits.items()
            },
        )
        for i, winner in enumerate(winners)
    ]
    a, b, c = score_adviser(cells, variants=VARIANTS, prefer=PREFER)
    raw = [at_least(count, 8, 0.25) for count in hits.values()]
    assert [a.p_value, b.p_value, c.p_value] == pytest.approx(raw)
    expected = [3 * raw[0], max(3 * raw[0], 2 * raw[1]), max(2 * raw[1], raw[2])]
    assert [a.p_corrected, b.p_corrected, c.p_corrected] == pytest.approx(expected)
    assert raw[1] < 0.05 < expected[1]  # alone it would pass
    assert [a.verdict, b.verdict, c.verdict] == [
        "better than the base rate",
        "not better",
        "not better",
    ]


def test_the_order_of_cells_does_not_matter():
    winners = ["dot", "qnorm", "dnorm", "cosine", None, "dot", "qnorm", "power"]
    cells = [
        dataclasses.replace(
            cell, measures={**cell.measures, "all|ggn|effective_rank": naming("dot", 9.0, 1.0)}
        )
        for cell in grid(winners, [*winners[1:4], None, *winners[:4]])
    ]
    expected = score_adviser(cells, variants=VARIANTS, prefer=PREFER)
    shuffled = random.Random(3).sample(cells, len(cells))
    assert shuffled != cells
    assert score_adviser(shuffled, variants=VARIANTS, prefer=PREFER) == expected


def test_scores_are_listed_by_hit_rate_then_name():
    winners = ["dot", "qnorm", "dot"]
    names = {"z": ["dot", "qnorm", "dot"], "b": ["dot"] * 3, "a": ["dot"] * 3, "c": [None] * 3}
    parts = [grid(winners, named, f"{key}|ggn|kappa") for key, named in names.items()]
    cells = [
        Cell(row[0].name, row[0].winner, {k: v for cell in row for k, v in cell.measures.items()})
        for row in zip(*parts, strict=True)
    ]
    scores = score_adviser(cells, variants=VARIANTS, prefer=PREFER)
    assert [score.definition[0] for score in scores] == ["z", "a", "b", "c"]
    json.dumps([score.to_json() for score in scores], allow_nan=False)


def test_the_table_says_what_was_judged_and_what_was_not():
    winners = ["dot", "qnorm", "dnorm", "cosine"] * 3
    cells = grid([*winners, None, "power"], [*winners, "dot", "dot"])
    lines = format_scores([score_one(cells)]).splitlines()
    header = "definition right hit rate 95% interval always naming by lot abstains p verdict"
    assert " ".join(lines[0].split()) == header
    row = lines[2]
    for text in (KAPPA, "12 of 12", "1.00", "0.74 to 1.00", "cosine 0.25", "6e-08", "better than"):
        assert text in row
    assert "1 had no winner that training could separate" in lines[-1]
    assert "1 were won by a variant outside" in lines[-1]
    assert "90% interval" in format_scores([score_one(cells, confidence=0.9)])
    assert format_scores([]) == "No definition was scored."


def test_the_table_of_what_cannot_be_judged_has_no_numbers():
    text = format_scores([score_one(grid([None, "dot"], ["qnorm", None]))])
    row = text.splitlines()[2]
    assert row.split()[:8] == [KAPPA, "0", "of", "0", "-", "-", "-", "0.25"]
    assert row.endswith("cannot be judged")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variants": ("dot",)}, "at least two"),
        ({"variants": ("dot", "dot")}, "variant 'dot' is listed twice"),
        ({"prefer": {"kapa": "low"}}, "unknown measure 'kappa'"),
        ({"prefer": {"kappa": "lower"}}, "unknown preference for kappa 'lower'"),
        ({"confidence": 95.0}, "confidence=95"),
        ({"cells": grid(["dot"], ["dot"]) * 2}, "cell 'cell 0' is listed twice"),
    ],
)
def test_wrong_input_is_refused(change, message):
    settings = {"cells": grid(["dot"], ["dot"]), "variants": VARIANTS, "prefer": PREFER, **change}
    with pytest.raises(InputError, match=message):
        score_adviser(settings.pop("cells"), **settings)
