"""Configs and command lines: arguments of a config file, JSON form, and one way to run a program."""

import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from absl import app, flags
from absl import logging as absl_logging
from ml_collections import ConfigDict
from ml_collections.config_flags.config_flags import ConfigFileFlagParser

from magjax.checks import InputError, RunError, choose

__all__ = [
    "check_keys",
    "differences",
    "from_json",
    "log_plainly",
    "parse_arguments",
    "retrieval_config",
    "run_main",
    "to_json",
]


def parse_arguments(text: str | None, **defaults: Any) -> dict[str, Any]:
    """Reads the arguments after a config's colon, as in ``--config=FILE:variant=qnorm,seed=1``.

    Each value takes the type of its default. Returns a dict with the keys of ``defaults``.

    Raises:
        InputError: an unknown name, a missing ``=``, or a value of another type.

    >>> parse_arguments("variant=qnorm,seed=1", variant="cosine", seed=0)
    {'variant': 'qnorm', 'seed': 1}
    >>> parse_arguments("sed=1", variant="cosine", seed=0)
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown config argument 'sed'; known: variant, seed. Did you mean 'seed'?
    """
    arguments = dict(defaults)
    for item in filter(None, (text or "").split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"config argument {item!r} has no '='; write NAME=VALUE,NAME=VALUE.")
        choose("config argument", name, defaults)
        arguments[name] = _cast(name, value, type(defaults[name]))
    return arguments


def _cast(name: str, value: str, kind: type) -> Any:
    if kind is bool:
        return {"true": True, "false": False}[choose(name, value.lower(), ("true", "false"))]
    try:
        return kind(value)
    except ValueError as error:
        raise InputError(f"config argument {name}={value!r} must be {kind.__name__}.") from error


def to_json(config: ConfigDict) -> dict[str, Any]:
    """The resolved config as plain dicts, lists and scalars, keys in alphabetical order.

    >>> to_json(ConfigDict({"seed": 0, "model": {"layers": 4}}))
    {'model': {'layers': 4}, 'seed': 0}
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping | ConfigDict):
            return {str(key): plain(value[key]) for key in sorted(value)}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    return plain(config)


def from_json(values: Mapping[str, Any]) -> ConfigDict:
    """The locked config whose :func:`to_json` is ``values``.

    >>> from_json({"seed": 0}).seed
    0
    """
    return ConfigDict(dict(values)).lock()


def differences(
    left: Mapping[str, Any], right: Mapping[str, Any], prefix: str = ""
) -> dict[str, tuple[Any, Any]]:
    """The leaves in which two JSON configs differ, as ``{dotted name: (left, right)}``.

    >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    {'a.c': (2, 3)}
    """
    found: dict[str, tuple[Any, Any]] = {}
    for key in dict.fromkeys([*left, *right]):
        one, other = left.get(key, "absent"), right.get(key, "absent")
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found |= differences(one, other, f"{prefix}{key}.")
        elif one != other:
            found[prefix + key] = (one, other)
    return found


def check_keys(config: Mapping[str, Any], known: Mapping[str, Any], prefix: str = "") -> None:
    """Refuses a JSON config whose keys are not exactly those of ``known``, sections included.

    Raises:
        InputError: a missing or an unknown key.

    >>> check_keys({"loop": {"stps": 1}}, {"loop": {"steps": 1}})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: unknown config key 'loop.stps'; known: loop.steps. Did you mean 'loop.steps'?
    """
    names = [prefix + key for key in known]
    for key in config:
        choose("config key", prefix + key, names)
    for key, value in known.items():
        if key not in config:
            raise InputError(f"the config lacks {prefix + key}; start from retrieval_config.")
        if isinstance(value, Mapping):
            section = config[key]
            if not isinstance(section, Mapping):
                raise InputError(f"the config's {prefix + key} is {section!r}, not a section.")
            check_keys(section, value, f"{prefix}{key}.")


def run_main(main: Callable[[], int | None]) -> None:
    """Parses the command line, runs ``main()`` and exits with its status.

    Unknown flags, unknown config keys, positional leftovers and :class:`InputError` end with one
    line on standard error and status 2; :class:`RunError` with one line and status 1.

    >>> import sys, contextlib, io
    >>> sys.argv = ["train.py", "leftover"]
    >>> with contextlib.redirect_stderr(io.StringIO()) as said:
    ...     try: run_main(lambda: 0)
    ...     except SystemExit as exit: print(exit.code, said.getvalue().strip())
    2 error: 'leftover' is not a flag; write --name=value.
    """

    def checked_main(argv: Sequence[str]) -> int | None:
        try:
            if len(argv) > 1:
                raise InputError(f"{argv[1]!r} is not a flag; write --name=value.")
            log_plainly()
            return main()
        except (InputError, RunError) as error:
            _stop(error)

    app.run(checked_main, flags_parser=_parse_flags)


def log_plainly() -> None:
    """Messages of magjax as plain lines on standard error; of libraries only warnings.

    :func:`run_main` calls it; notebooks may.

    >>> log_plainly()  # doctest: +SKIP
    """
    absl_logging.set_verbosity(absl_logging.WARNING)
    log = logging.getLogger("magjax")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


def _parse_flags(argv: Sequence[str]) -> list[str]:
    app.define_help_flags()
    try:
        _check_config_file(argv)
        return flags.FLAGS(list(argv))
    except (AttributeError, KeyError) as error:
        _stop(_unknown_key(argv, error))
    except (InputError, flags.Error, TypeError, ValueError, OSError) as error:
        _stop(error)


def _check_config_file(argv: Sequence[str]) -> None:
    """A missing file would otherwise surface at the first use of the config, as a traceback."""
    for item in argv:
        if item.startswith("--config="):
            path = item.removeprefix("--config=").partition(":")[0]
            if not Path(path).is_file():
                known = ", ".join(sorted(str(p) for p in Path("configs").glob("*.py")))
                raise InputError(
                    f"config file {path!r} does not exist; here are: {known or 'none'}."
                )
            try:
                ConfigFileFlagParser("config").parse(item.removeprefix("--config="))
            except (AttributeError, KeyError, ImportError, NameError, SyntaxError) as error:
                raise InputError(
                    f"config file {path!r} cannot be used ({type(error).__name__}: {error}); it "
                    "needs a function get_config(arguments) that returns a config."
                ) from error


def _unknown_key(argv: Sequence[str], error: Exception) -> InputError:
    """ml_collections names only the last part of an unknown key: finds the flag and its siblings."""
    files = [item.removeprefix("--config=") for item in argv if item.startswith("--config=")]
    names = [item.removeprefix("--").partition("=")[0] for item in argv]
    for name in names:
        holder = ConfigFileFlagParser("config").parse(files[-1]) if files else None
        for part in name.split(".")[1:] if name.startswith("config.") else ():
            if holder is None:
                return InputError(f"--{name} needs --config=FILE, whose key it changes.")
            if not isinstance(holder, ConfigDict):
                return InputError(f"--{name}: a single value has no key {part!r}.")
            try:
                holder = holder[choose("config key", part, sorted(holder))]
            except InputError as found:
                return InputError(f"--{name}: {found}")
    return InputError(f"the command line has an unknown config key ({error}).")


def _stop(error: BaseException) -> NoReturn:
    text = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
    # config_flags wraps what a config file raises in the text of its whole traceback.
    text = text.rpartition("magjax.checks.InputError: ")[2]
    print(f"error: {text}", file=sys.stderr)
    sys.exit(1 if isinstance(error, RunError) else 2)


def retrieval_config(*, variant: str, seed: int) -> ConfigDict:
    """What every text-retrieval run states; a file in ``configs/`` changes what differs.

    ``temperature.initial = 0`` calibrates it on the first batch; its bounds are multiples of the
    initial value. ``model.init`` is ``"random"`` or the folder (or hub name) of a checkpoint.

    >>> config = retrieval_config(variant="qnorm", seed=1)
    >>> config.variant, config.loop.metric
    ('qnorm', 'ndcg@10')
    """
    config = ConfigDict()
    config.seed = seed
    config.variant = variant
    config.batch_size = 64
    config.accumulation = 1
    config.data = ConfigDict(
        {
            "source": "code",  # code, beir, jsonl, hf_dataset, msmarco, msmarco_triples
            "path": "",  # folder or file of the other sources
            "train_split": "train",
            "test_split": "test",
            "test_paths": (),  # BEIR folders searched at the end, each a domain of its own
            "dev_queries": 300,  # held out of the training queries; they choose the best model
            "dev_documents": 3000,
        }
    )
    config.model = ConfigDict(
        {
            "init": "random",
            "model_type": "bert",
            "layers": 2,
            "width": 256,
            "heads": 4,
            "vocab_size": 8192,
            "pooling": "mean",
            "shared": True,
            "projection_dim": 0,  # 0: none
            "dropout": 0.0,
            "dtype": "float32",
            "remat": False,
        }
    )
    config.text = ConfigDict(
        {
            "query_prompt": "",
            "document_prompt": "",
            "query_max_length": 32,
            "document_max_length": 64,
        }
    )
    config.loss = ConfigDict(
        {
            "name": "info_nce",
            "direction": "query_to_document",
            "negatives_per_query": 0,
            "share_negatives": True,
            "multiple_positives": "mask",
            "label_smoothing": 0.0,
        }
    )
    config.temperature = ConfigDict(
        {"initial": 0.0, "learn": True, "lowest_ratio": 0.2, "highest_ratio": 20.0}
    )
    config.gamma_initial = 0.5  # of variant=learnable, both sides
    config.optimizer = ConfigDict(
        {
            "learning_rate": 1e-3,
            "head_learning_rate_scale": 1.0,
            "schedule": "cosine",
            "warmup_fraction": 0.1,
            "weight_decay": 0.01,
            "clip_norm": 1.0,
            "b1": 0.9,
            "b2": 0.999,
            "eps": 1e-8,
        }
    )
    config.loop = ConfigDict(
        {
            "steps": 200,
            "evaluate_every": 100,
            "save_every": 100,
            "log_every": 10,
            "keep": 2,
            "metric": "ndcg@10",
            "patience": 0,
        }
    )
    config.evaluation = ConfigDict(
        {
            "metrics": ("ndcg@10", "mrr@10", "recall@100", "map", "success@5"),
            "k": 100,
            "bm25": True,
        }
    )
    return config
