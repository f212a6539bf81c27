import numpy as np
import pytest

from magjax.analysis import read_metrics, retrieval_sheet_figure, training_curves_figure
from magjax.checks import InputError
from magjax.data import ImageArrays, ImageTextBenchmark, ImageTextSet
from magjax.evaluation import rank_image_text
from magjax.similarity import Score

ROWS = [
    {"step": 0, "kind": "evaluation", "mrr": 0.1, "text_to_image/mrr": 0.05, "image_to_text/mrr": 0.15},
    *(
        {
            "step": step,
            "kind": "train",
            "loss": 5.0 / step,
            "temperature": 0.5,
            "query_norm": 2.0,
            "document_norm": 3.0,
            "gradient_norm": "inf" if step == 2 else 10.0**step,
            "gamma_query": 1.0,
            "gamma_document": 0.0,
        }
        for step in (1, 2, 3)
    ),
]  # fmt: skip


def test_every_quantity_of_a_run_has_a_panel():
    figure = training_curves_figure(ROWS, metric="mrr", best_step=2, title="A run")
    panels = {axes.get_title(): axes for axes in figure.axes}
    assert list(panels) == [
        "loss of the batches",
        "mrr on the development test",
        "temperature",
        "length of the embeddings",
        "power of the length",
        "norm of the gradient",
    ]
    curves = {name: axes.lines[:-1] for name, axes in panels.items()}  # the last marks the best
    np.testing.assert_allclose(curves["loss of the batches"][0].get_ydata(), [5, 2.5, 5 / 3])
    assert [line.get_label() for line in curves["mrr on the development test"]] == [
        "mean of both",
        "text to image",
        "image to text",
    ]
    assert curves["norm of the gradient"][0].get_xdata().tolist() == [1, 3]  # inf is left out
    assert panels["norm of the gradient"].get_yscale() == "log"
    assert panels["temperature"].get_yscale() == "linear"  # it does not spread


def test_a_text_run_has_one_curve_of_its_metric():
    rows = [{"step": step, "kind": "evaluation", "ndcg@10": 0.1} for step in (0, 10)]
    (axes,) = training_curves_figure(rows, metric="ndcg@10", title="").axes
    assert len(axes.lines) == 1
    assert axes.get_legend() is None


def test_metrics_that_are_damaged_are_named(tmp_path):
    place = tmp_path / "metrics.jsonl"
    place.write_text('{"step": 1, "kind": "train"}\n{"step": 2')
    with pytest.raises(InputError, match=r"metrics\.jsonl:2 is no JSON"):
        read_metrics(place)
    with pytest.raises(InputError, match="hold nothing to draw"):
        training_curves_figure([], metric="mrr", title="")


@pytest.fixture
def searched():
    """Four images, of which captions 0, 1 and 2 find their own first."""
    ids = [f"image {i}" for i in range(4)]
    pictures = np.arange(4 * 16, dtype=np.uint8).reshape(4, 4, 4)
    captions = [("one",), ("two $x$",), ("a very long name of many words " * 8,), ("four",)]
    benchmark = ImageTextBenchmark.of(
        ImageTextSet(ids, ImageArrays(pictures, ids), captions), "toy"
    )
    eye = np.eye(4, dtype=np.float32)
    texts = eye.copy()
    texts[3] = [0.4, 0.3, 0.2, 0.1]
    found = rank_image_text(
        benchmark, {"text": texts, "image": eye}, Score.of("cosine"), k=4, metrics=["mrr"]
    )
    return benchmark, found


def test_right_images_are_framed_and_captions_fit(searched):
    benchmark, (forward, _) = searched
    figure = retrieval_sheet_figure(benchmark, forward, title="Toy", images=3)
    cells = np.array(figure.axes, object).reshape(4, 4)
    framed = [
        [axes.spines["left"].get_linewidth() > 1 for axes in line[1:]] for line in cells.tolist()
    ]
    assert framed == [[True, False, False]] * 3 + [[False] * 3]
    assert cells[3][0].texts[1].get_text() == "1 right, at place 4 of 4"
    long = cells[2][0].texts[0].get_text().splitlines()
    assert len(long) == 4
    assert long[-1].endswith("…")
    np.testing.assert_array_equal(
        cells[1][1].images[0].get_array()[..., 0], benchmark.images[1][..., 0]
    )
    figure.canvas.draw()
    edge = cells[2][1].get_window_extent().x0
    for line in cells:
        for text in line[0].texts:
            assert text.get_window_extent().x1 <= edge


def test_the_other_direction_is_no_sheet(searched):
    benchmark, (_, backward) = searched
    with pytest.raises(InputError, match="give the result of text_to_image"):
        retrieval_sheet_figure(benchmark, backward, title="Toy")
