"""Verdicts against a direct loop, on values whose truth is known."""

import json

import numpy as np
import pytest
from scipy import stats
from study_cases import fake_compute, fingerprints, grid

from magjax.checks import InputError
from magjax.config import study_claim
from magjax.study import (
    CellResult,
    Measured,
    StoredCell,
    read_cells,
    series_of,
    study_units,
    verdicts,
)


def made(study, values, *, failed=()):
    """Stored cells whose per-item values are ``values[system][seed]``, on one test."""
    cells = [*study.references(), *study.trained({})]
    stored = []
    for cell in cells:
        rows, failure = [], None
        names = (
            {name: name for name in values if name.startswith("untrained")}
            if cell.role == "untrained"
            else {cell.variant or "bm25": "bm25" if cell.role == "bm25" else "model"}
        )
        if (cell.variant, cell.seed) in failed:
            failure = "loss is nan at step 7"
        else:
            for system, name in names.items():
                if system in values:
                    for domain, found in values[system][cell.seed].items():
                        found = np.asarray(found, float).tolist()
                        metrics = {"ndcg@10": float(np.mean(found))}
                        test = fingerprints(0)[domain]
                        rows.append(Measured(domain, name, metrics, {"ndcg@10": found}, test, {}))
        result = CellResult(fingerprints(cell.seed), rows, {}, {}, failure=failure)
        stored.append(StoredCell.of(cell, result, versions={}, machine="m", seconds=1.0))
    return stored


def claim(better=("dnorm",), than=("cosine",), **changes):
    return study_claim("One side wins.", better=better, than=than, **changes)


def normal(seeds, items, mean, noise=0.02, between=0.0, domains=("home",), source=0):
    """Values by seed and domain; the items' own difficulty is shared by all systems."""
    random, own = np.random.default_rng(1), np.random.default_rng(source)
    difficulty = random.normal(0, 0.1, items)
    return {
        seed: {
            domain: mean + difficulty + own.normal(0, between) + own.normal(0, noise, items)
            for domain in domains
        }
        for seed in range(seeds)
    }


def decide(values, claims=None, *, seeds=3, failed=(), **settings):
    variants = tuple(v for v in values if v != "bm25" and not v.startswith("untrained"))
    study = grid(variants=variants, seeds=tuple(range(seeds)), claims=tuple(claims or [claim()]))
    return verdicts(made(study, values, failed=failed), study.claims, resamples=2000, **settings)


def test_a_clear_difference_is_supported_and_its_opposite_is_not():
    values = {"dnorm": normal(3, 200, 0.6, source=1), "cosine": normal(3, 200, 0.5, source=2)}
    up, down = decide(values, [claim(), claim(better=("cosine",), than=("dnorm",))])
    assert (up.decision, down.decision) == ("supported", "not supported")
    assert up.difference == pytest.approx(-down.difference)
    assert up.low < up.difference < up.high
    assert up.low > 0.08
    assert (up.seeds, up.items) == (3, 200)
    assert (up.best, up.rival) == ("dnorm", "cosine")


def test_no_difference_is_undecided():
    values = {"dnorm": normal(3, 200, 0.5, source=1), "cosine": normal(3, 200, 0.5, source=2)}
    (found,) = decide(values)
    assert found.decision == "undecided"
    assert found.low < 0 < found.high


def test_a_margin_must_be_exceeded():
    values = {"dnorm": normal(3, 400, 0.52, source=1), "cosine": normal(3, 400, 0.5, source=2)}
    plain, small, large = decide(values, [claim(), claim(margin=0.01), claim(margin=0.05)])
    assert plain.decision == small.decision == "supported"
    assert large.decision == "not supported"


def test_seeds_that_differ_widely_leave_a_claim_undecided():
    """Every seed's queries are sure of the same sign, but one seed makes most of the difference."""
    values = {
        "dnorm": {s: {"home": np.full(300, v)} for s, v in enumerate((0.62, 0.51, 0.505))},
        "cosine": {s: {"home": np.full(300, 0.5)} for s in range(3)},
    }
    (found,) = decide(values)
    assert found.p_items < 0.01
    assert found.p_seeds > 0.2
    assert found.decision == "undecided"


def test_one_seed_says_that_training_noise_is_left_out():
    values = {"dnorm": normal(1, 300, 0.6, source=1), "cosine": normal(1, 300, 0.5, source=2)}
    (found,) = decide(values, seeds=1)
    assert found.decision == "supported"
    assert found.p_seeds is None
    assert "leaves training noise out" in found.notes[0]


def test_the_best_of_each_side_is_compared():
    values = {
        "dnorm": normal(3, 200, 0.55, source=1),
        "qnorm": normal(3, 200, 0.60, source=2),
        "cosine": normal(3, 200, 0.58, source=3),
        "dot": normal(3, 200, 0.40, source=4),
    }
    one_sided = {"better": ("qnorm", "dnorm")}
    both, one = decide(
        values, [claim(**one_sided, than=("cosine", "dot")), claim(**one_sided, than=("dot",))]
    )
    assert (both.best, both.rival) == ("qnorm", "cosine")
    assert both.difference == pytest.approx(0.02, abs=0.005)
    assert (one.best, one.rival) == ("qnorm", "dot")


def test_in_and_out_of_domain_and_their_mean_are_told_apart():
    both = ("home", "away")
    values = {
        name: {
            seed: {
                "home": normal(3, 100, 0.5, source=source)[seed]["home"],
                "away": normal(3, 80, 0.5 + lift, source=source)[seed]["home"],
            }
            for seed in range(3)
        }
        for name, lift, source in (("dnorm", 0.2, 1), ("cosine", 0.0, 2))
    }
    inside, outside, every, named = decide(
        values, [claim(), claim(domain="out"), claim(domain="all"), claim(domain="away")]
    )
    assert inside.difference == pytest.approx(0.0, abs=0.01)
    assert outside.difference == pytest.approx(0.2, abs=0.01)
    assert named.difference == outside.difference
    assert every.difference == pytest.approx((inside.difference + outside.difference) / 2)
    assert [unit.domain for unit in every.units] == list(both)
    assert every.items == 180
    with pytest.raises(InputError, match="known: in, out, all, home, away"):
        decide(values, [claim(domain="abroad")])
    study = grid(seeds=(0, 1, 2), claims=(claim(), claim(domain="out")), in_domain=("home", "away"))
    both_in, none_out = verdicts(made(study, values), study.claims, resamples=100)
    assert both_in.difference == every.difference
    assert none_out.decision == "undecided"
    study = grid(seeds=(0, 1, 2), in_domain=("hme",))
    with pytest.raises(InputError, match="Did you mean 'home'"):
        verdicts(made(study, values), study.claims)


def test_references_can_be_compared_and_have_no_training_noise():
    flat = {0: {"home": np.full(100, 0.1)}}
    values = {
        "dnorm": normal(2, 100, 0.6, source=1),
        "cosine": normal(2, 100, 0.5, source=2),
        "bm25": normal(1, 100, 0.3, source=3),
        "untrained cosine": flat,
        "untrained dot": normal(1, 100, 0.05, source=4),
    }
    lexical, start = decide(
        values,
        [claim(than=("bm25",)), claim(("untrained dot",), ("untrained cosine",))],
        seeds=2,
    )
    assert lexical.decision == "supported"
    assert lexical.seeds == 2
    assert start.decision == "not supported"
    assert start.p_seeds is None
    assert "no training noise" in start.notes[0]


def test_a_failed_run_counts_as_zero_and_is_told():
    values = {"dnorm": normal(4, 100, 0.6, source=1), "cosine": normal(4, 100, 0.5, source=2)}
    (found,) = decide(values, seeds=4, failed={("dnorm", 2)})
    assert found.difference == pytest.approx(0.6 * 3 / 4 - 0.5, abs=0.02)
    assert found.decision == "undecided"
    assert found.notes == ("Failed runs of dnorm count as 0.",)
    (none,) = decide(values, seeds=4, failed={("dnorm", seed) for seed in range(4)})
    assert (none.decision, none.difference) == ("undecided", None)


def test_claims_without_cells_are_undecided_and_still_counted():
    values = {"dnorm": normal(3, 200, 0.6, source=1), "cosine": normal(3, 200, 0.5, source=2)}
    study = grid(seeds=(0, 1, 2), claims=(claim(), claim(than=("bm25",))))
    cells = [cell for cell in made(study, values) if cell.role == "trained"]
    first, second = verdicts(cells, study.claims, resamples=500)
    assert (second.decision, second.p_value) == ("undecided", 1.0)
    assert first.corrected == pytest.approx(min(1.0, 2 * first.p_value))
    assert [v.decision for v in verdicts([], study.claims)] == ["undecided", "undecided"]


def test_more_claims_make_each_harder_to_support():
    values = {
        "dnorm": normal(3, 200, 0.53, between=0.004, source=1),
        "cosine": normal(3, 200, 0.5, between=0.004, source=2),
    }
    (alone,) = decide(values)
    assert alone.decision == "supported"
    many = decide(values, [claim(margin=float(m)) for m in np.linspace(0, 0.0001, 12)])
    assert many[0].p_value == alone.p_value
    assert many[0].corrected > alone.corrected
    assert many[0].decision == "undecided"


def test_ten_lines_of_numpy_find_the_same_verdict(tmp_path):
    """From the files alone, by a plain loop that shares nothing with the product."""
    study = grid(seeds=(0, 1, 2), claims=(claim(), claim(domain="out", than=("cosine", "bm25"))))
    for cell in [*study.references(), *study.trained({})]:
        result = fake_compute(cell, tmp_path / "run", lambda _: None)
        stored = StoredCell.of(cell, result, versions={}, machine="m", seconds=1.0)
        stored.write(tmp_path / "cells")
    expected = verdicts(read_cells(tmp_path / "cells"), study.claims, resamples=1000)

    x = {}
    for path in (tmp_path / "cells").glob("*.json"):
        cell = json.loads(path.read_text())
        for row in cell["measured"]:
            key = (cell["variant"] or row["system"], row["domain"])
            x.setdefault(key, {})[cell["seed"]] = row["values"]["ndcg@10"]
    for verdict, than, domain in zip(
        expected, (["cosine"], ["cosine", "bm25"]), ("home", "away"), strict=True
    ):
        systems = {name: x[name, domain] for name in ["dnorm", *than]}
        random = np.random.default_rng(0)
        drawn = []
        for _ in range(1000):
            seeds, items = random.integers(3, size=3), random.integers(40, size=40)
            mean = {
                n: np.mean([[v[s if len(v) > 1 else 0][i] for i in items] for s in seeds])
                for n, v in systems.items()
            }
            drawn.append(mean["dnorm"] - max(mean[name] for name in than))
        tail = min(np.sum(np.array(drawn) <= 0), np.sum(np.array(drawn) >= 0))
        means = {
            n: [np.mean(v[s if len(v) > 1 else 0]) for s in range(3)] for n, v in systems.items()
        }
        rival = max(than, key=lambda name: np.mean(means[name]))
        by_seed = np.subtract(means["dnorm"], means[rival])
        p = max(2 * (tail + 1) / 1001, stats.ttest_1samp(by_seed, 0).pvalue)
        assert verdict.p_value == pytest.approx(p, rel=1e-9)
        assert verdict.difference == pytest.approx(by_seed.mean(), rel=1e-9)
        np.testing.assert_allclose((verdict.low, verdict.high), np.quantile(drawn, [0.025, 0.975]))


def test_few_seeds_are_not_taken_for_all_there_could_be():
    """No true difference, training noise large: of 60 studies with three seeds few may decide.

    The bootstrap alone decides in about a quarter of them: three seeds of one sign are no rarity.
    """
    random = np.random.default_rng(5)
    wrong = by_items = 0
    study = grid(seeds=(0, 1, 2))
    for _ in range(60):
        values = {
            name: {s: {"home": np.full(20, v)} for s, v in enumerate(random.normal(0.5, 0.05, 3))}
            for name in ("dnorm", "cosine")
        }
        (found,) = verdicts(made(study, values), study.claims, resamples=200)
        wrong += found.decision != "undecided"
        by_items += found.p_items <= 0.05
    assert wrong <= 7  # 3 are expected; 8 or more have probability 0.01
    assert by_items > wrong


def test_series_of_two_studies_are_not_mixed_up():
    values = {"dnorm": normal(2, 10, 0.6), "cosine": normal(2, 10, 0.5)}
    cells = made(grid(), values) + made(grid(base__loop__steps=5), values)
    (unit, *_) = study_units(cells)
    with pytest.raises(InputError, match="two cells hold"):
        series_of(cells, unit, "ndcg@10")
