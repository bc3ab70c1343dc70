"""``harness export``: a cell as one file that needs torch alone, to paste into an issue.

The file does what the worker does (``worker/repro.py``, ``worker/compare.py``) and judges as
:class:`harness.outcome.Signature` does, written out for one cell with nothing that it does not need.
It exits 1 where the failure signature matches, 0 where the model is clean, 2 where it fails in
another way or cannot run. Patterns are searched in the formatted traceback, or in stderr where the
bug ends the process; what torch logs besides is not looked at.
"""

from __future__ import annotations

import ast
import keyword
import re
import symtable
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import jinja2

from harness.cell import Cell
from harness.outcome import Kind, Phase, Signature
from harness.run import DEFAULT_TIMEOUT_S
from harness.worker.compare import TOLERANCES
from harness.worker.failure import COMPILER_CALLS, COMPILER_FILES

WIDTH = 96
_RANDOM = re.compile(r"rand|drop|bernoulli|multinomial|normal|uniform|class ")
# Read by the dynamic linker, the allocator or Python itself: too late once the process runs.
_AT_START = re.compile(r"LD_|DYLD_|MALLOC_|GLIBC_|PYTHON|ASAN_|UBSAN_")
# Where the harness's phases are in the exported file; `settings` is the file's own: what torch
# refuses there says nothing about the bug.
_STAGES = {
    Phase.IMPORT: "import",
    Phase.BUILD: "build",
    Phase.EAGER: "eager",
    Phase.COMPILE: "compiled",
    Phase.RUN: "compiled",
    Phase.COMPARE: "compare",
}
_HELPERS = ("stage", "finish", "chain", "compiling", "out_of_memory", "judge", "watch", "exported", "export",
            "facts", "leaves", "call", "expected", "actual", "found", "reason", "refused", "cache", "triton",
            "what", "one", "two", "off", "most", "wide", "rtol", "atol")  # fmt: skip

_TEMPLATE = '''\
{{ header }}
import {{ imports | join(", ") }}
{% if reexec %}

SETTINGS = {{ reexec }}  # read when a process starts
if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
    os.environ.update(SETTINGS)
    os.execv(sys.executable, [sys.executable, *sys.argv])
{% endif %}
{% for name, value in environ %}
os.environ[{{ name }}] = {{ value }}
{% endfor %}
{% if cold %}

cache = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # nothing cached by earlier runs
atexit.register(shutil.rmtree, cache, ignore_errors=True)
{% endif %}

stage = "import"


def finish(code, line):
    print(("CLEAN", "BUG", "OTHER")[code] + ": " + line)
    sys.exit(code)


{% if chain %}
def chain(error{{ ", handled=True" if raises else "" }}):
    """The exception and what it came from: torch wraps the real one."""
    for _ in range(16):
        yield error
        context = {{ "handled and " if raises else "" }}not error.__suppress_context__ and error.__context__
        error = getattr(error, "inner_exception", None) or error.__cause__ or context or None
        if error is None:
            return


{% endif %}
{% if compiling %}
def compiling(error):
    """Whether the compiler raised it, and not the code that it made."""
    files = {{ compiler_files }}
    calls = {{ compiler_calls }}
    for _ in range(16):
        codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")) or any(
            code.co_filename.endswith(files) and code.co_name in calls for code in codes
        ):
            return True
        error = getattr(error, "inner_exception", None) or error.__cause__
        if error is None:
            break
    return False


{% endif %}
{% if out_of_memory %}
def out_of_memory(error):
    names = {type(link).__name__ for link in chain(error)} & {"OutOfMemoryError", "MemoryError"}
    words = ("CUDA out of memory", "can't allocate memory", "not enough memory")
    return bool(names) or any(each in str(error) for each in words)


{% endif %}
def judge(kind, error, trace):
    """Whatever is raised ends here."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(text)
{% if anchored %}
    text = "".join(traceback.format_exception_only(kind, error)) + text
{% endif %}
{% if names %}
    names = {{ names }}
{% endif %}
{% if error_is_bug %}
    bug = {{ error_is_bug }}
{% endif %}
    line = ("%s: %s" % (kind.__name__, error)).splitlines()[0]
    finish({{ "1 if bug else 2" if error_is_bug else "2" }}, "%s (stage: %s)" % (line, stage))


sys.excepthook = judge
{% if watch %}


def watch():
    """This bug can end the process, or hang it: another one runs the rest, this one looks on."""
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        environ = dict(os.environ, WATCHED="1")
        child = subprocess.Popen([sys.executable, __file__], env=environ, stderr=log, start_new_session=True)
        try:
            code = child.wait({{ timeout }})
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(child.pid, signal.SIGKILL)
        log.seek(0)
        text = log.read()
    sys.stderr.write(text)
{% if watch_stage %}
    stage = (["import", *re.findall(r"^stage (\\w+)$", text, re.M)])[-1]
{% endif %}
{% if crash_compiling %}
    dump = text.partition("most recent call first")[2]
    compiling = not dump or re.search(r"torch/({{ crash_files }})\\.py", dump)
{% endif %}
    if code is None:
        finish({{ timeout_code }}, "did not end within {{ timeout }} s")
    if code < 0:
        name = signal.Signals(-code).name
{% if "text" in signal_code %}
        text = "killed by %s\n%s" % (name, text)
{% endif %}
        finish({{ signal_code }}, "killed by " + name)
{% for line in code_lines %}
    {{ line }}
{% endfor %}
    sys.exit(code)


if __name__ == "__main__" and "WATCHED" not in os.environ:
    watch()
faulthandler.enable()
{% endif %}

import torch
{% for name in modules %}
import {{ name }}
{% endfor %}
{% if triton %}

try:
    from triton import __version__ as triton
except Exception:
    triton = None
{% endif %}

print("torch", torch.__version__, torch.version.git_version, "python", platform.python_version())
{% if triton %}
print("triton", triton, "device", {{ place }})
{% endif %}

{% if settings or exported %}
stage = "settings"  # what torch refuses here is not the bug
{% endif %}
{% for line in settings %}
{{ line }}
{% endfor %}
{% if exported %}
from torch.export import export


def exported(fn):
    """`fn` through torch.export, on the arguments of its first call."""

    class Wrapped(torch.nn.Module):
        def forward(self, *args):
            return fn(*args)

    def call(*args, **kwargs):
        program = export(fn if isinstance(fn, torch.nn.Module) else Wrapped(), args, kwargs)
        return (program.module() if hasattr(program, "module") else program)(*args, **kwargs)

    return call


{% endif %}
{{ enter("build") }}


{{ model }}


{% if compares or raises %}
def facts(path, value):
    """What is compared, by name."""
    if isinstance(value, (tuple, list, dict)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, part in parts for k, v in facts("%s[%r]" % (path, key), part).items()}
    if not isinstance(value, torch.Tensor):
        return {{ scalar }}
    return {
{% if "dtype" in compares or raises %}
        path + ": dtype": str(value.dtype)[6:],
{% endif %}
{% if "shape" in compares or "values" in compares or raises %}
        path + ": shape": tuple(value.shape),
{% endif %}
{% if "stride" in compares or raises %}
        path + ": stride": tuple(value.stride()),
{% endif %}
{% if "values" in compares %}
        path: value.detach().cpu(),
{% endif %}
    }


{% endif %}
{% if gradients %}
def leaves(value):
    """What a gradient can flow from."""
    if isinstance(value, (tuple, list, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for part in parts for leaf in leaves(part)]
    return [value] if getattr(value, "requires_grad", False) else []


{% endif %}
def call(compile):
    torch.manual_seed({{ seed }})
{% for line in inputs %}
    {{ line }}
{% endfor %}
{% if body == "Model" %}
    torch.manual_seed({{ seed }})
    model = compile(Model(){{ to_device }})
{% endif %}
{% if reseed %}
    torch.manual_seed({{ seed }})
{% endif %}
{% if guard_exit %}
    try:
        output = {{ calling }}
    except SystemExit as error:
        judge(SystemExit, error, error.__traceback__)
{% elif short %}
    {{ short }}
{% else %}
    output = {{ calling }}
{% endif %}
{% if gradients %}
    total = sum(leaf.float().sum() for leaf in leaves(output))
    if hasattr(total, "backward"):
        total.backward()
{% endif %}
{% if device == "cuda" %}
    torch.cuda.synchronize()
{% endif %}
{% if around %}
    seen = facts("output", output)
{% for line in around %}
    {{ line }}
{% endfor %}
    return seen
{% elif (compares or raises) and not short %}
    return facts("output", output)
{% endif %}


if __name__ == "__main__":
    {{ enter("eager") }}
{% if raises %}
    refused = None
    try:
        expected = call(lambda fn, **_: fn)
    except Exception as error:
        refused = error
{% elif once %}
    call(lambda fn, **_: fn)
{% else %}
    expected = call(lambda fn, **_: fn)
{% endif %}
{% if not once and entry != "eager" %}
    {{ enter("compiled") }}
{% endif %}
{% if raises %}
    try:
        actual = call({{ wrap }})
    except Exception as error:
        if refused is None or type(refused) not in map(type, chain(error, handled=False)):
            raise
        finish(0, "eager and compiled raise the same: " + type(refused).__name__)
{% elif not once %}
    actual = call({{ wrap }})
{% endif %}
    {{ enter("compare") }}
{% if raises %}
    if refused is not None:
        said = ("%s: %s" % (type(refused).__name__, refused)).splitlines()[0]
        reason = "eager raised %s; compiled returned %s" % (said, actual)
        finish({{ mismatch_code }}, reason)
{% endif %}
{% if "values" in compares %}
    found = []
    for what in {**expected, **actual}:
        one, two = expected.get(what), actual.get(what)
        if not (torch.is_tensor(one) and torch.is_tensor(two) and one.shape == two.shape):
            if not torch.is_tensor(one) and one != two:
                found.append("%s %s in eager, %s compiled" % (what, one, two))
            continue
        rtol, atol = {{ tolerance }}
        if not one.is_floating_point() and not one.is_complex():
            rtol, atol = 0, 0  # exactly
        wide = torch.float64 if one.is_floating_point() else one.dtype
        one, two = one.to(wide), two.to(wide)
        off = ~torch.isclose(two, one, rtol=rtol, atol=atol, equal_nan=True)
        if off.any():
            most = " by up to %.3g" % (two - one).abs()[off].max() if rtol else ""
            found.append("%s: %d of %d values differ%s" % (what, off.sum(), one.numel(), most))
{% elif compares %}
    found = [
        "%s %s in eager, %s compiled" % (what, expected.get(what), actual.get(what))
        for what in {**expected, **actual}
        if expected.get(what) != actual.get(what)
    ]
{% endif %}
{% if compares %}
    reason = "; ".join(found[:4])
    if reason:
        finish({{ mismatch_code }}, reason)
{% endif %}
    finish(0, "{{ clean }}")
'''


def export_cell(cell: Cell, device: str) -> str:
    """The source of one file that shows what ``cell`` does on ``device`` (``cpu`` or ``cuda``)."""
    if cell.model.script:
        return _script(cell)
    return _Writer(cell, device).source()


class _Writer:
    """Fills the template for one cell."""

    def __init__(self, cell: Cell, device: str) -> None:
        self.cell, self.device, self.spec = cell, device, cell.spec
        self.signatures = cell.case.signatures(cell.repro)
        self.bound = _bound(self.spec["model"])
        self.body = next((name for name in ("run", "Model") if name in self.bound), "forward")
        crashes = {Kind.SIGNAL, Kind.TIMEOUT}
        self.watched = any(
            set(s.kind) & crashes or s.exit_code or (Kind.OK in s.kind and s.message) for s in self.signatures
        )
        self.watch_stage = any(s.phase is not None and set(s.kind) & crashes for s in self.signatures)

    def source(self) -> str:
        environment = jinja2.Environment(
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
        )
        text = environment.from_string(_TEMPLATE).render(self._values(), model="@MODEL@")
        for name in _HELPERS:
            if name in self.bound:  # the model has something of that name
                text = re.sub(rf"\b{name}\b", f"{name}_", text)
        return text.replace("@MODEL@", self.spec["model"].strip("\n"))

    def _values(self) -> dict[str, Any]:
        spec, wants = self.spec, set(self.spec["compare"])
        mismatch = [s for s in self.signatures if Kind.MISMATCH in s.kind]
        raises = "raises" in wants
        once = spec["entry"] == "eager" and not mismatch and not raises
        compares = [] if once else sorted(wants - {"raises"})
        error_is_bug = self._error_condition()
        oom = "out_of_memory(error)" in error_is_bug
        compiling = "compiling(error)" in error_is_bug
        names = _names_expression(self.signatures) if "names &" in error_is_bug else ""
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
            "reexec": _literal(start) if start else "",
            "environ": [(_quoted(k), _quoted(v)) for k, v in late.items()],
            "cold": spec["entry"] == "compile" and backend == "inductor",
            "chain": bool(names) or oom or raises,
            "compiling": compiling,
            "out_of_memory": oom,
            "names": names,
            "anchored": "text)" in error_is_bug and _anchored(self.signatures),
            "error_is_bug": error_is_bug,
            "watch": self.watched,
            "watch_stage": self.watch_stage,
            "crash_compiling": "compiling" in self._signal_code() + self._timeout_code(),
            "timeout": f"{self.cell.model.timeout or DEFAULT_TIMEOUT_S:g}",
            "timeout_code": self._timeout_code(),
            "signal_code": self._signal_code(),
            "code_lines": self._code_lines(),
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
            "tolerance": _tolerance(spec["tolerance"]),
            "guard_exit": guard_exit,
            "once": once,
            "entry": spec["entry"],
            "wrap": self._wrap(),
            "mismatch_code": _either(self._mismatch_conditions(mismatch)),
            "clean": "it runs" if once else "eager and compiled agree",
            **_compiler_places(),
        }
        values["imports"] = self._imports(values)
        return values

    # What is at the top --------------------------------------------------------------------------

    def _header(self) -> str:
        case, model, work = self.cell.case, self.cell.model, self.cell.workaround
        what = f"Repro {self.cell.repro!r}" + (f" with the workaround {work!r}" if work else "")
        words = [f"{what} on {self.device}.", model.note, case.workarounds[work].note if work else None]
        if model.trials > 1:
            words.append(f"It comes and goes: run it {model.trials} times or more.")
        codes = "Needs torch alone. Exits 1 where the bug shows, 0 where not, 2 on another failure."
        return _comment([case.title, case.issue or "", *_wrapped(words), codes])

    def _imports(self, values: dict[str, Any]) -> list[str]:
        wanted = {"platform", "sys", "traceback"}
        if values["cold"]:
            wanted |= {"atexit", "os", "shutil", "tempfile"}
        if values["watch"]:
            wanted |= {"faulthandler", "os", "signal", "subprocess", "tempfile"}
        if values["environ"] or values["reexec"]:
            wanted.add("os")
        judged = [values[key] for key in ("error_is_bug", "signal_code", "timeout_code", "mismatch_code")]
        if "re.search" in " ".join([*judged, *values["code_lines"]]) or self.watch_stage:
            wanted.add("re")
        if "functools." in values["wrap"]:
            wanted.add("functools")
        return sorted(wanted)

    def _modules(self) -> list[str]:
        modules = {_module(path) for path in self.spec["config"]} - {"torch"}
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
            lines.append(f"{path} = {_literal(value)}")
        if spec["entry"] == "compile":
            lines.append(f"torch.compile(lambda: None{_arguments(spec['compile'])})")
        return lines

    def _enter(self, stage: str) -> str:
        line = f'stage = "{stage}"'
        if self.watch_stage:
            line += f'; print("stage {stage}", file=sys.stderr, flush=True)'
        return line

    # The model and its inputs --------------------------------------------------------------------

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
                made = _literal(item)
            elif "same_as" in item:
                made = variables[item["same_as"]]
            else:
                made = _tensor(item, self.device)
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
        arguments = _arguments(self.spec["compile"])
        return f"functools.partial(torch.compile{arguments})" if arguments else "torch.compile"

    def _wanting(self) -> list[str]:
        items = self.spec["inputs"].items()
        return [name for name, item in items if isinstance(item, dict) and item.get("requires_grad")]

    def _around(self, gradients: list[str]) -> list[str]:
        variables = self._variables()
        tensors = [name for name, item in self.spec["inputs"].items() if isinstance(item, dict)]
        lines = [f"seen.update(facts({_quoted(f'input {n}')}, {variables[n]}))" for n in tensors]
        return lines + [
            f"seen.update(facts({_quoted(f'gradient of {n}')}, {variables[n]}.grad))" for n in gradients
        ]

    def _scalar(self, compares: list[str]) -> str:
        if "values" not in compares:
            return "{}"
        return '{path + " is": "%.6g" % value if isinstance(value, float) else value}'

    # What is the bug -----------------------------------------------------------------------------

    def _error_condition(self) -> str:
        """Python that is true where a raised exception is the bug; empty where none can be."""
        found = []
        for signature in self.signatures:
            kinds = set(signature.kind) & {Kind.ERROR, Kind.OOM}
            if not kinds or signature.signal or signature.exit_code:
                continue
            parts = _stage_condition(signature, "compiling(error)")
            if parts is None:
                continue
            if kinds == {Kind.OOM}:
                parts.append("out_of_memory(error)")
            elif kinds == {Kind.ERROR} and not signature.message:
                parts.append("not out_of_memory(error)")
            if signature.exception:
                parts.append(f"names & {_set(signature.exception)}")
            if signature.message:
                parts.append(_search(signature.message, "text"))
            found.append(parts)
        return _any(found)

    def _mismatch_conditions(self, signatures: Sequence[Signature]) -> list[list[str]]:
        found = []
        for signature in signatures:
            phases = signature.phase
            if signature.exception or signature.signal or signature.exit_code:
                continue
            if phases is None or Phase.COMPARE in phases:
                found.append([_search(signature.message, "reason")] if signature.message else [])
        return found

    def _crash_conditions(self, kind: Kind) -> list[list[str]]:
        found = []
        for signature in self.signatures:
            if kind not in signature.kind or signature.exception or signature.exit_code:
                continue
            if kind is Kind.TIMEOUT and signature.signal:
                continue
            parts = _stage_condition(signature, "compiling")
            if parts is None:
                continue
            if signature.phase is None:
                parts = []
            if signature.signal:
                parts.append(f"name in {_set(signature.signal)}")
            if signature.message:
                parts.append(_search(signature.message, "text"))
            found.append(parts)
        return found

    def _signal_code(self) -> str:
        return _either(self._crash_conditions(Kind.SIGNAL))

    def _timeout_code(self) -> str:
        return _either(self._crash_conditions(Kind.TIMEOUT))

    def _code_lines(self) -> list[str]:
        """What else the watching process looks at: hard exits, and warnings of a run that is fine."""
        lines = []
        for signature in self.signatures:
            search = f" and {_search(signature.message, 'text')}" if signature.message else ""
            if Kind.ERROR in signature.kind and signature.exit_code and not signature.exception:
                codes = ", ".join(map(str, signature.exit_code))
                lines += [f"if code in ({codes},){search}:", '    finish(1, "exit code %d" % code)']
            elif Kind.OK in signature.kind and signature.message and not signature.exception:
                lines += [f"if code == 0{search}:", '    finish(1, "it ran, and said so on stderr")']
        return lines


def _stage_condition(signature: Signature, compiling: str) -> list[str] | None:
    """What ``signature`` asks of the stage; None where no stage of the file can be meant."""
    if signature.phase is None:
        return ['stage != "settings"']
    phases = set(signature.phase)
    stages = sorted({_STAGES[phase] for phase in phases if phase in _STAGES})
    if not stages:
        return None
    words = " ".join(f'"{stage}"' for stage in stages)
    test = f"stage == {words}" if len(stages) == 1 else f"stage in ({words.replace(' ', ', ')})"
    halves = phases & {Phase.COMPILE, Phase.RUN}
    if len(halves) == 1:
        half = compiling if Phase.COMPILE in phases else f"not {compiling}"
        return [test, half] if len(stages) == 1 else [test, f'(stage != "compiled" or {half})']
    return [test]


def _compiler_places() -> dict[str, str]:
    def written(names: tuple[str, ...]) -> str:
        return "(\n" + "".join(f'        "{name}",\n' for name in names) + "    )"

    return {
        "compiler_files": written(COMPILER_FILES),
        "compiler_calls": written(COMPILER_CALLS),
        "crash_files": "_dynamo/convert_frame|_inductor/compile_fx|_dynamo/output_graph",
    }


def _anchored(signatures: Iterable[Signature]) -> bool:
    """Whether a pattern asks for the start of the text, which for the harness is the exception."""
    return any("^" in message or r"\A" in message for s in signatures for message in s.message or ())


def _names_expression(signatures: Iterable[Signature]) -> str:
    dotted = any("." in name for s in signatures for name in s.exception or ())
    plain = "{type(link).__name__ for link in chain(error)}"
    if not dotted:
        return plain
    return plain + ' | {type(link).__module__ + "." + type(link).__qualname__ for link in chain(error)}'


def _either(conditions: list[list[str]]) -> str:
    """Exit code as Python: 1 where a condition holds."""
    if not conditions:
        return "2"
    return "1" if [] in conditions else f"1 if {_any(conditions)} else 2"


def _any(conditions: list[list[str]]) -> str:
    """Any of the conditions, each a list of what must hold together; a long one over several lines."""

    def written(join: str) -> str:
        parts = [f"{join}and ".join(together) for together in conditions]
        if len(parts) > 1:
            parts = [f"({part})" if " and " in part else part for part in parts]
        return f"{join}or ".join(parts)

    text = written(" ")
    return text if len(text) < 90 and "\n" not in text else f"(\n        {written(chr(10) + ' ' * 8)}\n    )"


def _search(patterns: Sequence[str], where: str) -> str:
    if len(patterns) == 1:
        return f"re.search({_raw(patterns[0])}, {where})"
    lines = "".join(f"\n            {_raw(pattern)}," for pattern in patterns)
    return f"any(re.search(words, {where}) for words in ({lines}\n        ))"


def _raw(pattern: str) -> str:
    """A raw string literal where one can say it."""
    for quote in ('"', "'"):
        literal = f"r{quote}{pattern}{quote}"
        try:
            if ast.literal_eval(literal) == pattern:
                return literal
        except (SyntaxError, ValueError):
            continue
    return repr(pattern)


def _set(names: Iterable[str]) -> str:
    return "{" + ", ".join(_quoted(name) for name in names) + "}"


def _quoted(text: str) -> str:
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\') else repr(text)


def _literal(value: Any) -> str:
    """A value as Python, strings in double quotes."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def _tensor(item: dict[str, Any], device: str) -> str:
    """What ``worker/repro.py`` makes of ``item``, as an expression."""
    shape = tuple(item["shape"])
    size = ", ".join(map(str, shape)) if shape else "()"
    dtype = item["dtype"]
    kind = f"torch.{dtype}" if dtype.isidentifier() else f"getattr(torch, {dtype!r})"
    fill = item["fill"]
    if fill == "full":
        made = f"torch.full({shape!r}, {item['value']!r}).to({kind})"
    elif fill == "randint":
        made = f"torch.randint({item['low']}, {item['high']}, {shape!r})"
        made += "" if dtype == "int64" else f".to({kind})"
    elif fill == "arange":
        count = 1
        for length in shape:
            count *= length
        made = f"torch.arange({count})" + (f".reshape({shape!r})" if len(shape) != 1 else "")
        made += "" if dtype == "int64" else f".to({kind})"
    else:
        made = f"torch.{fill}({size})" + ("" if dtype == "float32" else f".to({kind})")
    if item.get("stride") is not None:
        made = f"torch.empty_strided({shape!r}, {tuple(item['stride'])!r}, dtype={kind}).copy_({made})"
    where = item.get("device") or device
    if where != "cpu":
        made += f'.to("{where}")'
    return made + (".requires_grad_()" if item.get("requires_grad") else "")


def _tolerance(given: dict[str, float | None]) -> str:
    def pair(rtol: float, atol: float) -> str:
        mine = given.get("rtol"), given.get("atol")
        return f"{rtol if mine[0] is None else mine[0]!r}, {atol if mine[1] is None else mine[1]!r}"

    if None not in (given.get("rtol"), given.get("atol")):
        return pair(0, 0)
    lines = "".join(f'\n            "{name}": ({pair(*both)}),' for name, both in TOLERANCES.items())
    return f"{{{lines}\n        }}.get(str(one.dtype)[6:], ({pair(0.2, 0.2)}))"


def _arguments(given: dict[str, Any]) -> str:
    return "".join(f", {name}={_literal(value)}" for name, value in given.items() if value is not None)


def _module(path: str) -> str:
    """The module that holds a setting: up to its ``config``, else torch's own subpackage."""
    parts = path.split(".")
    for index, part in enumerate(parts[:-1]):
        if part.endswith("config"):
            return ".".join(parts[: index + 1])
    return ".".join(parts[:2]) if len(parts) > 2 else "torch"


def _bound(source: str) -> set[str]:
    """Names that the model's source binds at its top."""
    table = symtable.symtable(source, "model", "exec")
    return {
        s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()
    }


def _wrapped(words: Iterable[str | None]) -> list[str]:
    return textwrap.wrap(" ".join(word for word in words if word), WIDTH)


def _comment(lines: Iterable[str]) -> str:
    """Lines as comments; whatever a title holds, it stays one."""
    safe = (" ".join("".join(c if c.isprintable() else " " for c in line).split()) for line in lines)
    return "\n".join(f"# {line}" for line in safe if line)


def _script(cell: Cell) -> str:
    """The script itself below a header; what the cell sets stands before its first statement."""
    assert cell.model.script is not None
    source = (cell.folder / cell.model.script).read_text("utf-8", "replace")
    signs = "; or ".join(_in_words(s) for s in cell.case.signatures(cell.repro))
    what = f"Repro {cell.repro!r}" + (f" with the workaround {cell.workaround!r}" if cell.workaround else "")
    words = [f"{what}, a script.", cell.model.note, f"The bug shows where it ends by {signs}."]
    header = _comment([cell.case.title, cell.case.issue or "", *_wrapped(words)])
    lines: list[str] = []
    if cell.spec["env"]:
        lines += ["import os", *(f"os.environ[{k!r}] = {v!r}" for k, v in cell.spec["env"].items())]
    if cell.spec["config"]:
        lines += [f"import {name}" for name in sorted({_module(path) for path in cell.spec["config"]})]
        lines += [f"{path} = {value!r}" for path, value in cell.spec["config"].items()]
    body = source.splitlines()
    at = _first_statement(source)
    return "\n".join([header, "", *body[:at], *lines, *body[at:], ""])


def _first_statement(source: str) -> int:
    """Line index after the docstring and the imports from ``__future__``."""
    at = 0
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, ValueError):
        return 0
    for index, node in enumerate(nodes):
        doc = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not doc and not future:
            break
        at = node.end_lineno or at
    return at


def _in_words(signature: Signature) -> str:
    words = [" or ".join(signature.kind)]
    for name, values in (
        ("exception", signature.exception),
        ("message", signature.message),
        ("signal", signature.signal),
        ("exit code", signature.exit_code),
    ):
        if values:
            words.append(f"{name} {' or '.join(map(str, values))}")
    return ", ".join(words)
