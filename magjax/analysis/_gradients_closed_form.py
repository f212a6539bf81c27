r"""What the mathematics says that :func:`query_length_sweep` must measure, in plain NumPy.

With the normalized documents :math:`\tilde d_j`, the softmax :math:`p` over the candidates, the
error :math:`e_j = p_j - [j = +]` and the query :math:`x = c\,q` of direction :math:`\hat q`:

.. math::
   \text{logits} &= c^{1-\gamma_q} \, \text{logits}|_{c=1} \\
   \langle x, \partial\ell/\partial x\rangle &=
       (1-\gamma_q) \bigl(\mathrm E_p[\text{logit}] - \text{logit}^+\bigr) \\
   \text{tangential} &= \lVert x\rVert^{-\gamma_q}\,
       \lVert (I - \hat q\hat q^\top)\textstyle\sum_j e_j\tilde d_j\rVert / \tau \\
   \lVert\partial\ell/\partial d_j\rVert^2 &= (e_j/\tau)^2 \lVert d_j\rVert^{-2\gamma_d}
       \lVert x\rVert^{2(1-\gamma_q)}
       \bigl(1 - (2\gamma_d - \gamma_d^2)\cos^2(q, d_j)\bigr)
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from magjax.analysis._gradients import GradientSweep, checked_problem
from magjax.checks import InputError
from magjax.typing import Array, Bool, Float, Int

__all__ = ["closed_form_sweep", "sweep_deviation"]

# Of a query's gradient where p has left its positive by 1e-30: nothing below is compared.
_FLOOR = 1e-30


def closed_form_sweep(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    positives: Int[Array, " queries"] | Sequence[int],
    *,
    gammas: tuple[float | int, float | int],
    temperature: float | int,
    scales: Float[Array, " scales"] | Sequence[float | int],
    where: Bool[Array, "queries documents"] | None = None,
) -> GradientSweep:
    r"""The gradients of :func:`query_length_sweep` from their formulae, without differentiation.

    A query's length is its own inverse temperature: at scale :math:`c` its logits are those at
    :math:`c = 1` times :math:`c^{1-\gamma_q}`, and
    :math:`\partial\ell/\partial\log\lVert x\rVert = (1-\gamma_q)(\mathrm E_p[\text{logit}] -
    \text{logit}^+)`. At :math:`\gamma_q = 1` the loss does not change, the gradient is tangential
    and shrinks as :math:`1/\lVert x\rVert`.

    Args:
        queries: raw embeddings, none of length 0.
        documents: raw embeddings of all candidates.
        positives: row in ``documents`` of each query's answer.
        gammas: powers of the query's and of the documents' lengths, in [0, 1].
        temperature: above 0.
        scales: factors :math:`c`, above 0.
        where: False for documents that are no candidates of a query.

    Raises:
        InputError: as :func:`query_length_sweep`.

    >>> from magjax.analysis import query_length_sweep
    >>> problem = dict(gammas=(0.3, 0.8), temperature=0.5, scales=[0.5, 1.0, 4.0])
    >>> q, d = np.random.default_rng(0).normal(size=(2, 5, 3))
    >>> measured = query_length_sweep(q, d, np.arange(5), **problem)
    >>> expected = closed_form_sweep(q, d, np.arange(5), **problem)
    >>> max(sweep_deviation(measured, expected).values()) < 1e-10
    True
    """
    problem = checked_problem(queries, documents, positives, gammas, temperature, scales, where)
    q, d, tau = problem.queries, problem.documents, problem.temperature
    power, document_power = problem.gammas
    lengths, document_lengths = np.linalg.norm(q, axis=1), np.linalg.norm(d, axis=1)
    held = document_lengths > 0.0
    factor = np.where(held, document_lengths, 1.0) ** -document_power
    if document_power > 0.0:  # a zero document has no direction: zero output, zero gradient
        factor = np.where(held, factor, 0.0)
    normalized = d * factor[:, None]
    unit = q / lengths[:, None]
    along = unit @ normalized.T  # <unit query, normalized document>
    cosine = along / np.where(held, document_lengths * factor, 1.0)[None, :]
    spread = factor**2 * (1.0 - (2.0 * document_power - document_power**2) * cosine**2)

    own = np.arange(len(q)), problem.positives
    negative = problem.where.copy()
    negative[own] = False
    fields: dict[str, list[np.ndarray]] = {
        field.name: [] for field in dataclasses.fields(GradientSweep)[4:]
    }
    for scale in problem.scales:
        now = scale * lengths
        logits = along * now[:, None] ** (1.0 - power) / tau
        right = logits[own]
        rest = np.where(negative, logits, -np.inf)
        rivals = np.logaddexp.reduce(rest, axis=1)
        # 1 - p of the positive is the sum over the negatives: no digits are lost where p is 1.
        error = np.exp(rest - np.logaddexp(rivals, right)[:, None])
        error[own] = -error.sum(axis=1)
        pull = error @ normalized / tau
        sharpening = np.sum(error * (logits - right[:, None]), axis=1)  # E_p[logit] - logit+
        radial = (1.0 - power) * sharpening / now
        sideways = pull - np.sum(pull * unit, axis=1, keepdims=True) * unit
        tangential = now**-power * np.linalg.norm(sideways, axis=1)
        squares = (error / tau) ** 2 * spread * now[:, None] ** (2.0 - 2.0 * power)
        for name, value in {
            "loss": np.logaddexp(0.0, rivals - right),
            "query": np.hypot(radial, tangential),
            "radial": radial,
            "tangential": tangential,
            "documents": np.sqrt(squares.sum(axis=1)),
            "documents_radial": (1.0 - document_power) * sharpening,
            "log_temperature": -sharpening,
        }.items():
            fields[name].append(value)
    return problem.sweep(**{name: np.stack(values) for name, values in fields.items()})


def sweep_deviation(measured: GradientSweep, expected: GradientSweep) -> dict[str, float]:
    """The largest relative difference of two sweeps of the same problem, by field.

    Parts of a gradient are compared relative to the length of the whole: a radial part that is 0
    in theory is rounding noise in practice. Values below 1e-30 are not compared.

    Args:
        measured: from :func:`query_length_sweep`.
        expected: from :func:`closed_form_sweep`.

    Raises:
        InputError: the sweeps have different scales or queries.

    >>> one = closed_form_sweep(np.eye(2), np.eye(2), [0, 1], gammas=(0, 0), temperature=1.0,
    ...                         scales=[1.0])
    >>> set(sweep_deviation(one, one).values())
    {0.0}
    """
    if measured.loss.shape != expected.loss.shape:
        raise InputError(
            f"the sweeps have shapes {measured.loss.shape} and {expected.loss.shape}; give two of "
            "the same problem."
        )
    whole = {"radial": expected.query, "tangential": expected.query}
    # Terms of both signs that cancel at power 1 are compared with what cancels.
    whole["documents_radial"] = np.abs(expected.log_temperature)
    found = {}
    for field in dataclasses.fields(GradientSweep)[4:]:
        ours, theirs = getattr(measured, field.name), getattr(expected, field.name)
        scale = np.maximum(whole.get(field.name, np.abs(theirs)), _FLOOR)
        found[field.name] = float(np.max(np.abs(ours - theirs) / scale, initial=0.0))
    return found
