"""One attempt at one repro: eager reference first, then compiled, then the comparison.

Writes what it saw to the job's result file: kind, phase, exception chain, description of the
outputs. What that means is not decided here.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Dict

Json = Dict[str, Any]
MESSAGE_CHARS = 6000


class Unsupported(Exception):
    """This torch or Python cannot do what the cell asks."""


class Mismatch(Exception):
    """The compiled output differs from the reference; ``seen`` goes into the result."""

    def __init__(self, reason: str, seen: Json) -> None:
        super().__init__(reason)
        self.seen = seen


class Progress:
    """Where the attempt is, on disk, so that a crash can be placed."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        self.phase = "import"
        self.enter("import")

    def enter(self, phase: str) -> None:
        self.phase = phase
        os.pwrite(self._descriptor, phase.ljust(16).encode(), 0)


def main(job_path: str) -> None:
    """Run the job and write its result; a script's exit code becomes this process's."""
    with open(job_path) as stream:
        job = json.load(stream)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True, chain=False)
    progress = Progress(job["progress"])
    code = 0
    if job["spec"].get("script"):
        result, code = run_script(job, progress)
    elif job["spec"].get("probe"):
        result = run_probe(progress)
    elif job["spec"].get("timing"):
        from . import timing

        result = guarded(lambda: timing.run(job["spec"], progress), progress)
    else:
        result = guarded(lambda: run_repro(job["spec"], progress), progress)
    temporary = job["result"] + ".part"
    with open(temporary, "w") as stream:
        json.dump(result, stream)
    os.replace(temporary, job["result"])
    if code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def guarded(work: Callable[[], Json], progress: Progress) -> Json:
    """Run ``work``; turn what it raises into a result."""
    try:
        result = work()
        result.setdefault("kind", "ok")
        result.setdefault("phase", progress.phase)
        return result
    except Unsupported as exc:
        chain = describe_chain(exc.__cause__) if exc.__cause__ is not None else []
        return {
            "kind": "unsupported",
            "phase": progress.phase,
            "reason": str(exc),
            "exceptions": chain,
        }
    except Mismatch as exc:
        return {"kind": "mismatch", "phase": "compare", "reason": str(exc), **exc.seen}
    except SystemExit as exc:
        return {"kind": "error", "phase": progress.phase, "exceptions": describe_chain(exc)}
    except BaseException as exc:
        _print_traceback(exc)
        return failure(exc, progress)


def failure(exc: BaseException, progress: Progress) -> Json:
    """Result for an exception: out of memory is told apart, and compiling from running."""
    phase = progress.phase
    if phase in ("compile", "run"):
        phase = "compile" if raised_while_compiling(exc) else "run"
    kind = "oom" if _is_oom(exc) else "error"
    return {"kind": kind, "phase": phase, "exceptions": describe_chain(exc)}


def _is_oom(exc: BaseException) -> bool:
    names = {type(link).__name__ for link, _ in chain_of(exc)}
    text = str(exc)
    return bool(
        names & {"OutOfMemoryError", "MemoryError"}
        or "CUDA out of memory" in text
        or "DefaultCPUAllocator: can't allocate memory" in text
        or "DefaultCPUAllocator: not enough memory" in text
    )


def chain_of(exc: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and what it came from, outermost first.

    ``cause`` links are explicit (``raise from``, or torch's ``inner_exception``); ``context`` links
    are what was being handled, which need not be related. torch.compile wraps the real error in
    BackendCompilerFailed (2.0 on) or InductorError (2.7 on), both with ``inner_exception``.
    """
    found: list[tuple[BaseException, str]] = []
    seen = set()
    link: BaseException | None = exc
    how = "raised"
    while link is not None and id(link) not in seen and len(found) < 16:
        seen.add(id(link))
        found.append((link, how))
        inner = getattr(link, "inner_exception", None)
        if isinstance(inner, BaseException) and id(inner) not in seen:
            link, how = inner, "cause" if how != "context" else how
        elif link.__cause__ is not None:
            link, how = link.__cause__, "cause" if how != "context" else how
        elif link.__context__ is not None and not link.__suppress_context__:
            link, how = link.__context__, "context"
        else:
            link = None
    return found


def describe_chain(exc: BaseException | None) -> list[Json]:
    """The chain as JSON: qualified type, message (middle left out where it is long), link."""
    described = []
    for link, how in chain_of(exc) if exc is not None else []:
        kind = type(link)
        name = kind.__qualname__
        if kind.__module__ not in ("builtins", "__main__"):
            name = "%s.%s" % (kind.__module__, name)
        try:
            message = str(link)
        except Exception:
            message = "<the message itself could not be made>"
        if len(message) > MESSAGE_CHARS:
            half = MESSAGE_CHARS // 2
            message = "%s\n[...]\n%s" % (message[:half], message[-half:])
        described.append({"type": name, "message": message, "link": how})
    return described


# Files of torch that stand in the stack only while something is being compiled.
COMPILER_FILES = (
    "torch/_dynamo/convert_frame.py",
    "torch/_dynamo/output_graph.py",
    "torch/_inductor/compile_fx.py",
    "torch/export/__init__.py",
    "torch/export/_trace.py",
)
COMPILER_CALLS = (
    "_compile",
    "compile_inner",
    "call_user_compiler",
    "_call_user_compiler",
    "compile_fx",
    "compile_fx_inner",
    "fx_codegen_and_compile",
    "export",
    "_export",
)


def raised_while_compiling(exc: BaseException) -> bool:
    """Whether any link of the chain passed through the compiler, by its traceback or its type."""
    for link, how in chain_of(exc):
        if how == "context":
            continue
        module = type(link).__module__
        if module.startswith(("torch._dynamo", "torch._inductor")):
            return True
        trace = link.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename.endswith(COMPILER_FILES) and code.co_name in COMPILER_CALLS:
                return True
            trace = trace.tb_next
    return False


def _print_traceback(exc: BaseException) -> None:
    import traceback

    traceback.print_exception(type(exc), exc, exc.__traceback__)


def run_script(job: Json, progress: Progress) -> tuple[Json, int]:
    """Run a script as ``python script.py`` would, keeping the exception that ends it."""
    import runpy

    spec = job["spec"]
    progress.enter("run")
    sys.argv = [spec["script"], *spec.get("argv", [])]
    sys.path.insert(0, os.path.dirname(spec["script"]))
    try:
        if spec.get("config"):
            import torch

            apply_config(torch, spec["config"])
        runpy.run_path(spec["script"], run_name="__main__")
    except Unsupported as exc:
        return {"kind": "unsupported", "phase": "build", "reason": str(exc)}, 0
    except SystemExit as exc:
        code = exc.code
        if code is None or code == 0:
            return {"kind": "ok", "phase": "run"}, 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        return {"kind": "error", "phase": "run", "reason": "exit code %d" % code}, code & 0xFF
    except BaseException as exc:
        _print_traceback(exc)
        progress.phase = "run"
        return failure(exc, progress), 1
    return {"kind": "ok", "phase": "run"}, 0


def run_probe(progress: Progress) -> Json:
    """Facts about this environment, for the target's record."""
    import platform

    facts: Json = {"python": platform.python_version(), "executable_name": sys.implementation.name}
    result: Json = {"kind": "ok", "phase": "import", "detail": facts}
    try:
        import torch
    except BaseException as exc:
        _print_traceback(exc)
        return failure(exc, progress)
    facts["torch"] = str(torch.__version__)
    facts["git_version"] = getattr(torch.version, "git_version", None)
    facts["cuda"] = getattr(torch.version, "cuda", None)
    for module in ("numpy", "triton", "setuptools"):
        try:
            facts[module] = str(__import__(module).__version__)
        except BaseException:
            facts[module] = None
    try:
        facts["cuda_available"] = bool(torch.cuda.is_available())
        facts["gpus"] = []
        if facts["cuda_available"]:
            for index in range(torch.cuda.device_count()):
                gpu = torch.cuda.get_device_properties(index)
                facts["gpus"].append(
                    {
                        "name": gpu.name,
                        "memory_bytes": gpu.total_memory,
                        "capability": "%d.%d" % (gpu.major, gpu.minor),
                    }
                )
            facts["tf32_matmul"] = bool(torch.backends.cuda.matmul.allow_tf32)
    except BaseException as exc:
        facts["cuda_available"] = False
        facts["cuda_error"] = str(exc)[:500]
    return result


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
        self.space: Json = {"torch": torch, "__name__": "repro"}
        import linecache

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
            raise Unsupported("torch.compile refuses: %s" % _first_line(exc)) from exc

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


def _first_line(exc: BaseException) -> str:
    lines = [line for line in str(exc).splitlines() if line.strip()]
    return lines[0] if lines else type(exc).__name__


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
    except Exception:
        if refused is None:
            raise
        return {"phase": "compare", "reason": "both raised; eager: %s" % _first_line(refused)}
    progress.enter("compare")
    output = compare.describe(torch, actual)
    seen = {"output": output}
    if refused is not None:
        raise Mismatch(
            "eager raised %s: %s; compiled returned %s"
            % (type(refused).__name__, _first_line(refused), compare.short(output)),
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
