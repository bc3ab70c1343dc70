"""What a fake torch does at `torch.fake.maybe(name)`: plain JSON, made by small functions.

Every function returns a mapping that is baked into the wheel. All take the same optional
conditions, see `Behaviour`; `SHORTHANDS` names the common ones for tests that need no detail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Behaviour = Mapping[str, Any]
"""One entry of a release's table.

Conditions that any function below takes as keywords:

- `backends`: only under these backends (default `("inductor",)`; `None` is any, export included).
- `modes`: only under these modes of torch.compile (`"default"` is no mode).
- `from_compilation`: only from the n-th compilation since the process began or since
  `torch._dynamo.reset()`; a bug that needs two compilations says 2.
- `unless`: settings that switch it off, e.g. `{"inductor.max_autotune": True, "compile.dynamic":
  False, "env.NO_BUG": "1", "dynamo.suppress_errors": True}`.
- `eager`: also in code that is not compiled.
- `stdout`, `stderr`: text written first.
"""


def _entry(kind: str, conditions: dict[str, Any], **fields: Any) -> Behaviour:
    conditions.setdefault("backends", ("inductor",))
    entry = {"kind": kind, **fields, **conditions}
    return {key: value for key, value in entry.items() if value is not None}


def clean() -> Behaviour:
    """Nothing happens."""
    return {"kind": "clean"}


def error(
    message: str = "Expected result >= 0 to be true, but got false.",
    *,
    exception: str = "RuntimeError",
    phase: str = "compile",
    cause: Behaviour | None = None,
    **conditions: Any,
) -> Behaviour:
    """An exception, builtin or dotted (`torch._inductor.exc.LoweringException`).

    In the phase `compile` it comes wrapped as that release wraps it: BackendCompilerFailed up to
    2.6, InductorError from 2.7 on. In the phase `run` it comes bare. `cause` is another `error()`.
    """
    return _entry("error", conditions, message=message, exception=exception, phase=phase, cause=cause)


def wrong_values(how: str = "off", *, first: int | None = None, **conditions: Any) -> Behaviour:
    """Outputs are `off` by one, `random`, `nan` or `zero`; only the `first` elements if given."""
    return _entry("values", conditions, how=how, first=first)


def wrong_stride(stride: Sequence[int] | None = None, **conditions: Any) -> Behaviour:
    """Outputs with right values under these strides (default: each one too large by one)."""
    return _entry("stride", conditions, stride=stride)


def wrong_shape(**conditions: Any) -> Behaviour:
    """Outputs of shape (1,)."""
    return _entry("shape", conditions)


def wrong_dtype(**conditions: Any) -> Behaviour:
    """Outputs of dtype float64 (int64 where they were float64)."""
    return _entry("dtype", conditions)


def crash(signal: str = "SIGSEGV", **conditions: Any) -> Behaviour:
    """The process ends by this signal; `stderr=` gives what glibc would have said first."""
    return _entry("signal", conditions, signal=signal)


def hang(
    seconds: float | None = None,
    *,
    spin: bool = False,
    ignore_sigterm: bool = False,
    **conditions: Any,
) -> Behaviour:
    """Sleeps (or spins) for this long, forever by default, and then goes on as if clean."""
    return _entry("hang", conditions, seconds=seconds, spin=spin, ignore_sigterm=ignore_sigterm)


def allocate(size: int, *, seconds: float = 0.0, **conditions: Any) -> Behaviour:
    """Allocates and touches `size` bytes, holds them, frees them; torch's words if it cannot."""
    return _entry("allocate", conditions, bytes=size, seconds=seconds)


def flaky(
    then: str | Behaviour = "error",
    *,
    p: float | None = None,
    attempts: Sequence[int] | None = None,
    **conditions: Any,
) -> Behaviour:
    """Does `then` with probability `p`, or on these attempts exactly.

    Attempts count from 0, per release and name, in the folder FAKE_STATE (or the index's `state`).
    """
    if (p is None) == (attempts is None):
        raise ValueError("flaky needs either p or attempts")
    return _entry("flaky", conditions, then=as_behaviour(then), p=p, attempts=attempts)


def one_of(*choices: str | Behaviour, in_turn: bool = False, **conditions: Any) -> Behaviour:
    """One of several behaviours, at random or in turn (counted like `flaky`'s attempts)."""
    return _entry("one_of", conditions, choices=[as_behaviour(c) for c in choices], in_turn=in_turn)


def missing_operator(operator: str = "_fake_op", **conditions: Any) -> Behaviour:
    """AttributeError of an operator that this release does not have, in eager code too."""
    conditions.setdefault("eager", True)
    conditions.setdefault("backends", None)
    return _entry("missing", conditions, operator=operator)


def warns(
    message: str = "LeafSpec is deprecated", *, category: str = "FutureWarning", **conditions: Any
) -> Behaviour:
    """A warning, and nothing else."""
    return _entry("warn", conditions, message=message, category=category)


def exits(code: int, *, hard: bool = False, **conditions: Any) -> Behaviour:
    """SystemExit(code), or with `hard` an exit that runs no cleanup."""
    return _entry("exit", conditions, code=code, hard=hard)


SHORTHANDS: Mapping[str, Behaviour] = {
    "clean": clean(),
    "error": error(),
    "run-error": error(phase="run"),
    "values": wrong_values(),
    "stride": wrong_stride(),
    "shape": wrong_shape(),
    "dtype": wrong_dtype(),
    "sigsegv": crash("SIGSEGV"),
    "sigfpe": crash("SIGFPE"),
    "sigabrt": crash("SIGABRT", stderr="free(): invalid pointer\n"),
    "hang": hang(),
    "missing": missing_operator(),
    "warn": warns(),
}


def as_behaviour(value: str | Behaviour) -> Behaviour:
    """A behaviour, or the one of that shorthand."""
    return SHORTHANDS[value] if isinstance(value, str) else value
