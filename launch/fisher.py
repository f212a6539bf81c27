"""Measures the Fisher matrices of a start model and advises which side to normalize.

    python launch/fisher.py --config=configs/fisher.py --workdir=runs/fisher
    python launch/fisher.py --config=configs/fisher.py:checkpoint=MODEL_FOLDER,data=BEIR_FOLDER

Nothing is trained. Prints one table a space and the advice; the run folder receives fisher.json
and two pictures. --json prints the contents of fisher.json instead of the tables.
"""

import json

from absl import flags
from ml_collections import config_flags

from magjax.checks import InputError
from magjax.config import run_main, to_json

CONFIG = config_flags.DEFINE_config_file("config", None, "Config file; arguments follow a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Run folder; default: runs/ and the config's name.")
JSON = flags.DEFINE_bool("json", False, "Print JSON instead of tables.")


def main() -> int:
    """Runs the config and prints what was found."""
    from magjax.fisher import format_report
    from magjax.study import default_workdir, measure_fisher

    if CONFIG.value is None:
        raise InputError("--config is missing; for example --config=configs/fisher.py.")
    filename = config_flags.get_config_filename(flags.FLAGS["config"])
    workdir = WORKDIR.value or default_workdir(filename)
    report = measure_fisher(to_json(CONFIG.value), workdir)
    print(json.dumps(report.to_json(), indent=2) if JSON.value else format_report(report))
    return 0


if __name__ == "__main__":
    run_main(main)
