"""A small model, a stub of one, and the server around them on a free port."""

import contextlib
import functools
import socket
import threading
import time

import numpy as np
import pytest

from magjax.checks import InputError
from magjax.data import TextSettings, TextTokenizer
from magjax.encoders import DualEncoder, EncoderConfig
from magjax.export._app import ServerSettings, encode_app
from magjax.export._batching import BatchingEncoder
from magjax.hub import Model
from magjax.similarity import Score

TEXTS = ["adds two numbers", "", "a", "sum of " * 9, "sorts a list", "b", "adds", "the sum " * 30]


@functools.cache
def tokenizer(pad_id: int = 0) -> TextTokenizer:
    """BERT's families pad with id 0, MPNet's and RoBERTa's with 1."""
    trained = TextTokenizer.train(TEXTS * 2, 300)
    return trained if pad_id == 0 else TextTokenizer(trained._tokenizer, {"pad_token": "[UNK]"})


def tiny_model(score="qnorm", model_type="bert", **settings) -> Model:
    """Random, with embeddings about as long as trained ones and of many lengths."""
    config = EncoderConfig(
        model_type,
        vocab_size=310,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    text = TextSettings(query_max_length=20, document_max_length=40, query_prompt="find ")
    score = Score.of(score, 0.05) if isinstance(score, str) else score
    encoder = DualEncoder.create(config, **settings)
    return Model(encoder, score, tokenizer(config.padding_index), text)


@contextlib.contextmanager
def running(embed, *, score=None, prepare=None, **settings):
    """The application under uvicorn in a thread; gives a client of it and its batching."""
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed (the serve extra)")
    pytest.importorskip("starlette", reason="starlette is not installed (the serve extra)")
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    limits = ServerSettings(**settings)
    batching = BatchingEncoder(
        embed, max_batch=limits.max_batch, max_wait_ms=limits.max_wait_ms, prepare=prepare
    )
    app = encode_app(batching, "tiny", score or Score.of("qnorm", 0.05), 16, settings=limits)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            client.server = server  # how a test stops it
            yield client, batching
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


class Stub:
    """Embeds a text as its length and its first character's number; can be held back."""

    def __init__(self):
        self.calls = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def __call__(self, texts, side):
        self.calls.append((list(texts), side))
        self.entered.set()
        assert self.open.wait(30)
        if any("broken" in text for text in texts):
            raise ValueError(f"cannot embed {texts}")
        if any("nan" in text for text in texts):
            raise InputError("the embedding of query number 0 is not finite.")
        return np.array([[len(t), ord(t[0]) if t else 0] for t in texts], np.float32)


def post(client, texts, side="query"):
    return client.post(f"/encode/{side}", json={"texts": texts})


def wait_until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
