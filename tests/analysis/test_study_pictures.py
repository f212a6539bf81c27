"""Pictures of a study: what is drawn where."""

import numpy as np
import pytest

from magjax.analysis import CurveOfRun, ValueOfSystem, figure_png, runs_figure, values_figure
from magjax.analysis._style import variant_styles
from magjax.checks import InputError

VALUES = [
    ValueOfSystem("home", "cosine", 0.5, 0.4, 0.6, (0.45, 0.55)),
    ValueOfSystem("home", "dnorm", 0.7, None, None, (0.7,)),
    ValueOfSystem("away", "cosine", None, None, None, ()),
]


def drawn(axes):
    """Marker, colour, face, and points of every line that has a marker."""
    return [
        (
            line.get_marker(),
            line.get_color(),
            line.get_markerfacecolor(),
            line.get_xydata().tolist(),
        )
        for line in axes.lines
        if line.get_marker() != "None"
    ]


def test_means_intervals_seeds_untrained_and_yardstick_are_drawn():
    figure = values_figure(
        VALUES,
        untrained={("home", "cosine"): 0.2, ("home", "qnorm"): 0.1},
        lines={"home": ("BM25", 0.35)},
        label="nDCG@10",
        title="t",
    )
    home, away = figure.axes
    black, pink = (variant_styles([name])[name].colour for name in ("cosine", "dnorm"))
    marks = drawn(home)
    assert ("o", black, black, [[0.5, 0.0]]) in marks
    assert ("o", black, black, [[0.45, -0.2], [0.55, -0.2]]) in marks
    assert ("o", pink, "white", [[0.7, -1.0]]) in marks  # one seed: open
    assert ("D", black, "white", [[0.2, 0.0]]) in marks
    assert len(marks) == 4  # qnorm is not among the variants
    (interval,) = home.collections
    assert np.asarray(interval.get_segments()).tolist() == [[[0.4, 0.0], [0.6, 0.0]]]
    assert [text.get_text() for text in home.texts] == ["0.500", "0.700"]
    assert 0.35 in [line.get_xdata()[0] for line in home.lines]
    assert [text.get_text() for text in away.texts] == ["every run failed"]
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"mean and interval", "one seed", "mean", "untrained", "BM25"}
    assert [tick.get_text() for tick in home.get_yticklabels()] == ["cosine", "dnorm"]
    assert figure_png(figure) == figure_png(figure)


def test_curves_are_every_run_thin_and_their_mean_wide():
    figure = runs_figure(
        [
            CurveOfRun("a", "dnorm", (0, 10, 20), (1.0, 2.0, 3.0)),
            CurveOfRun("a", "dnorm", (0, 10), (3.0, 4.0)),
            CurveOfRun("b", "cosine", (5,), (1.0,)),
        ],
        label="loss",
        title="t",
    )
    first, second = figure.axes
    lines = [line.get_xydata().tolist() for line in first.lines]
    assert lines == [[[0, 1], [10, 2], [20, 3]], [[0, 3], [10, 4]], [[0, 2], [10, 3]]]
    widths = [line.get_linewidth() for line in first.lines]
    assert widths[2] > widths[0] == widths[1]
    assert second.lines[-1].get_marker() == "o"  # a single point has no line
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dnorm", "cosine"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: values_figure([], label="x", title="t"), "nothing to draw"),
        (lambda: values_figure([*VALUES, VALUES[0]], label="x", title="t"), "given twice"),
        (lambda: runs_figure([], label="x", title="t"), "nothing to draw"),
        (lambda: runs_figure([CurveOfRun("a", "dot", (), ())], label="x", title="t"), "0 steps"),
        (
            lambda: runs_figure([CurveOfRun("a", "dot", (1, 2), (1.0,))], label="x", title="t"),
            "2 st",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(InputError, match=message):
        draw()
