import dataclasses
import json
import re

import numpy as np
import pytest
import yaml
from sentence_transformers_versions import tiny_model, trained_embeddings

from magjax.checks import InputError
from magjax.hub import save_sentence_transformers
from magjax.hub._model_card import DISTANCES
from magjax.similarity import PRESETS, Score


@pytest.fixture
def card(tmp_path):
    """Exports a model and returns the text of its card."""

    def make(score, *, allow_inexact=False, training_data=None, figures=None, **settings):
        model = tiny_model(score, **settings)
        save_sentence_transformers(
            model,
            tmp_path / "my-model",
            allow_inexact=allow_inexact,
            training_data=training_data,
            figures=figures,
        )
        return (tmp_path / "my-model" / "README.md").read_text()

    return make


def code_blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_header_is_yaml_for_the_hub(card):
    text = card(Score.of("qnorm"))
    assert text.startswith("---\n")
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["library_name"] == "sentence-transformers"
    assert header["pipeline_tag"] == "sentence-similarity"
    assert {"sentence-transformers", "magjax"} <= set(header["tags"])
    assert "# my-model" in text


@pytest.mark.parametrize("preset", PRESETS)
def test_says_what_numbers_depend_on(card, preset):
    text = card(Score.of(preset, 0.05), query_max_length=12, pooling="cls")
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE))
    query, document = PRESETS[preset]
    assert rows["variant"] == f"`{preset}`"
    assert rows["power of the query's length (gamma_query)"] == f"{query:g}"
    assert rows["power of the document's length (gamma_document)"] == f"{document:g}"
    assert rows["temperature in training"] == "0.05"
    assert rows["query prompt"] == '`"find: "`'
    assert rows["document prompt"] == '`"text: "`'
    assert rows["pooling"] == "`cls`"
    assert rows["most tokens of a query"] == "12"
    assert rows["most tokens of a document"] == "24"
    assert rows["dimensions"] == "16"


@pytest.mark.parametrize("preset", PRESETS)
def test_names_the_distance_of_every_database(card, preset):
    text = card(Score.of(preset))
    for database, distance in DISTANCES.items():
        assert f"| {database} | {distance} |" in text
    for needed in ("DOT", "vector_ip_ops", "<#>", "METRIC_INNER_PRODUCT", "max_inner_product"):
        assert needed in text
    allowed = PRESETS[preset][1] == 1.0
    assert ("Do not set cosine" in text) is not allowed
    assert ("allowed too" in text) is allowed


def test_training_data_and_figures_where_given(card):
    text = card(
        Score.of("dot"),
        training_data=["code search, 20,000 pairs", "two\nlines"],
        figures={"nDCG@10 | code": 0.71234567, "queries": "1,000"},
    )
    assert "- code search, 20,000 pairs\n- two lines\n" in text
    assert r"| nDCG@10 \| code | 0.7123 |" in text
    assert "| queries | 1,000 |" in text
    plain = card(Score.of("dot"), training_data="one text")
    assert "- one text\n" in plain
    assert "## Figures" not in plain
    assert "Training data" not in card(Score.of("dot"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_not_finite_is_refused(card, tmp_path, value):
    with pytest.raises(InputError, match="the figure 'loss' is"):
        card(Score.of("dot"), figures={"loss": value})
    assert not (tmp_path / "my-model").exists()


def test_an_odd_prompt_does_not_break_the_table(tmp_path):
    model = tiny_model(Score.of("dot"))
    text = dataclasses.replace(model.text, query_prompt="a | b `c`\nd: ", document_prompt="")
    save_sentence_transformers(dataclasses.replace(model, text=text), tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert '| query prompt | ``"a \\| b `c`\\nd: "`` |' in card
    assert "| document prompt | none |" in card


def test_plain_encode(card):
    same = "`encode()`, `encode_query()` and `encode_document()` give the same"
    no_prompt = "puts no prompt before a text"
    one_sided = card(Score.of("qnorm"))
    assert no_prompt in one_sided
    assert "only queries are normalized" in one_sided
    assert "only documents are normalized" in card(Score.of("dnorm"))
    assert "weights of the document side" in card(Score.of("dot"), shared=False)
    assert "cuts every text at 24 tokens" in card(Score.of("dot"), query_max_length=12)
    assert same not in one_sided


def test_nothing_differs_for_a_symmetric_model_without_prompts(tmp_path):
    model = tiny_model(Score.of("cosine"))
    text = dataclasses.replace(model.text, query_prompt="", document_prompt="")
    save_sentence_transformers(dataclasses.replace(model, text=text), tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert "- `encode()`, `encode_query()` and `encode_document()` give the same.\n" in card
    assert "white space" not in card


def test_a_rewritten_power_of_the_query(card):
    text = card(Score("learnable", 0.7, 1.0, 0.05))
    assert "trained gamma_query = 0.7 is written as 1: queries are normalized" in text
    assert "‖q‖^(gamma_query - 1) = ‖q‖^-0.3" in text
    assert "ranking of documents is the same for every query" in text
    assert "differ from the trained score" not in text
    assert "written as" not in card(Score.of("qnorm"))


def test_an_inexact_power_of_the_document(card):
    text = card(Score.power(0.0, 0.25), allow_inexact=True)
    assert "**`encode_document()` and `encode()` differ from the trained score**" in text
    assert "launch/export.py vectors" in text
    assert "keepdims=True) ** 0.25" in text
    assert "Do not set cosine" in text


@pytest.mark.parametrize(
    "score",
    [Score.of("cosine"), Score.of("qnorm"), Score.power(0.0, 0.6)],
    ids=str,
)
def test_its_code_gives_the_trained_scores(card, tmp_path, monkeypatch, score):
    pytest.importorskip("sentence_transformers", reason="needs the parity extra")
    text = card(score, allow_inexact=True)
    monkeypatch.chdir(tmp_path)
    found = []
    for block in code_blocks(text):
        names: dict = {}
        exec(block, names)
        found.append(np.asarray(names["scores"]))
    assert len(found) == 2
    model = tiny_model(score)
    queries = trained_embeddings(model, "query", ["a query"])
    documents = trained_embeddings(model, "document", ["a document", "another document"])
    for scores in found:
        np.testing.assert_allclose(scores, queries @ documents.T, rtol=1e-5, atol=1e-5)


def test_the_card_is_utf_8_and_names_no_path(card, tmp_path):
    text = card(Score.of("qnorm"))
    assert str(tmp_path) not in text
    assert json.dumps("my-model") in text
