# mypy: ignore-errors
# ruff: noqa: F401
"""A stand-in for torch: the surface that a repro and the worker touch, and bugs on demand.

It runs on every Python that a fake wheel may claim (3.8 on), needs the standard library alone, and
imports nothing heavy: a test of the whole tool imports it hundreds of times.
"""

import sys

from . import cuda, export, fake, nn, testing, version
from ._tensor import (
    Size,
    Tensor,
    allclose,
    arange,
    bfloat16,
    bool,
    device,
    double,
    dtype,
    empty,
    empty_like,
    empty_strided,
    equal,
    finfo,
    float,
    float16,
    float32,
    float64,
    full,
    half,
    int,
    int32,
    int64,
    is_tensor,
    isclose,
    isfinite,
    isnan,
    long,
    manual_seed,
    ones,
    ones_like,
    rand,
    randint,
    randn,
    randn_like,
    strided,
    tensor,
    zeros,
    zeros_like,
)

__version__ = version.__version__
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BACKENDS = ("aot_eager", "cudagraphs", "eager", "inductor", "openxla", "tvm")


def __getattr__(name):
    # Like torch from 2.1 on: these load when first touched. In 2.0 they had to be imported by name.
    if name in ("_dynamo", "_inductor", "compiler") and fake.RELEASE >= (2, 1):
        import importlib

        return importlib.import_module("torch." + name)
    raise AttributeError(f"module 'torch' has no attribute {name!r}")


class no_grad:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False

    def __call__(self, function):
        return function


inference_mode = enable_grad = no_grad


def is_grad_enabled():
    return False


def use_deterministic_algorithms(mode, *, warn_only=False):
    return None


def set_num_threads(count):
    return None


def get_num_threads():
    return 1


def _check_options(mode, options):
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    from ._inductor import config

    known = config.get_config_copy()
    for key, value in (options or {}).items():
        name = key.replace("-", "_")
        if name not in known:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {list(known)}")
        if known[name] is not None and not isinstance(value, type(known[name])):
            got, wanted = type(value).__name__, type(known[name]).__name__
            raise RuntimeError(f"Unexpected type of attr {key}, got {got} should be {wanted}")


def compile(
    model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False
):
    """torch.compile with torch's own refusals; the function then runs as is, with bugs armed."""
    if model is None:
        return lambda later: compile(
            later,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    limit = fake.TABLE.get("max_compile_python")
    if limit and sys.version_info[:2] > tuple(limit):
        raise RuntimeError(f"Python {limit[0]}.{limit[1] + 1}+ not yet supported for torch.compile")
    if backend == "inductor":
        _check_options(mode, options)
    elif isinstance(backend, str) and backend not in _BACKENDS:
        from ._dynamo.exc import InvalidBackend

        raise InvalidBackend(backend)
    if disable:
        return model
    from ._dynamo.eval_frame import optimize

    return optimize(model, backend, mode, options or {}, dynamic, fullgraph)
