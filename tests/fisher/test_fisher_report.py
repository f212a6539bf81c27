"""A Fisher measurement as text and JSON, from measurements made by hand."""

import json
import math
import re

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.fisher import (
    FisherReport,
    Measurement,
    Norms,
    Spectrum,
    advise,
    definitions,
    dense_spectrum,
    format_report,
)
from magjax.similarity import Score

REGULAR = dense_spectrum(np.diag([3.0, 2.0, 1.0]))
SINGULAR = dense_spectrum(np.diag([3.0, 2.0, 0.0]))
LANCZOS = Spectrum(
    eigenvalues=np.array([4.0, 1.0]),
    dimension=5000,
    rank_bound=300,
    method="lanczos",
    cutoff=1e-6,
    residuals=np.array([1e-6, 1e-3]),
    orthogonality_loss=3e-7,
    float_width=32,
    nodes=np.array([4.0, 1.0]),
    weights=np.array([2500.0, 2500.0]),
    probes=2,
    steps=12,
    seed=0,
)
NORMS = {"query": Norms("query", 2.0, 0.5), "document": Norms("document", 4.0, 0.5)}
WHY = "the matrix is singular: by hand"


def item(variant, batch, values, *, space="document", spectrum=REGULAR, temperature=0.1, **more):
    score = Score.power(*Score.parse(variant).gammas, temperature)
    fields = {"reasons": {}, "nulls": ()} | more
    return Measurement(space, "ggn", score, batch, 1024, spectrum, values, **fields)


def report(items, *, norms=NORMS, confidence=0.95, measure="document|effective_rank", **more):
    advice = advise(items, norms, task="asymmetric", measure=measure, confidence=confidence)
    return FisherReport(items, norms, advice, {"model": "random", "data": {"train": "ab"}}, **more)


def full():
    """Two variants, three batches: kappa infinite for dot, kappa_rank unknown for cosine."""
    found = []
    for batch, shift in enumerate((-0.1, 0.0, 0.1)):
        found.append(
            item(
                "cosine",
                batch,
                {"kappa": 3.0 + shift, "kappa_rank": None, "effective_rank": 2.0 + shift},
                reasons={"kappa_rank": "nobody counted"},
                temperature=0.05,
            )
        )
        found.append(
            item(
                "dot",
                batch,
                {"kappa": math.inf, "kappa_rank": 1.5, "effective_rank": 2.9 + shift},
                reasons={"kappa": WHY},
                spectrum=SINGULAR if batch else REGULAR,
                temperature=0.43215678,
            )
        )
    return found


def rows_of(text):
    """Cells of every line that has several columns, by the first."""
    cells = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    return {row[0]: row[1:] for row in cells if len(row) > 1}


def test_measures_go_down_and_variants_across():
    rows = rows_of(format_report(report(full())))
    assert list(rows) == [
        "measure",
        "temperature",
        "rank",
        "kappa",
        "kappa_rank",
        "effective_rank",
    ]
    assert rows["measure"] == ["better", "cosine", "dot"]
    assert rows["temperature"] == ["0.05", "0.4322"]
    assert rows["rank"] == ["3", "2-3"]
    assert rows["kappa_rank"] == ["low", "-", "1.5 ± 0"]
    # Student's t of 3 values at 95 %, deviation 0.1.
    half = 4.302652729911275 * 0.1 / math.sqrt(3)
    assert rows["kappa"] == ["low", f"3 ± {half:.2g}", "infinite"]
    assert rows["effective_rank"] == ["high", f"2 ± {half:.2g}", f"2.9 ± {half:.2g}"]


def test_the_head_says_what_was_measured_and_how_exactly():
    text = format_report(report(full()))
    assert text.startswith(
        "document embeddings: ggn Fisher, 3 x 3, 1,024 queries a batch, 3 batches (± half of the 95% "
        "interval), whole spectrum, float64, residuals at most "
    )
    assert "query length: 2, coefficient of variation 0.25" in text
    assert "document length: 4, coefficient of variation 0.125" in text


def test_unknown_values_have_their_reason_below():
    lines = format_report(report(full())).splitlines()
    assert [line for line in lines if "not said" in line] == [
        "  not said: kappa_rank: nobody counted (cosine)"
    ]


def test_a_value_unknown_in_a_later_batch_has_its_reason_too():
    items = [
        item("dot", 0, {"kappa": 2.0, "effective_rank": 2.0}),
        item("dot", 1, {"kappa": None, "effective_rank": 2.0}, reasons={"kappa": "not converged"}),
        item("dot", 2, {"kappa": None, "effective_rank": 2.0}, reasons={"kappa": "worse"}),
    ]
    text = format_report(report(items))
    assert rows_of(text)["kappa"] == ["low", "-"]
    assert [line for line in text.splitlines() if "not said" in line] == [
        "  not said: kappa: not converged"
    ]


def test_what_holds_for_all_variants_is_said_once():
    values = {"effective_rank": 2.0}
    items = [
        item(variant, batch, values, nulls=nulls, notes=("rounded",))
        for batch in range(2)
        for variant, nulls in (("cosine", ("sum", "length")), ("dot", ("sum",)), ("qnorm", ()))
    ]
    lines = format_report(report(items)).splitlines()
    assert [line for line in lines if line.startswith("  ")] == [
        "  null: sum (cosine, dot)",
        "  null: length (cosine)",
        "  note: rounded",
    ]
    shared = [item(v, 0, values, nulls=("sum",)) for v in ("cosine", "dot")]
    assert format_report(report(shared)).count("  null: sum\n") == 1


def test_the_advice_comes_last_with_both_sides_where_it_is_undecided():
    decided = format_report(report(full())).splitlines()[-1]
    assert decided.startswith("Advice: dot. By the effective_rank")
    assert "Query side" not in decided
    items = [
        item(v, batch, {"effective_rank": 2.0 + 0.1 * batch})
        for batch in range(2)
        for v in ("cosine", "dnorm")
    ]
    last = format_report(report(items)).splitlines()[-1]
    assert last.startswith("Advice: undecided between cosine and dnorm. ")
    assert last.endswith("Query side: undecided; document side: normalize.")


def test_warnings_and_notes_are_shown():
    flat = {**NORMS, "query": Norms("query", 2.0, 0.0)}
    lines = format_report(report(full(), norms=flat, notes=("task: stated",))).splitlines()
    assert lines[-3] == "task: stated"
    assert lines[-2].startswith("Warning: the length of query embeddings hardly varies")


def test_each_space_has_a_table_and_lanczos_says_its_limits():
    block = item("dot", 0, {"effective_rank": 7.0}, space="last_block", spectrum=LANCZOS)
    text = format_report(report([*full(), block]))
    head = next(line for line in text.splitlines() if line.startswith("parameters"))
    assert head == (
        "parameters 'last_block': ggn Fisher, 5,000 x 5,000, 1,024 queries a batch, 1 batch (no "
        "intervals), Lanczos with 12 steps and 2 probes, float32, loss of orthogonality 3e-07"
    )
    second = text[text.index("parameters") :]
    assert rows_of(second)["rank"] == ["-"]
    assert rows_of(second)["effective_rank"] == ["high", "7"]  # one batch has no spread


def test_a_score_without_a_temperature_shows_none():
    items = [item("dot", 0, {"effective_rank": 2.0}, temperature=None)]
    assert rows_of(format_report(report(items)))["temperature"] == ["-"]


def test_json_holds_everything_and_has_no_infinity():
    block = item("dot", 0, {"kappa": math.inf}, space="last_block", spectrum=LANCZOS)
    found = report([*full(), block], notes=("task: stated",))
    assert found.spaces == ["document", "last_block"]
    read = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert read["kind"] == "ggn"
    assert (read["model"], read["data"]) == ("random", {"train": "ab"})
    assert read["advice"]["recommended"] == "dot"
    assert read["norms"]["query"] == {
        "side": "query",
        "mean": 2.0,
        "deviation": 0.5,
        "variation": 0.25,
    }
    assert read["notes"] == ["task: stated"]
    assert len(read["measurements"]) == 7
    assert [m["batch"] for m in read["measurements"]] == [0, 0, 1, 1, 2, 2, 0]
    assert read["measurements"][1]["values"]["kappa"] == "infinite"
    assert read["measurements"][1]["score"]["temperature"] == 0.43215678
    assert read["measurements"][6]["spectrum"]["weights"] == [2500.0, 2500.0]
    assert read["table"]["document"]["kappa"]["dot"]["mean"] == "infinite"
    assert read["table"]["document"]["kappa"]["cosine"]["mean"] == pytest.approx(3.0)
    assert read["table"]["document"]["kappa_rank"] == {
        "cosine": None,
        "dot": {"mean": 1.5, "low": 1.5, "high": 1.5, "count": 3, "confidence": 0.95},
    }
    assert read["measures"]["effective_rank"]["prefer"] == "high"
    assert set(read["measures"]) == {"kappa", "kappa_rank", "effective_rank"}


def test_definitions_are_read_back_from_json():
    read = json.loads(json.dumps(report(full()).to_json()))
    found = definitions(read)
    assert found["document|ggn|kappa"] == {"cosine": pytest.approx(3.0), "dot": math.inf}
    assert found["document|ggn|kappa_rank"] == {"cosine": None, "dot": 1.5}
    assert list(found) == [
        "document|ggn|kappa",
        "document|ggn|kappa_rank",
        "document|ggn|effective_rank",
    ]
    for wrong in ({"kind": "ggn"}, {"table": {}}):
        with pytest.raises(InputError, match=r"give the contents of a fisher\.json"):
            definitions(wrong)


def test_tables_take_the_confidence_asked_for_even_if_the_measure_is_unknown():
    wide, narrow = (
        report(full(), confidence=c, measure="document|kappa_rank").intervals("document", "kappa")
        for c in (0.99, 0.5)
    )
    assert wide["cosine"].confidence == 0.99
    assert wide["cosine"].high - wide["cosine"].low > 5 * (
        narrow["cosine"].high - narrow["cosine"].low
    )
    unknown = [
        item("dot", batch, {"kappa": 1.0 + batch, "effective_rank": None}) for batch in range(3)
    ]
    found = report(unknown, confidence=0.5)
    assert found.intervals("document", "kappa")["dot"].confidence == 0.5
