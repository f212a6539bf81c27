"""Cross-evaluation: which rankings coincide, what the differences are, how the table is drawn."""

import dataclasses
import itertools
import weakref

import numpy as np
import pytest
import reference

from magjax.analysis import (
    ModelEmbeddings,
    check_identity,
    cross_evaluate,
    cross_figure,
    evaluate_under_scores,
    format_cross,
    model_names,
    reversed_benchmark,
)
from magjax.checks import InputError
from magjax.data import Benchmark
from magjax.evaluation import Ranking, evaluate_run
from magjax.similarity import PRESETS, Score

METRICS = ("ndcg@3", "mrr@3")
FIXED = [Score.of(name) for name in PRESETS]


@pytest.fixture(scope="module")
def benchmark():
    random = np.random.default_rng(1)
    qrels = {f"q{i}": {f"d{j}": 1 for j in random.choice(8, 2, replace=False)} for i in range(6)}
    texts = [f"text {i}" for i in range(8)]
    texts[7] = ""
    return Benchmark(
        "toy/in_domain",
        [f"q{i}" for i in range(7)],
        [f"query {i}" for i in range(7)],
        [f"d{i}" for i in range(8)],
        texts,
        {**qrels, "q6": {}},
        excluded={"q0": ["d5"]} if "d5" not in qrels["q0"] else {},
    )


def embeddings(name, trained, seed):
    random = np.random.default_rng(seed)
    sides = (random.normal(size=(7, 4)), random.normal(size=(8, 4)) * random.gamma(2, size=(8, 1)))
    return ModelEmbeddings(name, trained, *(side.astype(np.float32) for side in sides))


@pytest.fixture(scope="module")
def table(benchmark):
    models = (
        embeddings("cosine run", Score.of("cosine", 0.05), 0),
        embeddings("dot run", Score.of("dot", 2.0), 1),
        embeddings("learned", Score("learnable", 0.93, 0.25, 0.1), 2),
        embeddings("start", None, 3),
    )
    scores = [*FIXED, Score("learnable", 0.93, 0.25, 0.1)]
    return cross_evaluate(iter(models), benchmark, scores, METRICS, k=3)


def test_every_cell_is_what_plain_loops_rank(benchmark, table):
    model = embeddings("dot run", None, 1)
    for cell in table.row("dot run").cells:
        matrix = reference.scores(model.query, model.document, *cell.score.gammas)
        run = {
            query: {
                document: matrix[i, j]
                for j, document in enumerate(benchmark.document_ids)
                if document not in benchmark.excluded.get(query, ())
            }
            for i, query in enumerate(benchmark.query_ids)
        }
        expected = evaluate_run(run, benchmark.qrels, METRICS)
        for metric in METRICS:
            assert cell.mean(metric) == pytest.approx(expected.mean[metric], abs=1e-12)
            found = dict(zip(table.query_ids, cell.values[metric], strict=True))
            assert found == {query: row[metric] for query, row in expected.per_query.items()}
    assert table.query_ids == tuple(f"q{i}" for i in range(6))
    assert table.rows[0].unjudged == 1


@pytest.mark.parametrize(
    ("direction", "pairs"),
    [
        ("query_to_document", {("cosine", "dnorm"), ("dot", "qnorm")}),
        ("document_to_query", {("cosine", "qnorm"), ("dot", "dnorm")}),
    ],
)
def test_the_scores_of_one_ranked_power_coincide(benchmark, direction, pairs):
    for seed in range(3):
        model = embeddings("m", Score.of("dot"), seed)
        row = evaluate_under_scores(model, benchmark, metrics=METRICS, k=3, direction=direction)
        assert {found.scores for found in row.identities} == pairs
        assert all(found.holds and found.swapped == 0 for found in row.identities)
        values = {cell.name: cell.values["ndcg@3"].tolist() for cell in row.cells}
        assert all(values[one] == values[two] for one, two in pairs)
        (first, _), (second, _) = sorted(pairs)
        assert values[first] != values[second]


def test_the_reverse_direction_asks_with_documents(benchmark):
    turned, rows = reversed_benchmark(benchmark)
    relevant = {d for row in benchmark.qrels.values() for d in row} - {"d7"}  # d7 is empty
    assert set(turned.query_ids) == relevant
    assert [benchmark.document_ids[row] for row in rows] == list(turned.query_ids)
    for document, row in turned.qrels.items():
        assert row == {q: 1 for q, judged in benchmark.qrels.items() if document in judged}
    model = embeddings("m", None, 4)
    found = evaluate_under_scores(
        model, benchmark, [Score.of("qnorm")], METRICS, k=3, direction="document_to_query"
    )
    matrix = reference.scores(model.query, model.document, 1.0, 0.0)
    never = {(q, d) for q, names in benchmark.excluded.items() for d in names}
    run = {
        document: {
            query: matrix[i, row]
            for i, query in enumerate(benchmark.query_ids)
            if (query, document) not in never
        }
        for document, row in zip(turned.query_ids, rows, strict=True)
    }
    expected = evaluate_run(run, turned.qrels, METRICS)
    assert found.cells[0].mean("ndcg@3") == pytest.approx(expected.mean["ndcg@3"], abs=1e-12)


def ranking(rows, scores):
    documents = tuple(f"d{row}" for row in rows)
    return Ranking(("q",), (documents,), (np.array(scores),), (np.array(rows),))


@pytest.mark.parametrize(
    ("rows", "scores", "expected"),
    [
        ([4, 2, 7], [6.0, 2.0, 1.0], (0, 0)),  # the same, by a query twice as long
        ([4, 7, 2], [6.0, 2.0, 1.0], (0, 1)),  # another order
        ([4, 2, 5], [6.0, 2.0, 0.5], (0, 1)),  # a worse document in the last place
        ([4, 2], [6.0, 2.0], (0, 1)),
    ],
)
def test_rankings_that_must_coincide_are_compared(rows, scores, expected):
    one = ranking([4, 2, 7], [3.0, 1.0, 0.5])
    found = check_identity("m", {"dot": one, "qnorm": ranking(rows, scores)})
    assert (found.swapped, found.different) == expected
    assert found.holds == (expected[1] == 0)
    assert ("VIOLATED" in found.describe()) == (not found.holds)


def test_ties_may_swap():
    one = ranking([4, 2, 7], [3.0, 1.0, 1.0 - 1e-15])
    for rows in ([4, 7, 2], [4, 2, 9]):  # 9 ties with the last
        found = check_identity("m", {"dot": one, "qnorm": ranking(rows, [6.0, 2.0, 2.0])})
        assert (found.swapped, found.different, found.holds) == (1, 0, True)


def test_a_learned_score_is_a_column_and_every_row_marks_its_own(benchmark, table):
    assert table.score_names == ["cosine", "dnorm", "dot", "qnorm", "0.93,0.25"]
    assert [row.trained and row.trained.name for row in table.rows] == [
        "cosine", "dot", "0.93,0.25", None,
    ]  # fmt: skip
    text = format_cross(table)
    assert "start: states no trained score." in text
    assert "1 queries without a judgement are in no mean." in text
    assert f"[{table.row('learned').trained.mean('mrr@3'):.4f}]" in text
    own = Score("learnable", 0.5, 0.5, 0.1)
    alone = cross_evaluate([embeddings("m", own, 0)], benchmark, FIXED, METRICS, k=3)
    assert alone.score_names[-1] == "0.5,0.5"  # added to its row


def test_only_one_models_embeddings_are_held(benchmark):
    held = []

    def models():
        for seed in range(3):
            assert all(made() is None for made in held)
            model = embeddings(f"m{seed}", None, seed)
            held.append(weakref.ref(model.document))
            yield model
            del model

    assert len(cross_evaluate(models(), benchmark, FIXED[:1], METRICS, k=3).rows) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": []}, "no model"),
        ({"models": [0, 0]}, "two models are called 'm'"),
        ({"metrics": ["ndgc@3"]}, "Did you mean 'ndcg'"),
        ({"metrics": ["ndcg@10"]}, "looks at 10 documents"),
        ({"scores": [Score.of("dot"), Score.power(0, 0)]}, "'dot' is named twice"),
        ({"direction": "both"}, "unknown direction 'both'"),
    ],
)
def test_wrong_input_is_refused(benchmark, arguments, message):
    settings = {"models": [0], "metrics": METRICS, "scores": FIXED, "k": 3, **arguments}
    models = [embeddings("m", None, seed) for seed in settings.pop("models")]
    with pytest.raises(InputError, match=message):
        cross_evaluate(models, benchmark, **settings)


def test_embeddings_of_another_benchmark_are_refused(benchmark):
    model = embeddings("m", None, 0)
    short = dataclasses.replace(model, document=model.document[:3])
    with pytest.raises(InputError, match="3"):
        cross_evaluate([short], benchmark, FIXED, METRICS, k=3)
    with pytest.raises(InputError, match="fewer than the benchmark has"):
        cross_evaluate([short], benchmark, FIXED, METRICS, k=3, direction="document_to_query")


def test_models_are_called_by_their_folders():
    assert model_names(["runs/cosine", "/tmp/runs/qnorm/model", "package:gt_mini/model"]) == [
        "cosine", "qnorm", "gt_mini",
    ]  # fmt: skip
    assert model_names(["a/x/run", "a/y/run", "b/run"]) == ["x/run", "y/run", "b/run"]
    with pytest.raises(InputError, match="a/run is named twice"):
        model_names(["a/run", "b", "a/run"])


def test_the_heat_map_shows_values_frames_and_borders(table):
    figure = cross_figure([table, dataclasses.replace(table, domain="other")], "ndcg@3")
    assert [axes.get_title() for axes in figure.axes] == ["toy/in_domain", "other"]
    axes = figure.axes[0]
    shown = iter(text.get_text() for text in axes.texts)
    for model, score in itertools.product((row.model for row in table.rows), table.score_names):
        assert next(shown) == f"{table.cell(model, score).mean('ndcg@3'):.3f}"
    labels = [label.get_text().replace("\n", "") for label in axes.get_xticklabels()]
    assert labels == table.score_names
    frames = [(round(p.get_x() + 0.44), round(p.get_y() + 0.42)) for p in axes.patches]
    assert frames == [(0, 0), (2, 1), (4, 2)]  # cosine, dot, learned; none for the start
    assert sorted(line.get_xdata()[0] for line in axes.lines) == [1.5, 3.5]
    for wrong, metric in (([], "ndcg@3"), ([table], "map")):
        with pytest.raises(InputError):
            cross_figure(wrong, metric)
