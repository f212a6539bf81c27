"""Pictures of what was measured."""

from magjax.analysis._fisher_pictures import (
    draw_measures,
    draw_spectra,
    measures_figure,
    spectra_figure,
)

__all__ = ["draw_measures", "draw_spectra", "measures_figure", "spectra_figure"]
