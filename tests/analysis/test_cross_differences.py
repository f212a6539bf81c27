"""Differences within a cross-evaluation by hand: to the trained score, to the best, by domain."""

import dataclasses

import numpy as np
import pytest

from magjax.analysis import (
    CrossCell,
    CrossEvaluation,
    CrossRow,
    all_domain_gaps,
    cross_deltas,
    cross_markdown,
    domain_gaps,
    format_cross,
    write_cross,
)
from magjax.checks import InputError
from magjax.similarity import Score
from magjax.statistics import holm, paired_bootstrap


def row(model, trained, **values):
    """Cells of cosine, dnorm, dot and qnorm with the values of two rankings."""
    cells = tuple(
        CrossCell(model, Score.of(name), name == trained, {"m": np.array(values[kind])})
        for kind, names in (("divided", ("cosine", "dnorm")), ("kept", ("dot", "qnorm")))
        for name in names
    )
    return CrossRow(model, cells, (), ("a", "b", "c", "d"), 0, 0.5)


ROWS = (
    row("A", "cosine", divided=[1.0, 0.5, 0.5, 0.0], kept=[0.0, 0.5, 0.25, 0.0]),
    row("B", "qnorm", divided=[0.5, 0.5, 0.0, 0.0], kept=[1.0, 1.0, 0.5, 0.5]),
    row("C", None, divided=[0.0, 0.0, 0.0, 0.5], kept=[0.0, 0.0, 0.0, 0.25]),
)
BY_HAND = CrossEvaluation("x/in_domain", "f", "query_to_document", 10, ("m",), ROWS)


def test_differences_to_the_trained_score_by_hand():
    deltas = cross_deltas(BY_HAND, "m", resamples=200)
    assert [(delta.model, delta.scores, delta.reference) for delta in deltas] == [
        ("A", ("dot", "qnorm"), ("A", "cosine")),
        ("B", ("cosine", "dnorm"), ("B", "qnorm")),
    ]
    assert [delta.difference.mean for delta in deltas] == [-0.3125, -0.5]
    single = [
        paired_bootstrap([0.0, 0.5, 0.25, 0.0], [1.0, 0.5, 0.5, 0.0], resamples=200),
        paired_bootstrap([0.5, 0.5, 0.0, 0.0], [1.0, 1.0, 0.5, 0.5], resamples=200),
    ]
    assert [delta.difference for delta in deltas] == single
    corrected = holm({"A": single[0].p_value, "B": single[1].p_value})
    assert [delta.corrected for delta in deltas] == list(corrected.values())


def test_differences_to_the_best_cell_count_each_ranking_once():
    assert (BY_HAND.best("m").model, BY_HAND.best("m").name) == ("B", "dot")
    deltas = cross_deltas(BY_HAND, "m", to="best", resamples=200)
    assert [(delta.model, delta.scores[0]) for delta in deltas] == [
        ("A", "cosine"), ("A", "dot"), ("B", "cosine"), ("C", "cosine"), ("C", "dot"),
    ]  # fmt: skip
    means = [delta.difference.mean for delta in deltas]
    assert means == [-0.25, -0.5625, -0.5, -0.625, -0.6875]
    p_values = {str(i): delta.difference.p_value for i, delta in enumerate(deltas)}
    assert [delta.corrected for delta in deltas] == list(holm(p_values).values())
    with pytest.raises(InputError, match="Did you mean 'best'"):
        cross_deltas(BY_HAND, "m", to="bets")


def test_gains_out_of_domain_minus_gains_in_domain_by_hand():
    better = row("B", "qnorm", divided=[0.5, 0.5, 0.0, 0.0], kept=[1.0, 1.0, 1.0, 1.0])
    outside = dataclasses.replace(
        BY_HAND, domain="x/out_of_domain", rows=(ROWS[0], better, ROWS[2])
    )
    gaps = {gap.contrast: gap for gap in all_domain_gaps([outside, BY_HAND], resamples=200)}
    assert list(gaps) == [
        "B (qnorm) over A (cosine), own scores",
        "A: dot over cosine",
        "B: dot over cosine",
        "C: dot over cosine",
    ]
    own = gaps["B (qnorm) over A (cosine), own scores"]
    assert own.domains == ("x/in_domain", "x/out_of_domain")
    assert (own.in_domain.mean, own.out_of_domain.mean, own.gap.mean) == (0.25, 0.5, 0.25)
    assert own.gap.low < 0.25 < own.gap.high  # the domains' queries are drawn apart
    assert gaps["A: dot over cosine"].gap.mean == 0.0
    assert gaps["C: dot over cosine"].in_domain.mean == -0.0625
    swapped = domain_gaps(BY_HAND, outside, "m", baseline="B", resamples=20)
    assert swapped[0].contrast == "A (cosine) over B (qnorm), own scores"
    assert swapped[0].gap.mean == -0.25
    for baseline, message in (("C", "no trained score"), ("D", "unknown model 'D'")):
        with pytest.raises(InputError, match=message):
            domain_gaps(BY_HAND, outside, "m", baseline=baseline)
    with pytest.raises(InputError, match="tables of other models"):
        domain_gaps(BY_HAND, dataclasses.replace(outside, rows=ROWS[:2]), "m")


def test_rows_of_other_queries_are_refused():
    other = dataclasses.replace(ROWS[1], query_ids=("a", "b", "c", "e"))
    with pytest.raises(InputError, match="'B' was measured on other queries than 'A'"):
        dataclasses.replace(BY_HAND, rows=(ROWS[0], other))


def test_markdown_escapes_names_and_marks_the_trained_score(tmp_path):
    named = dataclasses.replace(BY_HAND, domain="a|b\n# c")
    deltas = [cross_deltas(named, "m", resamples=50)]
    text = cross_markdown([named], deltas, [])
    assert "## a\\|b # c, query to document, 4 queries" in text
    assert "| A | **0.5000** | 0.5000 | 0.1875 | 0.1875 |" in text
    assert "| A: dot = qnorm | A: cosine | -0.3125 |" in text
    assert "A: dot = qnorm      A: cosine" in format_cross(named, deltas[0])
    write_cross(tmp_path, [BY_HAND], deltas, about={"checkpoints": {}})
    assert (tmp_path / "cross" / "m.png").read_bytes()[1:4] == b"PNG"
    with pytest.raises(InputError, match="different metrics"):
        write_cross(tmp_path, [BY_HAND, dataclasses.replace(BY_HAND, metrics=())], [[], []])
