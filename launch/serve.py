"""Serves a model over HTTP: texts in, embeddings whose inner product is the trained score out.

    python launch/serve.py --checkpoint=runs/code
    curl localhost:8080/encode/query -H 'Content-Type: application/json' -d '{"texts": ["add"]}'

POST /encode/query and /encode/document; GET /health says 200 once the first shapes are compiled.
Concurrent requests are embedded together. A folder that states no score needs --score=; another
score than the trained one is refused. SIGTERM and SIGINT stop it: what was received is answered,
and the status is 0. It listens on this machine alone unless --host= says otherwise, without
encryption or authentication: put a proxy that has both in front.
"""

import os

from absl import flags

from magjax import hub
from magjax.checks import InputError
from magjax.config import run_main
from magjax.export import ServerSettings, serve
from magjax.similarity import Score
from magjax.study import restore_step

CHECKPOINT = flags.DEFINE_string("checkpoint", None, "Run folder, model folder or hub id.")
STEP = flags.DEFINE_integer("step", None, "A step of a run folder's checkpoints/, not its best.")
SCORE = flags.DEFINE_string(
    "score", None, "Score of a folder that states none: cosine, dot, qnorm, dnorm or two powers."
)
DTYPE = flags.DEFINE_string("dtype", "float32", "Compute dtype: float32 or bfloat16.")
NAME = flags.DEFINE_string("name", None, "What responses call the model; default: its folder.")
HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on.")
PORT = flags.DEFINE_integer("port", 8080, "TCP port; 0 for any free one, which is printed.")
MAX_BATCH = flags.DEFINE_integer("max_batch", 64, "Texts that are embedded together.")
MAX_WAIT_MS = flags.DEFINE_float("max_wait_ms", 5.0, "How long a request waits for company.")
MAX_TEXTS = flags.DEFINE_integer("max_texts", 256, "Most texts of a request.")
MAX_CHARACTERS = flags.DEFINE_integer("max_characters", 20_000, "Most characters of a text.")
MAX_BODY_BYTES = flags.DEFINE_integer("max_body_bytes", 8_388_608, "Most bytes of a request.")
MAX_REQUESTS = flags.DEFINE_integer("max_requests", 256, "Most requests held at a time.")
TIMEOUT_S = flags.DEFINE_float("timeout_s", 60.0, "Seconds until a request is given up.")
TOKENS_PER_BATCH = flags.DEFINE_integer("tokens_per_batch", 2048, "Tokens of a device's batch.")
WARM_UP = flags.DEFINE_enum(
    "warm_up",
    "single",
    ["none", "single", "full"],
    "What to compile before /health is ready: nothing, each length with one text, or all shapes.",
)


def main() -> int:
    """Loads the model and serves it until a signal."""
    if not CHECKPOINT.value:
        raise InputError("--checkpoint is missing; name a run folder or a model folder.")
    settings = ServerSettings(
        max_batch=MAX_BATCH.value,
        max_wait_ms=MAX_WAIT_MS.value,
        max_texts=MAX_TEXTS.value,
        max_characters=MAX_CHARACTERS.value,
        max_body_bytes=MAX_BODY_BYTES.value,
        max_requests=MAX_REQUESTS.value,
        timeout_s=TIMEOUT_S.value,
    )
    model = hub.load(
        CHECKPOINT.value,
        step=STEP.value,
        restore=restore_step,
        score=Score.parse(SCORE.value) if SCORE.value else None,
        dtype=DTYPE.value,
    )
    serve(
        model,
        NAME.value or os.path.basename(os.path.normpath(CHECKPOINT.value)),
        host=HOST.value,
        port=PORT.value,
        settings=settings,
        tokens_per_batch=TOKENS_PER_BATCH.value,
        warm_up=WARM_UP.value,
    )
    return 0


if __name__ == "__main__":
    run_main(main)
