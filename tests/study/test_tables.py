"""The table of a study against direct NumPy code, and its three written forms."""

import csv
import io

import numpy as np
import pytest
from scipy import stats
from study_cases import fake_compute, grid, values_of

from magjax.statistics import holm, paired_bootstrap
from magjax.study import CellResult, StoredCell, study_csv, study_rows
from magjax.study._document import Table, to_latex, to_markdown
from magjax.study._report_tables import comparison_table, result_tables

VARIANTS = ("cosine", "qnorm", "dnorm")
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    study = grid(variants=VARIANTS, seeds=SEEDS)
    run = tmp_path_factory.mktemp("run")
    return [
        StoredCell.of(
            cell, fake_compute(cell, run, lambda _: None), versions={}, machine="m", seconds=1.0
        )
        for cell in [*study.references(), *study.trained({})]
    ]


def rows_by_name(cells, **settings):
    rows = study_rows(cells, "ndcg@10", reference="cosine", resamples=500, **settings)
    return {(row.unit.domain, row.system): row for row in rows}


def test_means_and_intervals_are_those_of_the_seeds(cells):
    rows = rows_by_name(cells)
    for domain in ("home", "away"):
        for variant in VARIANTS:
            means = [np.mean(values_of(variant, seed, domain)) for seed in SEEDS]
            row = rows[domain, variant]
            assert row.mean == pytest.approx(np.mean(means))
            low, high = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
            assert (row.low, row.high) == pytest.approx((low, high))
            assert row.seeds == pytest.approx(means)
        assert rows[domain, "bm25"].low is None
        assert rows[domain, "bm25"].wins is None


def test_wins_are_counted_by_seed(cells):
    rows = rows_by_name(cells)
    for domain in ("home", "away"):
        table = np.array([[np.mean(values_of(v, s, domain)) for s in SEEDS] for v in VARIANTS])
        best = table.argmax(0)
        for place, variant in enumerate(VARIANTS):
            assert rows[domain, variant].wins == np.sum(best == place)


def test_comparisons_are_paired_over_the_means_of_the_seeds_and_corrected(cells):
    rows = rows_by_name(cells)
    p_values = {}
    for domain in ("home", "away"):
        mean = {v: np.mean([values_of(v, s, domain) for s in SEEDS], 0) for v in VARIANTS}
        best = max(mean, key=lambda v: mean[v].mean())
        assert best == "dnorm"
        for variant in VARIANTS:
            for other, comparison in (
                ("cosine", rows[domain, variant].reference),
                (best, rows[domain, variant].leader),
            ):
                if variant in (other, "cosine"):
                    assert comparison is None
                    continue
                expected = paired_bootstrap(mean[variant], mean[other], resamples=500)
                assert comparison.found.mean == pytest.approx(expected.mean)
                assert comparison.found.p_value == expected.p_value
                assert comparison.won == np.sum(mean[variant] > mean[other])
                assert comparison.lost == np.sum(mean[variant] < mean[other])
                p_values[domain, variant, other] = expected.p_value
    assert len(p_values) == 6
    corrected = holm({str(key): value for key, value in p_values.items()})
    for (domain, variant, other), _ in p_values.items():
        row = rows[domain, variant]
        comparison = row.reference if other == "cosine" else row.leader
        assert comparison.corrected == corrected[str((domain, variant, other))]


def test_a_failed_run_is_left_out_of_means_and_loses(cells):
    changed = [
        CellResult(cell.result.data, [], {}, {}, failure="loss is nan at step 7")
        if (cell.variant, cell.seed) == ("dnorm", 1)
        else cell.result
        for cell in cells
    ]
    broken = [
        StoredCell.of(cell.cell(), result, versions={}, machine="m", seconds=1.0)
        for cell, result in zip(cells, changed, strict=True)
    ]
    row = rows_by_name(broken)["home", "dnorm"]
    means = [np.mean(values_of("dnorm", seed, "home")) for seed in (0, 2)]
    assert row.mean == pytest.approx(np.mean(means))
    assert (row.failed, row.wins, len(row.seeds)) == (1, 2, 2)
    one = np.mean([values_of("dnorm", s, "home") for s in (0, 2)], 0)
    other = np.mean([values_of("cosine", s, "home") for s in (0, 2)], 0)
    assert row.reference.found.mean == pytest.approx(np.mean(one - other))
    (table,) = result_tables(list(rows_by_name(broken).values()), "ndcg@10", 0.95)
    assert any("(1 failed)" in text and "2 of 3" in row for row in table.rows for text in row)


def test_one_seed_has_no_interval(cells):
    row = rows_by_name([c for c in cells if c.seed == 0])["home", "dnorm"]
    assert (row.low, row.high, row.wins) == (None, None, 1)


def test_a_variant_whose_every_run_failed_is_shown_as_such(cells):
    broken = [
        StoredCell.of(
            cell.cell(),
            CellResult(cell.result.data, [], {}, {}, failure="loss is nan")
            if cell.variant == "dnorm"
            else cell.result,
            versions={},
            machine="m",
            seconds=1.0,
        )
        for cell in cells
    ]
    row = rows_by_name(broken)["home", "dnorm"]
    assert (row.mean, row.wins, row.reference, row.leader) == (None, 0, None, None)
    (table,) = result_tables(list(rows_by_name(broken).values()), "ndcg@10", 0.95)
    assert any("all 3 runs failed" in text for line in table.rows for text in line)


def test_csv_holds_every_number_in_full(cells):
    rows = study_rows(cells, "ndcg@10", reference="cosine", resamples=500)
    lines = list(csv.DictReader(io.StringIO(study_csv(rows, "ndcg@10"))))
    assert len(lines) == 2 * (1 + 4 + 3)
    for line, row in zip(lines, rows, strict=True):
        assert (line["system"], line["domain"]) == (row.system, row.unit.domain)
        assert line["in_domain"] == ("true" if row.unit.domain == "home" else "false")
        assert float(line["mean"]) == row.mean
        if row.reference:
            assert float(line["reference_difference"]) == row.reference.found.mean
            assert float(line["reference_p_holm"]) == row.reference.corrected
        else:
            assert line["reference_difference"] == ""


def test_the_printed_table_has_a_line_a_system_and_two_columns_a_test(cells):
    rows = study_rows(cells, "ndcg@10", reference="cosine", resamples=500)
    (table,) = result_tables(rows, "ndcg@10", 0.95)
    assert table.header == [
        "start", "system", "home (in domain)", "seeds won", "away (out of domain)", "seeds won",
    ]  # fmt: skip
    assert [row[1] for row in table.rows] == [
        "bm25", "untrained cosine", "untrained dot", "untrained qnorm", "untrained dnorm",
        *VARIANTS,
    ]  # fmt: skip
    mean = np.mean([np.mean(values_of("dnorm", seed, "home")) for seed in SEEDS])
    assert table.rows[-1][2].startswith(f"{mean:.4f} ± ")
    compared = comparison_table(rows, "cosine", 0.95)
    assert len(compared.rows) == 2 * (1 + 2)  # dnorm against cosine, qnorm against both


def test_markdown_and_latex_escape_every_special_character():
    table = Table(["a|b", "50 %"], [["x_1 & <y> \\ {z} $5 #1 ~^ `c`", "0.5 ± 0.1"]], words=1)
    markdown = to_markdown([table])
    assert "a\\|b" in markdown
    assert "x\\_1 &amp; &lt;y&gt; \\\\ {z} $5 \\#1 \\~^ \\`c\\`" in markdown
    latex = to_latex([table])
    assert (
        r"x\_1 \& \textless{}y\textgreater{} \textbackslash{} \{z\} \$5 \#1 "
        r"\textasciitilde{}\textasciicircum{}" in latex
    )
    assert r"50 \%" in latex
    assert r"0.5 $\pm$ 0.1" in latex
    assert all(
        len(line.split(" & ")) == 2 for line in latex.splitlines() if line.endswith(r"\\")
    ) or (
        latex.count(" & ") == 2  # the separators; the escaped one is \&
    )
