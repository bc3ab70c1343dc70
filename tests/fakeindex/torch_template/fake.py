# mypy: ignore-errors
# ruff: noqa: PTH103, PTH118, PTH120
"""Bugs on demand: `torch.fake.maybe("name", value)` does what the wheel's table says of `name`.

The table, `_fake_behaviour.json`, is baked into each wheel, so that the same repro is clean in one
release and broken in the next. Only compiled code is affected, unless an entry says `eager`.
"""

import json
import os
import sys

with open(os.path.join(os.path.dirname(__file__), "_fake_behaviour.json")) as _file:
    TABLE = json.load(_file)

RELEASE = tuple(int(part) for part in TABLE["version"].split(".")[:2])
running = []  # the compiled functions that are running now, innermost last
epoch = 0  # grows with every torch._dynamo.reset()
compilations = 0  # since the last reset
_hoard = []


class Run:
    """One torch.compile: its settings, and what its outputs are still to suffer."""

    def __init__(self, backend, mode, options, dynamic, fullgraph):
        self.backend, self.mode, self.options = backend, mode, options
        self.dynamic, self.fullgraph = dynamic, fullgraph
        self.pending, self.epoch, self.compilation = [], None, 1


def maybe(name, value=None, *, compiled=None):
    """Do what this release's table says of `name`, and return `value`, altered where it says so.

    Without `value`, wrong values, strides, shapes and dtypes are done to the outputs of the
    compiled function. `compiled=True` is for scripts that compile nothing.
    """
    spec = TABLE["bugs"].get(name)
    if spec is None:
        return value
    run = running[-1] if running else None
    active = bool(run) if compiled is None else compiled
    if not (active or spec.get("eager")) or not _applies(spec, run):
        return value
    return _fire(name, spec, value, run)


def _applies(spec, run):
    if run is not None:
        if "backends" in spec and run.backend not in spec["backends"]:
            return False
        if "modes" in spec and (run.mode or "default") not in spec["modes"]:
            return False
        if run.compilation < spec.get("from_compilation", 1):
            return False
    return all(_setting(key, run) != off for key, off in spec.get("unless", {}).items())


def _setting(key, run):
    """The value of `compile.dynamic`, `env.NAME`, `inductor.x` (an option first) or `dynamo.x`."""
    kind, _, name = key.partition(".")
    if kind == "env":
        return os.environ.get(name)
    if kind == "compile":
        return getattr(run, name, None)
    if kind == "inductor" and run is not None and name in run.options:
        return run.options[name]
    import importlib

    module = importlib.import_module(f"torch._{kind}.config")
    return module.get_config_copy().get(name)


def _count(name):
    """How often `name` was asked before, over all processes that share a state folder."""
    folder = os.environ.get("FAKE_STATE") or TABLE.get("state")
    if not folder:
        raise RuntimeError(f"fake: {name!r} counts attempts; set FAKE_STATE to a folder")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + "@" + TABLE["version"])
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
        before = os.fstat(handle).st_size
        os.lseek(handle, 0, os.SEEK_END)
        os.write(handle, b".")
        return before
    finally:
        os.close(handle)


def _chance():
    return int.from_bytes(os.urandom(7), "big") / 256.0**7


def _fire(name, spec, value, run):
    for stream, key in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
        if key in spec:
            stream.write(spec[key])
            stream.flush()
    return _KINDS[spec["kind"]](name, spec, value, run)


def _flaky(name, spec, value, run):
    hit = _count(name) in spec["attempts"] if "attempts" in spec else _chance() < spec["p"]
    return _fire(name, spec["then"], value, run) if hit else value


def _one_of(name, spec, value, run):
    choices = spec["choices"]
    turn = _count(name) if spec.get("in_turn") else int(_chance() * len(choices))
    return _fire(name, choices[turn % len(choices)], value, run)


def _exception(spec):
    import builtins
    import importlib

    module, _, attribute = spec.get("exception", "RuntimeError").rpartition(".")
    owner = importlib.import_module(module) if module else builtins
    return getattr(owner, attribute)(spec["message"])


def _raise_chain(spec):
    error = _exception(spec)
    if spec.get("cause"):
        try:
            _raise_chain(spec["cause"])
        except Exception as cause:
            raise error from cause
    raise error


def _error(name, spec, value, run):
    if spec.get("phase", "compile") == "compile" and run is not None:
        from ._inductor.compile_fx import compile_fx

        return compile_fx(lambda: _raise_chain(spec), run.backend)
    from ._inductor.output_code import call

    return call(lambda: _raise_chain(spec))


def _alter(name, spec, value, run):
    if value is not None:
        return corrupt(value, spec)
    if run is None:
        raise RuntimeError(f"fake: {name!r} alters a tensor: give it, maybe({name!r}, tensor)")
    run.pending.append(spec)
    return None


def corrupt(value, spec):
    from ._tensor import Tensor, float64, int64

    values, shape, dtype, stride = value._values, value.shape, value.dtype, value.stride()
    if spec["kind"] == "shape":
        values, shape, stride = values[:1], (1,), None
    elif spec["kind"] == "dtype":
        dtype = int64 if dtype is float64 else float64
    elif spec["kind"] == "stride":
        stride = tuple(spec.get("stride") or [step + 1 for step in stride])
    else:
        how = {"nan": lambda v: float("nan"), "zero": lambda v: v * 0, "off": lambda v: v + 1}
        how["random"] = lambda v: v + 1 + _chance()
        change, first = how[spec.get("how", "off")], spec.get("first")
        values = [change(v) if first is None or i < first else v for i, v in enumerate(values)]
    return Tensor(values, shape, dtype, stride)


def _signal(name, spec, value, run):
    import signal

    number = getattr(signal, spec["signal"])
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return value


def _hang(name, spec, value, run):
    import time

    if spec.get("ignore_sigterm"):
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = None if spec.get("seconds") is None else time.monotonic() + spec["seconds"]
    while end is None or time.monotonic() < end:
        if not spec.get("spin"):
            time.sleep(3600 if end is None else max(end - time.monotonic(), 0))
    return value


def _allocate(name, spec, value, run):
    import time

    step, total = 1 << 24, spec["bytes"]
    try:
        while total > 0:
            # Written to, not only reserved: a limit on resident memory must see it too.
            _hoard.append(b"\x01" * min(step, total))
            total -= step
    except MemoryError:
        del _hoard[:]
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate "
            f"memory: you tried to allocate {spec['bytes']} bytes. Error code 12 (Cannot allocate memory)"
        ) from None
    time.sleep(spec.get("seconds", 0))
    del _hoard[:]
    return value


def _missing(name, spec, value, run):
    raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{spec['operator']}'")


def _warn(name, spec, value, run):
    import builtins
    import warnings

    warnings.warn(spec["message"], getattr(builtins, spec["category"]), stacklevel=4)
    return value


def _exit(name, spec, value, run):
    if spec.get("hard"):
        os._exit(spec["code"])
    raise SystemExit(spec["code"])


_KINDS = {
    "clean": lambda name, spec, value, run: value,
    "error": _error,
    "values": _alter,
    "stride": _alter,
    "shape": _alter,
    "dtype": _alter,
    "signal": _signal,
    "hang": _hang,
    "allocate": _allocate,
    "flaky": _flaky,
    "one_of": _one_of,
    "missing": _missing,
    "warn": _warn,
    "exit": _exit,
}
