"""Pictures of spectra and measures: what is drawn, in the figure and in the file."""

import math
import os

import numpy as np
import pytest

from magjax.analysis import draw_measures, draw_spectra, measures_figure, spectra_figure
from magjax.checks import InputError

PNG = b"\x89PNG\r\n\x1a\n"
CURVES = [
    (variant, panel, [4.0, 2.0, 1.0, 0.0], 4e-6)
    for panel in ("query side", "document side")
    for variant in ("cosine", "dot", "qnorm", "dnorm")
]
ROWS = [
    ("kappa (lower is better)", "cosine", 20.0, 15.0, 25.0),
    ("kappa (lower is better)", "dot", math.inf, None, None),
    ("effective rank", "cosine", 30.0, 29.0, 31.0),
    ("effective rank", "dot", 28.0, None, None),
    ("effective rank", "0.5,1", None, None, None),
]


def spectra(curves, **texts):
    return spectra_figure(curves, title="Spectra", **texts)


def measures(rows, **texts):
    return measures_figure(rows, title="Measures", **texts)


def curves_of(axes):
    """The drawn spectra by label, without the cut-off's line."""
    lines = [line for line in axes.lines if not line.get_label().startswith(("_", "cut-off"))]
    return {line.get_label(): line for line in lines}


def cutoffs_of(axes):
    return sorted(line.get_ydata()[0] for line in axes.lines if line.get_gid() == "cut-off")


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def texts_of(axes):
    return [text.get_text() for text in axes.texts]


def test_spectra_are_files_of_png_with_the_same_bytes_each_time(tmp_path):
    for name in ("one.png", "new/folder/two.png"):
        draw_spectra(tmp_path / name, CURVES, title="Spectra", footnote="512 examples")
    one = (tmp_path / "one.png").read_bytes()
    assert one.startswith(PNG)
    assert one == (tmp_path / "new" / "folder" / "two.png").read_bytes()
    assert b"matplotlib" not in one
    assert sorted(os.listdir(tmp_path)) == ["new", "one.png"]


def test_measures_are_files_of_png_with_the_same_bytes_each_time(tmp_path):
    for name in ("one.png", "two.png"):
        draw_measures(tmp_path / name, ROWS, title="Measures")
    one = (tmp_path / "one.png").read_bytes()
    assert one.startswith(PNG)
    assert one == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize(
    ("draw", "items"), [(draw_spectra, CURVES[:1]), (draw_measures, ROWS[:1])], ids=["s", "m"]
)
def test_a_failed_write_leaves_the_older_picture_and_nothing_else(
    draw, items, tmp_path, monkeypatch
):
    path = tmp_path / "picture.png"
    path.write_bytes(b"older")

    def refuse(source, target):
        raise PermissionError(13, "read-only file system", str(target))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(PermissionError):
            draw(path, items, title="newer")
    assert path.read_bytes() == b"older"
    with pytest.raises(OSError, match=r"picture\.png"):
        draw(path / "inside.png", items, title="a file is no folder")
    with pytest.raises(InputError, match="at least one"):
        draw(path, [], title="empty")
    assert [p.name for p in tmp_path.iterdir()] == ["picture.png"]
    assert path.read_bytes() == b"older"


def test_pictures_leave_no_state_in_pyplot(tmp_path):
    from matplotlib import pyplot

    draw_spectra(tmp_path / "one.png", CURVES[:1], title="Spectra")
    draw_measures(tmp_path / "two.png", ROWS[:1], title="Measures")
    assert pyplot.get_fignums() == []


def test_spectra_are_drawn_relative_to_the_largest_on_logarithmic_axes():
    figure = spectra([("dot", "query side", np.float32([1.0, 8.0, 2.0]), 8e-6)], footnote="note")
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    line = curves_of(axes)["dot"]
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
    np.testing.assert_allclose(line.get_ydata(), [1.0, 0.25, 0.125], rtol=1e-12)
    assert cutoffs_of(axes) == pytest.approx([1e-6])
    assert axes.get_ylim()[0] < 1e-6
    assert axes.get_xlabel() == "rank of the eigenvalue"
    assert figure.get_supylabel() == "eigenvalue / largest eigenvalue"
    assert (figure.get_suptitle(), figure.get_supxlabel()) == ("Spectra", "note")


def test_each_panel_has_every_variant_and_one_cutoff():
    figure = spectra(CURVES)
    assert [axes.get_title() for axes in figure.axes] == ["query side", "document side"]
    for axes in figure.axes:
        assert list(curves_of(axes)) == ["cosine", "dot", "qnorm", "dnorm"]
        assert cutoffs_of(axes) == pytest.approx([1e-6])
    assert legend_of(figure) == ["cosine", "dot", "qnorm", "dnorm", "cut-off"]
    without = spectra([(*curve[:3], None) for curve in CURVES])
    assert legend_of(without) == ["cosine", "dot", "qnorm", "dnorm"]
    assert cutoffs_of(without.axes[0]) == []


def test_cutoffs_of_several_levels_are_told_apart_by_colour():
    (axes,) = spectra([("cosine", "p", [1.0, 0.5], 1e-6), ("dot", "p", [1.0, 0.5], 1e-3)]).axes
    assert cutoffs_of(axes) == pytest.approx([1e-6, 1e-3])
    colours = {line.get_color() for line in axes.lines if line.get_gid() == "cut-off"}
    assert colours == {line.get_color() for line in curves_of(axes).values()}


@pytest.mark.parametrize(
    "pair", [("cosine", "dnorm"), ("dot", "qnorm"), ("cosine", "qnorm"), ("dot", "dnorm")]
)
def test_of_two_coinciding_spectra_the_upper_line_is_thin_and_dashed(pair):
    """The pairs that coincide on the document side and on the query side."""
    (axes,) = spectra([(name, "p", [1.0, 0.5], None) for name in pair]).axes
    lower, upper = (curves_of(axes)[name] for name in pair)
    assert upper.get_zorder() > lower.get_zorder()
    assert upper.get_linewidth() < lower.get_linewidth() - 0.5
    assert lower.get_linestyle() == "-"
    assert upper.get_linestyle() == "--"
    assert upper.get_color() != lower.get_color()


def test_a_variant_has_one_colour_in_all_pictures():
    line = curves_of(spectra([("dot", "p", [1.0, 0.5], None)]).axes[0])["dot"]
    others = spectra([(name, "p", [1.0, 0.5], None) for name in ("1,1", "dot", "0.5,1")]).axes[0]
    (dot,) = measures([("p", "dot", 1.0, 0.9, 1.1)]).axes[0].lines
    colours = [curves_of(others)[name].get_color() for name in ("1,1", "dot", "0.5,1")]
    assert line.get_color() == colours[1] == dot.get_color()
    assert len(set(colours)) == 3


def test_eigenvalues_of_zero_fall_through_the_lower_edge():
    (axes,) = spectra([("dot", "p", [4.0, 1.0, 0.0, -1e-9], None)]).axes
    assert curves_of(axes)["dot"].get_ydata()[2] == 0.0
    assert axes.get_ylim()[0] == pytest.approx(0.125)


def test_a_matrix_without_a_positive_eigenvalue_is_named_only():
    figure = spectra([("dot", "p", [0.0, 0.0], 0.0), ("qnorm", "p", [3.0], 1e-6)])
    assert legend_of(figure)[0] == "dot (no positive eigenvalue)"
    (zero, single) = curves_of(figure.axes[0]).values()
    assert np.isnan(zero.get_ydata()).all()
    assert single.get_marker() == "o"


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ([], "no curve to draw"),
        ([("dot", "p", [], None)], "'dot' has 0 eigenvalues"),
        ([("dot", "p", [1.0, math.nan], None)], "1 of them not finite"),
        ([("dot", "p", [math.inf], None)], "1 of them not finite"),
        ([CURVES[0], CURVES[0]], "'cosine' is given twice in panel 'query side'"),
    ],
)
def test_spectra_that_cannot_be_drawn_are_refused(curves, message):
    with pytest.raises(InputError, match=message):
        spectra(curves)


def test_measures_show_means_intervals_and_what_is_not_a_number():
    figure = measures(ROWS, footnote="95% intervals")
    kappa, rank = figure.axes
    assert [axes.get_title() for axes in (kappa, rank)] == [
        "kappa (lower is better)",
        "effective rank",
    ]
    assert [tick.get_text() for tick in kappa.get_yticklabels()] == ["cosine", "dot", "0.5,1"]
    assert texts_of(kappa) == ["20", "infinite →"]
    assert texts_of(rank) == ["30", "28", "not known"]
    (bar,) = kappa.collections
    np.testing.assert_allclose(bar.get_segments()[0], [[15.0, 0.0], [25.0, 0.0]], atol=1e-12)
    known, unknown = rank.lines
    assert known.get_markerfacecolor() == known.get_color()
    assert (unknown.get_markerfacecolor(), unknown.get_xdata()[0]) == ("white", 28.0)
    assert unknown.get_ydata()[0] == -1.0  # dot is the second line from above
    assert figure.get_supxlabel() == "95% intervals\nOpen dot: no interval is known."
    assert measures(ROWS[:1]).get_supxlabel() == ""


def test_the_infinite_arrow_stands_at_the_right_edge_within_the_panel():
    figure = measures(ROWS)
    figure.draw_without_rendering()
    box = figure.axes[0].texts[1].get_window_extent()
    panel = figure.axes[0].get_window_extent()
    assert panel.x1 - 0.05 * panel.width < box.x1 < panel.x1
    assert box.x0 > panel.x0


@pytest.mark.parametrize(
    ("means", "low", "scale"),
    [
        ((10.0, 90.0), 9.0, "linear"),
        ((10.0, 150.0), 9.0, "log"),
        ((10.0, 150.0), -50.0, "log"),
        ((0.0, 150.0), -1.0, "linear"),
        ((-10.0, 150.0), -11.0, "linear"),
    ],
)
def test_the_axis_is_logarithmic_where_it_spans_more_than_a_decade(means, low, scale):
    rows = [("p", "dot", means[0], low, 20.0), ("p", "qnorm", means[1], None, None)]
    (axes,) = measures(rows).axes
    assert axes.get_xscale() == scale
    left, right = axes.get_xlim()
    ((start, _), (end, _)) = axes.collections[0].get_segments()[0]
    assert (start, end) == (pytest.approx(left if scale == "log" and low < 0 else low), 20.0)
    assert left < means[0] < means[1] < right


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (13.84, "13.8"), (4604.0, "4,600"), (2.5e7, "2.5e+07"), (1e-5, "1e-05")],
)
def test_means_are_written_with_three_digits(value, text):
    assert texts_of(measures([("p", "dot", value, value, value)]).axes[0]) == [text]


def test_nothing_overlaps_the_panels_in_a_large_picture():
    rows = [
        (f"a rather long name of measure number {i} (higher is better)", name, 1.0 + i, None, None)
        for i in range(5)
        for name in ("cosine", "dot", "qnorm", "dnorm")
    ]
    figure = measures(rows, footnote="a footnote " * 30)
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert len(boxes) == 5
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[i + 1 :])
    whole = figure.bbox
    assert all(whole.x0 <= b.x0 < b.x1 <= whole.x1 and whole.y0 <= b.y0 for b in boxes)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("p", "dot", 1.0, 2.0, 3.0), "mean 1.0 and interval 2.0 to 3.0"),
        (("p", "dot", 1.0, 0.5, None), "None for both"),
        (("p", "dot", math.inf, 1.0, 2.0), "infinite or unknown mean"),
        (("p", "dot", None, 1.0, 2.0), "infinite or unknown mean"),
        (("p", "dot", math.nan, None, None), "mean nan"),
        (("p", "dot", -math.inf, None, None), "mean -inf"),
        (("p", "dot", 1.0, 0.5, math.inf), "finite ends"),
    ],
)
def test_rows_that_make_no_interval_are_refused(row, message):
    with pytest.raises(InputError, match=message):
        measures([row])
    with pytest.raises(InputError, match="given twice"):
        measures([ROWS[0], ROWS[0]])
