"""Trains a dual encoder and evaluates it.

    python launch/train.py --config=configs/retrieval_code.py --workdir=runs/code
    python launch/train.py --config=configs/retrieval_code.py:variant=qnorm --workdir=runs/qnorm
    python launch/train.py --config=configs/clip_asym.py --workdir=runs/clip

Any key of the config can be set: --config.loop.steps=1000. A stopped run goes on with --resume.
"""

import shlex
import sys

from absl import flags
from ml_collections import config_flags

from magjax.checks import InputError
from magjax.config import run_main, to_json

CONFIG = config_flags.DEFINE_config_file("config", None, "Config file; arguments follow a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Run folder; default: runs/ and the config's name.")
RESUME = flags.DEFINE_bool("resume", False, "Go on from the newest checkpoint of the run folder.")


def main() -> int:
    """Runs the config; a run stopped by a signal exits with 128 plus the signal's number."""
    from magjax.study import default_workdir, train

    if CONFIG.value is None:
        raise InputError("--config is missing; for example --config=configs/retrieval_code.py.")
    filename = config_flags.get_config_filename(flags.FLAGS["config"])
    workdir = WORKDIR.value or default_workdir(filename)
    outcome = train(to_json(CONFIG.value), workdir, resume=RESUME.value)
    if outcome.stopped_by is None:
        return 0
    again = [item for item in sys.argv if item not in ("--resume", "--resume=true")]
    print(
        f"stopped by {outcome.stopped_by} at step {outcome.step}; go on with: "
        f"python {shlex.join([*again, '--resume'])}",
        file=sys.stderr,
    )
    return 128 + outcome.signal_number


if __name__ == "__main__":
    run_main(main)
