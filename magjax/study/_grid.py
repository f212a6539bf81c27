"""The grid of a study: which runs it has, each with its whole config and a name."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from magjax.checks import InputError, choose, positive_integer, positive_number
from magjax.config import check_keys, study_config, to_json, without_later_keys
from magjax.similarity import VARIANTS
from magjax.study._claims import Claim
from magjax.study._evaluations import EVALUATIONS
from magjax.study._tasks import kind_of

__all__ = ["Cell", "StudyGrid"]

Role = Literal["trial", "trained", "untrained", "bm25"]

# Sections and keys that reference cells do not depend on: other steps leave them as they are.
_OF_TRAINING = (
    "variant",
    "batch_size",
    "accumulation",
    "loss",
    "temperature",
    "gamma_initial",
    "optimizer",
    "loop",
)
_OF_MODELS = (*_OF_TRAINING, "model", "text")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of a study, or one reference.

    Attributes:
        role: ``trial`` (trained, seen by the development test only), ``trained`` (trained and
            tested), ``untrained`` (the start model under every score) or ``bm25``.
        task: name of the task.
        start: name of the start model; empty for ``bm25``.
        variant: what is trained; empty for references.
        seed: of the run.
        trial: which of the study's trials; None without trials.
        metrics: kept for every item; the first is the study's own.
        evaluations: keys of ``EVALUATIONS``.
        config: of the run, in JSON form; strings may begin with ``$NAME/``.

    >>> cell = Cell("bm25", "code", "", "", 0, None, ("ndcg@10",), (), {"seed": 0})
    >>> cell.id
    'code-bm25-22967e2012c3'
    """

    role: Role
    task: str
    start: str
    variant: str
    seed: int
    trial: int | None
    metrics: tuple[str, ...]
    evaluations: tuple[str, ...]
    config: Mapping[str, Any]

    @property
    def id(self) -> str:
        """A readable name and a hash of all that the numbers depend on but data and versions."""
        config = without_later_keys(self.config)
        for key in {"untrained": _OF_TRAINING, "bm25": _OF_MODELS}.get(self.role, ()):
            config.pop(key, None)
        content: dict[str, Any] = {"role": self.role, "config": config}
        if self.role != "trial":  # development needs neither
            content |= {"metrics": self.metrics, "evaluations": self.evaluations}
        parts = [self.task, self.start, self.variant]
        if self.role in ("untrained", "bm25"):
            parts.append(self.role)
        if self.variant:
            parts.append(f"s{self.seed}")
        if self.role == "trial":
            parts.append(f"t{self.trial}")
        return "-".join([*filter(None, parts), _hash(content)])

    @property
    def run_name(self) -> str:
        """The run folder's name: a trial and the cell that is trained alike share it."""
        return _hash(without_later_keys(self.config))

    @property
    def group(self) -> tuple[str, str, str]:
        """Task, start and variant: what trials are chosen for."""
        return (self.task, self.start, self.variant)


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class StudyGrid:
    """A study's settings, checked, and its cells.

    Attributes:
        config: as :func:`magjax.config.study_config`, in JSON form.
        claims: what is tested.

    >>> from magjax.config import retrieval_config
    >>> config = study_config(retrieval_config(variant="cosine", seed=0), name="toy")
    >>> grid = StudyGrid.of(to_json(config))
    >>> len(grid.references()), len(grid.trials()), len(grid.trained({}))
    (2, 0, 15)
    """

    config: Mapping[str, Any]
    claims: tuple[Claim, ...]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "StudyGrid":
        """Checks every setting and the config of every cell.

        Raises:
            InputError: a key, name or value that cannot be used.
        """
        base = config.get("base")
        if not isinstance(base, Mapping):
            raise InputError(f"base is {base!r}; give the config of one run.")
        known = to_json(study_config(kind_of(base).default(), name="any"))
        open_ended = {key: config.get(key) for key in ("tasks", "starts")}
        check_keys(config, {**known, **open_ended})
        if not re.fullmatch("[a-z0-9_]+", str(config["name"])):
            raise InputError(
                f"name={config['name']!r} must be lower-case letters, digits and '_': it names files."
            )
        for axis in ("tasks", "starts"):
            _check_axis(axis, config[axis])
        _check_list("variants", config["variants"])
        for variant in config["variants"]:
            choose("variant", variant, VARIANTS)
        _check_list("seeds", config["seeds"])
        for seed in config["seeds"]:
            if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
                raise InputError(f"seeds holds {seed!r}; seeds are whole numbers of at least 0.")
        _check_list("metrics", config["metrics"])
        _check_list("evaluations", config["evaluations"])
        for name in config["evaluations"]:
            choose("evaluation", name, EVALUATIONS)
        choose("reference", config["reference"], config["variants"])
        positive_integer("resamples", config["resamples"])
        if positive_number("confidence", config["confidence"]) >= 1:
            raise InputError(f"confidence={config['confidence']!r} must be below 1; try 0.95.")
        trials = config["trials"]
        if any(trial in trials[:i] for i, trial in enumerate(trials)):
            raise InputError("trials holds the same changes twice; each must differ.")
        grid = cls(
            config, tuple(Claim.of(value, config, i) for i, value in enumerate(config["claims"]))
        )
        for cell in [*grid.references(), *grid.trials(), *grid.trained({})]:
            for metric in cell.metrics:
                choose("metric", metric, cell.config["evaluation"]["metrics"])
        return grid

    def _cell(
        self, role: Role, task: str, start: str, variant: str, seed: int, trial: int | None
    ) -> Cell:
        study = self.config
        config = change_config(study["base"], study["tasks"][task], f"tasks.{task}")
        if start:
            config = change_config(config, study["starts"][start], f"starts.{start}")
        if trial is not None:
            config = change_config(config, study["trials"][trial], f"trials[{trial}]")
        config = {**config, "seed": seed, "variant": variant or study["variants"][0]}
        metrics, evaluations = tuple(study["metrics"]), tuple(study["evaluations"])
        return Cell(role, task, start, variant, seed, trial, metrics, evaluations, config)

    def references(self) -> list[Cell]:
        """BM25 for each task and the untrained model for each start, at the first seed."""
        study, first = self.config, self.config["seeds"][0]
        cells = []
        for task in study["tasks"]:
            if study["lexical"]:
                cells.append(self._cell("bm25", task, "", "", first, None))
            if study["untrained"]:
                cells += [
                    self._cell("untrained", task, start, "", first, None)
                    for start in study["starts"]
                ]
        return cells

    def trials(self) -> list[Cell]:
        """Every trial of every variant, at the first seed."""
        first = self.config["seeds"][0]
        return [
            self._cell("trial", *group, first, trial)
            for group in self.groups()
            for trial in range(len(self.config["trials"]))
        ]

    def trained(self, choices: Mapping[tuple[str, str, str], int]) -> list[Cell]:
        """Every seed of every variant, with the chosen trial (the first where none is named)."""
        some = bool(self.config["trials"])
        return [
            self._cell("trained", *group, seed, choices.get(group, 0) if some else None)
            for group in self.groups()
            for seed in self.config["seeds"]
        ]

    def groups(self) -> list[tuple[str, str, str]]:
        """Task, start and variant of all trained cells, in order."""
        study = self.config
        return [
            (task, start, variant)
            for task in study["tasks"]
            for start in study["starts"]
            for variant in study["variants"]
        ]

    def describe_trial(self, trial: int) -> str:
        """What a trial sets, such as ``optimizer.learning_rate=0.003``."""
        return ", ".join(_settings(self.config["trials"][trial])) or "as the base"


def _settings(changes: Mapping[str, Any], prefix: str = "") -> list[str]:
    lines = []
    for key, value in changes.items():
        if isinstance(value, Mapping):
            lines += _settings(value, f"{prefix}{key}.")
        else:
            lines.append(f"{prefix}{key}={value}")
    return lines


def change_config(
    config: Mapping[str, Any], changes: Any, where: str, prefix: str = ""
) -> dict[str, Any]:
    """A copy of a JSON config with some of its values replaced.

    Raises:
        InputError: a key that the config lacks, or a value of another kind.

    >>> change_config({"seed": 0, "loop": {"steps": 1}}, {"loop": {"steps": 2}}, "tasks.a")
    {'seed': 0, 'loop': {'steps': 2}}
    """
    if not isinstance(changes, Mapping):
        raise InputError(f"{where} is {changes!r}, not a mapping of config keys to values.")
    changed = dict(config)
    for key, value in changes.items():
        name = f"{prefix}{key}"
        choose(f"config key in {where}", name, [prefix + known for known in config])
        old = config[key]
        if isinstance(old, Mapping):
            changed[key] = change_config(old, value, f"{where}.{key}", f"{name}.")
        elif _sort(old) != _sort(value):
            raise InputError(f"{where} sets {name}={value!r}, but it is {old!r}: another type.")
        else:
            changed[key] = value
    return changed


def _sort(value: Any) -> type:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return type(value)


def _check_axis(axis: str, values: Any) -> None:
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"{axis} is empty; name at least one, such as {{'random': {{}}}}.")
    for name in values:
        if not re.fullmatch("[A-Za-z0-9_]+", name):
            raise InputError(f"{axis}: {name!r} must be letters, digits and '_': it names files.")


def _check_list(name: str, values: Sequence[Any]) -> None:
    if not isinstance(values, list) or not values:
        raise InputError(f"{name}={values!r} must list at least one.")
    if any(value in values[:i] for i, value in enumerate(values)):
        raise InputError(f"{name} names one twice: {', '.join(map(str, values))}; name each once.")
