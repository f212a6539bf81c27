"""Configs and command lines: arguments of a config file, JSON form, and one way to run a program."""

from magjax.config._command_line import log_plainly, parse_arguments, run_main
from magjax.config._fisher import fisher_config
from magjax.config._image_text import image_text_config
from magjax.config._json import check_keys, differences, from_json, to_json
from magjax.config._later import with_later_keys, without_later_keys
from magjax.config._retrieval import retrieval_config
from magjax.config._study import study_claim, study_config

__all__ = [
    "check_keys",
    "differences",
    "fisher_config",
    "from_json",
    "image_text_config",
    "log_plainly",
    "parse_arguments",
    "retrieval_config",
    "run_main",
    "study_claim",
    "study_config",
    "to_json",
    "with_later_keys",
    "without_later_keys",
]
