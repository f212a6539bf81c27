"""launch/serve.py as a user runs it: in a process of its own."""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from magjax import hub
from magjax.checks import InputError
from magjax.data import TextPreprocessor, TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.evaluation import encode
from magjax.similarity import Score

httpx = pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed (the serve extra)")
pytest.importorskip("starlette", reason="starlette is not installed (the serve extra)")

ROOT = Path(__file__).parents[2]
TEXTS = ["adds two numbers", "", "sum of " * 9]


@pytest.fixture(scope="module")
def model() -> hub.Model:
    tokenizer = TextTokenizer.train(TEXTS * 2, 300)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    text = TextSettings(query_max_length=16, document_max_length=32)
    return hub.Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("serve")
    hub.save(model, root / "tiny")
    hub.save(model, root / "plain")
    (root / "plain" / "score.json").unlink()
    return root


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, str(ROOT / "launch" / "serve.py"), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_serves_a_folder_until_sigterm(model, folder):
    process = start(f"--checkpoint={folder / 'tiny'}/", "--port=0")
    try:
        said = [process.stderr.readline()]
        while not (found := re.search(r"at (http://127\.0\.0\.1:\d+)", said[-1])):
            assert process.poll() is None, "".join(said)
            said.append(process.stderr.readline())
        with httpx.Client(base_url=found[1], timeout=60, trust_env=False) as client:
            end = time.monotonic() + 120
            while client.get("/health").status_code != 200:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
            health = client.get("/health").json()
            answer = client.post("/encode/query", json={"texts": TEXTS}).json()
        assert health["model"] == answer["model"] == "tiny"
        assert answer["score"] == model.score.to_json()
        raw = encode(model.encoder, TextPreprocessor(model.tokenizer, model.text), TEXTS, "query")
        expected = np.asarray(model.score.normalize(raw, "query"))
        np.testing.assert_allclose(answer["embeddings"], expected, rtol=0, atol=1e-6)
        process.send_signal(signal.SIGTERM)
        out, rest = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, rest
    assert out == ""
    said = "".join(said) + rest
    assert "qnorm (gamma_query=1, gamma_document=0, temperature=0.05)" in said
    assert "ready." in said
    assert said.endswith("stopped after 1 requests.\n")
    assert "Traceback" not in said
    assert "adds two numbers" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checkpoint=/nowhere"], "error: /nowhere does not exist."),
        (["--checkpoint=/nowhere", "--prot=1"], "error: Unknown command line flag 'prot'"),
        (["--checkpoint=/nowhere", "leftover"], "error: 'leftover' is not a flag"),
    ],
)
def test_errors_are_one_line_and_status_2(arguments, message):
    process = start(*arguments)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert said.startswith(message)
    assert len(said.splitlines()) == 1
    assert out == ""


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("launch_serve", ROOT / "launch" / "serve.py")
    module = importlib.util.module_from_spec(spec)
    before = set(flags.FLAGS)
    spec.loader.exec_module(module)
    yield module
    for name in set(flags.FLAGS) - before:  # another program's tests may define the same flags
        delattr(flags.FLAGS, name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--checkpoint is missing"),
        (["--checkpoint=/nowhere", "--max_texts=0"], "max_texts=0 must be a whole number"),
        (["--checkpoint={root}/plain"], "the model's folder states no score"),
        (["--checkpoint={root}/tiny", "--score=cosine"], "the score cosine .* contradicts"),
        (["--checkpoint={root}/tiny", "--port={taken}"], r"127\.0\.0\.1:{taken} cannot be"),
        (["--checkpoint={root}/tiny", "--port=70000"], "port=70000 must be from 0"),
        (["--checkpoint={root}/tiny", "--max_wait_ms=-1"], "max_wait_ms=-1"),
        (["--checkpoint={root}/tiny", "--host=no.such.host.invalid"], "cannot be listened on"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_served(program, folder, arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as listener, flagsaver.flagsaver():
        values = {"root": folder, "taken": listener.getsockname()[1]}
        flags.FLAGS(["serve.py", *(argument.format(**values) for argument in arguments)])
        with pytest.raises(InputError, match=message.format(**values)):
            program.main()
