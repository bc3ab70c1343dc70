"""Times one model at one size and dtype: every variant in one process, all in turn.

Each variant is built and called once from cold caches (the first call: compilation), called again
until it is settled, compared with a float64 reference, and only then timed with the others. One that
fails is recorded with what it raised and the others go on.
"""

from __future__ import annotations

import importlib
import math
import os
import time
from collections.abc import Callable
from typing import Any, Dict

from . import compare, steady
from .failure import Unsupported, describe_chain, failure
from .repro import apply_config, compiler, make_inputs

Json = Dict[str, Any]

# ||out - ref|| / ||ref|| against float64 on the same (rounded) inputs. float32 lands far under 1e-3,
# TF32 near 3e-4; bfloat16 between 1e-3 and 1e-2; float16 has three bits more than bfloat16. The
# workplace's METHOD for GPU work gives the first three; a wrong index is near 1.
ERROR_LIMITS = {"float64": 1e-9, "float32": 1e-3, "float16": 3e-3, "bfloat16": 1e-2}
SETTLE_CALLS = 4  # CUDA graphs: the first call compiles, the second records, then they replay
MARK = "harness-timing variant "  # on stdout: which variant a crash belongs to
AGAIN = "<again>"


def run(spec: Json, progress: Any) -> Json:
    """Measure; ``detail`` of the result is the record of this size and dtype (see harness/timing.py)."""
    import torch

    progress.enter("build")
    device = spec["device"]
    if device == "cuda" and not torch.cuda.is_available():
        raise Unsupported("torch sees no CUDA device")
    dtype = getattr(torch, spec["dtype"], None)
    if dtype is None:
        raise Unsupported("torch %s has no dtype %s" % (torch.__version__, spec["dtype"]))
    began = time.perf_counter()
    bench = Bench(torch, spec, progress)
    bench.wake_compiler()
    detail: Json = {"conditions": conditions(torch, device)}
    detail["limits"] = [steady.machine_limits(torch, device, dtype)]
    progress.enter("eager")
    bench.draw_inputs()
    bench.make_references()
    bench.start_compiler()
    for index, variant in enumerate(spec["variants"]):
        bench.prepare(index, variant)
        if bench.poisoned:
            break
    progress.enter("run")
    if not bench.poisoned:
        bench.time_all()
        detail["limits"].append(steady.machine_limits(torch, device, dtype))
    detail["conditions"].update(bench.conditions, load_after=load())
    detail.update(variants=bench.results, reference=bench.reference, again=bench.again)
    if bench.poisoned:
        detail["poisoned"] = bench.poisoned
    detail["seconds"] = round(time.perf_counter() - began, 2)
    return {"phase": "run", "detail": detail}


def load() -> float:
    """Load average of the last minute: others' work beside this."""
    return round(os.getloadavg()[0], 2)


def conditions(torch: Any, device: str) -> Json:
    """What the times depend on beside the code; nothing of it is set here."""
    found: Json = {"threads": torch.get_num_threads(), "load_before": load(), "clocks": "as found"}
    asks: dict[str, Callable[[], Any]] = {
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "cpu_capability": lambda: torch.backends.cpu.get_cpu_capability(),
    }
    if device == "cuda":
        asks["tf32_matmul"] = lambda: bool(torch.backends.cuda.matmul.allow_tf32)
        asks["gpu"] = lambda: torch.cuda.get_device_name(0)
    for name, ask in asks.items():
        try:
            found[name] = ask()
        except Exception:
            found[name] = None
    return found


class Bench:
    """One size and dtype: inputs, references, variants, results in the order given."""

    def __init__(self, torch: Any, spec: Json, progress: Any) -> None:
        self.torch, self.spec, self.progress = torch, spec, progress
        self.device = spec["device"]
        self.cache = steady.cache_bytes(torch, self.device)
        self.clock = steady.Clock(torch, self.device, self.cache)
        self.results: list[Json] = []
        self.calls: dict[str, Callable[..., Any]] = {}
        self.conditions: Json = {}
        self.reference: str | None = None
        self.again: Json = {}
        self.poisoned: str | None = None
        self._root = os.getcwd()

    # Inputs and references ----------------------------------------------------------------------

    def draw_inputs(self) -> None:
        """Input sets of fresh random numbers, enough to leave the cache where that takes few."""
        torch, spec = self.torch, self.spec

        def draw(index: int) -> list[Any]:
            torch.manual_seed(spec["seed"] + index)
            return list(make_inputs(torch, spec, self.device).values())

        first = draw(0)
        size = sum(value.numel() * value.element_size() for value in first)
        count = steady.wanted_sets(size, self.cache)
        self.sets = [first, *(draw(index) for index in range(1, count))]
        self.conditions.update(
            cache_bytes=self.cache, input_sets=count, input_bytes=size, cold=count * size >= 2 * self.cache
        )

    def make_references(self) -> None:
        """The model in float64 on the first two sets."""
        torch = self.torch

        def wide(value: Any) -> Any:
            value = value.detach()
            return value.double() if value.is_floating_point() else value

        call = self._build("reference", {"model": None, "entry": "eager", "compile": {}}, torch.float64)
        self.references = []
        with torch.no_grad():
            for arguments in self.sets[:2]:
                self.references.append(self._leaves(call(*(wide(value) for value in arguments))))

    def _leaves(self, output: Any) -> list[Any]:
        """Tensors of an output, cloned: a replay of a CUDA graph writes over what it returned."""
        leaves = [leaf for _, leaf in compare.leaves(self.torch, output)]
        found = [leaf.detach().clone() for leaf in leaves if hasattr(leaf, "detach")]
        self.clock.wait()
        return found

    def _error(self, output: Any, index: int) -> float:
        """||out - ref|| / ||ref|| over all tensors of the output; infinite for another shape."""
        actual, expected = self._leaves(output), self.references[index]
        if [tuple(leaf.shape) for leaf in actual] != [tuple(leaf.shape) for leaf in expected]:
            return float("inf")
        off = total = 0.0
        for one, two in zip(actual, expected):  # noqa: B905 -- strict= came with 3.10
            off += float(((one.double() - two) ** 2).sum())
            total += float((two**2).sum())
        return math.sqrt(off / total if total else off)

    # Variants -----------------------------------------------------------------------------------

    def _build(self, name: str, variant: Json, dtype: Any = None) -> Callable[..., Any]:
        """The variant's callable, from a code object of its own: dynamo keeps what it compiled by
        code object, and would take one variant's for another's, or stop at its recompile limit."""
        torch = self.torch
        source = "import torch\n\n" + (variant["model"] or self.spec["model"])
        path = os.path.join(self._root, "timed_%s.py" % "".join(c if c.isalnum() else "_" for c in name))
        with open(path, "w") as stream:
            stream.write(source)
        space: Json = {"torch": torch, "__name__": "timed", "__file__": path}
        exec(compile(source, path, "exec"), space)
        if "Model" in space:
            torch.manual_seed(self.spec["seed"])
            model = space["Model"]().to(self.device)
            model = model.to(dtype or getattr(torch, self.spec["dtype"]))
        elif "forward" in space:
            model = space["forward"]
        else:
            raise Unsupported("a timed model defines forward(...) or class Model")
        if variant["entry"] == "export":
            return exported_once(torch, model)
        wrapped: Callable[..., Any] = compiler(torch, variant)(model)
        return wrapped

    def wake_compiler(self) -> None:
        """CUDA: have the pool of compiling processes start beside what comes before the variants;
        until it is there max-autotune compiles its candidates one by one."""
        if self.device == "cuda" and any(variant["entry"] != "eager" for variant in self.spec["variants"]):
            try:
                pool = importlib.import_module("torch._inductor.async_compile").AsyncCompile
                pool.warm_pool()
                getattr(pool, "use_process_pool", lambda: None)()  # newer ones wake on the first use
            except Exception as exc:
                self.conditions["compiler_wake_error"] = "%s: %s" % (type(exc).__name__, str(exc)[:300])

    def start_compiler(self) -> None:
        """Compile something small, so that what only a process's first compilation pays (imports,
        Triton's driver, the pool of compiling processes) is in no variant's first call."""
        torch = self.torch
        if all(variant["entry"] == "eager" for variant in self.spec["variants"]):
            return
        start = time.perf_counter()
        try:
            value = torch.ones(16, 16, device=self.device)
            if self.device == "cuda":
                torch.compile(lambda x: x.cos() + 1)(value)
                from torch._inductor.async_compile import AsyncCompile

                getattr(AsyncCompile, "wait_pool_ready", lambda: None)()
            else:
                torch.compile(lambda x: torch.mm(x, x))(value)
            self.clock.wait()
        except Exception as exc:
            self.conditions["compiler_start_error"] = "%s: %s" % (type(exc).__name__, str(exc)[:300])
        self.conditions["compiler_start_s"] = round(time.perf_counter() - start, 3)

    def prepare(self, index: int, variant: Json) -> None:
        """Build, first call, settle, compare. What fails is a result too."""
        name = variant["name"]
        print(MARK + name, flush=True)
        result: Json = {"name": name, "cold": bool(self.spec["cold"]) and variant["entry"] != "eager"}
        self.results.append(result)
        self.progress.enter("eager" if variant["entry"] == "eager" else "compile")
        before = graphs()
        changed: list[tuple[Any, str, Any]] = []
        try:
            fresh_caches(self._root, index, bool(self.spec["cold"]))
            changed = settings(variant["config"])
            apply_config(self.torch, variant["config"])
            call = self._build("%d_%s" % (index, name), variant)
            self._first_calls(call, result)
            result.update(kind="ok", phase="run")
            limit = ERROR_LIMITS.get(self.spec["dtype"], 0.0)
            result["error_limit"] = limit
            if not result["rel_error"] <= limit:  # NaN is no pass either
                result.update(
                    kind="mismatch",
                    phase="compare",
                    reason="differs from float64 by %.3g, more than %g" % (result["rel_error"], limit),
                )
            else:
                self.calls[name] = call
        except Exception as exc:
            self._failed(result, exc)
        finally:
            for owner, key, value in changed:
                setattr(owner, key, value)
        result["graphs"] = graphs() - before

    def _first_calls(self, call: Callable[..., Any], result: Json) -> None:
        first_s, output = self.clock.once(call, self.sets[0])
        worst = self._error(output, 0)
        result["first_call_s"] = round(first_s, 6)
        result["next_calls_s"] = []
        for number in range(SETTLE_CALLS):
            which = (number + 1) % 2
            seconds, output = self.clock.once(call, self.sets[which])
            result["next_calls_s"].append(round(seconds, 6))
            error = self._error(output, which)
            worst = error if not error <= worst else worst
            del output
        result["rel_error"] = float("%.3g" % worst)
        if not math.isfinite(worst):
            result["rel_error"] = 1e99  # JSON has neither NaN nor infinity

    def _failed(self, result: Json, exc: Exception) -> None:
        if isinstance(exc, Unsupported):
            chain = describe_chain(exc.__cause__) if exc.__cause__ is not None else []
            result.update(kind="unsupported", phase="build", reason=str(exc), exceptions=chain)
        else:
            result.update(failure(exc, self.progress))
        result["exceptions"] = result.get("exceptions", [])[:6]
        try:
            self.clock.wait()
        except Exception:
            self.poisoned = result["name"]  # a CUDA error that stays: nothing more runs in this process

    def time_all(self) -> None:
        """All that passed, in turn; the reference twice, which shows the noise."""
        print(MARK, flush=True)  # a crash from here on belongs to no single variant
        calls = dict(self.calls)
        wanted = self.spec.get("reference")
        self.reference = wanted if wanted in calls else None
        if calls:
            calls[AGAIN] = calls[self.reference or next(iter(calls))]
        rounds = steady.Steady(self.clock, self.sets, self.spec["bounds"])
        before = graphs()
        rounds.measure(calls)
        self.conditions["recompiled"] = graphs() - before
        for result in self.results:
            name = result["name"]
            if name in rounds.failed:
                self._failed(result, rounds.failed[name])
            elif name in rounds.values:
                result.update({key: steady.summary(seen) for key, seen in rounds.values[name].items()})
                result["calls"] = rounds.calls_of(name)
        if AGAIN in rounds.values:
            again = {key: steady.summary(seen) for key, seen in rounds.values[AGAIN].items()}
            self.again = dict(again, of=self.reference or next(iter(self.calls)))


def graphs() -> int:
    """How many graphs dynamo has compiled in this process; a variant that adds none runs eager."""
    try:
        from torch._dynamo.utils import counters
    except ImportError:
        return 0
    return int(counters["stats"]["unique_graphs"])


def settings(config: Json) -> list[tuple[Any, str, Any]]:
    """The present values of ``config``'s settings, to be put back: (owner, attribute, value)."""
    found = []
    for path in config:
        parts = path.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            try:
                owner: Any = importlib.import_module(".".join(parts[:cut]))
            except ImportError:
                continue
            for part in parts[cut:-1]:
                owner = getattr(owner, part, None)
            if hasattr(owner, parts[-1]):
                found.append((owner, parts[-1], getattr(owner, parts[-1])))
            break
    return found


def fresh_caches(root: str, index: int, cold: bool) -> None:
    """Forget what earlier variants compiled: memory always, for what one variant generated must not
    run in another's name; the folders on disk as well where first calls are to be cold."""
    if cold:
        folder = os.path.join(root, "caches", str(index))
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    clear: Any = None
    try:
        utils = importlib.import_module("torch._inductor.utils")
        clear = getattr(utils, "clear_caches", None) or getattr(utils, "clear_inductor_caches", None)
    except ImportError:
        pass
    if clear is not None:
        clear()
    try:  # pytorch#188069 lives in this one, and not every release registers it with the others
        templates = importlib.import_module("torch._inductor.select_algorithm").TritonTemplate.all_templates
        for template in templates.values():
            getattr(getattr(template, "_generated_code_cache", None), "cache_clear", lambda: None)()
    except (ImportError, AttributeError):
        pass


def exported_once(torch: Any, model: Any) -> Callable[..., Any]:
    """``model`` exported on the first call's arguments, the program kept for all later calls."""
    kept: list[Callable[..., Any]] = []
    if not isinstance(model, torch.nn.Module):
        inner = model

        class Wrapped(torch.nn.Module):  # type: ignore[misc]
            def forward(self, *args: Any) -> Any:
                return inner(*args)

        model = Wrapped()

    def call(*args: Any) -> Any:
        if not kept:
            try:
                from torch.export import export
            except ImportError as exc:
                raise Unsupported("torch %s has no torch.export" % torch.__version__) from exc
            program = export(model, args)
            kept.append(program.module() if hasattr(program, "module") else program)
        return kept[0](*args)

    return call
