"""What a Fisher measurement leaves in its folder."""

from pathlib import Path
from typing import get_args

import numpy as np

from magjax.analysis import draw_measures, draw_spectra
from magjax.files import write_json
from magjax.fisher import FisherReport, Measurement, find_measure
from magjax.typing import Side

__all__ = ["write_fisher"]

_DRAWN = ("kappa", "kappa_rank", "effective_rank")


def write_fisher(folder: Path, report: FisherReport) -> None:
    """Pictures first, ``fisher.json`` last: where it is, everything is."""
    footnote = (
        f"{report.about['model']}; {report.measurements[0].kind} Fisher; lines of the first batch; "
        "dashed: cut-off below which eigenvalues count as zero; by Lanczos: converged values only"
    )
    curves = [
        (
            item.variant,
            _panel(item),
            _drawable(item),
            item.spectrum.cutoff if item.spectrum.is_complete else None,
        )
        for item in report.measurements
        if item.batch == 0
    ]
    draw_spectra(
        folder / "fisher_spectra.png", curves, title="Fisher spectra by variant", footnote=footnote
    )
    rows = []
    for space in report.spaces:
        for name in report.of_space(space)[0].values:
            if name not in _DRAWN and not name.startswith("kappa_damped"):
                continue
            prefer = find_measure(name).prefer
            for variant, interval in report.intervals(space, name).items():
                rows.append(
                    (
                        f"{space}: {name} ({'lower' if prefer == 'low' else 'higher'} is better)",
                        variant,
                        None if interval is None else interval.mean,
                        None if interval is None else interval.low,
                        None if interval is None else interval.high,
                    )
                )
    draw_measures(
        folder / "fisher_measures.png",
        rows,
        title="Condition of the Fisher matrix by variant",
        footnote=f"{report.about['model']}; means and intervals over batches",
    )
    write_json(folder / "fisher.json", report.to_json())


def _panel(item: Measurement) -> str:
    if item.space in get_args(Side):
        return f"{item.space} side"
    return f"parameters: {item.space}"


def _drawable(item: Measurement) -> np.ndarray:
    """All eigenvalues, or the Ritz values with a residual of at most 1 %: the others are no order."""
    spectrum = item.spectrum
    if spectrum.is_complete:
        return spectrum.eigenvalues
    settled = spectrum.residuals <= 0.01 * spectrum.eigenvalues
    settled[0] = True
    return spectrum.eigenvalues[: int(np.argmin(np.append(settled, False)))]
