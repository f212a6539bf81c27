"""The marks of magnitude pictures: bars, boxes, clouds of points."""

from typing import TYPE_CHECKING, Any

import numpy as np

from magjax.analysis._style import NOTE_COLOUR
from magjax.statistics import Interval, PairedDifference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OTHER", "RELEVANT", "bar", "boxes", "by_count", "by_value", "cloud", "with_alpha"]

# Of Okabe and Ito's palette, as far apart in lightness as in hue.
RELEVANT, OTHER = "#D55E00", "#56B4E9"
_POINTS = 4000  # of a cloud: more only darken it


def bar(axes: "Axes", height: float, found: Interval | PairedDifference, colour: str) -> None:
    axes.barh(height, found.mean, 0.6, color=with_alpha(colour, 0.6))
    end = found.mean
    if found.low is not None and found.high is not None:
        axes.hlines(height, found.low, found.high, color="black", linewidth=1.6)
        end = found.high if found.mean >= 0.0 else found.low
    axes.annotate(
        f"{found.mean:.3f}",
        (end, height),
        (4 if found.mean >= 0.0 else -4, 0),
        textcoords="offset points",
        va="center",
        ha="left" if found.mean >= 0.0 else "right",
        size=8,
    )


def with_alpha(colour: str, alpha: float) -> Any:
    from matplotlib.colors import to_rgba

    return to_rgba(colour, alpha)


def cloud(
    axes: "Axes", x: np.ndarray, y: np.ndarray, highlighted: np.ndarray | None = None
) -> None:
    """Points, relevant ones above the others, and the median of each tenth along x."""
    relevant = np.zeros(x.size, bool) if highlighted is None else highlighted
    draws = np.random.default_rng(0)
    for chosen, colour, label in (
        (np.flatnonzero(~relevant), OTHER, "others"),
        (np.flatnonzero(relevant), RELEVANT, "relevant to a query"),
    ):
        if chosen.size > _POINTS:
            chosen = draws.choice(chosen, _POINTS, replace=False)
        if chosen.size:
            axes.scatter(
                x[chosen],
                y[chosen],
                s=5,
                color=with_alpha(colour, 0.35),
                linewidths=0,
                label=label,
            )
    if x.size >= 20:
        tenths = np.array_split(np.argsort(x, kind="stable"), 10)
        middles = [(np.median(x[part]), np.median(y[part])) for part in tenths]
        axes.plot(*zip(*middles, strict=True), "o-", color="black", lw=1.2, ms=3, label="medians")


def boxes(axes: "Axes", groups: list[tuple[str, np.ndarray]]) -> None:
    """A box for each group that is not empty, with its size below."""
    present = [(label, values) for label, values in groups if values.size]
    places = np.arange(len(present))
    axes.boxplot(
        [values for _, values in present],
        positions=places,
        widths=0.6,
        showfliers=False,
        manage_ticks=False,
        medianprops={"color": "black"},
        boxprops={"color": NOTE_COLOUR},
    )
    labels = [f"{label}\nn={values.size:,}" for label, values in present]
    # 200 points for all labels; a character is about half as wide as it is high.
    widest = max(len(line) for label in labels for line in label.splitlines())
    axes.set_xticks(places, labels, fontsize=min(8.0, 200.0 / len(present) / (0.6 * widest)))
    axes.set_xlim(-0.7, len(present) - 0.3)


def by_count(counts: np.ndarray, y: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Groups of 0, 1, 2, 3-4, 5-8 and so on."""
    groups, low, high = [("0", y[counts == 0])], 1, 1
    while low <= counts.max():
        label = str(low) if low == high else f"{low}-{high}"
        groups.append((label, y[(counts >= low) & (counts <= high)]))
        low, high = high + 1, 2 * high
    return groups


def by_value(values: np.ndarray, y: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Groups of a metric: nothing, up to a half, beyond it, everything."""
    return [
        ("0", y[values <= 0.0]),
        ("up to 0.5", y[(values > 0.0) & (values <= 0.5)]),
        ("above", y[(values > 0.5) & (values < 1.0)]),
        ("1", y[values >= 1.0]),
    ]
