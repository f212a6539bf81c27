"""A study's report: both forms hold what the cells say, and nothing from outside."""

import base64
import html.parser
import json
import re

import pytest
from study_cases import fake_compute, grid

from magjax.config import study_claim
from magjax.similarity import VARIANTS
from magjax.study import CellResult, run_study, study_state, write_report
from magjax.study._report import _WORDS

TRIALS = ({"optimizer": {"learning_rate": 3e-3}}, {"optimizer": {"learning_rate": 1e-3}})
COMMAND = "python launch/study.py --config=configs/study_tiny.py"
NASTY = 'One <script>alert("1")</script> & side_wins | *always*.'


def make(tmp_path, compute=fake_compute, **changes):
    given = {"trials": TRIALS, "question": "Does <one> side pay?", **changes}
    study = grid(**given)
    state = run_study(study, tmp_path, workdir=tmp_path / "runs", compute=compute)
    return study, state


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    claims = (
        study_claim(NASTY, better=["dnorm"], than=["cosine"]),
        study_claim("Both sides win.", better=["cosine"], than=["dnorm"], domain="out"),
    )
    study, state = make(out, claims=claims, title="Tiny & small")
    found = write_report(study, state, out, command=COMMAND)
    return out, state, found


class Page(html.parser.HTMLParser):
    """Tags, their attributes, and the text of an HTML page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_is_well_formed_and_loads_nothing(report):
    out, _, _ = report
    page = Page((out / "tiny.html").read_text())
    assert page.open == []
    assert not {"script", "link", "iframe", "object", "embed"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "href" not in names
    sources = [value for name, value in page.attributes if name == "src"]
    assert len(sources) == 3
    for source in sources:
        kind, _, content = source.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(content, validate=True)[1:4] == b"PNG"
    assert ("content", "default-src 'none'; img-src data:; style-src 'unsafe-inline'") in (
        page.attributes
    )
    assert "http" not in (out / "tiny.html").read_text().replace("http-equiv", "")


def test_every_text_is_escaped_and_readable(report):
    out, _, _ = report
    text = (out / "tiny.html").read_text()
    assert "<script>" not in text
    assert NASTY in "".join(Page(text).text)
    assert "Does <one> side pay?" in "".join(Page(text).text)
    markdown = (out / "tiny.md").read_text()
    assert "<script>" not in markdown
    assert "&lt;script&gt;" in markdown
    assert r"side\_wins \| \*always\*." in markdown
    cells = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", line)) for line in cells[:4]} == {14}


def test_both_forms_state_verdicts_tables_command_and_sources(report):
    out, state, found = report
    assert [verdict.decision for verdict in found] == ["supported", "not supported"]
    markdown = (out / "tiny.md").read_text()
    page = "".join(Page((out / "tiny.html").read_text()).text)
    for text in (page, markdown.replace("\\", "")):
        assert "Supported: One " in text
        assert "Not supported: Both sides win." in text
        assert f"{found[0].difference:+.4f}" in text
        assert f"{COMMAND} --only={state.cells[-1].id}" in text
        for part in ("jax 0.", "train, seed 1 t1", "home h", "minutes of computing", "cores"):
            assert part in text, part
        assert "learning_rate=0.003" in text
        assert "0.9990 *" in text  # the chosen trial
        assert "40 queries over 100 documents" in text
    for name in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", markdown):
        assert (out / name).read_bytes()[1:4] == b"PNG"


def test_the_same_cells_give_the_same_files(report, tmp_path):
    out, _, _ = report
    study, _ = make(
        tmp_path,
        claims=(
            study_claim(NASTY, better=["dnorm"], than=["cosine"]),
            study_claim("Both sides win.", better=["cosine"], than=["dnorm"], domain="out"),
        ),
        title="Tiny & small",
    )
    write_report(study, study_state(study, out), tmp_path, command=COMMAND)
    names = [
        "tiny.md", "tiny.html", "tiny/table.csv", "tiny/table.tex", "tiny/verdicts.json",
        "tiny/config.json", "tiny/values.png", "tiny/development.png", "tiny/loss.png",
    ]  # fmt: skip
    for name in names:
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_every_variant_is_explained():
    assert set(_WORDS) == set(VARIANTS)


def test_verdicts_are_stored_with_all_numbers(report):
    out, _, found = report
    stored = json.loads((out / "tiny" / "verdicts.json").read_text())
    assert [row["decision"] for row in stored] == ["supported", "not supported"]
    assert stored[0]["difference"] == found[0].difference
    assert stored[0]["claim"]["text"] == NASTY


def test_an_unfinished_study_says_so(tmp_path):
    study, _ = make(tmp_path, trials=())
    next((tmp_path / "tiny" / "cells").glob("*-dnorm-s1-*")).unlink()
    write_report(study, study_state(study, tmp_path), tmp_path, command=COMMAND)
    assert "1 of 6 cells are missing" in (tmp_path / "tiny.md").read_text()
    empty = grid(name="empty")
    write_report(empty, study_state(empty, tmp_path), tmp_path, command=COMMAND)
    assert "Nothing has been measured yet" in (tmp_path / "empty.html").read_text()


def test_failed_runs_are_named_with_their_reason(tmp_path):
    def compute(cell, run, check):
        if cell.role == "trained" and cell.variant == "dnorm":
            check({})
            return CellResult({"home": "h"}, [], {}, {}, failure="loss is nan at step <7>")
        return fake_compute(cell, run, check)

    study, state = make(tmp_path, compute, trials=())
    write_report(study, state, tmp_path, command=COMMAND)
    text = "".join(Page((tmp_path / "tiny.html").read_text()).text)
    assert "all 2 runs failed" in text
    assert "loss is nan at step <7>" in text
    assert "Undecided: One side wins. Some of the systems have no finished run." in text
