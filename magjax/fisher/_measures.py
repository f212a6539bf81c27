"""Condition numbers and their regular relatives, each with its own name and its own doubts."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.fisher._spectrum import Spectrum

__all__ = ["MEASURES", "Measure", "explain", "find_measure", "measure"]

_DAMPED, _ORDER = "kappa_damped@", "lambda1_over_lambda"
_CONVERGED = 0.01  # a Ritz value counts if its residual is at most this share of it


@dataclasses.dataclass(frozen=True)
class Measure:
    """What one number says about a spectrum.

    Args:
        description: one sentence for a report.
        prefer: ``low`` or ``high``, which of the two is the better conditioned.

    >>> MEASURES["effective_rank"].prefer
    'high'
    """

    description: str
    prefer: str


_PLAIN = {
    "kappa": Measure("λ1 / λmin of the whole matrix; infinite if that is singular", "low"),
    "kappa_rank": Measure("pseudo-condition number λ1 / λr over the numerical rank r", "low"),
    "lambda1_over_mean": Measure("λ1 over the mean eigenvalue of the whole dimension", "low"),
    "effective_rank": Measure("exponential of the entropy of the normalized spectrum", "high"),
    "participation_ratio": Measure("(tr F)² / tr F²", "high"),
}


def find_measure(name: str) -> Measure:
    """The meaning of a measure, at any damping or order.

    Args:
        name: one of :data:`MEASURES`, or ``kappa_damped@FRACTION`` or
            ``lambda1_over_lambdaORDER`` with another fraction above 0 or order from 1.

    Returns:
        its description and preference.

    Raises:
        InputError: if the name is none of those.

    >>> find_measure("lambda1_over_lambda20").description
    'λ1 over the eigenvalue number 20'
    """
    if name in _PLAIN:
        return _PLAIN[name]
    if name.startswith(_DAMPED):
        share = _damping(name)
        return Measure(f"(λ1 + δ) / (λmin + δ), δ = {share:g} times the mean eigenvalue", "low")
    if name.startswith(_ORDER):
        return Measure(f"λ1 over the eigenvalue number {_order(name)}", "low")
    choose("measure", name, MEASURES)
    raise AssertionError


def measure(
    spectrum: Spectrum,
    *,
    dampings: Sequence[float] = (0.1, 0.01, 0.001),
    orders: Sequence[int] = (10, 64),
) -> dict[str, float | None]:
    r"""Every measure of one spectrum; None where the computation cannot say.

    - ``kappa`` = :math:`\lambda_1 / \lambda_\text{min}` of the whole matrix: ``math.inf`` if the
      rank bound or the numerical rank is below the dimension.
    - ``kappa_rank`` = :math:`\lambda_1 / \lambda_r`, r the numerical rank.
    - ``kappa_damped@f`` = :math:`(\lambda_1 + \delta) / (\lambda_\text{min} + \delta)` with
      :math:`\delta = f \operatorname{tr} F / \text{dimension}`, and
      :math:`\lambda_\text{min} = 0` of a singular matrix.
    - ``lambda1_over_lambdaK`` = :math:`\lambda_1 / \lambda_K`.
    - ``lambda1_over_mean`` = :math:`\lambda_1` over the mean of all eigenvalues, zeros included.
    - ``effective_rank`` = :math:`\exp(-\sum_i p_i \log p_i)` with
      :math:`p_i = \lambda_i / \operatorname{tr} F` (Roy & Vetterli 2007).
    - ``participation_ratio`` = :math:`(\operatorname{tr} F)^2 / \operatorname{tr} F^2`.

    None of them depends on the scale of the matrix. Eigenvalues at or below the cut-off are
    zero in ratios; the last two take them as they are, negative noise as 0. Lanczos finds a
    repeated eigenvalue once, and a Ritz value counts only if its residual is at most 1 % of
    it; the last two are quadrature over all probes there. The zero matrix has infinite
    ``kappa`` and nothing else.

    Args:
        spectrum: of any method.
        dampings: fractions of the mean eigenvalue, above 0.
        orders: numbers of eigenvalues, from 1.

    Returns:
        a value by name, in the order of :data:`MEASURES`; :func:`explain` says why one is None
        or infinite.

    Raises:
        InputError: if a damping or an order is out of range.

    >>> from magjax.fisher._spectrum import dense_spectrum
    >>> found = measure(dense_spectrum(np.diag([3.0, 1.0, 0.0])), dampings=[0.3], orders=[2])
    >>> found["kappa"], round(found["kappa_rank"], 6), round(found["kappa_damped@0.3"], 6)
    (inf, 3.0, 8.5)
    """
    return {name: _evaluate(spectrum, name)[0] for name in _names(dampings, orders)}


def explain(spectrum: Spectrum, name: str) -> str | None:
    """Why a measure of a spectrum is None or infinite, as a sentence for a report.

    Args:
        spectrum: of any method.
        name: as for :func:`find_measure`.

    Returns:
        the reason, or None if the measure is an ordinary number.

    Raises:
        InputError: if the name is unknown.

    >>> from magjax.fisher._spectrum import dense_spectrum
    >>> explain(dense_spectrum(np.diag([3.0, 1.0, 0.0])), "kappa")
    'the matrix is singular: 1 of 3 eigenvalues are at or below the cut-off 2.13e-14'
    """
    find_measure(name)
    return _evaluate(spectrum, name)[1]


def _names(dampings: Sequence[float], orders: Sequence[int]) -> list[str]:
    shares = [positive_number("damping", damping) for damping in dampings]
    damped = [
        f"{_DAMPED}{share:g}" if float(f"{share:g}") == share else f"{_DAMPED}{share!r}"
        for share in shares
    ]
    ratios = [f"{_ORDER}{positive_integer('order', order)}" for order in orders]
    first, last = (
        ["kappa", "kappa_rank"],
        ["lambda1_over_mean", "effective_rank", "participation_ratio"],
    )
    return [*first, *damped, *ratios, *last]


def _damping(name: str) -> float:
    try:
        return positive_number("damping", float(name.removeprefix(_DAMPED)))
    except ValueError:
        raise InputError(
            f"measure {name!r} must end in a number above 0, as in {_DAMPED}0.1."
        ) from None


def _order(name: str) -> int:
    try:
        return positive_integer("order", int(name.removeprefix(_ORDER)))
    except ValueError:
        raise InputError(
            f"measure {name!r} must end in a whole number, as in {_ORDER}10."
        ) from None


MEASURES: dict[str, Measure] = {
    name: find_measure(name) for name in _names((0.1, 0.01, 0.001), (10, 64))
}
"""The measures at the default dampings and orders, in the order of reports."""

_Answer = tuple[float | None, str | None]


def _evaluate(spectrum: Spectrum, name: str) -> _Answer:
    """The value of one measure, and the reason if it is None or infinite."""
    positive = np.maximum(spectrum.values, 0.0)
    total = float(np.sum(spectrum.multiplicities * positive))
    if not total > 0.0:
        return (math.inf if name == "kappa" else None), "the matrix is zero"
    if name in ("effective_rank", "participation_ratio"):
        parts, counts = positive / total, spectrum.multiplicities
        if name == "participation_ratio":
            return float(1.0 / np.sum(counts * parts**2)), None
        seen = parts > 0.0
        entropy = -np.sum(counts[seen] * parts[seen] * np.log(parts[seen]))
        return float(np.exp(entropy)), None

    mean = total / spectrum.dimension
    if name == "lambda1_over_mean":
        return _ratio(_eigenvalue(spectrum, 1), (mean, None))
    if name.startswith(_ORDER):
        return _ratio(_eigenvalue(spectrum, 1), _eigenvalue(spectrum, _order(name)))
    smallest = _smallest(spectrum)
    if name == "kappa":
        return _ratio(_eigenvalue(spectrum, 1), smallest)
    if name == "kappa_rank":
        if spectrum.rank is not None:
            smallest = _eigenvalue(spectrum, spectrum.rank)
        elif not smallest[0]:
            smallest = (None, "Lanczos does not count the eigenvalues above the cut-off")
        return _ratio(_eigenvalue(spectrum, 1), smallest)
    value, reason = smallest
    if value is None:
        return None, reason
    added = _damping(name) * mean
    top, reason = _eigenvalue(spectrum, 1)
    return (None, reason) if top is None else ((top + added) / (value + added), None)


def _ratio(top: _Answer, bottom: _Answer) -> _Answer:
    if bottom[0] == 0.0:
        return math.inf, bottom[1]
    if top[0] is None or bottom[0] is None:
        return None, bottom[1] if top[0] is not None else top[1]
    return top[0] / bottom[0], None


def _eigenvalue(spectrum: Spectrum, order: int) -> _Answer:
    """The eigenvalue of an order from 1, 0.0 if it is known to be zero, None if unknown."""
    if order > spectrum.dimension:
        return None, f"the matrix has {spectrum.dimension} eigenvalues, not {order}"
    if order > spectrum.rank_bound:
        return 0.0, f"eigenvalue {order} is zero: the rank is at most {spectrum.rank_bound}"
    if spectrum.is_complete:
        value = float(spectrum.eigenvalues[order - 1])
        if value > spectrum.cutoff:
            return value, None
        return 0.0, f"eigenvalue {order} is at or below the cut-off {spectrum.cutoff:.3g}"
    if order > len(spectrum.eigenvalues):
        return None, f"Lanczos found {len(spectrum.eigenvalues)} eigenvalues, fewer than {order}"
    return _ritz(spectrum, order - 1, f"eigenvalue {order}")


def _ritz(spectrum: Spectrum, index: int, what: str) -> _Answer:
    value, residual = float(spectrum.eigenvalues[index]), float(spectrum.residuals[index])
    if value > spectrum.cutoff and residual <= _CONVERGED * value:
        return value, None
    return None, (
        f"{what} has not converged after {spectrum.steps} Lanczos steps: Ritz value {value:.3g}, "
        f"residual {residual:.3g}, cut-off {spectrum.cutoff:.3g}"
    )


def _smallest(spectrum: Spectrum) -> _Answer:
    """The smallest of all eigenvalues, 0.0 if the matrix is singular, None if unknown."""
    rows, cutoff = spectrum.dimension, spectrum.cutoff
    if spectrum.rank_bound < rows:
        bound = spectrum.rank_bound
        return 0.0, f"the matrix is singular: by counting its rank is at most {bound} of {rows}"
    if spectrum.nullity is not None:
        if spectrum.nullity == 0:
            return float(spectrum.eigenvalues[rows - 1]), None
        return 0.0, (
            f"the matrix is singular: {spectrum.nullity} of {rows} eigenvalues are at or below "
            f"the cut-off {cutoff:.3g}"
        )
    # Ritz values lie between the extreme eigenvalues: the lowest bounds λmin from above only.
    lowest = float(spectrum.values.min())
    if lowest <= cutoff:
        return 0.0, (
            f"the matrix is singular: its smallest eigenvalue is at most the Ritz value "
            f"{lowest:.3g}, which is at or below the cut-off {cutoff:.3g}"
        )
    value, residual = float(spectrum.eigenvalues[-1]), float(spectrum.residuals[-1])
    if lowest < value - max(residual, cutoff):
        return None, f"another probe has a smaller Ritz value, {lowest:.3g}, than {value:.3g}"
    return _ritz(spectrum, -1, "the smallest eigenvalue")
