"""AdamW with warm-up, decay, clipping and a decay mask that names what decays."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import optax

from magjax.checks import InputError, choose, fraction, positive_integer, positive_number
from magjax.training._freeze import check_patterns, frozen_names
from magjax.trees import flatten_named

__all__ = ["SCHEDULES", "OptimizerSettings", "decay_mask", "make_optimizer", "make_schedule"]

SCHEDULES = ("cosine", "linear", "constant")
# The leaves that decay: matrices and tables. Everything else stays: biases, layer-norm scales,
# temperature, gamma (a mask by number of axes would hit stacked layer norms).
_DECAYED = ("kernel", "embedding")


@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """Settings of the optimizer; every count is in optimizer steps, not micro-batches.

    Attributes:
        learning_rate: peak learning rate.
        head_learning_rate_scale: factor on the learning rate of temperature and gamma.
        schedule: what follows the warm-up, one of ``SCHEDULES``.
        warmup_fraction: share of all steps spent in linear warm-up.
        weight_decay: decoupled decay, on kernels and embedding tables only.
        clip_norm: global gradient norm above which gradients are scaled down.
        b1: decay rate of the first moment.
        b2: decay rate of the second moment.
        eps: added to the root of the second moment.
        freeze: regular expressions of the parameters that stay as they are, such as
            ``query_tower`` or ``document_tower``; :func:`initial_state` takes them too.

    >>> OptimizerSettings(learning_rate=1e-3).schedule
    'cosine'
    """

    learning_rate: float
    head_learning_rate_scale: float = 1.0
    schedule: str = "cosine"
    warmup_fraction: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    freeze: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuses settings out of range, by name."""
        object.__setattr__(self, "freeze", check_patterns(self.freeze))
        positive_number("optimizer.learning_rate", self.learning_rate)
        choose("optimizer.schedule", self.schedule, SCHEDULES)
        fraction("optimizer.warmup_fraction", self.warmup_fraction)
        positive_number("optimizer.clip_norm", self.clip_norm)
        positive_number("optimizer.eps", self.eps)
        for name in ("head_learning_rate_scale", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise InputError(f"optimizer.{name}={getattr(self, name)!r} must be 0 or more.")
        for name in ("b1", "b2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"optimizer.{name}={getattr(self, name)!r} must be in [0, 1).")


def make_schedule(settings: OptimizerSettings, steps: int) -> optax.Schedule:
    """The learning rate as a function of the optimizer step.

    Linear from ``learning_rate / warm-up steps`` to the peak, then down to zero at ``steps``
    (``cosine``, ``linear``) or level (``constant``).

    >>> schedule = make_schedule(OptimizerSettings(1.0, schedule="linear"), steps=100)
    >>> [round(float(schedule(step)), 3) for step in (0, 9, 55, 100)]
    [0.1, 1.0, 0.5, 0.0]
    """
    steps = positive_integer("steps", steps)
    peak = settings.learning_rate
    warmup = min(int(settings.warmup_fraction * steps), steps - 1)
    after = steps - warmup
    rest = {
        "cosine": lambda: optax.cosine_decay_schedule(peak, after),
        "linear": lambda: optax.linear_schedule(peak, 0.0, after),
        "constant": lambda: optax.constant_schedule(peak),
    }[settings.schedule]()
    if warmup == 0:
        return rest
    # Starts above zero: a first step at rate zero is a step thrown away.
    rise = optax.linear_schedule(peak / warmup, peak * (warmup + 1) / warmup, warmup)
    return optax.join_schedules([rise, rest], [warmup])


def _path_names(path: tuple[Any, ...]) -> list[str]:
    return [str(getattr(part, "key", getattr(part, "name", part))) for part in path]


def decay_mask(params: Any) -> Any:
    """True for the leaves that weight decay may touch: kernels and embedding tables.

    >>> decay_mask({"encoder": {"kernel": 1.0, "bias": 1.0}, "head": {"log_temperature": 1.0}})
    {'encoder': {'bias': False, 'kernel': True}, 'head': {'log_temperature': False}}
    """

    def decays(path: tuple[Any, ...], _: Any) -> bool:
        names = _path_names(path)
        return not names[0].startswith("head") and names[-1] in _DECAYED

    return jax.tree_util.tree_map_with_path(decays, params)


def make_optimizer(settings: OptimizerSettings, steps: int) -> optax.GradientTransformation:
    """Clipping by global norm, then AdamW (Loshchilov and Hutter, 2019) under the schedule.

    Args:
        settings: the optimizer's settings.
        steps: number of optimizer steps of the whole run.

    Returns:
        The optimizer. Its ``init`` raises ``InputError`` where parameters that ``settings.freeze``
        names are still among those to be trained.

    >>> optimizer = make_optimizer(OptimizerSettings(0.1, warmup_fraction=0.0), steps=10)
    >>> import jax.numpy as jnp
    >>> params = {"encoder": {"kernel": jnp.ones(2), "bias": jnp.ones(2)}}
    >>> state = optimizer.init(params)
    >>> zero = jax.tree.map(jnp.zeros_like, params)
    >>> updates, _ = optimizer.update(zero, state, params)
    >>> [round(abs(float(updates["encoder"][name][0])), 6) for name in ("kernel", "bias")]
    [0.001, 0.0]
    """
    schedule = make_schedule(settings, steps)

    def scale_head(updates: Any, params: Any = None) -> Any:
        del params

        def scale(path: tuple[Any, ...], update: Any) -> Any:
            is_head = _path_names(path)[0].startswith("head")
            return update * settings.head_learning_rate_scale if is_head else update

        return jax.tree_util.tree_map_with_path(scale, updates)

    optimizer = optax.chain(
        optax.clip_by_global_norm(settings.clip_norm),
        optax.scale_by_adam(settings.b1, settings.b2, settings.eps),
        optax.add_decayed_weights(settings.weight_decay, mask=decay_mask),
        optax.stateless(scale_head),
        optax.scale_by_learning_rate(schedule),
    )

    def init(params: Any) -> Any:
        loose = frozen_names(flatten_named(params)[0], settings.freeze)
        if loose:
            raise InputError(
                f"optimizer.freeze names {loose[0]}, which is still to be trained: give "
                "initial_state freeze=settings.freeze."
            )
        return optimizer.init(params)

    return optax.GradientTransformation(init, optimizer.update)
