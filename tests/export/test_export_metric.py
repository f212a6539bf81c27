"""Which metric may stand in for which score."""

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.export import choose_metric
from magjax.export._metric import trained_scores
from magjax.similarity import PRESETS, Score


@pytest.mark.parametrize("name", PRESETS)
def test_the_inner_product_is_always_right(name):
    assert choose_metric(Score.of(name)) == "inner_product"
    assert choose_metric(Score.of(name), "inner_product") == "inner_product"


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize(
    "score", [Score.of("dot"), Score.of("qnorm"), Score.power(1, 0.99), Score.power(0, 0.5)]
)
def test_a_metric_blind_to_length_is_refused_where_length_counts(metric, score):
    with pytest.raises(InputError, match=rf"(?s)'{metric}'.*stored document is.*augment="):
        choose_metric(score, metric)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("score", [Score.of("cosine"), Score.of("dnorm"), Score.power(0.4, 1)])
def test_it_is_right_where_all_documents_have_one_length(metric, score):
    assert choose_metric(score, metric) == metric


def test_an_augmentation_states_its_metric():
    assert choose_metric(Score.of("dot"), augment="euclidean") == "euclidean"
    assert choose_metric(Score.of("dot"), "cosine", "cosine") == "cosine"
    for metric in ("inner_product", "euclidean"):
        with pytest.raises(InputError, match="does not fit augment='cosine'"):
            choose_metric(Score.of("dot"), metric, "cosine")


def test_unknown_names_list_the_known_ones():
    with pytest.raises(InputError, match="known: inner_product, cosine, euclidean"):
        choose_metric(Score.of("dot"), "dot")
    with pytest.raises(InputError, match="Did you mean 'euclidean'"):
        choose_metric(Score.of("dot"), augment="euclid")


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner_product"])
def test_products_come_back_from_what_engines_return(metric):
    rng = np.random.default_rng(0)
    q = rng.normal(size=6)
    d = rng.normal(size=(9, 6))
    d *= 3.0 / np.linalg.norm(d, axis=1, keepdims=True)
    values = {
        "inner_product": d @ q,
        "cosine": d @ q / np.linalg.norm(q) / 3.0,
        "euclidean": ((d - q) ** 2).sum(axis=1),
    }[metric]
    found = trained_scores(values, metric, query_norm=float(np.linalg.norm(q)), document_norm=3.0)
    np.testing.assert_allclose(found, d @ q, rtol=1e-12)
