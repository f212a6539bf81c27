"""Norms of relevant documents against others, beside loops that list every pair."""

import math

import numpy as np
import pytest
from magnitude_cases import norms_of, planted
from scipy import stats

from magjax.analysis import MagnitudeSettings, cohens_d, hedges_g, norm_auc
from magjax.analysis._magnitude_contrast import contrast_documents, contrast_pairs
from magjax.analysis._magnitude_negatives import Judgements, Negatives, choose_negatives
from magjax.checks import InputError
from magjax.evaluation import Ranking, search
from magjax.similarity import Score

SETTINGS = MagnitudeSettings(resamples=20, seed=5, random=7, top_k=12, confidence=0.9)
NOTHING = Ranking((), (), (), ())  # only top_k looks at a ranking
EFFECTS = {"cohens_d": cohens_d, "hedges_g": hedges_g, "norm_auc": norm_auc}


@pytest.fixture(scope="module")
def case():
    data = planted(1.0, per_query=2, queries=20, documents=80)
    data["qrels"]["q3"]["d5"] = 0  # judged, but not relevant
    data["qrels"]["q4"] = dict.fromkeys(data["qrels"]["q5"], 1)  # documents that two queries share
    data["qrels"]["q6"] = {}
    return data


@pytest.fixture(scope="module")
def ranking(case):
    return search(
        case["queries"],
        case["documents"],
        score=Score.of("dot"),
        k=12,
        query_ids=case["query_ids"],
        document_ids=case["document_ids"],
    )


def judgements_of(case, exclude=None):
    return Judgements.of(case["qrels"], case["query_ids"], case["document_ids"], exclude)


def choose(kind, judgements, ranking, seed=5):
    return choose_negatives(kind, judgements, ranking, random=7, top_k=12, seed=seed)


def relevant_rows(case, query):
    grades = case["qrels"].get(query, {})
    return sorted(int(name[1:]) for name, grade in grades.items() if grade > 0)


def test_each_kind_holds_the_documents_that_it_says(case, ranking):
    judgements = judgements_of(case)
    for q, query in enumerate(case["query_ids"]):
        relevant = set(relevant_rows(case, query))
        everything = choose("all", judgements, ranking).rows(q)
        assert everything.tolist() == sorted(set(range(80)) - relevant)
        hard = choose("top_k", judgements, ranking).rows(q)
        assert hard.tolist() == sorted({int(d[1:]) for d in ranking.documents[q]} - relevant)
        drawn = choose("random", judgements, ranking).rows(q)
        assert len(set(drawn)) == 7
        assert set(drawn) <= set(everything)
        assert drawn.tolist() == choose("random", judgements, ranking).rows(q).tolist()
    other = choose("random", judgements, ranking, seed=6)
    assert any(drawn.tolist() != other.rows(q).tolist() for q in range(20))


@pytest.mark.parametrize("kind", ["random", "top_k", "all"])
def test_documents_of_every_kind_are_counted(case, ranking, kind):
    chosen = choose(kind, judgements_of(case), ranking)
    counted = np.bincount(np.concatenate([chosen.rows(q) for q in range(20)]), minlength=80)
    assert chosen.counts().tolist() == counted.tolist()


def test_random_documents_are_drawn_evenly_among_those_that_are_not_relevant():
    judgements = Judgements.of({"q": {"d1": 1, "d4": 1}}, ["q"], [f"d{i}" for i in range(6)])
    counts = np.zeros(6, int)
    for seed in range(400):
        rows = choose_negatives("random", judgements, NOTHING, random=2, top_k=1, seed=seed).rows(0)
        counts[rows] += 1
    assert counts[[1, 4]].tolist() == [0, 0]
    assert stats.chisquare(counts[[0, 2, 3, 5]]).pvalue > 1e-3
    few = choose_negatives("random", judgements, NOTHING, random=9, top_k=1, seed=0)
    assert few.rows(0).tolist() == [0, 2, 3, 5]


def test_excluded_documents_are_neither_relevant_nor_others(case, ranking):
    judgements = judgements_of(case, {"q0": case["document_ids"][:3], "q1": ["absent"]})
    assert not set(judgements.relevant[0]) & {0, 1, 2}
    for kind in ("random", "all"):
        assert not set(choose(kind, judgements, ranking).rows(0)) & {0, 1, 2}


@pytest.mark.parametrize("kind", ["random", "top_k", "all"])
def test_pooled_effects_draw_whole_queries(case, ranking, kind):
    norms, judgements = norms_of(case["documents"]), judgements_of(case)
    chosen = choose(kind, judgements, ranking)
    found, other_means = contrast_pairs(norms, judgements, chosen, SETTINGS)
    pairs = {
        q: (norms[relevant_rows(case, name)], norms[chosen.rows(q)])
        for q, name in enumerate(case["query_ids"])
        if relevant_rows(case, name)
    }
    assert found.queries == len(pairs) == 19
    assert found.relevant == sum(len(one) for one, _ in pairs.values())
    assert found.others == sum(len(other) for _, other in pairs.values())
    assert other_means[2] == pytest.approx(pairs[2][1].mean(), rel=1e-12)

    def pooled(keys):
        return [np.concatenate([pairs[key][side] for key in keys]) for side in (0, 1)]

    one, other = pooled(list(pairs))
    assert found.mean_relevant == pytest.approx(one.mean(), rel=1e-12)
    assert found.mean_other == pytest.approx(other.mean(), rel=1e-12)
    draws, keys = np.random.default_rng(5), np.array(list(pairs))
    resamples = [pooled(keys[draws.integers(0, 19, 19)]) for _ in range(20)]
    for name, effect in EFFECTS.items():
        assert found.pooled[name].mean == pytest.approx(effect(one, other), rel=1e-9)
        ends = np.quantile([effect(*drawn) for drawn in resamples], [0.05, 0.95])
        assert (found.pooled[name].low, found.pooled[name].high) == pytest.approx(ends, rel=1e-9)


def test_effects_within_queries_are_means_over_queries(case, ranking):
    norms, judgements = norms_of(case["documents"]), judgements_of(case)
    found, _ = contrast_pairs(norms, judgements, choose("all", judgements, ranking), SETTINGS)
    differences, aucs, squares, freedom = [], [], 0.0, 0
    for name in case["query_ids"]:
        rows = relevant_rows(case, name)
        if rows:
            one = norms[rows]
            other = np.delete(norms, rows)
            differences.append(one.mean() - other.mean())
            squares += ((one - one.mean()) ** 2).sum() + ((other - other.mean()) ** 2).sum()
            freedom += len(norms) - 2
            aucs.append(np.mean([(a > other).mean() + 0.5 * (a == other).mean() for a in one]))
    expected = np.mean(differences)
    assert found.within["difference"].mean == pytest.approx(expected, rel=1e-12)
    half = stats.sem(differences) * stats.t.ppf(0.95, len(differences) - 1)
    assert found.within["difference"].high == pytest.approx(expected + half, rel=1e-9)
    deviation = math.sqrt(squares / freedom)
    assert found.within["cohens_d"].mean == pytest.approx(expected / deviation, rel=1e-9)
    assert found.within["norm_auc"].mean == pytest.approx(np.mean(aucs), rel=1e-12)


def test_what_differs_between_queries_only_cancels_inside_them():
    """Hard queries with long documents throughout: pooled pairs differ, pairs of a query do not."""
    norms = np.array([1.0, 1.1, 0.9, 9.0, 9.1, 8.9])
    qrels = {"q": {"d0": 1}, "r": {"d3": 1, "d4": 1, "d5": 1}}
    judgements = Judgements.of(qrels, ["q", "r"], [f"d{i}" for i in range(6)])
    chosen = Negatives("random", "", (np.array([1, 2]), np.array([3])), False, 6)
    found, _ = contrast_pairs(norms, judgements, chosen, SETTINGS)
    assert found.pooled["cohens_d"].mean > 0.5
    assert abs(found.within["difference"].mean) < 0.01


def test_distinct_documents_count_once(case):
    norms, judgements = norms_of(case["documents"]), judgements_of(case)
    found = contrast_documents(norms, judgements, SETTINGS)
    ever = sorted({row for name in case["query_ids"] for row in relevant_rows(case, name)})
    assert found.relevant == len(ever)
    assert found.others == 80 - len(ever)
    never = np.delete(norms, ever)
    for name, effect in EFFECTS.items():
        assert found.pooled[name].mean == pytest.approx(effect(norms[ever], never), rel=1e-9)
        assert found.pooled[name].low < found.pooled[name].mean < found.pooled[name].high
    everyone = Judgements.of({"q": {"a": 1}}, ["q"], ["a"])
    assert contrast_documents(np.ones(1), everyone, SETTINGS) is None


def test_judgements_of_other_data_are_refused(case):
    ids = (case["query_ids"], case["document_ids"])
    with pytest.raises(InputError, match="name query 'other', which is not among the 20"):
        Judgements.of({"other": {"d1": 1}}, *ids)
    with pytest.raises(InputError, match="query 'q1' name document 'x', which is not among the 80"):
        Judgements.of({"q1": {"x": 1}}, *ids)
    with pytest.raises(InputError, match="no query has a document judged above 0"):
        Judgements.of({"q1": {"d1": 0}}, *ids)
