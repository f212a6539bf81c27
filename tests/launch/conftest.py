"""Two small models, a BEIR folder and launch/analyze.py, for the tests of its commands."""

import importlib.util
import json
import logging
from pathlib import Path

import pytest
from absl import flags
from absl.testing import flagsaver

from magjax import hub
from magjax.config import log_plainly
from magjax.data import TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.similarity import Score

ROOT = Path(__file__).parents[2]
DOCUMENTS = {f"d{i}": f"adds {i} numbers of a list" + " and more" * (i % 5) for i in range(16)}
QUERIES = {f"q{i}": f"how to add {i} numbers" for i in range(0, 16, 2)}


@pytest.fixture(scope="module")
def analyze_program():
    spec = importlib.util.spec_from_file_location("launch_analyze", ROOT / "launch/analyze.py")
    module = importlib.util.module_from_spec(spec)
    before = set(flags.FLAGS)
    spec.loader.exec_module(module)
    yield module
    for name in set(flags.FLAGS) - before:  # another program's tests may define the same flags
        delattr(flags.FLAGS, name)


@pytest.fixture(scope="session")
def analyze_folders(tmp_path_factory):
    """Runs ``cosine`` and ``qnorm``, ``start`` without a score, and the data set ``beir``."""
    root = tmp_path_factory.mktemp("analyze")
    tokenizer = TextTokenizer.train([*DOCUMENTS.values(), *QUERIES.values()], 300)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    for seed, (name, length) in enumerate((("cosine", 16), ("qnorm", 12))):
        text = TextSettings(query_max_length=16, document_max_length=length)
        encoder = DualEncoder.create(config, seed=seed)
        hub.save(hub.Model(encoder, Score.of(name, 0.1), tokenizer, text), root / name)
    hub.save(hub.load(root / "cosine"), root / "start")
    (root / "start" / "score.json").unlink()
    beir = root / "beir"
    (beir / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        rows = [json.dumps({"_id": i, "text": t}) for i, t in texts.items()]
        (beir / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    judged = [f"{q}\td{q[1:]}\t1" for q in QUERIES]
    (beir / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n")
    return root


@pytest.fixture
def analyze(analyze_program, analyze_folders, capsys, monkeypatch):
    """Runs one command in this process and returns what it printed."""
    log = logging.getLogger("magjax")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    level = log.level

    def call(command, *arguments, checkpoints=("cosine",), data="beir"):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["test"])
        argv = [f"--checkpoint={analyze_folders / name}" for name in checkpoints]
        argv += [f"--data={analyze_folders / data}"] if data else []
        with flagsaver.flagsaver():
            flags.FLAGS(["analyze.py", *argv, *arguments])
            log_plainly()
            assert analyze_program.main(command) == 0
        return capsys.readouterr()

    yield call
    log.setLevel(level)
