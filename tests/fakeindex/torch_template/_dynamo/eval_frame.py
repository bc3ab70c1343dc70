# mypy: ignore-errors
"""Runs the user's function with the bugs armed, and does to its outputs what they ask."""

import functools
import importlib

from .. import fake


def is_compiling():
    return bool(fake.running)


def list_backends():
    return ["cudagraphs", "inductor", "openxla", "tvm"]


def reset():
    fake.epoch += 1
    fake.compilations = 0


def optimize(function, backend, mode, options, dynamic, fullgraph):
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", "custom")
    if name == "inductor":
        from .._inductor import list_mode_options

        # A mode is a set of options, in torch as well.
        options = {**list_mode_options(mode or "default"), **options}
    run = fake.Run(name, mode, options, dynamic, fullgraph)
    call = function.forward if hasattr(function, "forward") else function

    @functools.wraps(call)
    def compiled(*args, **kwargs):
        from .._inductor.exc import CompileError
        from . import config
        from .exc import BackendCompilerFailed

        if config.disable:
            return function(*args, **kwargs)
        try:
            _compile_once(run)
            return _with_bugs(run, function, args, kwargs)
        except (BackendCompilerFailed, CompileError):
            # As torch does: a compiler that failed may be ignored, a compiled function may not.
            if config.suppress_errors:
                return function(*args, **kwargs)
            raise

    return compiled


def _with_bugs(run, function, args, kwargs):
    run.pending = []
    fake.running.append(run)
    try:
        result = function(*args, **kwargs)
    finally:
        fake.running.pop()
    for spec in run.pending:
        result = _spread(result, spec)
    return result


def _spread(result, spec):
    if isinstance(result, (list, tuple)):
        return type(result)(_spread(part, spec) for part in result)
    if isinstance(result, dict):
        return {key: _spread(part, spec) for key, part in result.items()}
    return fake.corrupt(result, spec) if hasattr(result, "_values") else result


def _compile_once(run):
    if run.epoch == fake.epoch:
        return
    fake.compilations += 1
    run.epoch, run.compilation = fake.epoch, fake.compilations
    if run.backend == "inductor":
        from .._inductor.compile_fx import compile_fx

        for module in fake.TABLE.get("compile_imports", ()):
            compile_fx(functools.partial(importlib.import_module, module), run.backend)
