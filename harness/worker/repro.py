"""A repro, run eagerly and compiled from the same seed and inputs, and compared."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Dict

from .failure import Mismatch, Unsupported, explicit_types, first_line
from .progress import Progress

Json = Dict[str, Any]


def apply_config(torch: Any, config: Json) -> None:
    """Set torch's configuration values, each named by its full path.

    Raises:
        Unsupported: this torch has no such setting, or refuses the value.
    """
    import importlib

    for path, value in config.items():
        parts = path.split(".")
        owner: Any = None
        for cut in range(len(parts) - 1, 0, -1):
            try:
                owner = importlib.import_module(".".join(parts[:cut]))
            except ImportError:
                continue
            break
        for part in parts[cut:-1]:
            owner = getattr(owner, part, None)
        if owner is None or not hasattr(owner, parts[-1]):
            raise Unsupported("torch %s has no setting %s" % (torch.__version__, path))
        try:
            setattr(owner, parts[-1], value)
        except Exception as exc:
            raise Unsupported("torch refuses %s = %r: %s" % (path, value, exc)) from exc


def make_inputs(torch: Any, spec: Json, device: str) -> Json:
    """Inputs by name. Drawn on the CPU, so that every device sees the same numbers."""
    made: Json = {}
    for name, item in spec["inputs"].items():
        if not isinstance(item, dict):
            made[name] = item
        elif "same_as" in item:
            made[name] = made[item["same_as"]]
        else:
            made[name] = make_tensor(torch, item, device)
    return made


def make_tensor(torch: Any, item: Json, device: str) -> Any:
    """One tensor as described by the case."""
    dtype = getattr(torch, item["dtype"], None)
    if dtype is None:
        raise Unsupported("torch %s has no dtype %s" % (torch.__version__, item["dtype"]))
    shape = item["shape"]
    fill = item["fill"]
    if fill == "randint":
        value = torch.randint(item["low"], item["high"], shape)
    elif fill == "arange":
        count = 1
        for size in shape:
            count *= size
        value = torch.arange(count).reshape(shape)
    elif fill == "full":
        value = torch.full(shape, item["value"])
    else:
        value = getattr(torch, fill)(shape)
    value = value.to(dtype)
    if item.get("stride") is not None:
        strided = torch.empty_strided(shape, item["stride"], dtype=dtype)
        strided.copy_(value)
        value = strided
    value = value.to(item.get("device") or device)
    if item.get("requires_grad"):
        value.requires_grad_()
    return value


class Runner:
    """Runs a repro's model with one way of compiling, each time from the same seed and inputs."""

    def __init__(self, torch: Any, spec: Json, device: str) -> None:
        self.torch, self.spec, self.device = torch, spec, device
        import linecache
        import types

        # A module that can be imported again: dynamo and export of some releases (2.1, 2.6) look
        # a function's module up by its name.
        module = types.ModuleType("repro")
        sys.modules["repro"] = module
        self.space: Json = module.__dict__
        self.space["torch"] = torch

        # A file of its own: inductor and dynamo read sources back, and tracebacks show them.
        path = os.path.abspath("repro.py")
        with open(path, "w") as stream:
            stream.write("import torch\n\n" + spec["model"])
        self.space["__file__"] = path
        linecache.checkcache(path)
        exec(compile("import torch\n\n" + spec["model"], path, "exec"), self.space)

    def run(self, wrap: Callable[..., Any]) -> tuple[Any, Json]:
        """Returns the outputs, gradients of inputs that ask for one, and the inputs afterwards."""
        torch = self.torch
        torch.manual_seed(self.spec["seed"])
        inputs = make_inputs(torch, self.spec, self.device)
        if "run" in self.space:
            output = self.space["run"](wrap, **inputs)
        else:
            if "Model" in self.space:
                torch.manual_seed(self.spec["seed"])
                model = self.space["Model"]().to(self.device)
            else:
                model = self.space["forward"]
            call = wrap(model)
            torch.manual_seed(self.spec["seed"])
            output = call(**inputs) if self.spec["by_keyword"] else call(*inputs.values())
        wants = {
            name: value
            for name, value in inputs.items()
            if getattr(value, "requires_grad", False) and "run" not in self.space
        }
        if wants:
            from .compare import leaves

            total = sum(
                leaf.float().sum()
                for _, leaf in leaves(torch, output)
                if hasattr(leaf, "requires_grad") and leaf.requires_grad
            )
            if hasattr(total, "backward"):
                total.backward()
        if self.device == "cuda":
            torch.cuda.synchronize()
        after = {name: value for name, value in inputs.items() if hasattr(value, "stride")}
        gradients = {name: value.grad for name, value in wants.items()}
        return output, {"input": after, "gradient of": gradients}


def compiler(torch: Any, spec: Json) -> Callable[..., Any]:
    """The cell's way of compiling: a function from a callable to a callable."""
    entry = spec["entry"]
    arguments = {k: v for k, v in spec["compile"].items() if v is not None}
    if entry == "eager":
        return lambda fn, **_: fn
    if entry == "export":
        return lambda fn, **_: exported(torch, fn)
    if not hasattr(torch, "compile"):
        raise Unsupported("torch %s has no torch.compile" % torch.__version__)

    def wrap(fn: Any, **more: Any) -> Any:
        try:
            return torch.compile(fn, **dict(arguments, **more))
        except Exception as exc:
            # torch.compile itself compiles nothing: what it raises is about what it was asked.
            raise Unsupported("torch.compile refuses: %s" % first_line(exc)) from exc

    return wrap


def exported(torch: Any, fn: Any) -> Callable[..., Any]:
    """``fn`` through torch.export on its first call's arguments."""
    try:
        from torch.export import export
    except ImportError as exc:
        raise Unsupported("torch %s has no torch.export" % torch.__version__) from exc
    if not isinstance(fn, torch.nn.Module):
        inner = fn

        class Wrapped(torch.nn.Module):  # type: ignore[misc]
            def forward(self, *args: Any) -> Any:
                return inner(*args)

        fn = Wrapped()

    def call(*args: Any, **kwargs: Any) -> Any:
        program = export(fn, args, kwargs)
        module = program.module() if hasattr(program, "module") else program
        return module(*args, **kwargs)

    return call


def run_repro(spec: Json, progress: Progress) -> Json:
    """Eager, compiled, compared. Raises Unsupported or Mismatch, or what torch raised."""
    import torch

    from . import compare

    device = spec["device"]
    progress.enter("build")
    if device == "cuda" and not torch.cuda.is_available():
        raise Unsupported("torch sees no CUDA device")
    if spec["entry"] != "eager":
        # `import torch` alone does not import it in 2.0, and repros call torch._dynamo.reset().
        try:
            import torch._dynamo
        except ImportError as exc:
            raise Unsupported("torch %s has no torch._dynamo" % torch.__version__) from exc
    apply_config(torch, spec["config"])
    wrap = compiler(torch, spec)
    runner = Runner(torch, spec, device)
    wants = set(spec["compare"])

    progress.enter("eager")
    refused: BaseException | None = None
    expected: Any = None
    around: Json = {}
    try:
        expected, around = runner.run(lambda fn, **_: fn)
    except Exception as exc:
        if "raises" not in wants:
            raise
        refused = exc
    if spec["entry"] != "eager":
        progress.enter("compile")
    try:
        actual, actual_around = runner.run(wrap)
    except Unsupported:
        progress.enter("build")
        raise
    except Exception as exc:
        # The same kind of exception, somewhere in the chain: anything else is a failure of its own.
        if refused is None or type(refused) not in explicit_types(exc):
            raise
        both = "both raised; eager: %s; compiled: %s" % (first_line(refused), first_line(exc))
        return {"phase": "compare", "reason": both}
    progress.enter("compare")
    output = compare.describe(torch, actual)
    seen = {"output": output}
    if refused is not None:
        raise Mismatch(
            "eager raised %s: %s; compiled returned %s"
            % (type(refused).__name__, first_line(refused), compare.short(output)),
            seen,
        )
    differences = compare.compare(torch, expected, actual, wants, spec["tolerance"])
    if "values" in wants:
        for what in around:
            for name, value in around[what].items():
                differences += compare.compare(
                    torch,
                    value,
                    actual_around[what][name],
                    {"values"},
                    spec["tolerance"],
                    label="%s %s" % (what, name),
                )
    if differences:
        raise Mismatch("; ".join(differences[:4]), seen)
    return {"phase": "compare", **seen}
