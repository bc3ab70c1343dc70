"""The template filled for one cell, with nothing that the cell does not need."""

from __future__ import annotations

import functools
import keyword
import re
from pathlib import Path
from typing import Any

import jinja2

from harness.cell import Cell
from harness.export.judging import Judge, anchored, names_expression
from harness.export.literals import (
    arguments,
    bound,
    comment,
    literal,
    module_of,
    quoted,
    tensor,
    tolerance,
    wrapped,
)
from harness.run import DEFAULT_TIMEOUT_S
from harness.worker.failure import COMPILER_CALLS, COMPILER_FILES

TEMPLATE = Path(__file__).parent / "exported.py.jinja"
_RANDOM = re.compile(r"rand|drop|bernoulli|multinomial|normal|uniform|class ")
# Read by the dynamic linker, the allocator or Python itself: too late once the process runs.
_AT_START = re.compile(r"LD_|DYLD_|MALLOC_|GLIBC_|PYTHON|ASAN_|UBSAN_")
_HELPERS = ("stage", "finish", "chain", "compiling", "out_of_memory", "judge", "watch", "exported", "export",
            "facts", "leaves", "call", "expected", "actual", "found", "reason", "refused", "cache", "triton",
            "what", "one", "two", "off", "most", "wide", "rtol", "atol")  # fmt: skip


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(TEMPLATE.read_text("utf-8"))


class Writer:
    """Fills the template for one cell."""

    def __init__(self, cell: Cell, device: str) -> None:
        self.cell, self.device, self.spec = cell, device, cell.spec
        self.bound = bound(self.spec["model"])
        self.body = next((name for name in ("run", "Model") if name in self.bound), "forward")
        self.judge = Judge(cell.case.signatures(cell.repro))

    def source(self) -> str:
        text = _template().render(self._values(), model="@MODEL@")
        for name in _HELPERS:
            if name in self.bound:  # the model has something of that name
                text = re.sub(rf"\b{name}\b", f"{name}_", text)
        return text.replace("@MODEL@", self.spec["model"].strip("\n"))

    def _values(self) -> dict[str, Any]:
        spec, wants = self.spec, set(self.spec["compare"])
        raises = "raises" in wants
        once = spec["entry"] == "eager" and not self.judge.mismatches and not raises
        compares = [] if once else sorted(wants - {"raises"})
        error_is_bug = self.judge.error_condition()
        oom = "out_of_memory(error)" in error_is_bug
        compiling = "compiling(error)" in error_is_bug
        names = names_expression(self.judge.signatures) if "names &" in error_is_bug else ""
        late = {k: v for k, v in spec["env"].items() if not _AT_START.match(k)}
        start = {k: v for k, v in spec["env"].items() if _AT_START.match(k)}
        gradients = self._wanting() if self.body != "run" else []
        backend = spec["compile"].get("backend", "inductor")
        guard_exit = "exit" in spec["model"].lower() or "SystemExit" in error_is_bug
        around = self._around(gradients) if "values" in compares else []
        short = f'return facts("output", {self._calling()})' if compares or raises else self._calling()
        place = "torch.cuda.is_available() and torch.cuda.get_device_name()"
        values: dict[str, Any] = {
            "header": self._header(),
            "reexec": literal(start) if start else "",
            "environ": [(quoted(k), quoted(v)) for k, v in late.items()],
            "cold": spec["entry"] == "compile" and backend == "inductor",
            "chain": bool(names) or oom or raises,
            "compiling": compiling,
            "out_of_memory": oom,
            "names": names,
            "anchored": "text)" in error_is_bug and anchored(self.judge.signatures),
            "error_is_bug": error_is_bug,
            "watch": self.judge.watched,
            "watch_stage": self.judge.watch_stage,
            "crash_compiling": "compiling" in self.judge.signal_code() + self.judge.timeout_code(),
            "timeout": f"{self.cell.model.timeout or DEFAULT_TIMEOUT_S:g}",
            "timeout_code": self.judge.timeout_code(),
            "signal_code": self.judge.signal_code(),
            "code_lines": self.judge.code_lines(),
            "triton": spec["entry"] != "eager",
            "place": place if self.device == "cuda" else f'"{self.device}"',
            "modules": self._modules(),
            "settings": self._settings(),
            "exported": spec["entry"] == "export",
            "enter": self._enter,
            "seed": spec["seed"],
            "inputs": self._inputs(),
            "body": self.body,
            "calling": self._calling(),
            "reseed": bool(spec["inputs"]) and self.body != "run" and bool(_RANDOM.search(spec["model"])),
            "to_device": f'.to("{self.device}")' if self.device != "cpu" else "",
            "gradients": gradients,
            "device": self.device,
            "compares": compares,
            "raises": raises,
            "scalar": self._scalar(compares),
            "around": around,
            "short": "" if around or gradients or guard_exit or self.device == "cuda" else short,
            "tolerance": tolerance(spec["tolerance"]),
            "guard_exit": guard_exit,
            "once": once,
            "entry": spec["entry"],
            "wrap": self._wrap(),
            "mismatch_code": self.judge.mismatch_code(),
            "clean": "it runs" if once else "eager and compiled agree",
            **_compiler_places(),
        }
        values["imports"] = self._imports(values)
        return values

    def _header(self) -> str:
        case, model, work = self.cell.case, self.cell.model, self.cell.workaround
        what = f"Repro {self.cell.repro!r}" + (f" with the workaround {work!r}" if work else "")
        words = [f"{what} on {self.device}.", model.note, case.workarounds[work].note if work else None]
        if model.trials > 1:
            words.append(f"It comes and goes: run it {model.trials} times or more.")
        codes = "Needs torch alone. Exits 1 where the bug shows, 0 where not, 2 on another failure."
        return comment([case.title, case.issue or "", *wrapped(words), codes])

    def _imports(self, values: dict[str, Any]) -> list[str]:
        wanted = {"platform", "sys", "traceback"}
        if values["cold"]:
            wanted |= {"atexit", "os", "shutil", "tempfile"}
        if values["watch"]:
            wanted |= {"faulthandler", "os", "signal", "subprocess", "tempfile"}
        if values["environ"] or values["reexec"]:
            wanted.add("os")
        judged = [values[key] for key in ("error_is_bug", "signal_code", "timeout_code", "mismatch_code")]
        if "re.search" in " ".join([*judged, *values["code_lines"]]) or self.judge.watch_stage:
            wanted.add("re")
        if "functools." in values["wrap"]:
            wanted.add("functools")
        return sorted(wanted)

    def _modules(self) -> list[str]:
        modules = {module_of(path) for path in self.spec["config"]} - {"torch"}
        if "_dynamo" in self.spec["model"] and self.spec["entry"] != "eager":
            modules.add("torch._dynamo")
        return sorted(modules)

    def _settings(self) -> list[str]:
        spec, lines = self.spec, []
        if self.device == "cuda":
            lines += ["if not torch.cuda.is_available():", '    raise RuntimeError("no CUDA device")']
        for path, value in spec["config"].items():
            if not path.startswith(("torch._inductor.config.", "torch._dynamo.config.")):
                lines.append(f"{path}  # an AttributeError where this torch has no such setting")
            lines.append(f"{path} = {literal(value)}")
        if spec["entry"] == "compile":
            lines.append(f"torch.compile(lambda: None{arguments(spec['compile'])})")
        return lines

    def _enter(self, stage: str) -> str:
        line = f'stage = "{stage}"'
        if self.judge.watch_stage:
            line += f'; print("stage {stage}", file=sys.stderr, flush=True)'
        return line

    def _variables(self) -> dict[str, str]:
        """A variable for each input: its own name where that is free."""
        taken = self.bound | set(_HELPERS) | {"compile", "torch", "model", "output", "seen", "total"}
        return {
            name: name if name.isidentifier() and not keyword.iskeyword(name) and name not in taken
            else f"input_{number}"
            for number, name in enumerate(self.spec["inputs"])
        }  # fmt: skip

    def _inputs(self) -> list[str]:
        variables, lines = self._variables(), []
        for name, item in self.spec["inputs"].items():
            if not isinstance(item, dict):
                made = literal(item)
            elif "same_as" in item:
                made = variables[item["same_as"]]
            else:
                made = tensor(item, self.device)
            lines.append(f"{variables[name]} = {made}")
        return lines

    def _calling(self) -> str:
        variables = self._variables()
        if self.body == "run":
            named = all(name == variable for name, variable in variables.items())
            pairs = ", ".join(f"{n}={n}" if named else f"{n!r}: {v}" for n, v in variables.items())
            given = pairs if named else f"**{{{pairs}}}"
            return f"run(compile, {given})" if given else "run(compile)"
        function = "model" if self.body == "Model" else "compile(forward)"
        return f"{function}({', '.join(variables.values())})"

    def _wrap(self) -> str:
        if self.spec["entry"] == "eager":
            return "lambda fn, **_: fn"
        if self.spec["entry"] == "export":
            return "lambda fn, **_: exported(fn)"
        given = arguments(self.spec["compile"])
        return f"functools.partial(torch.compile{given})" if given else "torch.compile"

    def _wanting(self) -> list[str]:
        items = self.spec["inputs"].items()
        return [name for name, item in items if isinstance(item, dict) and item.get("requires_grad")]

    def _around(self, gradients: list[str]) -> list[str]:
        variables = self._variables()
        tensors = [name for name, item in self.spec["inputs"].items() if isinstance(item, dict)]
        lines = [f"seen.update(facts({quoted(f'input {n}')}, {variables[n]}))" for n in tensors]
        return lines + [
            f"seen.update(facts({quoted(f'gradient of {n}')}, {variables[n]}.grad))" for n in gradients
        ]

    def _scalar(self, compares: list[str]) -> str:
        if "values" not in compares:
            return "{}"
        return '{path + " is": "%.6g" % value if isinstance(value, float) else value}'


def _compiler_places() -> dict[str, str]:
    def written(names: tuple[str, ...]) -> str:
        return "(\n" + "".join(f'        "{name}",\n' for name in names) + "    )"

    return {
        "compiler_files": written(COMPILER_FILES),
        "compiler_calls": written(COMPILER_CALLS),
        "crash_files": "_dynamo/convert_frame|_inductor/compile_fx|_dynamo/output_graph",
    }
