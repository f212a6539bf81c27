"""Command lines: the arguments of a config file, and one way to run a program."""

import logging
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from absl import app, flags
from absl import logging as absl_logging
from ml_collections import ConfigDict
from ml_collections.config_flags.config_flags import ConfigFileFlagParser

from magjax.checks import InputError, RunError, choose

__all__ = ["log_plainly", "parse_arguments", "run_main"]


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


def run_main(
    main: Callable[..., int | None], *, commands: Mapping[str, Collection[str]] | None = None
) -> None:
    """Parses the command line, runs ``main()`` and exits with its status.

    Unknown flags, unknown config keys, positional leftovers and :class:`InputError` end with one
    line on standard error and status 2; :class:`RunError` with one line and status 1.

    Args:
        main: takes nothing, or the command's word where ``commands`` are given.
        commands: words of which the command line must hold exactly one, each with the names of
            its flags; a flag of another command is refused. Without it no word is admitted.

    >>> import sys, contextlib, io
    >>> sys.argv = ["train.py", "leftover"]
    >>> with contextlib.redirect_stderr(io.StringIO()) as said:
    ...     try: run_main(lambda: 0)
    ...     except SystemExit as exit: print(exit.code, said.getvalue().strip())
    2 error: 'leftover' is not a flag; write --name=value.
    """

    def checked_main(argv: Sequence[str]) -> int | None:
        try:
            word = _command(argv[1:], commands or {})
            log_plainly()
            return main() if word is None else main(word)
        except (InputError, RunError) as error:
            _stop(error)

    if commands:
        flags.FLAGS.set_gnu_getopt(True)  # absl otherwise reads no flag after the first word
    app.run(checked_main, flags_parser=_parse_flags)


def _command(words: Sequence[str], commands: Mapping[str, Collection[str]]) -> str | None:
    """The command among what is no flag; None where a program has none."""
    if commands and not words:
        raise InputError(f"name what to do first, one of: {', '.join(commands)}.")
    word = choose("command", words[0], commands) if commands else None
    leftovers = words[1:] if commands else words
    if leftovers:
        raise InputError(f"{leftovers[0]!r} is not a flag; write --name=value.")
    if word is not None:
        for name in sorted({name for names in commands.values() for name in names}):
            if flags.FLAGS[name].present and name not in commands[word]:
                raise InputError(
                    f"--{name} is not a flag of {word!r}, which takes: "
                    f"{', '.join(f'--{known}' for known in sorted(commands[word]))}."
                )
    return word


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
                beside = Path(path).parent
                known = ", ".join(sorted(str(p) for p in beside.glob("*.py")))
                raise InputError(
                    f"config file {path!r} does not exist; {beside} has {known or 'none'}."
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
