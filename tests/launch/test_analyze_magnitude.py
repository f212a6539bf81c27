"""launch/analyze.py magnitude as a user runs it."""

import json
import logging
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from scipy import stats

from magjax import hub
from magjax.checks import InputError
from magjax.config import log_plainly, run_main
from magjax.data import TextPreprocessor, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.evaluation import encode
from magjax.files import read_json
from magjax.similarity import Score

ROOT = Path(__file__).parents[2]
DOCUMENTS = {f"d{i}": f"adds {i} numbers of a list" + " and more" * (i % 9) for i in range(40)}
QUERIES = {f"q{i}": f"adds {i} numbers" for i in range(0, 40, 4)}
SMALL = ("--metrics=mrr@10", "--top_k=10", "--random=5", "--shuffles=2", "--resamples=20")


@pytest.fixture(scope="module")
def model():
    tokenizer = TextTokenizer.train([*DOCUMENTS.values(), *QUERIES.values()], 300)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    text = TextSettings(query_max_length=16, document_max_length=16)
    return hub.Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, model):
    """A saved model, the same without a score, and a BEIR folder."""
    root = tmp_path_factory.mktemp("analyze")
    hub.save(model, root / "model")
    hub.save(model, root / "plain")
    (root / "plain" / "score.json").unlink()
    beir = root / "beir"
    (beir / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        rows = [json.dumps({"_id": i, "text": t}) for i, t in texts.items()]
        (beir / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    judged = [f"{q}\td{q[1:]}\t1" for q in QUERIES]
    (beir / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n")
    return root


@pytest.fixture
def _fresh_log(monkeypatch):
    """The program's log belongs to the process that it is; here each call is one."""
    log = logging.getLogger("magjax")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    level = log.level
    yield
    log.setLevel(level)


@pytest.fixture
def run(analyze_program, folders, capsys, _fresh_log):
    def call(*arguments, checkpoint="model"):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["test"])
        with flagsaver.flagsaver():
            argv = [f"--checkpoint={folders / checkpoint}", *SMALL, *arguments]
            flags.FLAGS(["analyze.py", *argv])
            log_plainly()
            assert analyze_program.main("magnitude") == 0
        return capsys.readouterr()

    return call


def test_a_table_and_a_folder_say_what_norms_carry(run, folders, model, tmp_path):
    data = f"--data={folders / 'beir'}"
    said = run(data, f"--workdir={tmp_path}", "--candidates=20")
    assert "beir: 10 of 10 queries have a relevant document among 40; qnorm" in said.out
    assert "loss: InfoNCE over 20 documents at temperature 0.05 (the model's)" in said.out
    assert "embedded 40 texts of side document" in said.err
    saved = read_json(tmp_path / "magnitude.json")
    assert saved["checkpoint"] == str(folders / "model")
    (report,) = saved["reports"]
    assert report["settings"]["resamples"] == 20

    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    documents = encode(model.encoder, preprocessor, list(DOCUMENTS.values()), "document")
    norms = np.linalg.norm(documents.astype(np.float64), axis=1)
    assert report["norms"]["document"]["mean"] == pytest.approx(norms.mean(), rel=1e-6)
    found = report["correlations"]["document"]
    whole = [len(row) for row in model.tokenizer.encode(list(DOCUMENTS.values()), 1000)]
    for name, lengths in {
        "characters": [len(text) for text in DOCUMENTS.values()],
        "tokens": whole,
        "tokens read": np.minimum(whole, 16),
    }.items():
        expected = stats.spearmanr(norms, lengths).statistic
        assert found[name]["mean"] == pytest.approx(expected, abs=1e-9)
    share = np.mean(np.array(whole) > 16)
    assert 0.1 < share < 0.9
    assert f"{share:.1%} of the documents are cut at 16 tokens" in report["notes"][-1]
    rows = (tmp_path / "magnitude" / "beir.jsonl").read_text().splitlines()
    assert [json.loads(row)["query_id"] for row in rows] == list(QUERIES)
    assert len(list((tmp_path / "magnitude").glob("beir.*.png"))) == 4


def test_another_score_is_a_cross_evaluation_and_a_missing_one_is_asked_for(run, folders):
    data = f"--data={folders / 'beir'}"
    said = run(data, "--score=cosine", "--negatives=all", "--ignore_identical_ids")
    assert re.search("cross-evaluation: trained for qnorm .*, ranked by cosine", said.err)
    assert "(calibrated to the deviation of cosine's logits at 0.05" in said.out
    assert "The score does not use the documents' norms" in said.out
    with pytest.raises(InputError, match="states no score"):
        run(data, checkpoint="plain")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--data is missing"),
        (["--data=/nowhere"], "/nowhere"),
        (["--data={beir}", "--split=dev"], "dev"),
        (["--data={beir}", "--checkpoint=other"], "--checkpoint is given 2 times"),
        (["--data={beir}", "--negatives=hard"], "unknown negatives 'hard'"),
        (["--data={beir}", "--candidates=3"], "candidates=3 cannot hold the 10 relevant"),
        (["--data={beir}", "--top_k=0"], "top_k=0 must be a whole number of at least 1"),
    ],
)
def test_wrong_flags_are_named(run, folders, arguments, message):
    given = [item.format(beir=folders / "beir") for item in arguments]
    with pytest.raises(InputError, match=re.escape(message)):
        run(*given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: name what to do first, one of: magnitude"),
        (["magnitud"], "error: unknown command 'magnitud'"),
        (["magnitude", "more"], "error: 'more' is not a flag"),
        (["magnitude", "--no_such_flag=1"], "error: Unknown command line flag 'no_such_flag'"),
    ],
)
@pytest.mark.usefixtures("_fresh_log")
def test_one_command_is_needed(analyze_program, arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["analyze.py", *arguments])
    with flagsaver.flagsaver(), pytest.raises(SystemExit) as stopped:
        run_main(
            analyze_program.main,
            commands={w: [f.name for f in t] for w, (_, t) in analyze_program.COMMANDS.items()},
        )
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(message)
